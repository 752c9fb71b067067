/* label_file.h - the labels of pictures that lie in one folder, from a text file. */
#ifndef DATA_LABEL_FILE_H
#define DATA_LABEL_FILE_H

#include "data/listing.h"

/* Sets the labels of all files of `l`. Each line that is not blank is either a label, as many lines
 * as there are files, in the order of the files; or the name of a file, with or without its ending,
 * and its label, in any order, what follows being left out. Commas, tabs and blanks part the words. A
 * label is the name of one of `classes`, or else its number from 0 on. The first line may be the
 * heading of a table. ERR_INPUT with file and line for anything else, for files without a label and
 * labels without a file. */
MUST_USE enum status label_file_read(struct listing *l, const struct listing *classes,
                                     const char *path, struct error *err);

#endif
