/* Pods of one kind: what each node was found to be for such a pod is kept, and only nodes that
 * changed since are judged again. A thousand pods of a Deployment or a Job then cost one walk over
 * the nodes, and a look at the few that took one of them.
 *
 * This concerns pods for whom a node is judged by itself: no neighbours, spreading, volumes or
 * devices. Their kind is everything that a filter or score reads of them, byte for byte (kind_key);
 * what it reads of a node has to be followed by sched_node_changed(). The choice is the same as
 * without: the same nodes in the same order, the same scores.
 */
#include <string.h>

#include "api/engine.h"
#include "scheduler/sched_int.h"

#define KINDS_MAX   32   /* remembered; the one that was unused longest goes first */
#define CHANGES_MAX 8192 /* a kind that missed more begins anew */

/* What a kind knows of a node: its score, or one of these. */
#define UNFIT   (-1)
#define UNKNOWN (-2)

struct pod_kind {
    struct bh_str key; /* heap */
    int64_t *score;    /* by place in s->nodes */
    uint32_t n, cap;
    uint64_t seen;   /* changes that were taken in */
    uint64_t order;  /* of s->nodes */
    uint64_t images; /* of the image counts */
    uint64_t used;   /* for eviction */
};

struct pod_kinds {
    struct pod_kind kinds[KINDS_MAX];
    uint32_t n;
    uint32_t changes[CHANGES_MAX]; /* places in s->nodes, a ring */
    uint64_t changed;              /* so many in all */
    uint64_t order, images;
    uint64_t clock;
    struct bh_buf key;
};

struct pod_kinds *sched_kinds_new(void)
{
    struct pod_kinds *ks = bh_calloc(1, sizeof(*ks));

    bh_buf_init(&ks->key, 64u << 10);
    return ks;
}

static void kind_done(struct pod_kind *k)
{
    bh_free((void *)(uintptr_t)k->key.p);
    bh_free(k->score);
    memset(k, 0, sizeof(*k));
}

struct pod_kinds *sched_kinds_free(struct pod_kinds *ks)
{
    if (!ks)
        return NULL;
    for (uint32_t i = 0; i < ks->n; i++)
        kind_done(&ks->kinds[i]);
    bh_buf_done(&ks->key);
    bh_free(ks);
    return NULL;
}

size_t sched_kinds_count(const struct bh_scheduler *s)
{
    return s->kinds->n;
}

void sched_node_changed(struct bh_scheduler *s, const struct snode *n)
{
    struct pod_kinds *ks = s->kinds;

    if (n->obj)
        ks->changes[ks->changed++ % CHANGES_MAX] = n->at;
}

void sched_nodes_reordered(struct bh_scheduler *s)
{
    s->kinds->order++;
}

void sched_images_changed(struct bh_scheduler *s)
{
    s->kinds->images++;
}

/* ---- the key ---- */

static void add_num(struct bh_buf *b, int64_t v)
{
    bh_buf_add(b, &v, sizeof(v));
}

static void add_str(struct bh_buf *b, struct bh_str s)
{
    add_num(b, (int64_t)s.n);
    bh_buf_adds(b, s);
}

static void add_containers(struct bh_buf *b, const struct bh_core_v1_container_vec *v)
{
    add_num(b, (int64_t)v->n);
    for (size_t i = 0; i < v->n; i++)
        add_str(b, v->p[i].image);
}

static void add_tolerations(struct bh_buf *b, const struct bh_core_v1_toleration_vec *v)
{
    add_num(b, (int64_t)v->n);
    for (size_t i = 0; i < v->n; i++) {
        add_str(b, v->p[i].key);
        add_str(b, v->p[i].operator);
        add_str(b, v->p[i].value);
        add_str(b, v->p[i].effect);
    }
}

static void add_ports(struct bh_buf *b, const struct spod *pod)
{
    add_num(b, pod->ports_n);
    for (uint32_t i = 0; i < pod->ports_n; i++) {
        add_str(b, pod->ports[i].ip);
        add_str(b, pod->ports[i].protocol);
        add_num(b, pod->ports[i].port);
    }
}

static void kind_key(const struct cycle *c, struct bh_buf *b)
{
    const struct spod *pod = c->pod;
    const struct bh_core_v1_pod_spec *spec = &pod->p->spec;

    bh_buf_clear(b);
    add_num(b, c->prof - c->s->profiles);
    add_num(b, pod->priority); /* which nominated pods count */
    add_num(b, c->features);
    add_num(b, pod->nz_cpu);
    add_num(b, pod->nz_memory);
    add_num(b, pod->nz_cpu_asked);
    add_num(b, pod->nz_memory_asked);
    add_num(b, pod->req_n);
    for (uint32_t i = 0; i < pod->req_n; i++) {
        add_num(b, pod->req[i].id);
        add_num(b, pod->req[i].v);
    }
    add_ports(b, pod);
    add_tolerations(b, &spec->tolerations);
    add_num(b, (int64_t)spec->node_selector.n);
    for (size_t i = 0; i < spec->node_selector.n; i++) {
        add_str(b, spec->node_selector.p[i].key);
        add_str(b, spec->node_selector.p[i].value);
    }
    add_containers(b, &spec->containers);
    add_containers(b, &spec->init_containers);
    if (spec->affinity && spec->affinity->node_affinity)
        bh_msg_encode_json(&bh_core_v1_node_affinity_type, spec->affinity->node_affinity, b);
}

/* ---- whether a pod is so ---- */

static bool wishes(const struct bh_core_v1_node_affinity *a)
{
    return a && a->preferred_during_scheduling_ignored_during_execution.n;
}

static bool has_images(const struct bh_core_v1_volume_vec *v)
{
    for (size_t i = 0; i < v->n; i++)
        if (v->p[i].volume_source.image)
            return true;
    return false;
}

/* Whether nodes can be judged one by one, and scores be compared as they are. */
static bool by_itself(struct cycle *c)
{
    const struct bh_scheduler *s = c->s;
    const struct bh_core_v1_pod_spec *spec = &c->pod->p->spec;

    return !c->dra_state && !c->ext && !c->volumes && !c->spread && !c->affinity &&
           !c->pod->terms && !s->terms_pods && !c->pod->nominated && !s->soft_nodes &&
           !(spec->affinity && wishes(spec->affinity->node_affinity)) &&
           !wishes(c->prof->added_affinity) && !has_images(&spec->volumes) &&
           !sched_spread_scores(c);
}

/* ---- the choice ---- */

static void forget_nodes(const struct pod_kinds *ks, struct pod_kind *k)
{
    k->n = 0;
    k->seen = ks->changed;
    k->order = ks->order;
    k->images = ks->images;
}

static struct pod_kind *kind_find(struct pod_kinds *ks, struct bh_str key)
{
    struct pod_kind *k = NULL;

    for (uint32_t i = 0; i < ks->n; i++)
        if (bh_str_eq(ks->kinds[i].key, key))
            return &ks->kinds[i];
    if (ks->n < KINDS_MAX) {
        k = &ks->kinds[ks->n++];
    } else {
        k = &ks->kinds[0];
        for (uint32_t i = 1; i < ks->n; i++)
            k = ks->kinds[i].used < k->used ? &ks->kinds[i] : k;
        kind_done(k);
    }
    k->key = (struct bh_str){bh_strdup_c(key), key.n};
    forget_nodes(ks, k);
    return k;
}

/* Forgets what changed since the kind was used last, and makes room for nodes that came. */
static void catch_up(struct bh_scheduler *s, struct pod_kind *k)
{
    const struct pod_kinds *ks = s->kinds;

    if (k->order != ks->order || (s->images.n && (k->images != ks->images || k->n != s->nodes.n)) ||
        ks->changed - k->seen > CHANGES_MAX)
        forget_nodes(ks, k);
    for (; k->seen < ks->changed; k->seen++) {
        uint32_t at = ks->changes[k->seen % CHANGES_MAX];

        if (at < k->n)
            k->score[at] = UNKNOWN;
    }
    if (k->cap < s->nodes.n) {
        k->cap = s->nodes.cap;
        k->score = bh_realloc(k->score, k->cap * sizeof(*k->score));
    }
    while (k->n < s->nodes.n)
        k->score[k->n++] = UNKNOWN;
}

static int64_t judge(struct cycle *c, struct snode *n)
{
    if (sched_filter(c, n) != V_OK || (c->features && sched_features_filter(c, n) != V_OK))
        return UNFIT;
    return sched_score_node(c, n);
}

/* How a walk over the nodes stands. */
struct choice {
    int64_t best;
    uint32_t best_at, found, want;
};

/* Walks places [from, to) until enough are found; returns where it stopped. */
static uint32_t walk(struct cycle *c, const struct pod_kind *k, uint32_t from, uint32_t to,
                     struct choice *ch)
{
    struct choice x = *ch;
    uint32_t at = from;

    for (; at < to && x.found < x.want; at++) {
        int64_t score = k->score[at];

        if (score == UNKNOWN)
            score = k->score[at] = judge(c, c->s->nodes.p[at]);
        x.found += score >= 0;
        if (score > x.best) {
            x.best = score;
            x.best_at = at;
        }
    }
    *ch = x;
    return at;
}

struct snode *sched_kind_choose(struct cycle *c, uint32_t want)
{
    struct bh_scheduler *s = c->s;
    struct pod_kinds *ks = s->kinds;
    struct choice ch = {.best = UNFIT, .want = want};
    struct pod_kind *k;
    uint32_t end;

    if (!by_itself(c))
        return NULL;
    kind_key(c, &ks->key);
    if (ks->key.overflow)
        return NULL;
    k = kind_find(ks, bh_buf_str(&ks->key));
    k->used = ++ks->clock;
    catch_up(s, k);
    c->quiet = true;
    end = walk(c, k, s->start, k->n, &ch);
    if (end == k->n)
        end = walk(c, k, 0, s->start, &ch);
    c->quiet = false;
    if (!ch.found)
        return NULL; /* the long way finds the words for it */
    s->start = end % k->n;
    return s->nodes.p[ch.best_at];
}
