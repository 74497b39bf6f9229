/* Core v1 NodeSelector: which nodes it selects. For device slices and for the node affinity of pods
 * alike.
 *
 * Terms are ORed, the requirements of a term ANDed; a term without requirements selects nothing,
 * nor does a selector without terms. matchFields knows metadata.name only. Pure functions. Thread:
 * any.
 */
#ifndef BH_DRA_NODE_SELECTOR_H
#define BH_DRA_NODE_SELECTOR_H

#include "base/err.h"
#include "base/str.h"

struct bh_core_v1_node_selector;
struct bh_core_v1_node_selector_term;

/* 1: selected, 0: not, -BH_E_INVALID: a requirement cannot be understood (unknown operator, Gt of a
 * word, In without values …). As upstream, a term with such a fault errs only when no other term
 * selects the node. labels: sorted by key. */
BH_MUST int bh_node_selector_match(const struct bh_core_v1_node_selector *sel,
                                   struct bh_str node_name, const struct bh_str_map *labels,
                                   struct bh_err *err);
/* One term, as preferred node affinity has it. */
BH_MUST int bh_node_selector_term_match(const struct bh_core_v1_node_selector_term *t,
                                        struct bh_str node_name, const struct bh_str_map *labels,
                                        struct bh_err *err);
/* Whether every requirement of every term can be understood: 0 or -BH_E_INVALID with the first
 * fault. */
BH_MUST int bh_node_selector_check(const struct bh_core_v1_node_selector *sel, struct bh_err *err);

#endif
