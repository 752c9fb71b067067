/* shortcut.c - refusing the value shortcut. */
#include "attention/shortcut.h"

enum status shortcut_check(bool wanted, struct error *err)
{
    if (!wanted)
        return OK;
    return error_set(err, ERR_INPUT,
                     "shortcut: needs batch normalisation, which does not exist yet (set it to "
                     "false)");
}
