/* Devices that preemption frees are kept for the pod that it was done for: while that pod is
 * nominated to its node, they count as in use for every pod that is not more important. So nobody
 * takes them between the end of the victims and the attempt that gives them to it.
 *
 * Only the choice is kept, beside the ledger: whoever may have them is asked as if this claim had
 * them (bh_dra_opts.held). Upstream keeps none, and its preemption takes none: with device scoring
 * off there are no holds.
 */
#include "api/engine.h"
#include "scheduler/sched_int.h"

struct sched_hold {
    struct bh_link link; /* in s->open_holds: other nodes may see these devices, too */
    struct spod *pod;
    struct bh_arena *a;
    const struct bh_resource_v1_allocation_result **p;
    size_t n;
};

bool sched_of_one_node(const struct bh_resource_v1_allocation_result *al)
{
    const struct bh_core_v1_node_selector *sel = al->node_selector;

    return al->devices.results.n == 0 || (sel && sel->node_selector_terms.n == 1 &&
                                          sel->node_selector_terms.p[0].match_fields.n > 0);
}

void sched_hold_drop(struct spod *pod)
{
    struct sched_hold *h = pod->hold;

    if (!h)
        return;
    pod->hold = NULL;
    bh_list_del(&h->link);
    (void)bh_arena_free(h->a);
}

void sched_hold_set(struct bh_scheduler *s, struct spod *pod,
                    const struct bh_resource_v1_allocation_result *al, size_t n)
{
    struct bh_arena *a;
    struct sched_hold *h;
    bool open = false;

    sched_hold_drop(pod);
    if (!n)
        return;
    a = bh_arena_new(0);
    h = bh_new(a, struct sched_hold);
    h->pod = pod;
    h->a = a;
    h->n = n;
    h->p = bh_new_n(a, const struct bh_resource_v1_allocation_result *, n);
    for (size_t i = 0; i < n; i++) {
        h->p[i] = bh_msg_dup(&bh_resource_v1_allocation_result_type, &al[i], a);
        open |= !sched_of_one_node(&al[i]);
    }
    bh_list_init(&h->link);
    if (open)
        bh_list_add_tail(&s->open_holds, &h->link);
    pod->hold = h;
}

static void respect(struct cycle *c, const struct spod *o)
{
    if (!o->hold || o == c->pod || o->priority < c->pod->priority || sched_placed_with(c, o) ||
        o->where == POD_GATED)
        return;
    bh_arena_grow(c->a, &c->held, &c->held_cap, c->held_n + o->hold->n, sizeof(*c->held));
    for (size_t i = 0; i < o->hold->n; i++)
        c->held[c->held_n++] = o->hold->p[i];
}

void sched_holds_look(struct cycle *c, const struct snode *n)
{
    c->held_n = c->held_all;
    bh_list_for(it, &n->nominees) respect(c, bh_container(it, struct spod, nominated_link));
    bh_list_for(it2, &c->s->open_holds)
    {
        const struct spod *o = bh_container(it2, struct sched_hold, link)->pod;

        if (o->nominated && o->nominated != n)
            respect(c, o);
    }
}

void sched_denominate(struct bh_scheduler *s, struct spod *pod)
{
    struct snode *n = pod->nominated;
    bool held = pod->hold != NULL;

    sched_nominate(pod, NULL);
    sched_hold_drop(pod);
    pod->away = sched_away_free(pod->away);
    if (!n || !n->obj || pod->node == n || !s->ready)
        return;
    sched_happened(s, &(struct happening){.ev = EV_POD_GONE, .node = n, .pod = pod, .guest = true});
    if (held)
        sched_devices_freed(s);
}
