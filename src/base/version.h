/* version.h - the version that outputs carry. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#define ATTNBENCH_VERSION "0.1.0"

#endif
