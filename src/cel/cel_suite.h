/* Files of CEL tests: the language's own conformance files, and files of cases with measured
 * outcomes.
 *
 * The first kind is {"section": [{"test": [{"expr", "value", ...}]}]}, the second {"variables",
 * "cases"}. Each test is reported once. Tests that need protobuf messages, containers or functions
 * of the embedder are skipped.
 */
#ifndef BH_CEL_CEL_SUITE_H
#define BH_CEL_CEL_SUITE_H

#include "base/err.h"
#include "base/str.h"

struct bh_arena;
struct bh_jv;

struct bh_cel_suite {
    /* Called for each failure: "file:section/test", the expression, why. May be NULL. */
    void (*failed)(void *arg, struct bh_str name, struct bh_str expr, struct bh_str why);
    void *arg;
    unsigned passed, failures, expected, skipped;
    /* private */
    struct bh_arena *a;
    struct bh_str_vec expect; /* names that may fail, and must */
    size_t expect_cap;
    struct bh_jv *index; /* what upstream's Kubernetes configuration did, by file; or NULL */
};

/* The suite uses the arena for as long as it lives. */
void bh_cel_suite_init(struct bh_cel_suite *s, struct bh_arena *a);
/* Adds expectations: lines "NAME REASON", or (JSON) an index of what upstream's configuration did
 * with each test, whose "protobuf" tests are skipped and whose "differs" replace what the files
 * say. */
BH_MUST int bh_cel_suite_expect(struct bh_cel_suite *s, struct bh_str text, struct bh_err *err);
/* Runs the tests of one file; name is its base name without ".json". A file without tests runs
 * none. */
BH_MUST int bh_cel_suite_run(struct bh_cel_suite *s, struct bh_str name, struct bh_str text,
                             struct bh_err *err);

#endif
