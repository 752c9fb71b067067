/* picture.h - picture files as operands. */
#ifndef CLI_PICTURE_H
#define CLI_PICTURE_H

#include <stdbool.h>

#include "base/status.h"

/* Whether the path is a file that is a PNG or JPEG picture, or is called so. */
bool picture_is_one(const char *path);

/* Decodes the picture and prints its format, size after orientation, centre and mean colour. */
MUST_USE enum status picture_show(const char *path, bool as_json, struct error *err);

#endif
