/* Random small clusters: the allocator against a slow one that tries everything, and a model that
 * was changed step by step against one that was made at once. The seed is printed; BH_SEED repeats
 * a run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/engine.h"
#include "base/test.h"
#include "dra/dra_world_test.h"

static uint64_t rng;

static unsigned rnd(unsigned n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (unsigned)(rng >> 11) % n;
}

static unsigned rounds(unsigned n)
{
    const char *env = getenv("BH_ROUNDS");

    return env ? (unsigned)strtoul(env, NULL, 10) : n;
}

/* ---- a random cluster, in its own terms ---- */

enum { DEVS = 7, POOLS = 3, REQS = 2, SUBS = 2, CLAIMS = 2, PLACES = 12 };

struct td {
    unsigned pool, x;
    unsigned g;               /* a bit for each value of the attribute */
    unsigned where;           /* on this node alone, or on nodes like it, or (odd) elsewhere */
    bool multi, taint, whole; /* whole: held by another claim */
    int cap, need,
        used; /* capacity (0: none), counters it consumes, capacity that others consume */
};

struct tpool {
    int total; /* of the counter; -1: no counters */
    bool everywhere, per_device;
};

struct tsub {
    unsigned count, sel; /* sel: 0 any, 1 x == 0, 2 x == 1 */
    bool tolerates, all, admin;
    int cap; /* asked for; 0: not */
};

struct treq {
    unsigned n; /* 1: exactly */
    struct tsub s[SUBS];
};

struct tclaim {
    unsigned n, con; /* con: 0 none, 1 match g, 2 distinct g */
    struct treq r[REQS];
};

struct tcluster {
    unsigned pools, devs, claims;
    struct tpool p[POOLS];
    struct td d[DEVS];
    struct tclaim c[CLAIMS];
};

static void random_sub(struct tsub *s)
{
    *s = (struct tsub){.count = 1 + rnd(3),
                       .sel = rnd(3),
                       .tolerates = rnd(4) == 0,
                       .all = rnd(12) == 0,
                       .cap = rnd(3) == 0 ? (int)rnd(4) + 1 : 0};
}

static void random_cluster(struct tcluster *t)
{
    memset(t, 0, sizeof(*t));
    t->pools = 1 + rnd(POOLS);
    t->devs = 1 + rnd(DEVS);
    t->claims = 1 + rnd(CLAIMS);
    for (unsigned i = 0; i < t->pools; i++)
        t->p[i] = (struct tpool){rnd(2) ? -1 : (int)rnd(6), rnd(3) == 0, rnd(4) == 0};
    for (unsigned i = 0; i < t->devs; i++) {
        struct td *d = &t->d[i];

        *d = (struct td){.pool = rnd(t->pools),
                         .x = rnd(2),
                         .g = rnd(3) ? 1u << rnd(3) : 1 + rnd(7),
                         .where = rnd(4),
                         .multi = rnd(4) == 0,
                         .taint = rnd(5) == 0,
                         .cap = rnd(2) ? (int)rnd(6) + 1 : 0};
        if (t->p[d->pool].total >= 0 && rnd(2))
            d->need = 1 + (int)rnd(2);
        if (d->multi && d->cap && rnd(3) == 0)
            d->used = 1;
        else if (!d->multi && rnd(5) == 0)
            d->whole = true;
    }
    for (unsigned i = 0; i < t->claims; i++) {
        struct tclaim *c = &t->c[i];

        c->n = 1 + rnd(REQS);
        c->con = rnd(2) ? 0 : rnd(3);
        for (unsigned k = 0; k < c->n; k++) {
            c->r[k].n = rnd(4) ? 1 : SUBS;
            for (unsigned j = 0; j < c->r[k].n; j++)
                random_sub(&c->r[k].s[j]);
            c->r[k].s[0].admin = c->r[k].n == 1 && rnd(8) == 0;
        }
    }
}

/* ---- as objects ---- */

static void say_device(struct bh_buf *b, const struct td *d, unsigned i)
{
    bh_buf_addf(b, "{name: d%u, attributes: {x: {int: %u}, g: {", i, d->x);
    bh_buf_addz(b, d->g & (d->g - 1) ? "strings: [" : "string: ");
    for (unsigned g = 0, n = 0; g < 3; g++)
        if ((d->g >> g) & 1)
            bh_buf_addf(b, "%sg%u", n++ ? ", " : "", g);
    if (d->g & (d->g - 1))
        bh_buf_addz(b, "]");
    bh_buf_addz(b, "}}");
    if (d->multi)
        bh_buf_addz(b, ", allowMultipleAllocations: true");
    if (d->taint)
        bh_buf_addz(b, ", taints: [{key: k, effect: NoSchedule}]");
    if (d->cap)
        bh_buf_addf(b, ", capacity: {m: {value: '%d'}}", d->cap);
    if (d->need)
        bh_buf_addf(b, ", consumesCounters: [{counterSet: cs, counters: {n: {value: '%d'}}}]",
                    d->need);
    bh_buf_addz(b, "}");
}

static const char *where_is(const struct td *d)
{
    static const char *const text[] = {
        ", nodeName: node-0", ", nodeName: node-1",
        ", nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, "
        "values: "
        "[a]}]}]}",
        ", nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: NotIn, "
        "values: [node-0]}]}]}"};

    return text[d->where];
}

static void say_pool(struct bh_buf *b, const struct tcluster *t, unsigned p)
{
    bool counters = t->p[p].total >= 0;
    const char *where = t->p[p].everywhere ? "allNodes: true" : "nodeName: node-0";
    const char *of_devices = t->p[p].per_device ? "perDeviceNodeSelection: true" : where;
    bool first = true;

    bh_buf_addf(b,
                "{kind: ResourceSlice, apiVersion: resource.k8s.io/v1, metadata: {name: s%u}, "
                "spec: {driver: d, pool: "
                "{name: p%u, generation: 1, resourceSliceCount: %d}, %s, devices: [",
                p, p, counters ? 2 : 1, of_devices);
    for (unsigned i = 0; i < t->devs; i++) {
        if (t->d[i].pool != p)
            continue;
        if (!first)
            bh_buf_addz(b, ", ");
        first = false;
        say_device(b, &t->d[i], i);
        if (t->p[p].per_device) {
            b->n--; /* the brace */
            bh_buf_addf(b, "%s}", where_is(&t->d[i]));
        }
    }
    bh_buf_addz(b, "]}}\n---\n");
    if (counters)
        bh_buf_addf(b,
                    "{kind: ResourceSlice, apiVersion: resource.k8s.io/v1, metadata: {name: t%u}, "
                    "spec: {driver: d, pool: "
                    "{name: p%u, generation: 1, resourceSliceCount: 2}, %s, sharedCounters: "
                    "[{name: cs, counters: {n: "
                    "{value: '%d'}}}]}}\n---\n",
                    p, p, where, t->p[p].total);
}

static void say_sub(struct bh_buf *b, const struct tsub *s)
{
    if (s->all)
        bh_buf_addz(b, "deviceClassName: any, allocationMode: All");
    else
        bh_buf_addf(b, "deviceClassName: any, allocationMode: ExactCount, count: %u", s->count);
    if (s->sel)
        bh_buf_addf(b, ", selectors: [{cel: {expression: \"device.attributes['d'].x == %u\"}}]",
                    s->sel - 1);
    if (s->tolerates)
        bh_buf_addz(b, ", tolerations: [{operator: Exists}]");
    if (s->cap)
        bh_buf_addf(b, ", capacity: {requests: {m: '%d'}}", s->cap);
    if (s->admin)
        bh_buf_addz(b, ", adminAccess: true");
}

static void say_claim(struct bh_buf *b, const struct tclaim *c, unsigned i)
{
    static const char *const cons[] = {"", ", constraints: [{matchAttribute: d/g}]",
                                       ", constraints: [{distinctAttribute: d/g}]"};

    bh_buf_addf(b,
                "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: c%u, "
                "namespace: default}, spec: "
                "{devices: {requests: [",
                i);
    for (unsigned k = 0; k < c->n; k++) {
        bh_buf_addf(b, "%s{name: r%u, ", k ? ", " : "", k);
        if (c->r[k].n == 1) {
            bh_buf_addz(b, "exactly: {");
            say_sub(b, &c->r[k].s[0]);
            bh_buf_addz(b, "}}");
            continue;
        }
        bh_buf_addz(b, "firstAvailable: [");
        for (unsigned j = 0; j < c->r[k].n; j++) {
            bh_buf_addf(b, "%s{name: s%u, ", j ? ", " : "", j);
            say_sub(b, &c->r[k].s[j]);
            bh_buf_addz(b, "}");
        }
        bh_buf_addz(b, "]}");
    }
    bh_buf_addf(b, "]%s}}}\n---\n", cons[c->con]);
}

static void say_held(struct bh_buf *b, const struct td *d, unsigned i)
{
    if (!d->whole && !d->used)
        return;
    bh_buf_addf(b,
                "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: h%u, "
                "namespace: in-use}, spec: "
                "{devices: {}}, status: {allocation: {devices: {results: [{request: r, driver: d, "
                "pool: p%u, device: "
                "d%u",
                i, d->pool, i);
    if (d->used)
        bh_buf_addf(b,
                    ", shareID: 00000000-0000-4000-8000-00000000000%u, consumedCapacity: {m: '%d'}",
                    i % 10, d->used);
    bh_buf_addz(b, "}]}}}}\n---\n");
}

static const char *say_cluster(struct bh_arena *a, const struct tcluster *t)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addz(&b,
                "{kind: Node, apiVersion: v1, metadata: {name: node-0, labels: {zone: a}}}\n---\n"
                "{kind: DeviceClass, apiVersion: resource.k8s.io/v1, metadata: {name: any}, "
                "spec: {}}\n---\n");
    for (unsigned i = 0; i < t->pools; i++)
        say_pool(&b, t, i);
    for (unsigned i = 0; i < t->devs; i++)
        say_held(&b, &t->d[i], i);
    for (unsigned i = 0; i < t->claims; i++)
        say_claim(&b, &t->c[i], i);
    return bh_str_dup(a, bh_buf_str(&b)).p;
}

/* ---- the slow allocator ---- */

struct place {
    unsigned claim, req, dev;
    const struct tsub *s;
};

struct slow {
    const struct tcluster *t;
    struct place p[64];
    unsigned n;
    bool fatal; /* mode All met a constraint that fails: upstream gives up altogether */
    unsigned work;
};

static bool likes(const struct tcluster *t, const struct tsub *s, const struct td *d)
{
    return (s->sel == 0 || d->x == s->sel - 1) && (!s->cap || (d->cap && s->cap <= d->cap)) &&
           !(t->p[d->pool].per_device && d->where % 2);
}

static int takes(const struct tsub *s, const struct td *d)
{
    return !d->multi || !d->cap ? 0 : s->cap ? s->cap : d->cap;
}

/* Whether the device may be given as it is: what others hold is for administrators only, who in
 * turn come first. */
static bool device_lawful(const struct slow *w, unsigned i)
{
    const struct td *d = &w->t->d[i];
    int used = d->used;

    for (unsigned k = 0; k < w->n; k++) {
        if (w->p[k].dev != i)
            continue;
        used += takes(w->p[k].s, d);
        if (d->whole && !w->p[k].s->admin)
            return false;
        if (d->multi && used > d->cap && d->cap)
            return false;
        for (unsigned j = 0; !d->multi && j < k; j++)
            if (w->p[j].dev == i && (!w->p[k].s->admin || w->p[j].claim == w->p[k].claim))
                return false;
    }
    return true;
}

static bool counters_lawful(const struct slow *w, unsigned p)
{
    const struct tcluster *t = w->t;
    int sum = 0, more = 0;

    for (unsigned i = 0; i < t->devs; i++) {
        const struct td *d = &t->d[i];
        int times = 0;

        if (d->pool != p)
            continue;
        for (unsigned k = 0; k < w->n; k++)
            times += w->p[k].dev == i;
        if (d->multi && times) /* pays once */
            times = !d->used;
        more += times * d->need;
        if (d->whole || d->used)
            sum += d->need;
    }
    return !more || sum + more <= t->p[p].total;
}

static bool constraint_lawful(const struct slow *w, unsigned c)
{
    unsigned common = 7, seen = 0;

    for (unsigned i = 0; i < w->n; i++) {
        unsigned g = w->t->d[w->p[i].dev].g;

        if (w->p[i].claim != c)
            continue;
        if (w->t->c[c].con == 2 && (seen & g))
            return false;
        common &= g;
        seen |= g;
    }
    return w->t->c[c].con != 1 || common;
}

/* Whether all that is placed keeps every rule. */
static bool lawful(const struct slow *w)
{
    const struct tcluster *t = w->t;

    for (unsigned i = 0; i < w->n; i++) {
        const struct td *d = &t->d[w->p[i].dev];

        if (!likes(t, w->p[i].s, d) || (d->taint && !w->p[i].s->tolerates))
            return false;
    }
    for (unsigned i = 0; i < t->devs; i++)
        if (!device_lawful(w, i))
            return false;
    for (unsigned i = 0; i < t->pools; i++)
        if (!counters_lawful(w, i))
            return false;
    for (unsigned i = 0; i < t->claims; i++)
        if (!constraint_lawful(w, i))
            return false;
    return true;
}

static bool slow_run(struct slow *w, unsigned c, unsigned r);

/* Devices for places from on of one request, in increasing order. */
static bool slow_exact(struct slow *w, unsigned c, unsigned r, const struct tsub *s, unsigned left,
                       unsigned from)
{
    w->work++;
    if (!lawful(w))
        return false;
    if (left == 0)
        return slow_run(w, c, r + 1);
    for (unsigned i = from; i < w->t->devs; i++) {
        w->p[w->n++] = (struct place){c, r, i, s};
        if (slow_exact(w, c, r, s, left - 1, i + 1))
            return true;
        w->n--;
    }
    return false;
}

static bool slow_all(struct slow *w, unsigned c, unsigned r, const struct tsub *s)
{
    unsigned before = w->n;

    for (unsigned i = 0; i < w->t->devs; i++) {
        const struct td *d = &w->t->d[i];

        /* What cannot give what is asked is no part of all. */
        if (likes(w->t, s, d) && !(d->multi && d->cap && d->used + takes(s, d) > d->cap))
            w->p[w->n++] = (struct place){c, r, i, s};
    }
    if (w->n > before && lawful(w) && slow_run(w, c, r + 1))
        return true;
    w->n = before;
    return false;
}

static bool slow_run(struct slow *w, unsigned c, unsigned r)
{
    const struct treq *q;

    if (c == w->t->claims)
        return true;
    if (r == w->t->c[c].n)
        return slow_run(w, c + 1, 0);
    q = &w->t->c[c].r[r];
    for (unsigned j = 0; j < q->n; j++)
        if (q->s[j].all ? slow_all(w, c, r, &q->s[j])
                        : slow_exact(w, c, r, &q->s[j], q->s[j].count, 0))
            return true;
    return false;
}

/* ---- comparing ---- */

static bool has_all(const struct tcluster *t)
{
    for (unsigned i = 0; i < t->claims; i++)
        for (unsigned k = 0; k < t->c[i].n; k++)
            for (unsigned j = 0; j < t->c[i].r[k].n; j++)
                if (t->c[i].r[k].s[j].all)
                    return true;
    return false;
}

/* Reads a result back into places, and says whether they are what was asked for. */
static bool read_back(struct world *w, const struct tcluster *t, struct slow *back)
{
    *back = (struct slow){.t = t};
    for (size_t c = 0; c < w->res.n; c++) {
        const struct bh_resource_v1_device_request_allocation_result_vec *r =
            &w->res.allocations[c].devices.results;
        unsigned per[REQS] = {0};
        const struct tsub *chosen[REQS] = {NULL};

        for (size_t i = 0; i < r->n; i++) {
            struct bh_str name = r->p[i].request;
            unsigned q = (unsigned)(name.p[1] - '0'),
                     sub = name.n > 2 ? (unsigned)(name.p[4] - '0') : 0;

            chosen[q] = &t->c[c].r[q].s[sub];
            per[q]++;
            back->p[back->n++] =
                (struct place){(unsigned)c, q, (unsigned)(r->p[i].device.p[1] - '0'), chosen[q]};
        }
        for (unsigned q = 0; q < t->c[c].n; q++)
            if (!chosen[q] || (!chosen[q]->all && per[q] != chosen[q]->count))
                return false;
    }
    return lawful(back);
}

/* What is kept between calls is only faster. */
static void same_with_index(const struct bh_dra_features *f, enum bh_dra_scoring scoring,
                            const char *text, const char *names, enum bh_dra_outcome out,
                            struct world *plain)
{
    struct world w;
    enum bh_dra_outcome got;

    world_init(&w, f);
    world_index(&w);
    w.opts.scoring = scoring;
    world_yaml(&w, text);
    for (int i = 0; i < 2; i++) {
        got = world_allocate(&w, "node-0", names);
        if (got != out || strcmp(w.err.msg, plain->err.msg) != 0 ||
            (out == BH_DRA_OK &&
             (strcmp(world_got(&w), world_got(plain)) != 0 || w.res.score != plain->res.score)))
            bh_test_fail(__FILE__, __LINE__,
                         "scoring %d: %d %s %s, score %d, without an index %d %s %s, score %d:\n%s",
                         scoring, got, w.err.msg, world_got(&w), w.res.score, out, plain->err.msg,
                         world_got(plain), plain->res.score, text);
    }
    world_done(&w);
}

static void one_cluster(const struct tcluster *t, enum bh_dra_scoring scoring)
{
    struct bh_dra_features f = bh_dra_features_all();
    struct slow slow = {.t = t}, back;
    struct world w;
    enum bh_dra_outcome out;
    bool want = slow_run(&slow, 0, 0), ok;
    const char *text, *names = t->claims == 2 ? "default/c0 default/c1" : "default/c0";

    f.strict_distinct = true;
    world_init(&w, &f);
    w.opts.scoring = scoring;
    text = say_cluster(w.a, t);
    world_yaml(&w, text);
    out = world_allocate(&w, "node-0", names);
    same_with_index(&f, scoring, text, names, out, &w);
    /* Mode All ends everything when a constraint fails, whatever alternatives there are. */
    ok = out == BH_DRA_FATAL ? has_all(t) : (out == BH_DRA_OK) == want;
    if (!ok)
        bh_test_fail(__FILE__, __LINE__,
                     "scoring %d: outcome %d (%s), but the slow one says %d:\n%s", scoring, out,
                     w.err.msg, want, text);
    if (out == BH_DRA_OK && !read_back(&w, t, &back))
        bh_test_fail(__FILE__, __LINE__, "scoring %d: %s breaks a rule:\n%s", scoring,
                     world_got(&w), text);
    if (out == BH_DRA_OK && world_reserve(&w, names) < 0 &&
        bh_dra_self_check(w.m, NULL) != -BH_E_CONFLICT)
        bh_test_fail(__FILE__, __LINE__, "scoring %d: %s: %s\n%s", scoring, world_got(&w),
                     w.err.msg, text);
    world_done(&w);
}

BH_TEST(property_against_brute_force)
{
    struct tcluster t;
    unsigned n = rounds(120);

    rng = bh_test_seed() | 1;
    for (unsigned i = 0; i < n; i++) {
        random_cluster(&t);
        for (int s = BH_DRA_FIRST_FIT; s <= BH_DRA_SPREAD; s++)
            one_cluster(&t, (enum bh_dra_scoring)s);
    }
}

/* ---- step by step against at once ---- */

enum { NODES = 4, SLICES = 8, HELD = 12, FREE = 3, OURS = 4 };

struct steps {
    struct world w;
    /* What a new model would be made of: text of each object, NULL when it is not there. */
    char *nodes[NODES], *slices[SLICES], *held[HELD], *rules[2], *ours[OURS];
    bool reserved[OURS]; /* and not yet confirmed */
};

static void set(char **at, const char *text)
{
    bh_free(*at);
    *at = text ? bh_strdup_c(bh_s(text)) : NULL;
}

static void step_node(struct steps *s)
{
    unsigned i = rnd(NODES);
    char text[256], name[16];

    (void)snprintf(name, sizeof(name), "node-%u", i);
    if (s->nodes[i] && rnd(3) == 0) {
        bh_dra_node_del(s->w.m, bh_s(name));
        set(&s->nodes[i], NULL);
        return;
    }
    (void)snprintf(
        text, sizeof(text),
        "{kind: Node, apiVersion: v1, metadata: {name: node-%u, labels: {zone: z%u}}}\n---\n", i,
        rnd(2));
    world_yaml(&s->w, text);
    set(&s->nodes[i], text);
}

static void step_slice(struct steps *s)
{
    static const char *const open[] = {"allNodes: true",
                                       "nodeSelector: {nodeSelectorTerms: [{matchExpressions: "
                                       "[{key: zone, operator: In, values: [z1]}]}]}"};
    unsigned i = rnd(SLICES), gen = 1 + (rnd(4) == 0), devs = 1 + rnd(3);
    char name[16], where[160];
    BH_AUTO_BUF b = {0};

    (void)snprintf(name, sizeof(name), "s%u", i);
    if (s->slices[i] && rnd(4) == 0) {
        bh_dra_slice_del(s->w.m, bh_s(name));
        set(&s->slices[i], NULL);
        return;
    }
    if (rnd(4) == 0)
        (void)snprintf(where, sizeof(where), "%s", open[rnd(2)]);
    else
        (void)snprintf(where, sizeof(where), "nodeName: node-%u", i % NODES);
    bh_buf_addf(&b,
                "{kind: ResourceSlice, apiVersion: resource.k8s.io/v1, metadata: {name: s%u}, "
                "spec: {driver: d, pool: {name: "
                "p%u, generation: %u, resourceSliceCount: %u}, %s, ",
                i, i / 2, gen, 1 + rnd(2), where);
    if (rnd(4) == 0) {
        bh_buf_addf(&b, "sharedCounters: [{name: cs, counters: {n: {value: '%u'}}}]}}\n---\n",
                    rnd(4));
    } else {
        bh_buf_addz(&b, "devices: [");
        for (unsigned k = 0; k < devs; k++) {
            struct td d = {
                .x = rnd(2), .g = 1, .multi = rnd(4) == 0, .cap = (int)rnd(4), .need = rnd(4) == 0};

            if (k)
                bh_buf_addz(&b, ", ");
            say_device(&b, &d, k + (i % 2) * 2);
        }
        bh_buf_addz(&b, "]}}\n---\n");
    }
    world_yaml(&s->w, bh_buf_cstr(&b));
    set(&s->slices[i], bh_buf_cstr(&b));
}

static void step_held(struct steps *s)
{
    unsigned i = rnd(HELD);
    struct td d = {.pool = rnd(SLICES / 2), .whole = rnd(2), .used = 1};
    char uid[32];
    BH_AUTO_BUF b = {0};

    (void)snprintf(uid, sizeof(uid), "in-use/h%u", i);
    if (s->held[i] && rnd(3)) {
        bh_dra_claim_del(s->w.m, bh_s(uid));
        set(&s->held[i], NULL);
        return;
    }
    if (d.whole)
        d.used = 0;
    bh_buf_addf(&b,
                "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: h%u, "
                "namespace: in-use}, spec: "
                "{devices: {}}, status: {allocation: {devices: {results: [{request: r, driver: d, "
                "pool: p%u, device: d%u%s}]}}}}"
                "\n---\n",
                i, d.pool, rnd(5),
                d.used
                    ? ", shareID: 00000000-0000-4000-8000-000000000000, consumedCapacity: {m: '1'}"
                    : "");
    world_yaml(&s->w, bh_buf_cstr(&b));
    set(&s->held[i], bh_buf_cstr(&b));
}

static void step_rule(struct steps *s)
{
    unsigned i = rnd(2);
    char text[400], name[16];

    (void)snprintf(name, sizeof(name), "rule-%u", i);
    if (s->rules[i]) {
        bh_dra_rule_del(s->w.m, bh_s(name));
        set(&s->rules[i], NULL);
        return;
    }
    (void)snprintf(
        text, sizeof(text),
        "{kind: DeviceTaintRule, apiVersion: resource.k8s.io/v1beta2, metadata: {name: rule-%u}, "
        "spec: "
        "{deviceSelector: {pool: p%u, device: d%u}, taint: {key: k, effect: NoExecute}}}\n---\n",
        i, rnd(SLICES / 2), rnd(4));
    world_yaml(&s->w, text);
    set(&s->rules[i], text);
}

/* A reservation is made, and ends in one of its ways. */
static void step_reserve(struct steps *s)
{
    unsigned i = rnd(OURS);
    struct bh_resource_v1_resource_claim fake = {.metadata = {.namespace = BH_S("ours")}};
    char uid[16], claim[16], node[16];
    BH_AUTO_BUF b = {0};

    (void)snprintf(uid, sizeof(uid), "ours/o%u", i);
    if (s->ours[i]) {
        if (!s->reserved[i]) {
            bh_dra_claim_del(s->w.m, bh_s(uid));
        } else if (rnd(2)) {
            world_yaml(&s->w, s->ours[i]); /* confirmed */
            s->reserved[i] = false;
            return;
        } else {
            bh_dra_unreserve(s->w.m, bh_s(uid));
        }
        set(&s->ours[i], NULL);
        return;
    }
    (void)snprintf(claim, sizeof(claim), "default/f%u", rnd(2));
    (void)snprintf(node, sizeof(node), "node-%u", rnd(NODES));
    if (world_allocate(&s->w, node, claim) != BH_DRA_OK)
        return;
    fake.metadata.uid = bh_s(uid);
    fake.metadata.name = bh_str_sub(bh_s(uid), 5, 7);
    if (bh_dra_reserve(s->w.m, &fake, &s->w.res.allocations[0], &s->w.err) < 0) {
        BH_EQ(s->w.err.code, BH_E_CONFLICT); /* the books were over-drawn before */
        return;
    }
    s->reserved[i] = true;
    bh_buf_addf(&b,
                "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: o%u, "
                "namespace: ours}, spec: {devices: "
                "{}}, status: {allocation: ",
                i);
    bh_msg_encode_json(&bh_resource_v1_allocation_result_type, &s->w.res.allocations[0], &b);
    bh_buf_addz(&b, "}}\n---\n");
    set(&s->ours[i], bh_buf_cstr(&b));
}

static const char free_claims[] =
    "{kind: DeviceClass, apiVersion: resource.k8s.io/v1, metadata: {name: any}, spec: {}}\n---\n"
    "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: f0, namespace: "
    "default}, spec: {devices: "
    "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: ExactCount, count: 1, "
    "selectors: [{cel: "
    "{expression: \"device.attributes['d'].x == 1\"}}]}}]}}}\n---\n"
    "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: f1, namespace: "
    "default}, spec: {devices: "
    "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: ExactCount, count: "
    "3}}]}}}\n---\n"
    "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: f2, namespace: "
    "default}, spec: {devices: "
    "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: All}}]}}}\n---\n";

static void add_all(struct world *w, char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (texts[i])
            world_yaml(w, texts[i]);
}

static bool offered(struct world *w, const char *node)
{
    uint64_t it = 0;
    struct bh_str name;

    while (bh_dra_ask_next(w->ask, &it, &name))
        if (bh_str_eqc(name, node))
            return true;
    return false;
}

static size_t recalled; /* asks whose answer was known */

struct got {
    enum bh_dra_outcome out;
    struct bh_dra_result res;
};

/* One ask on node after node gets what a new one got on each, all of it. */
static void compare_one_ask(struct steps *s, struct bh_dra_ask *ask, const struct got *want)
{
    for (unsigned n = 0; n < NODES; n++) {
        char node[16];
        struct got g;
        struct bh_err err = {0};

        (void)snprintf(node, sizeof(node), "node-%u", n);
        g.out = bh_dra_allocate(ask, bh_s(node), &s->w.opts, s->w.a, &g.res, &err);
        if (g.out != want[n].out || g.res.n != want[n].res.n || g.res.score != want[n].res.score ||
            g.res.prefer != want[n].res.prefer)
            bh_test_fail(__FILE__, __LINE__, "on %s after others: %d with %d, alone %d with %d",
                         node, g.out, g.res.score, want[n].out, want[n].res.score);
        for (size_t i = 0; g.out == BH_DRA_OK && i < g.res.n; i++)
            BH_CHECK(bh_msg_equal(&bh_resource_v1_allocation_result_type,
                                  &want[n].res.allocations[i], &g.res.allocations[i]));
    }
}

/* Every node and claim: the same outcome, the same devices, and no node that fits is kept back. */
static void compare(struct steps *s)
{
    struct world at_once;
    struct bh_err err = {0};

    world_init(&at_once, NULL);
    at_once.opts.scoring = s->w.opts.scoring;
    world_yaml(&at_once, free_claims);
    add_all(&at_once, s->nodes, NODES);
    add_all(&at_once, s->slices, SLICES);
    add_all(&at_once, s->held, HELD);
    add_all(&at_once, s->rules, 2);
    add_all(&at_once, s->ours, OURS);
    for (unsigned c = 0; c < FREE; c++) {
        struct got got[NODES];

        for (unsigned n = 0; n < NODES; n++) {
            char claim[16], node[16];
            enum bh_dra_outcome x, y;
            struct bh_dra_result was;
            bool kept, known;

            (void)snprintf(claim, sizeof(claim), "default/f%u", c);
            (void)snprintf(node, sizeof(node), "node-%u", n);
            y = world_allocate(&at_once, node, claim);
            x = world_allocate(&s->w, "no such node", claim); /* for the ask */
            kept = !offered(&s->w, node);
            BH_CHECK(kept == !bh_dra_ask_may_fit(s->w.ask, bh_s(node)));
            known = bh_dra_ask_recall(s->w.ask, bh_s(node), s->w.opts.scoring, &was);
            x = world_allocate(&s->w, node, claim);
            recalled += known;
            if (known &&
                (x != BH_DRA_OK || was.score != s->w.res.score || was.prefer != s->w.res.prefer))
                bh_test_fail(__FILE__, __LINE__,
                             "%s on %s: remembered as fitting with %d, is %d %d", claim, node,
                             was.score, x, s->w.res.score);
            if (x != y || (x == BH_DRA_OK && strcmp(world_got(&s->w), world_got(&at_once)) != 0))
                bh_test_fail(__FILE__, __LINE__, "%s on %s: %d %s, at once %d %s", claim, node, x,
                             world_got(&s->w), y, world_got(&at_once));
            if (kept && (y == BH_DRA_OK || y == BH_DRA_FATAL) && s->nodes[n])
                bh_test_fail(__FILE__, __LINE__, "%s on %s is kept back, but fits: %d %s", claim,
                             node, y, world_got(&at_once));
            got[n] = (struct got){x, s->w.res};
        }
        compare_one_ask(s, s->w.ask, got);
    }
    if (bh_dra_self_check(s->w.m, &err) == -BH_E_INTERNAL)
        bh_test_fail(__FILE__, __LINE__, "%s", err.msg);
    world_done(&at_once);
}

BH_TEST(property_step_by_step)
{
    unsigned n = rounds(4);

    rng = bh_test_seed() | 1;
    for (unsigned i = 0; i < n; i++) {
        struct steps s;

        memset(&s, 0, sizeof(s));
        world_init(&s.w, NULL);
        if (i % 4 < 3)
            world_index(&s.w);
        s.w.opts.scoring = i % 2 ? BH_DRA_FIRST_FIT : BH_DRA_PACK;
        world_yaml(&s.w, free_claims);
        for (unsigned k = 0; k < 60; k++) {
            switch (rnd(10)) {
            case 0:
                step_node(&s);
                break;
            case 1:
            case 2:
            case 3:
                step_slice(&s);
                break;
            case 4:
                step_rule(&s);
                break;
            case 5:
            case 6:
            case 7:
                step_reserve(&s);
                break;
            default:
                step_held(&s);
            }
            if (rnd(2))
                compare(&s);
        }
        world_done(&s.w);
        for (size_t k = 0; k < NODES; k++)
            bh_free(s.nodes[k]);
        for (size_t k = 0; k < SLICES; k++)
            bh_free(s.slices[k]);
        for (size_t k = 0; k < HELD; k++)
            bh_free(s.held[k]);
        for (size_t k = 0; k < 2; k++)
            bh_free(s.rules[k]);
        for (size_t k = 0; k < OURS; k++)
            bh_free(s.ours[k]);
    }
    BH_CHECK(recalled > 0);
}
