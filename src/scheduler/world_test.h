/* A little control plane for tests: virtual loop, memory store, API server, one scheduler. */
#ifndef BH_SCHEDULER_WORLD_TEST_H
#define BH_SCHEDULER_WORLD_TEST_H

#include "api/gen/core_v1.h"
#include "api/gen/resource_v1.h"
#include "apiserver/apiserver.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/test.h"
#include "client/client.h"
#include "client/flaky_test.h"
#include "net/loop.h"
#include "scheduler/scheduler.h"
#include "store/store.h"

struct world {
    struct bh_loop *loop;
    struct bh_store *store;
    struct bh_apiserver *api;
    struct bh_client *admin, *client;
    struct bh_scheduler *sched;
    struct flaky *flaky; /* between scheduler and server; NULL: nothing */
    struct bh_scheduler_opts opts;
    struct bh_arena *a;
    int status; /* of the last call */
    struct bh_obj *got;
};

void world_init(struct world *w);
/* feature_gates of the server, or NULL; seed of the loop. */
void world_init_with(struct world *w, const char *feature_gates, uint64_t seed);
void world_done(struct world *w);
void world_start(struct world *w); /* the scheduler, and lets it see what is there */
void world_start_only(struct world *w);
/* The same, with f in between until world_stop(). */
void world_start_flaky(struct world *w, struct flaky *f);
void world_stop(struct world *w);
void world_run(struct world *w, int64_t ms);
/* Waits for the answer; the status. */
int world_create(struct world *w, const struct bh_kind *k, const char *ns, const char *json);
int world_delete(struct world *w, const struct bh_kind *k, const char *ns, const char *name);
int world_patch(struct world *w, const struct bh_kind *k, const char *ns, const char *name,
                const char *sub, const char *json);
/* The object, kept until the next call; NULL when it is not there. */
const void *world_get(struct world *w, const struct bh_kind *k, const char *ns, const char *name);

void world_node(struct world *w, const char *name, const char *cpu, const char *more);
void world_pod(struct world *w, const char *name, const char *cpu, const char *more);
void world_gpus(struct world *w, const char *node, int n, const char *taint_of_last);
void world_class(struct world *w);
void world_claim(struct world *w, const char *name);
void world_claim_pod(struct world *w, const char *name, const char *claim);
/* "" while it has none. */
struct bh_str world_node_of(struct world *w, const char *pod);
/* Message of PodScheduled=False, or "". */
struct bh_str world_message(struct world *w, const char *pod);
struct bh_str world_device(struct world *w, const char *claim);

#endif
