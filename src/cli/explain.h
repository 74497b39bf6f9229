/* Why claims get no devices, and what would have to change: for `bulkhead device explain` and
 * `bulkhead allocate`. Asks the allocator, and only it; nothing is reserved. Output does not depend
 * on the order of anything that has none. Thread: main.
 */
#ifndef BH_CLI_EXPLAIN_H
#define BH_CLI_EXPLAIN_H

#include "dra/dra.h"

struct bh_jv;

struct cli_explain {
    struct bh_arena *a; /* everything that is returned lies here */
    struct bh_dra_model *m;
    const struct bh_resource_v1_resource_claim *const *claims; /* asked for together */
    size_t n;
    const struct bh_str *nodes; /* those that may be used, in the order they are told in */
    size_t nodes_n;
};

#define CLI_NAMED_MAX 3 /* devices and users told by name of one reason */

struct cli_reason {
    enum bh_dra_why why;
    struct bh_str detail;
    size_t count; /* devices */
    struct bh_str devices[CLI_NAMED_MAX];
    size_t devices_n;
    struct bh_str *users; /* "pod ns/name", "claim ns/name" */
    size_t users_n, users_cap;
};

struct cli_request {
    size_t claim;
    struct bh_str name, class; /* "gpu", "gpu/large" */
    int64_t wanted;            /* -1: all */
    size_t devices;
    struct cli_reason *reasons;
    size_t n, cap;
};

/* Nodes of which the same is to be said. What is named is of the first of them. */
struct cli_group {
    struct bh_str *nodes;
    size_t nodes_n, nodes_cap;
    struct cli_request *requests;
    size_t n;
    struct bh_str error; /* the allocator's, when it could not judge the node */
};

struct cli_change {
    struct bh_str text; /* "tolerate the taint …" */
    struct bh_str node; /* where the devices are then allocated */
};

/* The first node on which the devices are there; false: none. error: of the ask as a whole. */
bool cli_explain_fits(const struct cli_explain *e, struct bh_str *ret_node,
                      struct bh_str *ret_error);
size_t cli_explain_groups(const struct cli_explain *e, struct cli_group **ret);
/* Single changes after which the allocator succeeded, the smallest first, one of a kind; or one
 * that consists of several. May be none. */
size_t cli_explain_changes(const struct cli_explain *e, const struct cli_group *g, size_t n,
                           struct cli_change **ret);

/* "is in use", "has a taint that is not tolerated" … */
const char *cli_why_text(enum bh_dra_why why);

void cli_explain_print(const struct cli_explain *e, const struct cli_group *g, size_t n,
                       struct bh_buf *b);
void cli_changes_print(const struct cli_change *c, size_t n, struct bh_buf *b);
struct bh_jv cli_explain_json(const struct cli_explain *e, const struct cli_group *g, size_t n);
struct bh_jv cli_changes_json(const struct cli_explain *e, const struct cli_change *c, size_t n);

#endif
