/* image.c - memory of images. */
#include "io/image.h"

#include <stdlib.h>

enum status image_room(struct image *image, int width, int height, struct error *err)
{
    size_t size = 3 * (size_t)width * (size_t)height;
    if (size > image->room) {
        free(image->rgb);
        image->rgb = malloc(size);
        image->room = image->rgb ? size : 0;
        if (!image->rgb) {
            image->width = image->height = 0;
            return error_memory(err, size);
        }
    }
    image->width = width;
    image->height = height;
    return OK;
}

void image_free(struct image *image)
{
    free(image->rgb);
    *image = (struct image){0};
}
