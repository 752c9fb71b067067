/* timer.h - how long things took, and how much memory the process holds. */
#ifndef BASE_TIMER_H
#define BASE_TIMER_H

#include <stdint.h>

/* Seconds since an arbitrary moment; never goes back. */
double timer_seconds(void);

/* Resident memory of the process in bytes: now, and the most it ever was. 0 where the system does
 * not tell (/proc is not there). */
int64_t timer_rss_bytes(void);
int64_t timer_mapped_bytes(void); /* of address space */
int64_t timer_peak_rss_bytes(void);

#endif
