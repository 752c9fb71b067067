/* teacher.h - the model that train.distill learns from: another network, evaluated on the batches of
 * the run. */
#ifndef TRAIN_TEACHER_H
#define TRAIN_TEACHER_H

#include "data/loader.h"
#include "train/network.h"

struct teacher;

/* Plans the network of train.distill's checkpoint, for batches of at most `batch` images. ERR_INPUT at
 * train.distill.teacher where the file is no checkpoint of attnbench, has another number of classes,
 * or wants colour where the student sees grey alone (grey is repeated). */
MUST_USE enum status teacher_plan(struct teacher **out, const struct experiment *student, int batch,
                                  int threads, struct error *err);
void teacher_destroy(struct teacher *t);

/* Bytes that the planned teacher takes, beside batches and outputs. */
double teacher_bytes(const struct teacher *t);

/* Gives it memory, and its weights. */
MUST_USE enum status teacher_allocate(struct teacher *t, struct error *err);

/* ERR_INPUT where the checkpoint names its classes otherwise than the data: (classes) names. */
MUST_USE enum status teacher_check_classes(const struct teacher *t, const char *const *names,
                                           struct error *err);

/* CRC-32 of all its weights. */
uint32_t teacher_crc32(const struct teacher *t);

/* Its logits, (count, classes), in evaluation mode, for the images as the student sees them, augmented.
 * They are normalised anew by the teacher's mean and std, and resampled where it was trained at
 * another size (nn_interpolate's antialiased bicubic). Allocates nothing. */
void teacher_logits(struct teacher *t, const struct batch *b, real *logits);

#endif
