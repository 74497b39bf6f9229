/* Gangs on small random clusters against a search that tries everything: what fits is placed, what
 * does not stays away whole, and who is evicted makes room for all. BH_ROUNDS: how many. */
#include <stdlib.h>

#include "api/gen/scheduling_v1.h"
#include "api/gen/scheduling_v1alpha2.h"
#include "scheduler/sched_int.h"
#include "scheduler/world_test.h"

#define ROUNDS      60
#define ROUNDS_MORE 20
#define NODES       3
#define GPUS        3
#define NETS        2
#define DEVICES     (NODES * GPUS + NETS) /* those of all nodes last */
#define MEMBERS     5
#define LOW         4
#define REQUESTS    2
#define NO_DEVICE   (-1)

enum ask { ASK_NOTHING, ASK_GPU, ASK_BIG, ASK_NET };

struct what {
    int cpu;
    enum ask ask[REQUESTS];
    int only; /* node, or -1 */
};

struct cluster {
    struct world w;
    uint64_t rnd;
    int nodes, cpu[NODES], gpus[NODES], nets;
    bool big[NODES * GPUS];
    int members;
    struct what m[MEMBERS];
    int low;
    struct what l[LOW];
    /* What is taken. */
    int used[NODES];
    bool taken[DEVICES];
};

static uint64_t pick(struct cluster *c, uint64_t n)
{
    c->rnd = c->rnd * 6364136223846793005u + 1442695040888963407u;
    return (c->rnd >> 33) % n;
}

static struct what some(struct cluster *c, bool devices)
{
    struct what x = {.cpu = 1 + (int)pick(c, 2), .only = -1};

    for (int i = 0; devices && i < REQUESTS; i++)
        x.ask[i] = pick(c, 3) ? (enum ask)pick(c, 4) : ASK_NOTHING;
    if (!pick(c, 5))
        x.only = (int)pick(c, (uint64_t)c->nodes);
    return x;
}

/* ---- everything is tried ---- */

static bool exists(const struct cluster *c, int d)
{
    return d < NODES * GPUS ? d / GPUS < c->nodes && d % GPUS < c->gpus[d / GPUS]
                            : d - NODES * GPUS < c->nets;
}

static bool suits(const struct cluster *c, enum ask a, int d, int node)
{
    if (!exists(c, d) || c->taken[d])
        return false;
    if (a == ASK_NET)
        return d >= NODES * GPUS;
    return d < NODES * GPUS && d / GPUS == node && (a == ASK_GPU || c->big[d]);
}

static bool brute(struct cluster *c, int i);

static bool brute_devices(struct cluster *c, int i, int node, int r)
{
    if (r == REQUESTS)
        return brute(c, i + 1);
    if (c->m[i].ask[r] == ASK_NOTHING)
        return brute_devices(c, i, node, r + 1);
    for (int d = 0; d < DEVICES; d++) {
        bool ok;

        if (!suits(c, c->m[i].ask[r], d, node))
            continue;
        c->taken[d] = true;
        ok = brute_devices(c, i, node, r + 1);
        c->taken[d] = false;
        if (ok)
            return true;
    }
    return false;
}

static bool brute(struct cluster *c, int i)
{
    if (i == c->members)
        return true;
    for (int n = 0; n < c->nodes; n++) {
        bool ok;

        if (c->used[n] + c->m[i].cpu > c->cpu[n] || (c->m[i].only >= 0 && c->m[i].only != n))
            continue;
        c->used[n] += c->m[i].cpu;
        ok = brute_devices(c, i, n, 0);
        c->used[n] -= c->m[i].cpu;
        if (ok)
            return true;
    }
    return false;
}

/* ---- the cluster ---- */

static void slice(struct cluster *c, int node)
{
    BH_AUTO_BUF b = {0};
    int n = node < NODES ? c->gpus[node] : c->nets;
    const char *kind = node < NODES ? "gpu" : "net";

    bh_buf_addf(&b,
                "{\"metadata\":{\"name\":\"s-%d\"},\"spec\":{\"driver\":\"%s.bulkhead.dev\","
                "\"pool\":{\"name\":\"p-%d\",\"generation\":1,\"resourceSliceCount\":1},",
                node, kind, node);
    if (node < NODES)
        bh_buf_addf(&b, "\"nodeName\":\"n%d\"", node);
    else
        bh_buf_addz(&b, "\"allNodes\":true");
    bh_buf_addz(&b, ",\"devices\":[");
    for (int i = 0; i < n; i++)
        bh_buf_addf(&b, "%s{\"name\":\"d%d\",\"attributes\":{\"big\":{\"bool\":%s}}}", i ? "," : "",
                    i, node < NODES && c->big[node * GPUS + i] ? "true" : "false");
    bh_buf_addz(&b, "]}}");
    BH_EQ(world_create(&c->w, &bh_resource_v1_resource_slice_kind, "", bh_buf_cstr(&b)), 201);
}

static void class(struct cluster *c, const char *name, const char *driver, const char *more)
{
    BH_EQ(world_create(&c->w, &bh_resource_v1_device_class_kind, "",
                       bh_str_fmt(c->w.a,
                                  "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"selectors\":[{"
                                  "\"cel\":{\"expression\":\"device.driver == "
                                  "'%s.bulkhead.dev'%s\"}}]}}",
                                  name, driver, more)
                           .p),
          201);
}

/* The pod, and a claim of its name for its devices. */
static void pod(struct cluster *c, const char *name, const struct what *x, const char *more)
{
    static const char *const classes[] = {"", "gpu", "big", "net"};
    BH_AUTO_BUF spec = {0}, claim = {0};

    bh_buf_addz(&spec, more);
    for (int i = 0; i < REQUESTS; i++)
        if (x->ask[i] != ASK_NOTHING)
            bh_buf_addf(&claim, "%s{\"name\":\"r%d\",\"exactly\":{\"deviceClassName\":\"%s\"}}",
                        claim.n ? "," : "", i, classes[x->ask[i]]);
    if (claim.n) {
        BH_EQ(world_create(&c->w, &bh_resource_v1_resource_claim_kind, "default",
                           bh_str_fmt(c->w.a,
                                      "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"devices\":{"
                                      "\"requests\":[%.*s]}}}",
                                      name, BH_SF(bh_buf_str(&claim)))
                               .p),
              201);
        bh_buf_addf(&spec, ",\"resourceClaims\":[{\"name\":\"d\",\"resourceClaimName\":\"%s\"}]",
                    name);
    }
    if (x->only >= 0)
        bh_buf_addf(&spec, ",\"nodeSelector\":{\"kubernetes.io/hostname\":\"n%d\"}", x->only);
    world_pod(&c->w, name, bh_str_fmt(c->w.a, "%d", x->cpu).p, bh_buf_cstr(&spec));
}

static const char *name(struct cluster *c, const char *prefix, int i)
{
    return bh_str_fmt(c->w.a, "%s%d", prefix, i).p;
}

static void furnish(struct cluster *c)
{
    world_init_with(&c->w, NULL, c->rnd);
    for (int i = 0; i < 2; i++)
        BH_EQ(world_create(&c->w, &bh_scheduling_v1_priority_class_kind, "",
                           bh_str_fmt(c->w.a, "{\"metadata\":{\"name\":\"%s\"},\"value\":%d}",
                                      i ? "high" : "low", i * 100)
                               .p),
              201);
    class(c, "gpu", "gpu", "");
    class(c, "big", "gpu", " && device.attributes['gpu.bulkhead.dev'].big");
    class(c, "net", "net", "");
    c->nodes = 1 + (int)pick(c, NODES);
    c->nets = (int)pick(c, NETS + 1);
    for (int n = 0; n < c->nodes; n++) {
        c->cpu[n] = 1 + (int)pick(c, 4);
        c->gpus[n] = (int)pick(c, GPUS + 1);
        for (int i = 0; i < GPUS; i++)
            c->big[n * GPUS + i] = !pick(c, 2);
        world_node(&c->w, name(c, "n", n), bh_str_fmt(c->w.a, "%d", c->cpu[n]).p, "");
        if (c->gpus[n])
            slice(c, n);
    }
    if (c->nets)
        slice(c, NODES);
    world_start(&c->w);
}

/* What the pods that are there have, those that leave included. */
static void count(struct cluster *c, const char *prefix, int n)
{
    for (int i = 0; i < n; i++) {
        const char *who = name(c, prefix, i);
        struct bh_str node = world_node_of(&c->w, who);
        const struct bh_resource_v1_resource_claim *cl;

        if (node.n < 2 || node.p[0] != 'n')
            continue;
        c->used[node.p[1] - '0'] += prefix[0] == 'l' ? c->l[i].cpu : c->m[i].cpu;
        cl = world_get(&c->w, &bh_resource_v1_resource_claim_kind, "default", who);
        for (size_t k = 0;
             cl && cl->status.allocation && k < cl->status.allocation->devices.results.n; k++) {
            const struct bh_resource_v1_device_request_allocation_result *r =
                &cl->status.allocation->devices.results.p[k];

            c->taken[(r->pool.p[2] - '0') * GPUS + (r->device.p[1] - '0')] = true;
        }
    }
}

static int bound(struct cluster *c)
{
    int n = 0;

    for (int i = 0; i < c->members; i++)
        n += world_node_of(&c->w, name(c, "m", i)).n > 0;
    return n;
}

static bool leaves(struct cluster *c, int i)
{
    const struct bh_core_v1_pod *p =
        world_get(&c->w, &bh_core_v1_pod_kind, "default", name(c, "l", i));

    return p && p->spec.node_name.n && c->w.got->deleting;
}

/* All that leave are gone, and their claims given back. */
static int let_go(struct cluster *c)
{
    int n = 0;

    for (int i = 0; i < c->low; i++) {
        const char *who = name(c, "l", i);

        if (!leaves(c, i))
            continue;
        n++;
        BH_EQ(world_delete(&c->w, &bh_core_v1_pod_kind, "default", who), 200);
        if (world_get(&c->w, &bh_resource_v1_resource_claim_kind, "default", who))
            BH_EQ(world_patch(&c->w, &bh_resource_v1_resource_claim_kind, "default", who, "status",
                              "{\"status\":{\"allocation\":null,\"reservedFor\":null}}"),
                  200);
    }
    return n;
}

static void gang(struct cluster *c)
{
    BH_EQ(world_create(&c->w, &bh_scheduling_v1alpha2_pod_group_kind, "default",
                       bh_str_fmt(c->w.a,
                                  "{\"metadata\":{\"name\":\"g\"},\"spec\":{\"schedulingPolicy\":{"
                                  "\"gang\":{\"minCount\":%d}}}}",
                                  c->members)
                           .p),
          201);
    for (int i = 0; i < c->members; i++)
        pod(c, name(c, "m", i), &c->m[i],
            "\"schedulingGroup\":{\"podGroupName\":\"g\"},\"priorityClassName\":\"high\"");
}

static int rounds(void)
{
    const char *v = getenv("BH_ROUNDS");
    int64_t n;

    return v && bh_str_i64(bh_s(v), 1, 1000000, &n) ? (int)n : ROUNDS;
}

static void check(bool ok, uint64_t seed, const char *what)
{
    if (!ok)
        bh_test_fail(__FILE__, __LINE__, "cluster %llu: %s", (unsigned long long)seed, what);
}

static void play(uint64_t seed, bool with_low, int *fitting, int *evicting)
{
    struct cluster c = {.rnd = seed};
    bool now, ever;
    int gone = 0;

    furnish(&c);
    c.low = with_low ? (int)pick(&c, LOW + 1) : 0;
    for (int i = 0; i < c.low; i++) {
        c.l[i] = some(&c, true);
        pod(&c, name(&c, "l", i), &c.l[i], "\"priorityClassName\":\"low\"");
    }
    world_run(&c.w, 2000);
    c.members = 2 + (int)pick(&c, MEMBERS - 1);
    for (int i = 0; i < c.members; i++)
        c.m[i] = i && pick(&c, 2) ? c.m[i - 1] : some(&c, true);
    ever = brute(&c, 0);
    count(&c, "l", c.low);
    now = brute(&c, 0);
    *fitting += now;
    *evicting += ever && !now;
    gang(&c);
    world_run(&c.w, 15000);
    for (int i = 0; i < c.low; i++)
        gone += leaves(&c, i);
    check(bound(&c) == (now ? c.members : 0), seed, now ? "it fits" : "it does not fit");
    check((gone > 0) == (ever && !now), seed, "eviction");
    for (int turn = 0; ever && !now && turn < 3 && bound(&c) < c.members; turn++) {
        check(let_go(&c) > 0 || turn, seed, "nobody goes");
        world_run(&c.w, 15000);
    }
    check(bound(&c) == (ever ? c.members : 0), seed, "in the end");
    world_done(&c.w);
}

/* As many clusters as were asked for, and more (few are needed) until both answers have come up: a
 * seed may begin with a row of one kind. */
static void play_rounds(bool with_low, int *fitting, int *evicting)
{
    uint64_t seed = bh_test_seed();

    for (int i = 0; i < rounds() * ROUNDS_MORE; i++) {
        if (i >= rounds() && (with_low ? *evicting > 0 : *fitting > 0 && *fitting < i))
            return;
        play(seed + (uint64_t)i, with_low, fitting, evicting);
    }
}

BH_TEST(a_gang_is_placed_exactly_when_it_fits)
{
    int fitting = 0, evicting = 0;

    play_rounds(false, &fitting, &evicting);
    BH_CHECK(fitting > 0 && fitting < rounds() * ROUNDS_MORE);
}

BH_TEST(a_gang_preempts_exactly_when_that_helps)
{
    int fitting = 0, evicting = 0;

    play_rounds(true, &fitting, &evicting);
    BH_CHECK(evicting > 0);
}
