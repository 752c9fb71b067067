/* recipes.h - published ways to train, as values that lie beneath a config. docs/recipes.md says
 * where they come from. */
#ifndef TRAIN_RECIPES_H
#define TRAIN_RECIPES_H

#include "config/config.h"

/* Where the config names a "recipe", lays it upon the recipe's values for data.augment, train and
 * model.drop_path. They follow from the images of an update (rates are given for 512), from the
 * side of the model's images (up to 32 pixels: a padded crop instead of a resized one; its small
 * recipe pads by an eighth of the side), their channels (what changes colours is for three) and,
 * for swin, from the name of the model. To be called before config_read. ERR_INPUT for a name that
 * is none. */
MUST_USE enum status recipe_apply(struct config *config, struct error *err);

/* The rate of the recipe for 512 images an update; 0 where there is no such recipe. */
double recipe_lr(const char *name);

#endif
