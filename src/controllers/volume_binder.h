/* Between the files of the volume binder: volume_binder.c (queue, writes), volume_claim.c (what a
 * claim needs), volume_reclaim.c (what a volume needs). */
#ifndef BH_CONTROLLERS_VOLUME_BINDER_H
#define BH_CONTROLLERS_VOLUME_BINDER_H

#include "api/engine.h"
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/storage_v1.h"
#include "base/arena.h"
#include "base/list.h"
#include "base/map.h"
#include "client/volumes.h"
#include "controllers/controllers_int.h"

struct binder {
    struct ctl *ctl;
    struct bh_informer *pvs, *pvcs, *classes, *pods;
    struct bh_workqueue *queue; /* "v/NAME" and "c/NS/NAME", one at a time */
    struct bh_recorder *recorder;
    struct bh_map newer; /* by such a key: answers that the informers lag behind; referenced */
    struct bh_link works;
};

/* One key that is worked on. pv and pvc are the newest that are known; referenced. */
struct binder_work {
    struct bh_link link;
    struct binder *b;
    struct bh_arena *a;
    struct bh_str key;
    struct bh_obj *pv, *pvc;
    uint64_t call;
    void (*next)(struct binder_work *w); /* after a call; NULL: the work is done */
    /* Told when the next write has succeeded. */
    const char *reason; /* NULL: nothing */
    struct bh_str text;
    bool about_pv;
};

/* The newest object that is known; borrowed, NULL when there is none. */
struct bh_obj *binder_pv(const struct binder *b, struct bh_str name);
struct bh_obj *binder_pvc(const struct binder *b, struct bh_str ns, struct bh_str name);
static inline const struct bh_core_v1_persistent_volume *binder_pv_of(const struct binder_work *w)
{
    return bh_obj_struct(w->pv);
}
static inline const struct bh_core_v1_persistent_volume_claim *
binder_pvc_of(const struct binder_work *w)
{
    return bh_obj_struct(w->pvc);
}
void binder_take_pv(struct binder_work *w, struct bh_obj *o);  /* NULL: none */
void binder_take_pvc(struct binder_work *w, struct bh_obj *o); /* NULL: none */

/* Each ends the work, or goes on with next (may be NULL) when the answer is there. */
void binder_done(struct binder_work *w, bool ok);
void binder_put_pv(struct binder_work *w, const struct bh_core_v1_persistent_volume *v,
                   const char *sub, void (*next)(struct binder_work *w));
void binder_put_pvc(struct binder_work *w, const struct bh_core_v1_persistent_volume_claim *c,
                    const char *sub, void (*next)(struct binder_work *w));
/* Nothing is written when the phase is that already. */
void binder_pv_phase(struct binder_work *w, const char *phase, void (*next)(struct binder_work *w));
/* Sets w->pvc to what the API says of the claim that w->pv is given to (NULL: it is gone). */
void binder_ask_claim(struct binder_work *w, void (*next)(struct binder_work *w));
struct bh_str_map binder_with(struct bh_arena *a, const struct bh_str_map *m, const char *key,
                              struct bh_str value);

/* Binds w->pv and w->pvc: whatever is missing on either side. */
void binder_bind(struct binder_work *w);
void binder_sync_claim(struct binder_work *w);
void binder_sync_volume(struct binder_work *w);

#endif
