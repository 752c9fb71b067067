/* shortcut.h - the value shortcut GELU(BN(v)) of QT-ViT, an option of linear attentions. It is a batch
 * normalisation, whose statistics are over the whole batch: not available yet. */
#ifndef ATTENTION_SHORTCUT_H
#define ATTENTION_SHORTCUT_H

#include "attention/attention.h"

/* The option `shortcut` (bool) of a struct of options. */
#define FIELD_SHORTCUT(T)                                                                          \
    FIELD_BOOL(T, shortcut, false,                                                                 \
               "adds GELU of the batch-normalised values; true is not available yet")

/* ERR_INPUT where the shortcut is wanted. */
MUST_USE enum status shortcut_check(bool wanted, struct error *err);

#endif
