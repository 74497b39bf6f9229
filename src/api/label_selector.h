/* Label selectors of objects (meta/v1 LabelSelector) in the form that matches. */
#ifndef BH_API_LABEL_SELECTOR_H
#define BH_API_LABEL_SELECTOR_H

#include "data/selector.h"

struct bh_meta_v1_label_selector;

/* NULL selects nothing, an empty one everything; one that is not well-formed selects nothing, and
 * false is returned. What *ret holds lives in a or is a view into s. Thread: any. */
bool bh_label_selector_of(struct bh_arena *a, const struct bh_meta_v1_label_selector *s,
                          struct bh_label_selector *ret);

#endif
