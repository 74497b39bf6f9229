/* A small cluster for tests: objects from YAML or JSON text, allocation by claim name. */
#ifndef BH_DRA_DRA_WORLD_TEST_H
#define BH_DRA_DRA_WORLD_TEST_H

#include "api/gen/resource_v1.h"
#include "base/arena.h"
#include "base/buf.h"
#include "data/json.h"
#include "dra/dra.h"

struct world {
    struct bh_arena *a;
    struct bh_dra_model *m;
    struct bh_dra_opts opts;
    /* Claims without an allocation, by "ns/name". */
    struct world_claim {
        char key[200];
        struct bh_obj *obj;
    } * claims;
    size_t claims_n, claims_cap;
    /* Two slices of one name are two slices, as upstream's unit tests have them. */
    bool double_names;
    struct bh_buf names;
    /* Of the last allocation. */
    struct bh_dra_result res;
    struct bh_err err;
    struct bh_dra_ask *ask;
};

void world_init(struct world *w, const struct bh_dra_features *f); /* f NULL: all features */
void world_index(struct world *w); /* an index of every view, bounds from the first device on */
void world_done(struct world *w);
/* Adds or replaces objects; aborts the test run on text that cannot be read. */
void world_yaml(struct world *w, const char *text);
void world_object(struct world *w, const struct bh_jv *o);
const struct bh_resource_v1_resource_claim *world_claim(const struct world *w, const char *key);
/* claims: "default/a default/b", separated by blanks. */
enum bh_dra_outcome world_allocate(struct world *w, const char *node, const char *claims);
/* "driver/pool/device driver/pool/device" of the last allocation, claims separated by " | ". */
const char *world_got(struct world *w);
/* Reserves the last allocation. */
int world_reserve(struct world *w, const char *claims);

#endif
