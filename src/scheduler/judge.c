/* What the filters say of a pod and each node, for people who ask: nothing is decided. */
#include <string.h>

#include "scheduler/sched_int.h"

/* "1 Insufficient cpu, 1 Too many pods" of one node: the numbers say nothing. */
static struct bh_str without_counts(struct cycle *c, struct bh_str reasons)
{
    BH_AUTO_BUF b = {.max = 64u << 10};

    while (reasons.p && reasons.n) {
        ptrdiff_t next = bh_str_find(reasons, BH_S(", 1 "));
        struct bh_str one = next < 0 ? reasons : bh_str_sub(reasons, 0, (size_t)next);

        reasons = next < 0 ? BH_S("") : bh_str_sub(reasons, (size_t)next + 2, reasons.n);
        if (bh_str_starts(one, BH_S("1 ")))
            one = bh_str_sub(one, 2, one.n);
        bh_buf_addf(&b, "%s%.*s", b.n ? ", " : "", BH_SF(one));
    }
    return bh_str_dup(c->a, bh_buf_str(&b));
}

/* Whether what its devices take of the node is there; that there are none is not told. */
static enum verdict native(struct cycle *c, struct snode *n, struct candidate *k)
{
    enum verdict v;

    c->quiet = true;
    v = sched_claims_filter(c, n, k);
    c->quiet = false;
    return v != V_OK && k->native ? sched_native_filter(c, n, k) : V_OK;
}

/* Empty: nothing but devices stands against it. */
static struct bh_str judge(struct cycle *c, struct snode *n)
{
    struct candidate k = {.node = n};
    enum verdict v;

    memset(c->counts, 0, R_TEXT * sizeof(*c->counts));
    c->texts_n = 0;
    c->err = (struct bh_err){0};
    v = sched_filter(c, n);
    if (v == V_OK && c->features)
        v = sched_features_filter(c, n);
    if (v == V_OK && c->dra_state && bh_dra_any_native(c->s->model))
        v = native(c, n, &k);
    return v == V_OK || v == V_ERROR ? BH_S("") : without_counts(c, sched_reasons(c));
}

/* Fills in *ret, of room for all nodes; c and all that hangs on it goes with its arena. */
static void judge_all(struct cycle *c, struct bh_arena *a, struct bh_scheduler_refusal *ret,
                      size_t *ret_n)
{
    struct bh_scheduler *s = c->s;
    struct bh_str all = {NULL, 0};

    c->counts = bh_new_n(c->a, uint32_t, R_TEXT);
    c->verdicts = bh_arena_alloc(c->a, s->nodes.n + 1);
    if (!sched_prefilter(c)) {
        if (c->rejected_by & 1u << PL_DYNAMIC_RESOURCES) /* no claims, or no class: not ours */
            return;
        all = c->err.code ? bh_s(c->err.msg) : c->prefilter_msg;
    }
    for (uint32_t i = 0; i < s->nodes.n; i++) {
        struct bh_str why = all.n ? all : judge(c, s->nodes.p[i]);

        if (why.n)
            ret[(*ret_n)++] = (struct bh_scheduler_refusal){bh_str_dup(a, s->nodes.p[i]->name),
                                                            bh_str_dup(a, why)};
    }
}

bool bh_scheduler_judge(struct bh_scheduler *s, struct bh_str pod_uid, struct bh_arena *a,
                        struct bh_scheduler_refusal **ret, size_t *ret_n)
{
    struct spod *pod = bh_map_get(&s->pods, pod_uid);
    /* What is asked of the devices' model must not outlive it. */
    struct cycle c = {.s = s, .pod = pod, .a = s->attempt_arena};

    bh_assert(s->opts.observe);
    *ret_n = 0;
    if (!pod || !s->ready)
        return false;
    c.prof = pod->prof ? pod->prof : &s->profiles[0];
    *ret = bh_new_n(a, struct bh_scheduler_refusal, s->nodes.n);
    judge_all(&c, a, *ret, ret_n);
    bh_arena_reset(s->attempt_arena);
    return true;
}
