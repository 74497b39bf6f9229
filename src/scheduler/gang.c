/* Pods that are placed together: all members of a PodGroup that wait are tried in one go, and none
 * of them is bound unless as many as the group wants have a place at once.
 *
 * What a member gets (node, devices) is taken in view and ledger at once, so that the next member
 * sees it; when the group does not fit, all is given back before anything else happens. Members
 * that found no place are put first and all is tried again, a few times: a member that is content
 * with anything may have taken what another one needs. Room that preemption would make counts, but
 * nobody is evicted unless the group then fits.
 *
 * A group that does not fit waits as any pod does: until something happens that can help one of its
 * members. Its bindings are written only when the claims of all members are stored (bind.c).
 */
#include <string.h>

#include "api/gen/scheduling_v1alpha2.h"
#include "base/limits.h"
#include "data/json.h"
#include "data/time_fmt.h"
#include "scheduler/sched_int.h"

#define ROUNDS_MAX   8 /* orders tried */
#define LARGE        256
#define ROUNDS_LARGE 2 /* of a gang larger than that */
#define WAIT_TEXT                                                                                  \
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, one or "   \
    "more plugins asked to wait and no plugin rejected pod"
#define PREEMPT_TEXT "pod group is unschedulable, pod group is waiting for preemption to complete"

struct member {
    struct spod *pod;
    bool had_place; /* in the first round, which is what messages are about */
    struct cycle c;
    const struct candidate *k;   /* its place; NULL: none was found */
    struct snode *was_nominated; /* a pod on its node is not counted as nominated, too */
    struct snode *room;          /* where preemption would make room */
    struct spod **victims;       /* taken off for the trial */
    size_t victims_n;
    struct bh_str message; /* of the first round, when it found none then */
    uint32_t rejected_by;
    bool error;
};

struct attempt {
    struct bh_scheduler *s;
    struct gang *g;
    struct bh_arena *a;
    struct member *m;
    size_t n;
    int32_t want; /* pods that have to have a place; those that have one already count */
    struct pending_claim *pending; /* allocated by members in this round */
    size_t pending_n, pending_cap;
};

/* ---- which pods belong together ---- */

static struct bh_str group_name(const struct bh_core_v1_pod *p)
{
    const struct bh_core_v1_pod_scheduling_group *g = p->spec.scheduling_group;

    return g && g->has_pod_group_name ? g->pod_group_name : (struct bh_str){NULL, 0};
}

static struct gang *gang_get(struct bh_scheduler *s, struct bh_str ns, struct bh_str name)
{
    BH_AUTO_BUF key = {.max = 1024};
    struct gang *g;

    bh_buf_addf(&key, "%.*s/%.*s", BH_SF(ns), BH_SF(name));
    g = bh_map_get(&s->gangs, bh_buf_str(&key));
    if (g)
        return g;
    g = bh_calloc(1, sizeof(*g));
    g->key = bh_strdup_c(bh_buf_str(&key));
    bh_list_init(&g->members);
    (void)bh_map_put(&s->gangs, bh_s(g->key), g);
    return g;
}

static void gang_drop(struct bh_scheduler *s, struct gang *g)
{
    if (g->obj || g->n)
        return;
    (void)bh_map_del(&s->gangs, bh_s(g->key));
    bh_free(g->key);
    bh_free(g);
}

void sched_gang_join(struct bh_scheduler *s, struct spod *pod)
{
    struct bh_str name = group_name(pod->p);

    if (!name.n)
        return;
    pod->gang = gang_get(s, pod->obj->ns, name);
    bh_list_add_tail(&pod->gang->members, &pod->gang_link);
    pod->gang->n++;
}

void sched_gang_leave(struct bh_scheduler *s, struct spod *pod)
{
    struct gang *g = pod->gang;

    if (!g)
        return;
    bh_list_del(&pod->gang_link);
    pod->gang = NULL;
    g->n--;
    gang_drop(s, g);
}

void sched_gang_put(struct bh_scheduler *s, struct bh_obj *group)
{
    struct gang *g = gang_get(s, group->ns, group->name);
    struct bh_obj *old = g->obj;

    g->obj = bh_obj_ref(group);
    (void)bh_obj_unref(old);
    if (!old)
        sched_gang_wake(s, g);
}

void sched_gang_del(struct bh_scheduler *s, const struct bh_obj *group)
{
    struct gang *g = gang_get(s, group->ns, group->name);

    g->obj = bh_obj_unref(g->obj);
    gang_drop(s, g);
}

void sched_gangs_done(struct bh_scheduler *s)
{
    size_t it = 0;
    void *v;

    while (bh_map_next(&s->gangs, &it, NULL, &v)) {
        struct gang *g = v;

        (void)bh_obj_unref(g->obj);
        bh_free(g->key);
        bh_free(g);
    }
    bh_map_done(&s->gangs);
}

static const struct bh_scheduling_v1alpha2_pod_group *group_of(const struct gang *g)
{
    return g->obj ? bh_obj_struct(g->obj) : NULL;
}

static int32_t min_count(const struct gang *g)
{
    const struct bh_scheduling_v1alpha2_pod_group *pg = group_of(g);

    return pg && pg->spec.scheduling_policy.gang ? pg->spec.scheduling_policy.gang->min_count : 1;
}

bool sched_gang_held(const struct bh_scheduler *s, const struct spod *pod)
{
    if (!pod->gang || !s->inf_podgroups || !(pod->prof->on[PT_PRE_ENQUEUE] & 1u << PL_GANG))
        return false;
    return !pod->gang->obj || (int64_t)pod->gang->n < min_count(pod->gang);
}

/* The group came, or a member did: what was held back may go on, and what waits is worth a try. */
void sched_gang_wake(struct bh_scheduler *s, struct gang *g)
{
    bh_list_for_safe(it, &g->members)
    {
        struct spod *pod = bh_container(it, struct spod, gang_link);

        if (pod->where == POD_GATED || (pod->where == POD_WAITING && g->obj))
            sched_enqueue(s, pod);
    }
}

/* ---- one order ---- */

static void give_back(struct member *m)
{
    struct bh_scheduler *s = m->c.s;

    if (m->k || m->room) {
        sched_node_del_pod(s, m->pod);
        sched_nominate(m->pod, m->was_nominated);
    }
    if (m->k)
        sched_claims_unreserve(&m->c, m->k);
    for (size_t i = 0; i < m->victims_n; i++)
        sched_node_add_pod(s, m->room, m->victims[i]);
    m->k = NULL;
    m->room = NULL;
    m->victims_n = 0;
}

static void give_all_back(struct attempt *t)
{
    for (size_t i = t->n; i-- > 0;)
        give_back(&t->m[i]);
}

static void put_on(struct member *m, struct snode *n)
{
    m->was_nominated = m->pod->nominated;
    sched_nominate(m->pod, NULL);
    sched_node_add_pod(m->c.s, n, m->pod);
}

/* Room that preemption would make for this member. Devices are not taken from others for a group:
 * a member with claims to allocate gets none. */
static void make_room(struct member *m)
{
    const struct victims *v = NULL;

    if (sched_preempt_find(&m->c, &m->c.gang_why, &v) != PREEMPT_DONE)
        return;
    if (m->c.unallocated_n || m->c.ext) {
        m->c.gang_why = BH_S("not attempted for a member of a pod group that needs devices.");
        return;
    }
    m->room = v->node;
    m->victims = v->p;
    m->victims_n = v->n;
    for (size_t i = 0; i < v->n; i++)
        sched_node_del_pod(m->c.s, v->p[i]);
    put_on(m, v->node);
}

/* What a member allocates its siblings may share within this try. */
static void note_pending(struct attempt *t, const struct member *m)
{
    for (size_t i = 0; i < m->c.claims_n; i++) {
        const struct pod_claim *k = &m->c.claims[i];

        if (k->ask_at < 0)
            continue;
        bh_arena_grow(t->a, &t->pending, &t->pending_cap, t->pending_n + 1, sizeof(*t->pending));
        t->pending[t->pending_n++] =
            (struct pending_claim){k->obj->uid, &m->k->dra.allocations[k->ask_at]};
    }
}

static void try_member(struct attempt *t, struct member *m, bool first)
{
    m->c = (struct cycle){.s = t->s, .pod = m->pod, .prof = m->pod->prof, .a = t->a};
    m->c.in_gang = true;
    m->error = false;
    m->c.pending = t->pending;
    m->c.pending_n = t->pending_n;
    m->k = sched_decide(&m->c);
    if (m->k) {
        m->had_place |= first;
        put_on(m, m->k->node);
        note_pending(t, m);
        return;
    }
    m->error = m->c.err.code != BH_OK;
    if (!m->error && t->s->nodes.n && m->pod->prof->on[PT_POST_FILTER] & 1u << PL_PREEMPTION)
        make_room(m);
    if (first && !m->room)
        m->message = bh_str_dup(t->a, sched_failure_text(&m->c));
    if (first)
        m->rejected_by = m->c.rejected_by;
    m->had_place |= first && m->room;
}

/* Members with a place, those of earlier attempts included. */
static int32_t placed(const struct attempt *t)
{
    int32_t n = 0;

    bh_list_for(it, &t->g->members) n += bh_container(it, struct spod, gang_link)->node != NULL;
    return n;
}

static bool try_all(struct attempt *t, bool first)
{
    t->pending_n = 0;
    for (size_t i = 0; i < t->n; i++) {
        try_member(t, &t->m[i], first);
        if (t->m[i].error)
            return false;
    }
    return placed(t) >= t->want;
}

/* Those that found no place come first. False: that would be the same order again. */
static bool reorder(struct attempt *t, const bool *failed)
{
    struct member *next = bh_new_n(t->a, struct member, t->n);
    size_t k = 0;
    bool same = true;

    for (size_t i = 0; i < t->n; i++)
        if (failed[i])
            next[k++] = t->m[i];
    for (size_t i = 0; i < t->n; i++)
        if (!failed[i])
            next[k++] = t->m[i];
    for (size_t i = 0; i < t->n; i++)
        same = same && next[i].pod == t->m[i].pod;
    t->m = next;
    return !same;
}

/* ---- what becomes of it ---- */

static const struct bh_meta_v1_condition *condition(const struct gang *g)
{
    const struct bh_scheduling_v1alpha2_pod_group *pg = group_of(g);

    for (size_t i = 0; pg && i < pg->status.conditions.n; i++)
        if (bh_str_eqc(pg->status.conditions.p[i].type, "PodGroupScheduled"))
            return &pg->status.conditions.p[i];
    return NULL;
}

/* PodGroupScheduled of the group; a group that was scheduled once stays so. */
static void tell(struct attempt *t, const char *status, const char *reason, struct bh_str message)
{
    const struct bh_meta_v1_condition *old = condition(t->g);
    BH_AUTO_BUF b = {.max = 16u << 10};
    char buf[BH_TIME_BUF];
    struct bh_time now = {bh_loop_wall_ns(t->s->loop) / 1000000000, 0};

    if (!t->g->obj || (old && bh_str_eqc(old->status, "True") && *status != 'T'))
        return;
    if (old && bh_str_eqc(old->status, status)) {
        if (bh_str_eqc(old->reason, reason) && bh_str_eq(old->message, message))
            return;
        now = old->last_transition_time;
    }
    bh_buf_addf(&b,
                "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{\"conditions\":[{\"type\":"
                "\"PodGroupScheduled\",\"observedGeneration\":%lld,\"status\":\"%s\","
                "\"lastTransitionTime\":\"%.*s\",\"reason\":\"%s\",\"message\":",
                BH_SF(t->g->obj->uid), (long long)group_of(t->g)->metadata.generation, status,
                BH_SF(bh_time_fmt(now, buf)), reason);
    bh_json_write_str(&b, message);
    bh_buf_addz(&b, "}]}}");
    (void)bh_client_patch(t->s->client, &bh_scheduling_v1alpha2_pod_group_kind, t->g->obj->ns,
                          t->g->obj->name, "status", BH_PATCH_STRATEGIC, bh_buf_str(&b), NULL,
                          NULL);
}

/* Fits, but not together with the others. */
static void wait_for_others(struct attempt *t, struct member *m, struct bh_str message)
{
    sched_requeue(t->s, m->pod, m->rejected_by | 1u << PL_GANG, false);
    sched_say(t->s, m->pod, "Unschedulable", message, true);
}

static void say_failure(struct attempt *t, struct member *m)
{
    if (m->error) {
        sched_requeue(t->s, m->pod, 0, true);
        sched_say(t->s, m->pod, "SchedulerError", m->message, true);
        return;
    }
    sched_requeue(t->s, m->pod, m->rejected_by ? m->rejected_by : 1u << PL_NONE, false);
    sched_say(t->s, m->pod, "Unschedulable", m->message, true);
}

static void bind_all(struct attempt *t)
{
    struct bind_group *bg = NULL;

    for (size_t i = 0; i < t->n; i++)
        if (t->m[i].k)
            bg = sched_bind_group_add(bg);
    for (size_t i = 0; i < t->n; i++)
        if (t->m[i].k) {
            sched_nominate(t->m[i].pod, t->m[i].was_nominated); /* this is how it ends */
            sched_commit(&t->m[i].c, t->m[i].k, bg);
        } else {
            say_failure(t, &t->m[i]);
        }
    tell(t, "True", "Scheduled", (struct bh_str){NULL, 0});
}

/* The group fits once the victims are gone: its members are nominated to their places. */
static void evict_and_wait(struct attempt *t)
{
    struct bh_str text = BH_S(PREEMPT_TEXT);
    struct victims *v = bh_new_n(t->a, struct victims, t->n);

    for (size_t i = 0; i < t->n; i++) {
        const struct member *m = &t->m[i];

        v[i] = (struct victims){.node = m->pod->node, .p = m->victims, .n = m->victims_n};
        if (m->k) {
            v[i].allocations = m->k->dra.allocations;
            v[i].allocations_n = m->k->dra.n;
        }
    }
    give_all_back(t);
    for (size_t i = 0; i < t->n; i++) {
        if (!v[i].node) {
            say_failure(t, &t->m[i]);
            continue;
        }
        sched_preempt_take(&t->m[i].c, &v[i]);
        wait_for_others(t, &t->m[i], text);
    }
    tell(t, "False", "Unschedulable", text);
}

static void refuse_all(struct attempt *t)
{
    struct bh_str text = BH_S("pod group is unschedulable");
    bool error = false;

    for (size_t i = 0; i < t->n; i++) {
        struct member *m = &t->m[i];

        if (m->error) {
            text = bh_str_fmt(t->a, "failed to schedule other pod from a pod group: %.*s",
                              BH_SF(m->message));
            error = true;
        }
    }
    for (size_t i = 0; i < t->n; i++) {
        struct member *m = &t->m[i];

        sched_denominate(t->s, m->pod);
        if (error && !m->error) {
            sched_requeue(t->s, m->pod, 0, true);
            sched_say(t->s, m->pod, "SchedulerError", text, true);
        } else if (m->had_place) {
            wait_for_others(t, m, BH_S(WAIT_TEXT));
        } else {
            say_failure(t, m);
        }
    }
    tell(t, "False", error ? "SchedulerError" : "Unschedulable", text);
}

/* ---- the attempt ---- */

static bool before(const struct spod *a, const struct spod *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->added_ns != b->added_ns ? a->added_ns < b->added_ns : a->seq < b->seq;
}

/* All members that wait for a place, and are not held back, leave the queue. */
static void gather(struct attempt *t, struct spod *first)
{
    t->m = bh_new_n(t->a, struct member, t->g->n);
    bh_list_for(it, &t->g->members)
    {
        struct spod *pod = bh_container(it, struct spod, gang_link);
        size_t i;

        if (pod != first && pod->where != POD_ACTIVE && pod->where != POD_BACKOFF &&
            pod->where != POD_WAITING)
            continue;
        if (pod->node || !pod->prof || pod->obj->deleting)
            continue;
        sched_dequeue(t->s, pod);
        pod->tried_ns = bh_loop_mono_ns(t->s->loop);
        for (i = t->n++; i > 0 && before(pod, t->m[i - 1].pod); i--)
            t->m[i].pod = t->m[i - 1].pod;
        t->m[i].pod = pod;
    }
}

/* One queue, one way of scheduling: members of other profiles cannot be tried together. */
static bool one_profile(struct attempt *t)
{
    struct bh_str text;
    size_t i = 1;

    while (i < t->n && t->m[i].pod->prof == t->m[0].pod->prof)
        i++;
    if (i >= t->n)
        return true;
    text = bh_str_fmt(t->a,
                      "all pods in a single pod group should have the same .spec.schedulerName "
                      "set, got: \"%.*s\" and \"%.*s\"",
                      BH_SF(t->m[0].pod->prof->name), BH_SF(t->m[i].pod->prof->name));
    for (i = 0; i < t->n; i++) {
        sched_requeue(t->s, t->m[i].pod, 0, true);
        sched_say(t->s, t->m[i].pod, "SchedulerError", text, true);
    }
    return false;
}

static bool search(struct attempt *t)
{
    bool *failed = bh_new_n(t->a, bool, t->n);
    int rounds = t->n > LARGE ? ROUNDS_LARGE : ROUNDS_MAX;

    for (int round = 0; round < rounds; round++) {
        bool error = false;

        if (try_all(t, round == 0))
            return true;
        for (size_t i = 0; i < t->n; i++) {
            failed[i] = !t->m[i].k && !t->m[i].room;
            error |= t->m[i].error;
        }
        give_all_back(t);
        /* A single order is upstream's way. */
        if (error || t->s->opts.device_scoring_off || !reorder(t, failed))
            return false;
    }
    return false;
}

void sched_gang_attempt(struct bh_scheduler *s, struct spod *first)
{
    struct attempt t = {.s = s, .g = first->gang, .a = s->attempt_arena};
    bool evictions = false;

    t.want = first->prof->on[PT_PERMIT] & 1u << PL_GANG ? min_count(t.g) : 1;
    gather(&t, first);
    if (!t.n || !one_profile(&t))
        return;
    s->stats.attempts += t.n;
    if (!search(&t)) {
        refuse_all(&t);
        return;
    }
    for (size_t i = 0; i < t.n; i++)
        evictions |= t.m[i].room != NULL;
    if (evictions)
        evict_and_wait(&t);
    else
        bind_all(&t);
}
