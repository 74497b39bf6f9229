/* The queue: which pod is tried next, and what lets a refused one try again.
 *
 * Active pods wait in a heap (priority, then arrival). A pod that failed goes to `waiting` with the
 * plugins that refused it, and leaves it only for an event that one of these can hope for; then it
 * is active again, or sits out its back-off when it has failed lately. A pod that failed by an
 * error always sits out its back-off.
 */
#include <string.h>

#include "api/engine.h"
#include "base/log.h"
#include "scheduler/sched_int.h"

#define MS ((int64_t)1000000)
/* Waiting pods are tried again at times even without an event, should a hint ever be missed. */
#define FLUSH_EVERY_MS 60000
#define FLUSH_AFTER_NS (300000 * MS)

/* ---- heaps ---- */

static void heap_set(struct pod_heap *h, size_t i, struct spod *pod)
{
    h->p[i] = pod;
    pod->heap_at = i + 1;
}

static size_t heap_up(struct pod_heap *h, size_t i)
{
    struct spod *x = h->p[i];

    while (i > 0 && h->before(x, h->p[(i - 1) / 2])) {
        heap_set(h, i, h->p[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    heap_set(h, i, x);
    return i;
}

static void heap_down(struct pod_heap *h, size_t i)
{
    struct spod *x = h->p[i];

    for (;;) {
        size_t k = 2 * i + 1;

        if (k >= h->n)
            break;
        if (k + 1 < h->n && h->before(h->p[k + 1], h->p[k]))
            k++;
        if (!h->before(h->p[k], x))
            break;
        heap_set(h, i, h->p[k]);
        i = k;
    }
    heap_set(h, i, x);
}

void sched_heap_add(struct pod_heap *h, struct spod *pod)
{
    if (h->n == h->cap) {
        h->cap = h->cap ? 2 * h->cap : 64;
        h->p = bh_realloc(h->p, h->cap * sizeof(struct spod *));
    }
    h->p[h->n++] = pod;
    (void)heap_up(h, h->n - 1);
}

void sched_heap_del(struct pod_heap *h, struct spod *pod)
{
    size_t i = pod->heap_at - 1;
    struct spod *last = h->p[--h->n];

    pod->heap_at = 0;
    if (last == pod)
        return;
    h->p[i] = last;
    heap_down(h, heap_up(h, i));
}

static bool before_active(const struct spod *a, const struct spod *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    if (a->added_ns != b->added_ns)
        return a->added_ns < b->added_ns;
    return a->seq < b->seq;
}

static bool before_ready(const struct spod *a, const struct spod *b)
{
    return a->ready_ns != b->ready_ns ? a->ready_ns < b->ready_ns : before_active(a, b);
}

static struct pod_heap *heap_of(struct bh_scheduler *s, const struct spod *pod)
{
    if (pod->where == POD_ACTIVE)
        return &s->active;
    return pod->failed_by_error ? &s->error_backoff : &s->backoff;
}

/* ---- moving ---- */

static void backoff_rearm(struct bh_scheduler *s)
{
    int64_t at = INT64_MAX, now = bh_loop_mono_ns(s->loop);

    if (s->backoff.n)
        at = s->backoff.p[0]->ready_ns;
    if (s->error_backoff.n && s->error_backoff.p[0]->ready_ns < at)
        at = s->error_backoff.p[0]->ready_ns;
    if (at == INT64_MAX)
        bh_timer_stop(&s->backoff_timer);
    else
        bh_timer_start_ns(&s->backoff_timer, at > now ? at - now : 0);
}

/* ---- pods by their claims ---- */

static struct claim_pods *claim_pods_of(struct bh_scheduler *s, struct bh_str ns,
                                        struct bh_str name, bool make)
{
    BH_AUTO_BUF key = {.max = 1024};
    struct claim_pods *c;

    bh_buf_addf(&key, "%.*s/%.*s", BH_SF(ns), BH_SF(name));
    c = bh_map_get(&s->claim_pods, bh_buf_str(&key));
    if (c || !make)
        return c;
    c = bh_calloc(1, sizeof(*c));
    bh_list_init(&c->refs);
    c->key = bh_strdup_c(bh_buf_str(&key));
    (void)bh_map_put(&s->claim_pods, bh_s(c->key), c);
    return c;
}

static void refs_add(struct bh_scheduler *s, struct spod *pod)
{
    size_t n = pod->p->spec.resource_claims.n;

    if (!n || pod->refs)
        return;
    pod->refs = bh_calloc(n, sizeof(*pod->refs));
    for (size_t i = 0; i < n; i++) {
        struct claim_ref *r = &pod->refs[pod->refs_n];
        struct bh_str name;

        if (!sched_claim_named(pod->p, i, &name))
            continue;
        pod->refs_n++;
        r->pod = pod;
        r->in = claim_pods_of(s, pod->obj->ns, name, true);
        bh_list_add_tail(&r->in->refs, &r->link);
    }
}

static void refs_drop(struct bh_scheduler *s, struct spod *pod)
{
    for (uint32_t i = 0; i < pod->refs_n; i++) {
        struct claim_pods *c = pod->refs[i].in;

        bh_list_del(&pod->refs[i].link);
        if (!bh_list_empty(&c->refs))
            continue;
        (void)bh_map_del(&s->claim_pods, bh_s(c->key));
        bh_free(c->key);
        bh_free(c);
    }
    bh_free(pod->refs);
    pod->refs = NULL;
    pod->refs_n = 0;
}

static void count_waiting(struct bh_scheduler *s, const struct spod *pod, bool more)
{
    s->waiting_n = more ? s->waiting_n + 1 : s->waiting_n - 1;
    for (uint32_t left = pod->rejected_by; left; left &= left - 1) {
        size_t *n = &s->waiting_by[__builtin_ctz(left)];

        *n = more ? *n + 1 : *n - 1;
    }
}

static bool claims_there(struct bh_scheduler *s, const struct spod *pod)
{
    bool there = sched_claims_there(s, pod, s->scratch, NULL);

    bh_arena_reset(s->scratch);
    return there;
}

/* While it is held back, no room is kept for it. */
static void gate(struct bh_scheduler *s, struct spod *pod)
{
    pod->where = POD_GATED;
    if (pod->nominated)
        sched_node_changed(s, pod->nominated);
    bh_list_add_tail(&s->gated, &pod->link);
    refs_add(s, pod);
}

static void take_out(struct bh_scheduler *s, struct spod *pod)
{
    switch ((enum pod_where)pod->where) {
    case POD_ACTIVE:
    case POD_BACKOFF:
        sched_heap_del(heap_of(s, pod), pod);
        pod->where = POD_OFF;
        sched_herd_next(s, pod);
        break;
    case POD_WAITING:
        count_waiting(s, pod, false);
        bh_list_del(&pod->link);
        sched_herd_leave(s, pod);
        refs_drop(s, pod);
        break;
    case POD_GATED:
        if (pod->nominated)
            sched_node_changed(s, pod->nominated);
        bh_list_del(&pod->link);
        refs_drop(s, pod);
        break;
    case POD_OFF:
    case POD_BINDING:
        break;
    }
    pod->where = POD_OFF;
}

static void activate(struct bh_scheduler *s, struct spod *pod)
{
    pod->where = POD_ACTIVE;
    sched_heap_add(&s->active, pod);
    sched_turn_soon(s);
}

/* To the active queue, or to sit out what is left of the back-off. */
static void put_back(struct bh_scheduler *s, struct spod *pod)
{
    if (pod->ready_ns <= bh_loop_mono_ns(s->loop)) {
        activate(s, pod);
        return;
    }
    pod->where = POD_BACKOFF;
    sched_heap_add(heap_of(s, pod), pod);
    backoff_rearm(s);
    if (!pod->failed_by_error)
        sched_turn_soon(s); /* an idle scheduler does not let it wait */
}

static void on_backoff(void *arg)
{
    struct bh_scheduler *s = arg;
    int64_t now = bh_loop_mono_ns(s->loop);
    struct pod_heap *heaps[] = {&s->backoff, &s->error_backoff};

    for (size_t i = 0; i < BH_COUNT(heaps); i++)
        while (heaps[i]->n && heaps[i]->p[0]->ready_ns <= now) {
            struct spod *pod = heaps[i]->p[0];

            sched_heap_del(heaps[i], pod);
            activate(s, pod);
        }
    backoff_rearm(s);
}

/* PreEnqueue: what must be there before a pod is worth an attempt. */
static bool held_back(struct bh_scheduler *s, const struct spod *pod)
{
    uint32_t on = pod->prof->on[PT_PRE_ENQUEUE];

    return (on & 1u << PL_GATES && pod->p->spec.scheduling_gates.n) ||
           (on & 1u << PL_DYNAMIC_RESOURCES && !claims_there(s, pod)) || sched_gang_held(s, pod);
}

void sched_enqueue(struct bh_scheduler *s, struct spod *pod)
{
    take_out(s, pod);
    pod->seq = ++s->seq;
    if (!pod->added_ns)
        pod->added_ns = bh_loop_mono_ns(s->loop) + 1;
    if (held_back(s, pod)) {
        gate(s, pod);
        return;
    }
    put_back(s, pod);
}

void sched_dequeue(struct bh_scheduler *s, struct spod *pod)
{
    take_out(s, pod);
}

void sched_requeue(struct bh_scheduler *s, struct spod *pod, uint32_t rejected_by, bool error)
{
    int64_t wait = s->backoff_first_ns;

    take_out(s, pod);
    sched_attempt_over(s, pod, error ? ATTEMPT_ERROR : ATTEMPT_UNSCHEDULABLE);
    pod->attempts++;
    for (uint32_t i = 1; i < pod->attempts && wait < s->backoff_max_ns; i++)
        wait *= 2;
    if (wait > s->backoff_max_ns)
        wait = s->backoff_max_ns;
    pod->ready_ns = bh_loop_mono_ns(s->loop) + wait;
    pod->failed_by_error = error;
    pod->rejected_by = rejected_by;
    pod->seq = ++s->seq;
    if (error) {
        put_back(s, pod);
        sched_herd_next(s, pod);
        return;
    }
    s->confirmed_wanted |= pod->holders_bind;
    pod->where = POD_WAITING;
    bh_list_add_tail(&s->waiting, &pod->link);
    count_waiting(s, pod, true);
    refs_add(s, pod);
}

struct spod *sched_queue_pop(struct bh_scheduler *s)
{
    struct spod *pod;

    /* Back-off serves the others: it is cut short when there are none, or none as important. */
    if (s->active.n && (!s->backoff.n || s->backoff.p[0]->priority <= s->active.p[0]->priority)) {
        pod = s->active.p[0];
        sched_heap_del(&s->active, pod);
    } else if (s->backoff.n) {
        pod = s->backoff.p[0];
        sched_heap_del(&s->backoff, pod);
        backoff_rearm(s);
    } else {
        return NULL;
    }
    pod->where = POD_OFF;
    pod->tried_ns = bh_loop_mono_ns(s->loop);
    return pod;
}

/* ---- waking ---- */

void sched_wake(struct bh_scheduler *s, struct spod *pod)
{
    take_out(s, pod);
    if ((pod->p->spec.resource_claims.n || pod->gang) && held_back(s, pod))
        gate(s, pod); /* a claim of it went meanwhile: it has to come back first */
    else
        put_back(s, pod);
}

bool sched_helped(const struct bh_scheduler *s, const struct spod *pod, uint32_t by,
                  const struct happening *h)
{
    if (h->guest && pod->priority > h->pod->priority)
        return false;
    for (uint32_t left = by; left; left &= left - 1) {
        enum plugin pl = (enum plugin)__builtin_ctz(left);

        if (!sched_hint(s, pod, pl, h))
            continue;
        bh_log(BH_DEBUG, "pod may fit now", BH_STR("pod", pod->obj->name), BH_I64("event", h->ev),
               BH_I64("plugin", pl));
        return true;
    }
    return false;
}

static void wake_all(struct bh_scheduler *s, const struct happening *h)
{
    uint32_t hopeful = 0;

    s->epoch++;
    for (uint32_t pl = 0; pl < PL__MAX; pl++)
        if (s->waiting_by[pl] && sched_hint_interests((enum plugin)pl) & h->ev)
            hopeful |= 1u << pl;
    if (!hopeful)
        return;
    bh_list_for_safe(it, &s->waiting)
    {
        struct spod *pod = bh_container(it, struct spod, link);

        if (sched_helped(s, pod, pod->rejected_by & hopeful, h))
            sched_wake(s, pod);
    }
    sched_herds_happened(s, h, hopeful);
}

/* Pods that name the claim. An event about nothing but what others wrote into it helps nobody. */
static void wake_of_claim(struct bh_scheduler *s, const struct bh_obj *claim, bool changed)
{
    struct claim_pods *c = claim_pods_of(s, claim->ns, claim->name, false);
    struct spod **list;
    size_t n = 0, k = 0;

    if (!c)
        return;
    bh_list_for(it, &c->refs) n++;
    list = bh_calloc(n, sizeof(struct spod *)); /* waking takes them out, and c with the last */
    bh_list_for(it2, &c->refs) list[k++] = bh_container(it2, struct claim_ref, link)->pod;
    for (size_t i = 0; i < n; i++) {
        if (list[i]->where == POD_GATED)
            sched_enqueue(s, list[i]);
        else if (list[i]->where == POD_WAITING && changed)
            sched_wake(s, list[i]);
    }
    bh_free(list);
}

static void claim_happened(struct bh_scheduler *s, const struct happening *h)
{
    const struct bh_resource_v1_resource_claim *o = h->old ? bh_obj_struct(h->old) : NULL;
    const struct bh_resource_v1_resource_claim *c = bh_obj_struct(h->obj);
    bool changed =
        !o || !bh_msg_equal(&bh_resource_v1_resource_claim_status_type, &o->status, &c->status);

    if (changed)
        s->epoch++;
    wake_of_claim(s, h->obj, changed);
    if (o && o->status.allocation && !c->status.allocation)
        wake_all(s, h); /* devices got free */
}

void sched_happened(struct bh_scheduler *s, const struct happening *h)
{
    if (h->ev == EV_CLAIM)
        claim_happened(s, h);
    else
        wake_all(s, h);
}

bool sched_same_labels(const struct bh_str_map *a, const struct bh_str_map *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!bh_str_eq(a->p[i].key, b->p[i].key) || !bh_str_eq(a->p[i].value, b->p[i].value))
            return false;
    return true;
}

/* The pod itself changed while it waits. */
void sched_wake_self(struct bh_scheduler *s, struct spod *pod, const struct bh_obj *old)
{
    const struct bh_core_v1_pod *o = bh_obj_struct(old), *n = pod->p;

    if (pod->where == POD_GATED) {
        sched_enqueue(s, pod);
        return;
    }
    if (pod->where != POD_WAITING)
        return;
    /* What its status says is mostly our own word; the names of its claims are not. */
    if (bh_msg_equal(&bh_core_v1_pod_spec_type, &o->spec, &n->spec) &&
        sched_same_labels(&old->labels, &pod->obj->labels) &&
        o->status.resource_claim_statuses.n == n->status.resource_claim_statuses.n)
        return;
    sched_wake(s, pod);
}

static void on_flush(void *arg)
{
    struct bh_scheduler *s = arg;
    int64_t now = bh_loop_mono_ns(s->loop);

    bh_list_for_safe(it, &s->waiting)
    {
        struct spod *pod = bh_container(it, struct spod, link);

        if (now - pod->ready_ns >= FLUSH_AFTER_NS)
            sched_wake(s, pod);
    }
    sched_herds_flush(s, now - FLUSH_AFTER_NS);
    bh_timer_start(&s->flush_timer, FLUSH_EVERY_MS);
}

void sched_queue_init(struct bh_scheduler *s)
{
    bh_list_init(&s->waiting);
    bh_list_init(&s->gated);
    bh_list_init(&s->aways);
    bh_list_init(&s->herds);
    bh_list_init(&s->open_holds);
    sched_holders_init(s);
    s->active.before = before_active;
    s->backoff.before = s->error_backoff.before = before_ready;
    bh_timer_init(&s->backoff_timer, s->loop, on_backoff, s);
    bh_timer_init(&s->flush_timer, s->loop, on_flush, s);
    bh_timer_start(&s->flush_timer, FLUSH_EVERY_MS);
}

void sched_queue_done(struct bh_scheduler *s)
{
    bh_timer_stop(&s->backoff_timer);
    bh_timer_stop(&s->flush_timer);
    bh_free(s->active.p);
    bh_free(s->backoff.p);
    bh_free(s->error_backoff.p);
    bh_map_done(&s->claim_pods);
    bh_map_done(&s->herds_by_kind);
}
