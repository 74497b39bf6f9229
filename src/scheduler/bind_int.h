/* Inside the binding: what is known of one bind, between its stages (bind.c) and its writes
 * (bind_write.c). */
#ifndef BH_SCHEDULER_BIND_INT_H
#define BH_SCHEDULER_BIND_INT_H

#include "scheduler/sched_int.h"

#define PRE_BIND         "running PreBind plugin \"DynamicResources\": "
#define BIND_OTHER_CLAIM "the pod uses another claim by now"

struct bind_claim {
    struct bh_str ns, name, uid;
    const struct bh_resource_v1_allocation_result *alloc; /* to be stored; NULL: only reserve */
    struct bh_obj *obj;                                   /* newest that we know; referenced */
    struct bh_obj *found; /* with the allocation that was decided upon; referenced. NULL: ours, or
                             of another bind */
    const struct ext_claim *create; /* to be made first; its reservation stands under its own uid */
    /* Another bind stores this allocation; NULL: it is ours, or was there before. */
    const struct bh_resource_v1_allocation_result *shared;
    bool hurried; /* its reservation was tried to be added right behind that */
    bool plain;   /* a reservation that was to be added was refused: it is written for a version */
    uint64_t reservation; /* ours, in the ledger */
    bool stored;          /* the allocation is in the API */
    bool reserved;        /* by a write of ours */
    bool unsure;          /* a write of ours may still take effect */
};

enum bind_step {
    STEP_VOLUMES, /* their binding is begun; the claims follow at once */
    STEP_SEND,    /* the parts are on their way, or will be sent again */
    STEP_GET,     /* what became of a claim is being read */
    STEP_SHARED,  /* for another bind that stores an allocation of both */
    STEP_WAIT,    /* for the devices' binding conditions */
    STEP_GROUP,   /* for the rest of the group */
    STEP_GET_POD,
};

/* One request of a sequence. */
enum bind_part_kind {
    PART_CREATE,     /* of the claim for extended resources */
    PART_CLAIM,      /* finalizer, allocation, reservation: what is missing */
    PART_POD_STATUS, /* which claim serves the extended resources, what devices take of the node */
    PART_BIND,
};
struct bind_part {
    enum bind_part_kind kind;
    struct bind_claim *claim;
    bool status; /* of a claim: allocation or reservation are among it */
    bool joins;  /* of a claim: adds a reservation, whatever the version */
};

/* Bindings that are made together: none is written before all are ready to be. */
struct bind_group {
    struct bh_link members;
    uint32_t refs; /* members, and whoever makes them */
    uint32_t expected, ready;
};

struct sbind {
    struct bh_link link;      /* in s->binds */
    struct bind_group *group; /* NULL: alone, or all of them are ready */
    struct bh_link group_link;
    bool begun;
    bool dead;               /* it failed, or its group did: it ends when its writes are over */
    struct bh_str dead_text; /* none: the group's */
    struct bh_scheduler *s;
    struct bh_arena *arena;
    struct bh_arena *out;   /* of the requests that are being made */
    struct bh_arena *again; /* of those that are repeated; NULL: none were */
    struct spod *pod;       /* NULL: it is gone meanwhile */
    struct bh_obj *pod_obj;
    struct bh_str node;
    struct bh_recorder *recorder;
    int64_t timeout_s; /* of binding conditions */
    struct bind_claim *claims;
    size_t n, i;
    const struct bind_claim *ext; /* one of them, or NULL */
    /* What devices take of the node's own resources, or NULL. */
    const struct bh_core_v1_pod_status *native;
    bool pod_told;          /* the pod's status says these two */
    bool pod_tried;         /* or may say them */
    struct bh_str *watched; /* uids of all claims of the pod */
    struct bh_str *watched_names;
    size_t watched_n;
    struct sched_vbind *volumes; /* of claims that waited for the pod; NULL: none, or bound */
    struct bh_link wait;         /* in s->bind_waits */
    int64_t wait_until;
    bool waiting;
    bool devices_ready;
    bool node_told;
    enum bind_step step;
    struct bind_part *parts; /* of the sequence under way */
    size_t parts_n;
    bool bind_unsure;      /* a binding of ours may have taken effect */
    struct bh_str refusal; /* of the binding, that is looked into */
    uint64_t named_rv; /* version of the pod in which it names its claims; 0: none are generated */
    int tries;         /* conflicts of this claim */
    int64_t wait_ms;
    uint64_t call;
    struct bh_timer retry;
};

/* ---- bind.c: the stages ---- */
void bind_done(struct sbind *b);
/* The attempt ends without a bound pod, at the latest when no write of it can take effect any more.
 * why empty: the pod is gone, nobody is to be told. b may be gone afterwards. */
void bind_failed(struct sbind *b, struct bh_str why);
void bind_fail_f(struct sbind *b, const char *fmt, ...) BH_PRINTF(2, 3);
bool bind_ends(const struct sbind *b); /* it is to end as soon as its writes are over */
struct bh_str bind_end_text(const struct sbind *b);
/* All claims are written: the devices, the volumes and the group are awaited, and the pod is bound.
 * False: the devices are still awaited. Otherwise b may be gone. */
bool bind_wait(struct sbind *b);
/* Whether this pod names the claims that were prepared for it: a controller that lost an answer may
 * have made other ones. */
bool bind_names_claims(const struct sbind *b, const struct bh_core_v1_pod *p);
/* Nothing has to be awaited: the binding can follow the claims in the same sequence. */
bool bind_at_once(struct sbind *b);

/* ---- bind_write.c: the writes ---- */
void bind_go(struct sbind *b);   /* the next writes, from what the newest objects say */
void bind_post(struct sbind *b); /* the binding itself */
/* What was told of the node's resources is not so. */
void bind_untell(const struct sbind *b);
void bind_retry(void *arg);                                        /* of the timer */
const struct bind_claim *bind_unsure_claim(const struct sbind *b); /* the first, or NULL */

#endif
