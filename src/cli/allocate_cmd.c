/* `bulkhead allocate`: what devices claims would get on a node, from a file of objects; nothing is
 * asked of a server. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "api/engine.h"
#include "api/gen/resource_v1.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/flags.h"
#include "cli/allocate_int.h"
#include "cli/commands.h"
#include "cli/explain.h"
#include "data/json.h"
#include "dra/dra.h"

struct options {
    const char *file, *node;
    const char **claims;
    size_t claims_n;
    enum bh_dra_scoring scoring;
    bool json;
};

static int usage(FILE *to)
{
    fputs(
        "usage: bulkhead allocate -f FILE --node NODE [--claim NAMESPACE/NAME]... [options]\n\n"
        "Says which devices the claims get on the node. FILE (YAML or JSON, - for standard input)\n"
        "holds nodes, device classes, resource slices, taint rules and claims; allocated claims\n"
        "are in use. Without --claim all claims that have no allocation are allocated together.\n\n"
        "  --device-scoring=on|off|spread   on: the devices that fit closest (default); off: the\n"
        "                                   first that fit, as kube-scheduler; spread: away from\n"
        "                                   what is in use\n"
        "  -o json|text                     text says why, device by device\n\n"
        "Exit status: 0 allocated, 1 not allocatable, 2 bad input or a claim that is refused.\n",
        to);
    return to == stdout ? 0 : 2;
}

static bool scoring_of(const char *v, enum bh_dra_scoring *ret)
{
    static const char *const names[] = {
        [BH_DRA_FIRST_FIT] = "off", [BH_DRA_PACK] = "on", [BH_DRA_SPREAD] = "spread"};

    for (size_t i = 0; i < BH_COUNT(names); i++)
        if (strcmp(v, names[i]) == 0) {
            *ret = (enum bh_dra_scoring)i;
            return true;
        }
    return false;
}

static bool parse(int argc, char **argv, struct options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *v;

        if ((v = bh_flag_value(argc, argv, &i, "-f")) ||
            (v = bh_flag_value(argc, argv, &i, "--filename")))
            o->file = v;
        else if ((v = bh_flag_value(argc, argv, &i, "--node")))
            o->node = v;
        else if ((v = bh_flag_value(argc, argv, &i, "--claim")))
            o->claims[o->claims_n++] = v;
        else if ((v = bh_flag_value(argc, argv, &i, "--device-scoring"))) {
            if (!scoring_of(v, &o->scoring))
                return false;
        } else if ((v = bh_flag_value(argc, argv, &i, "-o")) ||
                   (v = bh_flag_value(argc, argv, &i, "--output"))) {
            o->json = strcmp(v, "json") == 0;
            if (!o->json && strcmp(v, "text") != 0)
                return false;
        } else {
            fprintf(stderr, "bulkhead allocate: unknown argument %s\n", argv[i]);
            return false;
        }
    }
    return o->file && o->node;
}

/* A random (version 4) UUID. */
static void uuid(void *arg, char out[37])
{
    unsigned char b[16];

    (void)arg;
    bh_assert(getrandom(b, sizeof(b), 0) == (ssize_t)sizeof(b));
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    (void)snprintf(out, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                   b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
                   b[13], b[14], b[15]);
}

/* ---- output ---- */

struct run {
    const struct options *o;
    struct bh_alloc_file f;
    struct bh_dra_model *m;
    const struct bh_alloc_object **objects; /* of the claims */
    const struct bh_resource_v1_resource_claim **claims;
    size_t n;
    struct bh_dra_ask *ask;
};

static void print(struct bh_buf *b)
{
    (void)fwrite(b->p, 1, b->n, stdout);
}

/* What the devices of a claim take of the node's own resources, for the scheduler to count. */
static void say_native(const struct run *r, const struct bh_obj *claim,
                       const struct bh_resource_v1_allocation_result *alloc, struct bh_buf *b)
{
    struct bh_str_map m;
    struct bh_err err;

    if (bh_dra_native(r->m, claim->ns, claim->name, alloc, r->f.a, &m, &err) < 0) {
        bh_buf_addf(b, "what it takes of the node cannot be told: %s\n", err.msg);
        return;
    }
    for (size_t i = 0; i < m.n; i++)
        bh_buf_addf(b, "%s%.*s %.*s",
                    i ? ", "
                      : bh_str_fmt(r->f.a, "%.*s/%.*s takes of the node: ", BH_SF(claim->ns),
                                   BH_SF(claim->name))
                            .p,
                    BH_SF(m.p[i].key), BH_SF(m.p[i].value));
    if (m.n)
        bh_buf_addc(b, '\n');
}

static void say_allocated(const struct run *r, const struct bh_dra_result *res)
{
    BH_AUTO_BUF b = {0};

    if (r->o->json) {
        bh_buf_addz(&b, "{\"allocations\":[");
        for (size_t i = 0; i < res->n; i++) {
            if (i)
                bh_buf_addc(&b, ',');
            bh_msg_encode_json(&bh_resource_v1_allocation_result_type, &res->allocations[i], &b);
        }
        bh_buf_addz(&b, "]}\n");
        print(&b);
        return;
    }
    for (size_t i = 0; i < res->n; i++) {
        const struct bh_resource_v1_device_allocation_result *d = &res->allocations[i].devices;

        for (size_t k = 0; k < d->results.n; k++) {
            const struct bh_resource_v1_device_request_allocation_result *x = &d->results.p[k];

            bh_buf_addf(&b, "%.*s/%.*s: request \"%.*s\": %.*s/%.*s/%.*s",
                        BH_SF(r->objects[i]->obj->ns), BH_SF(r->objects[i]->obj->name),
                        BH_SF(x->request), BH_SF(x->driver), BH_SF(x->pool), BH_SF(x->device));
            if (x->has_admin_access && x->admin_access)
                bh_buf_addz(&b, " (admin access)");
            for (size_t c = 0; c < x->consumed_capacity.n; c++)
                bh_buf_addf(&b, "%s%.*s %.*s", c ? ", " : " (",
                            BH_SF(x->consumed_capacity.p[c].value),
                            BH_SF(x->consumed_capacity.p[c].key));
            bh_buf_addz(&b, x->consumed_capacity.n ? ")\n" : "\n");
        }
        if (d->results.n == 0)
            bh_buf_addf(&b, "%.*s/%.*s: no devices\n", BH_SF(r->objects[i]->obj->ns),
                        BH_SF(r->objects[i]->obj->name));
        say_native(r, r->objects[i]->obj, &res->allocations[i], &b);
    }
    print(&b);
}

static void jstr(struct bh_arena *a, struct bh_jv *o, const char *key, struct bh_str s)
{
    bh_jv_setc(a, o, key, bh_jv_str(s));
}

static struct bh_jv reason_json(const struct run *r, const struct bh_dra_why_request *q,
                                enum bh_dra_why why)
{
    const struct bh_obj *claim = r->objects[q->claim]->obj;
    struct bh_arena *a = r->f.a;
    struct bh_jv o = BH_JV_OBJ, devices = BH_JV_ARR;

    jstr(a, &o, "claim", bh_str_fmt(a, "%.*s/%.*s", BH_SF(claim->ns), BH_SF(claim->name)));
    jstr(a, &o, "request", q->request);
    jstr(a, &o, "reason", bh_s(bh_dra_why_name(why)));
    bh_jv_setc(a, &o, "count", bh_jv_i64(a, (int64_t)q->count[why]));
    for (size_t i = 0; i < q->count[why] && i < BH_DRA_WHY_DEVICES_MAX; i++) {
        const struct bh_dra_why_device *d = &q->first[why][i];
        struct bh_jv x = BH_JV_OBJ;

        jstr(a, &x, "driver", d->driver);
        jstr(a, &x, "pool", d->pool);
        jstr(a, &x, "device", d->device);
        if (d->detail.n)
            jstr(a, &x, "detail", d->detail);
        bh_jv_append(a, &devices, x);
    }
    bh_jv_setc(a, &o, "devices", devices);
    return o;
}

static size_t changes(const struct run *r, struct cli_explain *e, struct cli_change **ret)
{
    struct bh_str *node = bh_new(r->f.a, struct bh_str);
    struct cli_group *g;
    size_t n;

    *node = bh_s(r->o->node);
    *e = (struct cli_explain){
        .a = r->f.a, .m = r->m, .claims = r->claims, .n = r->n, .nodes = node, .nodes_n = 1};
    n = cli_explain_groups(e, &g);
    return cli_explain_changes(e, g, n, ret);
}

static void say_refused_json(const struct run *r, const struct bh_dra_reasons *why,
                             struct bh_str text)
{
    struct bh_arena *a = r->f.a;
    struct bh_jv o = BH_JV_OBJ, reasons = BH_JV_ARR;
    struct cli_explain e;
    struct cli_change *c;
    size_t changes_n;
    BH_AUTO_BUF b = {0};

    bh_jv_setc(a, &o, "allocatable", bh_jv_bool(false));
    jstr(a, &o, "message", text);
    for (size_t i = 0; i < why->n; i++)
        for (int y = 0; y < BH_DRA_WHY__MAX; y++)
            if (why->requests[i].count[y])
                bh_jv_append(a, &reasons, reason_json(r, &why->requests[i], (enum bh_dra_why)y));
    bh_jv_setc(a, &o, "reasons", reasons);
    changes_n = changes(r, &e, &c);
    bh_jv_setc(a, &o, "changes", cli_changes_json(&e, c, changes_n));
    bh_jv_write(&b, &o, 0);
    bh_buf_addc(&b, '\n');
    print(&b);
}

static void say_refused_text(const struct run *r, struct bh_str text)
{
    struct bh_dra_verdict *v;
    size_t n = bh_dra_explain_devices(r->ask, bh_s(r->o->node), r->f.a, &v), changes_n;
    struct cli_explain e;
    struct cli_change *c;
    BH_AUTO_BUF b = {0};

    bh_buf_addf(&b, "%.*s\n", BH_SF(text));
    for (size_t i = 0; i < n; i++) {
        const struct bh_obj *claim = r->objects[v[i].claim]->obj;

        bh_buf_addf(&b, "%.*s/%.*s: request \"%.*s\": %.*s/%.*s/", BH_SF(claim->ns),
                    BH_SF(claim->name), BH_SF(v[i].request), BH_SF(v[i].device.driver),
                    BH_SF(v[i].device.pool));
        if (v[i].device.device.n)
            bh_buf_addf(&b, "%.*s %s", BH_SF(v[i].device.device), cli_why_text(v[i].why));
        else
            bh_buf_addf(&b, "* %s (%zu)", cli_why_text(v[i].why), v[i].devices);
        if (v[i].device.detail.n)
            bh_buf_addf(&b, ": %.*s", BH_SF(v[i].device.detail));
        bh_buf_addc(&b, '\n');
    }
    changes_n = changes(r, &e, &c);
    cli_changes_print(c, changes_n, &b);
    print(&b);
}

static int say_refused(const struct run *r, struct bh_str first)
{
    struct bh_str node = bh_s(r->o->node), text;
    struct bh_dra_reasons why;

    bh_dra_explain(r->ask, &node, 1, r->f.a, &why);
    text = bh_dra_explain_text(&why, first, r->f.a);
    if (r->o->json)
        say_refused_json(r, &why, text);
    else
        say_refused_text(r, text);
    return 1;
}

/* ---- the command ---- */

/* Whether the text speaks of ", request NAME" and nothing longer. */
static bool speaks_of(const struct run *r, struct bh_str text, struct bh_str request)
{
    struct bh_str q = bh_str_fmt(r->f.a, "request %.*s", BH_SF(request));
    ptrdiff_t at = bh_str_find(text, q);

    return at >= 0 && (size_t)at + q.n < text.n && strchr(":,", text.p[(size_t)at + q.n]);
}

static struct bh_str field_of(const struct run *r, size_t claim, struct bh_str text)
{
    const struct bh_resource_v1_device_request_vec *q = &r->claims[claim]->spec.devices.requests;

    for (size_t k = 0; k < q->n; k++) {
        if (speaks_of(r, text, q->p[k].name))
            return bh_str_fmt(r->f.a, "spec.devices.requests[%zu]", k);
        for (size_t j = 0; j < q->p[k].first_available.n; j++)
            if (speaks_of(r, text, q->p[k].first_available.p[j].name))
                return bh_str_fmt(r->f.a, "spec.devices.requests[%zu].firstAvailable[%zu]", k, j);
    }
    return BH_S("spec.devices");
}

/* "claim NAMESPACE/NAME, request R: …" names the claim and the request that an error is about. */
static int say_fatal(struct run *r, struct bh_str text)
{
    const struct bh_alloc_object *o = r->n ? r->objects[0] : NULL;
    struct bh_str field = BH_S("spec.devices");

    for (size_t i = 0; i < r->n; i++) {
        struct bh_str claim = bh_str_fmt(r->f.a, "claim %.*s/%.*s", BH_SF(r->objects[i]->obj->ns),
                                         BH_SF(r->objects[i]->obj->name));

        if (!bh_str_starts(text, claim) || text.n == claim.n || !strchr(",:", text.p[claim.n]))
            continue;
        o = r->objects[i];
        field = field_of(r, i, text);
    }
    if (o)
        bh_alloc_complain(&r->f, o, field, text);
    else
        fprintf(stderr, "%s: %.*s\n", r->f.name, BH_SF(text));
    return 2;
}

static bool pick_claims(struct run *r)
{
    size_t max = r->o->claims_n + r->f.n;

    r->objects = bh_new_n(r->f.a, const struct bh_alloc_object *, max);
    r->claims = bh_new_n(r->f.a, const struct bh_resource_v1_resource_claim *, max);
    for (size_t i = 0; i < r->o->claims_n; i++) {
        const struct bh_alloc_object *c = bh_alloc_claim(&r->f, bh_s(r->o->claims[i]));

        if (!c) {
            fprintf(stderr, "%s: there is no ResourceClaim %s\n", r->f.name, r->o->claims[i]);
            return false;
        }
        r->objects[r->n++] = c;
    }
    for (size_t i = 0; r->o->claims_n == 0 && i < r->f.n; i++) {
        const struct bh_alloc_object *c = &r->f.objects[i];

        if (bh_str_eqc(c->kind, "ResourceClaim") &&
            !((const struct bh_resource_v1_resource_claim *)bh_obj_struct(c->obj))
                 ->status.allocation)
            r->objects[r->n++] = c;
    }
    for (size_t i = 0; i < r->n; i++) {
        r->claims[i] = bh_obj_struct(r->objects[i]->obj);
        if (r->claims[i]->status.allocation) {
            bh_alloc_complain(&r->f, r->objects[i], BH_S("status.allocation"),
                              BH_S("is allocated already"));
            return false;
        }
    }
    return true;
}

static bool has_node(const struct run *r)
{
    for (size_t i = 0; i < r->f.n; i++)
        if (bh_str_eqc(r->f.objects[i].kind, "Node") &&
            bh_str_eqc(r->f.objects[i].obj->name, r->o->node))
            return true;
    fprintf(stderr, "%s: there is no Node %s\n", r->f.name, r->o->node);
    return false;
}

static int allocate(struct run *r)
{
    struct bh_dra_opts opts = {.scoring = r->o->scoring, .uuid = uuid};
    struct bh_dra_result res;
    struct bh_err err = {0};

    bh_alloc_load(&r->f);
    if (r->f.bad || !has_node(r) || !pick_claims(r))
        return 2;
    bh_alloc_fill(&r->f, r->m);
    r->ask = bh_dra_ask_new(r->m, r->claims, r->n, r->f.a);
    switch (bh_dra_allocate(r->ask, bh_s(r->o->node), &opts, r->f.a, &res, &err)) {
    case BH_DRA_OK:
        say_allocated(r, &res);
        return 0;
    case BH_DRA_NO_SOLUTION:
        return say_refused(r, BH_S("cannot allocate all claims"));
    case BH_DRA_SPENT:
        return say_refused(r, bh_s(err.msg));
    case BH_DRA_NODE_ERROR:
    case BH_DRA_FATAL:
        break;
    }
    return say_fatal(r, bh_s(err.msg));
}

int bh_allocate_main(int argc, char **argv)
{
    struct bh_dra_features f = bh_dra_features_all();
    struct options o = {.scoring = BH_DRA_PACK};
    struct run r = {.o = &o};
    int rc;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return usage(stdout);
    r.f.a = bh_arena_new(0);
    o.claims = bh_new_n(r.f.a, const char *, (size_t)argc);
    if (!parse(argc, argv, &o)) {
        r.f.a = bh_arena_free(r.f.a);
        return usage(stderr);
    }
    r.f.name = o.file;
    r.m = bh_dra_model_new(&f);
    rc = allocate(&r);
    bh_alloc_unload(&r.f);
    r.f.a = bh_arena_free(r.f.a); /* the ask goes before the model */
    r.m = bh_dra_model_free(r.m);
    return rc;
}
