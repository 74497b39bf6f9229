/* One attempt to place the members of a group: what its parts share. */
#ifndef BH_SCHEDULER_GANG_INT_H
#define BH_SCHEDULER_GANG_INT_H

#include "scheduler/sched_int.h"

/* Of one search for places, or for victims: some 50 ms. */
#define GANG_WORK_MAX 200000u

struct member {
    struct spod *pod;
    struct cycle c;
    struct candidate *k;    /* its place: it is on the node, its devices are reserved; or NULL */
    struct candidate place; /* what k points to */
    struct snode *was_nominated; /* a pod on its node is not counted as nominated, too */
    /* Who was taken off for the trial, and the claims that then count as released. */
    struct spod **victims;
    size_t victims_n;
    const struct bh_str *released;
    size_t released_n;
    bool began;     /* with its victims supposing began */
    bool had_place; /* in the first order, which is what messages are about */
    bool roomed;    /* only where room would be made for it */
    bool error;
    struct bh_str message; /* of the first order, when it found none that is free then */
    uint32_t rejected_by;
    /* gang_search.c */
    struct bh_arena *a;              /* of its place; NULL: it was not searched for */
    struct member **moved;           /* siblings whose devices were chosen anew when it came */
    struct bh_dra_result *moved_dra; /* and what they had before */
    size_t moved_n;
    size_t kind, at; /* at: its place among the nodes of the kind */
    bool shares;     /* a claim with other members */
};

struct attempt {
    struct bh_scheduler *s;
    struct gang *g;
    struct bh_arena *a;
    struct member *m;
    size_t n;
    int32_t want; /* pods that have to have a place; those that have one already count */
    struct pending_claim *pending; /* allocated by members in this try */
    size_t pending_n, pending_cap;
    uint64_t work;     /* of the search, in steps of about a microsecond */
    bool waits;        /* for those that it sent away */
    bool spent;        /* its budget is: there may be a way that was not looked at */
    bool too_early;    /* the search has to wait: the last one took long */
    struct victims *v; /* what it takes to make room, by member; NULL: none was looked for */
};

/* The member is put on the node of its place, whose devices are reserved. */
void gang_seat(struct attempt *t, struct member *m);
/* And off it again; the devices stay reserved, and nothing but the ledger knows of them. */
void gang_unseat(struct attempt *t, struct member *m);
/* What its devices take of its place goes with the member, which is on no node. */
void gang_charge(struct bh_scheduler *s, struct spod *pod,
                 const struct bh_core_v1_node_allocatable_resource_claim_status_vec *v);
/* What a member with a place allocates, as it is now, is there for its siblings to share. */
void gang_pending(struct attempt *t, const struct member *m);
/* Members with a place, those of earlier attempts included. */
int32_t gang_placed(const struct attempt *t);

/* ---- gang_search.c ---- */
/* Looks for places for all that are wanted, the claims of members on one node together, going back
 * where that leads nowhere. True: they are seated, as many of the others as found a place, too.
 * False: nothing stays. t->spent says whether all was looked at. */
bool gang_search(struct attempt *t);
/* The same while the caller supposes (bh_dra_suppose) and goes on doing so. */
bool gang_search_supposed(struct attempt *t);
void gang_search_done(struct attempt *t);
/* Takes all places back that the search gave. */
void gang_search_undo(struct attempt *t);

/* ---- gang_preempt.c ---- */
/* Whom it takes that the group fits, at any place: t->v, unless what stands there already is at
 * least as good. False: it does not fit at all. Nobody goes yet, and nothing stays. */
bool gang_find_victims(struct attempt *t);

#endif
