/* Waiting pods that failed alike: an event that may help them sends one of them ahead. Where it
 * finds a place the next one follows; where it fails as before the others need not try.
 *
 * Ten thousand pods that wait for a device then cost two attempts when one gets free. A pod belongs
 * to a herd by its kind (alike.c) and while it waits; the one that was sent ahead is the herd's
 * scout until its attempt has ended.
 */
#include "scheduler/sched_int.h"

struct herd {
    struct bh_link link; /* in s->herds */
    uint64_t kind;
    struct pod_heap heap;
    struct spod *scout;
    bool more;            /* others may be helped too if the scout is */
    uint64_t said;        /* hash of what the last one was told */
    bool mixed;           /* others were told something else */
    uint32_t rejected_by; /* at the last failure */
    int64_t since_ns;     /* of the last failure */
};

static struct bh_str key_of(const uint64_t *kind)
{
    return (struct bh_str){(const char *)kind, sizeof(*kind)};
}

/* Frees a herd of nobody; false when it was. */
static bool lives(struct bh_scheduler *s, struct herd *h)
{
    if (h->heap.n || h->scout)
        return true;
    (void)bh_map_del(&s->herds_by_kind, key_of(&h->kind));
    bh_list_del(&h->link);
    bh_free(h->heap.p);
    bh_free(h);
    return false;
}

static void join(struct bh_scheduler *s, struct spod *pod, uint64_t kind)
{
    struct herd *h = bh_map_get(&s->herds_by_kind, key_of(&kind));

    if (!h) {
        h = bh_calloc(1, sizeof(*h));
        h->kind = kind;
        h->heap.before = s->active.before;
        bh_list_add_tail(&s->herds, &h->link);
        (void)bh_map_put(&s->herds_by_kind, key_of(&kind), h);
    }
    bh_list_del(&pod->link);
    pod->herd = h;
    sched_heap_add(&h->heap, pod);
    h->rejected_by = pod->rejected_by;
    h->since_ns = bh_loop_mono_ns(s->loop);
}

void sched_herd_leave(struct bh_scheduler *s, struct spod *pod)
{
    struct herd *h = pod->herd;

    if (!h)
        return;
    pod->herd = NULL;
    sched_heap_del(&h->heap, pod);
    (void)lives(s, h);
}

/* One of them goes ahead. Those whose claim went meanwhile wait for that. */
static void send(struct bh_scheduler *s, struct herd *h)
{
    while (!h->scout && h->heap.n) {
        struct spod *pod = h->heap.p[0];

        h->scout = pod;
        pod->scout_of = h;
        sched_wake(s, pod);
        if (pod->where != POD_GATED)
            return;
        pod->scout_of = NULL;
        h->scout = NULL;
        if (!lives(s, h))
            return;
    }
}

static struct herd *end_scout(struct spod *pod)
{
    struct herd *h = pod->scout_of;

    if (h) {
        pod->scout_of = NULL;
        h->scout = NULL;
    }
    return h;
}

void sched_herd_next(struct bh_scheduler *s, struct spod *pod)
{
    struct herd *h = end_scout(pod);

    if (h && lives(s, h) && h->more)
        send(s, h);
}

/* Everybody tries on his own. */
static void release(struct bh_scheduler *s, struct herd *h)
{
    h->more = false;
    for (size_t n = h->heap.n; n > 0; n--)
        sched_wake(s, h->heap.p[0]); /* the last one takes the herd with it */
}

void sched_herd_failed(struct bh_scheduler *s, struct spod *pod, uint64_t kind, uint64_t said)
{
    struct herd *was = end_scout(pod), *h;
    bool alike = was && was->kind == kind && was->said == said && !was->mixed;

    if (was && was->more && !alike && was->heap.n) {
        release(s, was); /* things changed for them, or what they should be told */
    } else if (was && lives(s, was)) {
        was->more = false;
    }
    if (!kind || pod->where != POD_WAITING)
        return;
    join(s, pod, kind);
    h = pod->herd;
    h->mixed |= h->heap.n > 1 && h->said != said;
    h->said = said;
}

void sched_herds_happened(struct bh_scheduler *s, const struct happening *ev, uint32_t hopeful)
{
    bh_list_for_safe(it, &s->herds)
    {
        struct herd *h = bh_container(it, struct herd, link);

        if (!h->heap.n || !sched_helped(s, h->heap.p[0], h->rejected_by & hopeful, ev))
            continue;
        h->more = h->scout || h->heap.n > 1;
        send(s, h);
    }
}

void sched_herds_flush(struct bh_scheduler *s, int64_t before_ns)
{
    bh_list_for_safe(it, &s->herds)
    {
        struct herd *h = bh_container(it, struct herd, link);

        if (h->since_ns > before_ns || !h->heap.n)
            continue;
        h->more = h->scout || h->heap.n > 1;
        send(s, h);
    }
}
