/* Why claims get no devices: node by node, equal nodes together. */
#include "cli/explain.h"

#include <stdlib.h>
#include <string.h>

#include "api/gen/resource_v1.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "data/json.h"

#define GROUPS_TOLD_MAX 20
#define STEPS_ALL       10000000u /* of the allocator */

static const struct {
    const char *one;        /* behind the device's name */
    const char *few, *many; /* behind a number */
} texts[BH_DRA_WHY__MAX] = {
    [BH_DRA_WHY_FREE] = {"would do", "would do", "would do"},
    [BH_DRA_WHY_CLASS] = {"is not of the class", "is not of the class", "are not of the class"},
    [BH_DRA_WHY_SELECTOR] = {"does not match the request's selectors",
                             "does not match the request's selectors",
                             "do not match the request's selectors"},
    [BH_DRA_WHY_NODE] = {"is for other nodes", "is for other nodes", "are for other nodes"},
    [BH_DRA_WHY_IN_USE] = {"is in use", "is in use", "are in use"},
    [BH_DRA_WHY_TAINT] = {"has a taint that is not tolerated", "has a taint that is not tolerated",
                          "have a taint that is not tolerated"},
    [BH_DRA_WHY_COUNTERS] = {"does not fit beside what is in use",
                             "does not fit beside what is in use",
                             "do not fit beside what is in use"},
    [BH_DRA_WHY_CAPACITY] = {"has too little capacity", "has too little capacity",
                             "have too little capacity"},
    [BH_DRA_WHY_CONSTRAINT] = {"cannot meet a constraint", "cannot meet a constraint",
                               "cannot meet a constraint"},
    [BH_DRA_WHY_BINDING] = {"needs a feature that is off", "needs a feature that is off",
                            "need a feature that is off"},
    [BH_DRA_WHY_INCOMPLETE] = {"is in a pool that is being updated",
                               "is in a pool that is being updated",
                               "are in a pool that is being updated"},
    [BH_DRA_WHY_INVALID] = {"is in an invalid pool", "is in an invalid pool",
                            "are in an invalid pool"},
    [BH_DRA_WHY_ERROR] = {"makes a selector fail", "makes a selector fail", "make a selector fail"},
};

/* What people can do something about comes first. */
static const enum bh_dra_why order[] = {
    BH_DRA_WHY_TAINT,    BH_DRA_WHY_IN_USE,     BH_DRA_WHY_CAPACITY, BH_DRA_WHY_COUNTERS,
    BH_DRA_WHY_SELECTOR, BH_DRA_WHY_CONSTRAINT, BH_DRA_WHY_CLASS,    BH_DRA_WHY_NODE,
    BH_DRA_WHY_ERROR,    BH_DRA_WHY_INCOMPLETE, BH_DRA_WHY_INVALID,  BH_DRA_WHY_BINDING,
    BH_DRA_WHY_FREE};

const char *cli_why_text(enum bh_dra_why why)
{
    return texts[why].one;
}

static int rank(enum bh_dra_why why)
{
    for (size_t i = 0; i < BH_COUNT(order); i++)
        if (order[i] == why)
            return (int)i;
    return BH_COUNT(order);
}

/* ---- the ask ---- */

/* Work for one node: all of them together are to take seconds at most, whatever is asked. */
static uint64_t steps_max(const struct cli_explain *e)
{
    uint64_t each = STEPS_ALL / (e->nodes_n ? e->nodes_n : 1);

    return each > BH_DRA_STEPS_DEFAULT ? BH_DRA_STEPS_DEFAULT : each < 1000 ? 1000 : each;
}

bool cli_explain_fits(const struct cli_explain *e, struct bh_str *ret_node,
                      struct bh_str *ret_error)
{
    struct bh_dra_ask *q = bh_dra_ask_new(e->m, e->claims, e->n, e->a);
    const struct bh_dra_opts opts = {.scoring = BH_DRA_FIRST_FIT, .steps_max = steps_max(e)};
    struct bh_dra_result res;
    struct bh_err err = {0};

    *ret_node = *ret_error = (struct bh_str){NULL, 0};
    for (size_t i = 0; i < e->nodes_n; i++) {
        enum bh_dra_outcome r = bh_dra_allocate(q, e->nodes[i], &opts, e->a, &res, &err);

        if (r == BH_DRA_OK) {
            *ret_node = e->nodes[i];
            return true;
        }
        if (r == BH_DRA_FATAL && !ret_error->n)
            *ret_error = bh_str_dup(e->a, bh_s(err.msg));
    }
    return false;
}

static void request_add(struct cli_request **v, size_t *n, size_t *cap, struct bh_arena *a,
                        const struct cli_request *r)
{
    bh_arena_grow(a, v, cap, *n + 1, sizeof(**v));
    (*v)[(*n)++] = *r;
}

static int64_t wanted(struct bh_str mode, int64_t count)
{
    return bh_str_eqc(mode, "All") ? -1 : count > 0 ? count : 1;
}

/* The requests as the ask counts them: alternatives are requests of their own. */
static size_t requests_of(const struct cli_explain *e, struct cli_request **ret)
{
    size_t n = 0, cap = 0;

    *ret = NULL;
    for (size_t i = 0; i < e->n; i++)
        for (size_t k = 0; k < e->claims[i]->spec.devices.requests.n; k++) {
            const struct bh_resource_v1_device_request *q =
                &e->claims[i]->spec.devices.requests.p[k];

            if (q->exactly)
                request_add(ret, &n, &cap, e->a,
                            &(struct cli_request){
                                .claim = i,
                                .name = q->name,
                                .class = q->exactly->device_class_name,
                                .wanted = wanted(q->exactly->allocation_mode, q->exactly->count)});
            for (size_t j = 0; j < q->first_available.n; j++) {
                const struct bh_resource_v1_device_sub_request *s = &q->first_available.p[j];

                request_add(
                    ret, &n, &cap, e->a,
                    &(struct cli_request){
                        .claim = i,
                        .name = bh_str_fmt(e->a, "%.*s/%.*s", BH_SF(q->name), BH_SF(s->name)),
                        .class = s->device_class_name,
                        .wanted = wanted(s->allocation_mode, s->count)});
            }
        }
    return n;
}

/* ---- reasons ---- */

static void user_add(struct bh_arena *a, struct cli_reason *r, struct bh_str user)
{
    for (size_t i = 0; i < r->users_n; i++)
        if (bh_str_eq(r->users[i], user))
            return;
    bh_arena_grow(a, &r->users, &r->users_cap, r->users_n + 1, sizeof(*r->users));
    r->users[r->users_n++] = user;
}

static void users_add(const struct cli_explain *e, struct cli_reason *r,
                      const struct bh_dra_why_device *d)
{
    struct bh_dra_holder *h;
    size_t n = bh_dra_holders(e->m, d->driver, d->pool, d->device, e->a, &h);

    for (size_t i = 0; i < n; i++) {
        const struct bh_resource_v1_resource_claim *c =
            h[i].claim ? bh_obj_struct(h[i].claim) : NULL;
        bool pods = false;

        if (h[i].admin)
            continue;
        for (size_t k = 0; c && k < c->status.reserved_for.n; k++)
            if (bh_str_eqc(c->status.reserved_for.p[k].resource, "pods")) {
                user_add(e->a, r,
                         bh_str_fmt(e->a, "pod %.*s/%.*s", BH_SF(h[i].claim_ns),
                                    BH_SF(c->status.reserved_for.p[k].name)));
                pods = true;
            }
        if (!pods)
            user_add(
                e->a, r,
                bh_str_fmt(e->a, "claim %.*s/%.*s", BH_SF(h[i].claim_ns), BH_SF(h[i].claim_name)));
    }
}

static bool has_users(enum bh_dra_why why)
{
    return why == BH_DRA_WHY_IN_USE || why == BH_DRA_WHY_CAPACITY;
}

static void reason_add(const struct cli_explain *e, struct cli_request *q,
                       const struct bh_dra_verdict *v)
{
    /* Who has it is told by the users; free devices have no detail. */
    bool same = v->why == BH_DRA_WHY_IN_USE || v->why == BH_DRA_WHY_NODE;
    struct bh_str detail = same ? (struct bh_str){NULL, 0} : v->device.detail;
    struct cli_reason *r = NULL;

    for (size_t i = 0; i < q->n && !r; i++)
        if (q->reasons[i].why == v->why && bh_str_eq(q->reasons[i].detail, detail))
            r = &q->reasons[i];
    if (!r) {
        bh_arena_grow(e->a, &q->reasons, &q->cap, q->n + 1, sizeof(*q->reasons));
        r = &q->reasons[q->n++];
        *r = (struct cli_reason){.why = v->why, .detail = detail};
    }
    if (r->devices_n < CLI_NAMED_MAX && v->device.device.n)
        r->devices[r->devices_n++] = v->device.device;
    r->count += v->devices;
    q->devices += v->devices;
    if (has_users(v->why))
        users_add(e, r, &v->device);
}

static int by_weight(const void *x, const void *y)
{
    const struct cli_reason *a = x, *b = y;

    if (a->why != b->why)
        return rank(a->why) - rank(b->why);
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return bh_str_cmp(a->detail, b->detail);
}

/* What nodes have to have in common to be told as one. */
static struct bh_str signature(const struct cli_explain *e, const struct cli_group *g)
{
    BH_AUTO_BUF b = {0};

    bh_buf_adds(&b, g->error);
    for (size_t i = 0; i < g->n; i++) {
        bh_buf_addc(&b, '\n');
        for (size_t k = 0; k < g->requests[i].n; k++) {
            const struct cli_reason *r = &g->requests[i].reasons[k];
            bool local = r->why == BH_DRA_WHY_INCOMPLETE || r->why == BH_DRA_WHY_INVALID;

            bh_buf_addf(&b, "%d,%zu,%.*s;", (int)r->why, r->count,
                        BH_SF(local ? BH_S("") : r->detail));
        }
    }
    return bh_str_dup(e->a, bh_buf_str(&b));
}

static void node_explain(const struct cli_explain *e, struct bh_dra_ask *q, struct bh_str node,
                         struct cli_group *g)
{
    const struct bh_dra_opts opts = {.scoring = BH_DRA_FIRST_FIT, .steps_max = steps_max(e)};
    struct bh_dra_verdict *v;
    struct bh_dra_result res;
    struct bh_err err = {0};
    size_t n = bh_dra_explain_devices(q, node, e->a, &v);
    enum bh_dra_outcome r;

    *g = (struct cli_group){0};
    g->n = requests_of(e, &g->requests);
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;

        while (at < g->n && !(g->requests[at].claim == v[i].claim &&
                              bh_str_eq(g->requests[at].name, v[i].request)))
            at++;
        if (at < g->n)
            reason_add(e, &g->requests[at], &v[i]);
    }
    for (size_t i = 0; i < g->n; i++)
        if (g->requests[i].n > 1)
            qsort(g->requests[i].reasons, g->requests[i].n, sizeof(*g->requests[i].reasons),
                  by_weight);
    r = bh_dra_allocate(q, node, &opts, e->a, &res, &err);
    if (r == BH_DRA_FATAL || r == BH_DRA_NODE_ERROR || r == BH_DRA_SPENT)
        g->error = bh_str_dup(e->a, bh_s(err.msg));
}

size_t cli_explain_groups(const struct cli_explain *e, struct cli_group **ret)
{
    struct bh_dra_ask *q = bh_dra_ask_new(e->m, e->claims, e->n, e->a);
    struct bh_map seen = {0};
    size_t n = 0, cap = 0;

    *ret = NULL;
    for (size_t i = 0; i < e->nodes_n; i++) {
        struct cli_group g, *same;
        struct bh_str sig;
        size_t *at;

        node_explain(e, q, e->nodes[i], &g);
        sig = signature(e, &g);
        at = bh_map_get(&seen, sig);
        if (!at) {
            at = bh_new(e->a, size_t);
            *at = n;
            (void)bh_map_put(&seen, sig, at);
            bh_arena_grow(e->a, ret, &cap, n + 1, sizeof(**ret));
            (*ret)[n++] = g;
        }
        same = &(*ret)[*at];
        bh_arena_grow(e->a, &same->nodes, &same->nodes_cap, same->nodes_n + 1,
                      sizeof(*same->nodes));
        same->nodes[same->nodes_n++] = e->nodes[i];
    }
    bh_map_done(&seen);
    return n;
}

/* ---- for people ---- */

static void names_print(struct bh_buf *b, const struct bh_str *v, size_t named, size_t all)
{
    for (size_t i = 0; i < named; i++)
        bh_buf_addf(b, "%s%.*s", i == 0 ? "" : i + 1 == all ? " and " : ", ", BH_SF(v[i]));
    if (all > named)
        bh_buf_addf(b, " and %zu more", all - named);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void reason_print(const struct cli_reason *r, struct bh_buf *b)
{
    bh_buf_addf(b, "    %zu %s", r->count, r->count == 1 ? texts[r->why].few : texts[r->why].many);
    if (r->users_n) {
        bh_buf_addz(b, r->why == BH_DRA_WHY_IN_USE ? " by " : " beside ");
        names_print(b, r->users, least(r->users_n, CLI_NAMED_MAX), r->users_n);
    }
    if (r->detail.n)
        bh_buf_addf(b, ": %.*s", BH_SF(r->detail));
    if (r->why != BH_DRA_WHY_CLASS && r->why != BH_DRA_WHY_NODE) {
        bh_buf_addz(b, " (");
        names_print(b, r->devices, r->devices_n, r->count);
        bh_buf_addc(b, ')');
    }
    bh_buf_addc(b, '\n');
}

static void constraints_print(const struct cli_explain *e, struct bh_buf *b)
{
    for (size_t i = 0; i < e->n; i++)
        for (size_t k = 0; k < e->claims[i]->spec.devices.constraints.n; k++) {
            const struct bh_resource_v1_device_constraint *c =
                &e->claims[i]->spec.devices.constraints.p[k];

            bh_buf_addf(b, "  claim %.*s: the devices together have to meet %s %.*s\n",
                        BH_SF(e->claims[i]->metadata.name),
                        c->has_match_attribute ? "matchAttribute" : "distinctAttribute",
                        BH_SF(c->has_match_attribute ? c->match_attribute : c->distinct_attribute));
        }
}

static void request_print(const struct cli_explain *e, const struct cli_request *q,
                          struct bh_buf *b)
{
    bh_buf_addz(b, "  ");
    if (e->n > 1)
        bh_buf_addf(b, "claim %.*s, ", BH_SF(e->claims[q->claim]->metadata.name));
    bh_buf_addf(b, "request \"%.*s\": ", BH_SF(q->name));
    if (q->wanted < 0)
        bh_buf_addz(b, "all");
    else
        bh_buf_addf(b, "%lld", (long long)q->wanted);
    bh_buf_addf(b, " of class %.*s wanted; %zu device%s", BH_SF(q->class), q->devices,
                q->devices == 1 ? "" : "s");
    bh_buf_addz(b, q->devices ? ":\n" : "\n");
    for (size_t i = 0; i < q->n; i++)
        reason_print(&q->reasons[i], b);
}

void cli_explain_print(const struct cli_explain *e, const struct cli_group *g, size_t n,
                       struct bh_buf *b)
{
    size_t rest = 0;

    for (size_t i = 0; i < n; i++) {
        bool enough = true;

        if (i >= GROUPS_TOLD_MAX) {
            rest += g[i].nodes_n;
            continue;
        }
        if (g[i].nodes_n == 1)
            bh_buf_addf(b, "node %.*s:\n", BH_SF(g[i].nodes[0]));
        else {
            bh_buf_addf(b, "%zu nodes (", g[i].nodes_n);
            names_print(b, g[i].nodes, least(g[i].nodes_n, CLI_NAMED_MAX), g[i].nodes_n);
            bh_buf_addf(b, "), on %.*s for example:\n", BH_SF(g[i].nodes[0]));
        }
        if (g[i].error.n)
            bh_buf_addf(b, "  %.*s\n", BH_SF(g[i].error));
        for (size_t k = 0; k < g[i].n; k++) {
            const struct cli_request *q = &g[i].requests[k];
            size_t free = 0;

            request_print(e, q, b);
            for (size_t j = 0; j < q->n; j++)
                free += q->reasons[j].why == BH_DRA_WHY_FREE ? q->reasons[j].count : 0;
            enough = enough && q->wanted > 0 && free >= (size_t)q->wanted;
        }
        if (enough) /* each on its own would do */
            constraints_print(e, b);
    }
    if (rest)
        bh_buf_addf(b, "%zu more nodes, for other reasons\n", rest);
}

void cli_changes_print(const struct cli_change *c, size_t n, struct bh_buf *b)
{
    if (n == 0)
        bh_buf_addz(b, "no single change that was tried makes it fit\n");
    for (size_t i = 0; i < n; i++)
        bh_buf_addf(b, "%s %.*s; then it fits on node %.*s\n",
                    i == 0 ? "smallest change:" : "or:", BH_SF(c[i].text), BH_SF(c[i].node));
}

/* ---- for programs ---- */

static struct bh_jv strings(struct bh_arena *a, const struct bh_str *v, size_t n)
{
    struct bh_jv r = BH_JV_ARR;

    for (size_t i = 0; i < n; i++)
        bh_jv_append(a, &r, bh_jv_str(v[i]));
    return r;
}

static struct bh_jv reason_json(struct bh_arena *a, const struct cli_reason *r)
{
    struct bh_jv o = BH_JV_OBJ;

    bh_jv_setc(a, &o, "reason", bh_jv_str(bh_s(bh_dra_why_name(r->why))));
    bh_jv_setc(a, &o, "count", bh_jv_i64(a, (int64_t)r->count));
    if (r->detail.n)
        bh_jv_setc(a, &o, "detail", bh_jv_str(r->detail));
    bh_jv_setc(a, &o, "devices", strings(a, r->devices, r->devices_n));
    if (r->users_n)
        bh_jv_setc(a, &o, "users", strings(a, r->users, least(r->users_n, CLI_NAMED_MAX)));
    return o;
}

static struct bh_jv request_json(const struct cli_explain *e, const struct cli_request *q)
{
    const struct bh_meta_v1_object_meta *m = &e->claims[q->claim]->metadata;
    struct bh_jv o = BH_JV_OBJ, reasons = BH_JV_ARR;

    bh_jv_setc(e->a, &o, "claim",
               bh_jv_str(bh_str_fmt(e->a, "%.*s/%.*s", BH_SF(m->namespace), BH_SF(m->name))));
    bh_jv_setc(e->a, &o, "request", bh_jv_str(q->name));
    bh_jv_setc(e->a, &o, "class", bh_jv_str(q->class));
    if (q->wanted < 0)
        bh_jv_setc(e->a, &o, "wanted", bh_jv_str(BH_S("all")));
    else
        bh_jv_setc(e->a, &o, "wanted", bh_jv_i64(e->a, q->wanted));
    bh_jv_setc(e->a, &o, "devices", bh_jv_i64(e->a, (int64_t)q->devices));
    for (size_t i = 0; i < q->n; i++)
        bh_jv_append(e->a, &reasons, reason_json(e->a, &q->reasons[i]));
    bh_jv_setc(e->a, &o, "reasons", reasons);
    return o;
}

struct bh_jv cli_explain_json(const struct cli_explain *e, const struct cli_group *g, size_t n)
{
    struct bh_jv all = BH_JV_ARR;

    for (size_t i = 0; i < n; i++) {
        struct bh_jv o = BH_JV_OBJ, requests = BH_JV_ARR;

        bh_jv_setc(e->a, &o, "nodes", strings(e->a, g[i].nodes, g[i].nodes_n));
        if (g[i].error.n)
            bh_jv_setc(e->a, &o, "error", bh_jv_str(g[i].error));
        for (size_t k = 0; k < g[i].n; k++)
            bh_jv_append(e->a, &requests, request_json(e, &g[i].requests[k]));
        bh_jv_setc(e->a, &o, "requests", requests);
        bh_jv_append(e->a, &all, o);
    }
    return all;
}

struct bh_jv cli_changes_json(const struct cli_explain *e, const struct cli_change *c, size_t n)
{
    struct bh_jv all = BH_JV_ARR;

    for (size_t i = 0; i < n; i++) {
        struct bh_jv o = BH_JV_OBJ;

        bh_jv_setc(e->a, &o, "change", bh_jv_str(c[i].text));
        bh_jv_setc(e->a, &o, "node", bh_jv_str(c[i].node));
        bh_jv_append(e->a, &all, o);
    }
    return all;
}
