/* Versions of a kind differ in few places: the object goes through its JSON, and a function moves
 * what stands elsewhere. The JSON is a tree for that moment only; versions that differ in nothing
 * but their name skip the tree. */
#include "apiserver/convert.h"

#include "api/engine.h"
#include "api/gen/core_v1.h"
#include "api/gen/events_v1.h"
#include "data/json.h"

/* Rewrites o (the object as a tree) from one version to the other. */
typedef void (*rewrite_fn)(struct bh_arena *a, struct bh_jv *o);

/* ---- resource.k8s.io: v1beta1 has the exact request and the basic device without a level of their
 * own ---- */

static const char *const exact_fields[] = {"deviceClassName", "selectors",   "allocationMode",
                                           "count",           "adminAccess", "tolerations",
                                           "capacity"};

static bool jv_is_set(const struct bh_jv *v)
{
    if (!v || v->kind == BH_JSON_NULL)
        return false;
    if (v->kind == BH_JSON_STR)
        return v->s.n > 0;
    if (v->kind == BH_JSON_NUM)
        return !bh_str_eqc(v->s, "0");
    return true;
}

static struct bh_jv *requests_of(struct bh_jv *spec)
{
    return bh_jv_getc(bh_jv_getc(spec, "devices"), "requests");
}

static void exact_in(struct bh_arena *a, struct bh_jv *spec)
{
    struct bh_jv *list = requests_of(spec), *rq;

    for (size_t i = 0; (rq = bh_jv_at(list, i)); i++) {
        struct bh_jv exactly = BH_JV_OBJ;
        bool any = false;

        for (size_t f = 0; f < BH_COUNT(exact_fields); f++) {
            struct bh_jv *v = bh_jv_getc(rq, exact_fields[f]);

            if (!v)
                continue;
            any |= jv_is_set(v);
            (void)bh_jv_setc(a, &exactly, exact_fields[f], *v);
            (void)bh_jv_del(rq, bh_s(exact_fields[f]));
        }
        if (any)
            (void)bh_jv_setc(a, rq, "exactly", exactly);
    }
}

static void exact_out(struct bh_arena *a, struct bh_jv *spec)
{
    struct bh_jv *list = requests_of(spec), *rq;

    for (size_t i = 0; (rq = bh_jv_at(list, i)); i++) {
        struct bh_jv *e = bh_jv_getc(rq, "exactly"), copy;

        if (!e || e->kind != BH_JSON_OBJ)
            continue;
        copy = *e;
        (void)bh_jv_del(rq, BH_S("exactly"));
        for (size_t f = 0; f < BH_COUNT(exact_fields); f++) {
            struct bh_jv *v = bh_jv_getc(&copy, exact_fields[f]);

            if (v)
                (void)bh_jv_setc(a, rq, exact_fields[f], *v);
        }
    }
}

static void claim_in(struct bh_arena *a, struct bh_jv *o)
{
    exact_in(a, bh_jv_getc(o, "spec"));
}
static void claim_out(struct bh_arena *a, struct bh_jv *o)
{
    exact_out(a, bh_jv_getc(o, "spec"));
}
static void template_in(struct bh_arena *a, struct bh_jv *o)
{
    exact_in(a, bh_jv_getc(bh_jv_getc(o, "spec"), "spec"));
}
static void template_out(struct bh_arena *a, struct bh_jv *o)
{
    exact_out(a, bh_jv_getc(bh_jv_getc(o, "spec"), "spec"));
}

static void slice_in(struct bh_arena *a, struct bh_jv *o)
{
    struct bh_jv *list = bh_jv_getc(bh_jv_getc(o, "spec"), "devices"), *dev;

    for (size_t i = 0; (dev = bh_jv_at(list, i)); i++) {
        struct bh_jv *b = bh_jv_getc(dev, "basic"), basic;

        if (!b)
            continue;
        basic = *b;
        (void)bh_jv_del(dev, BH_S("basic"));
        for (size_t m = 0; basic.kind == BH_JSON_OBJ && m < basic.n_members; m++)
            (void)bh_jv_set(a, dev, basic.members[m].key, basic.members[m].v);
    }
}

static void slice_out(struct bh_arena *a, struct bh_jv *o)
{
    struct bh_jv *list = bh_jv_getc(bh_jv_getc(o, "spec"), "devices"), *dev;

    for (size_t i = 0; (dev = bh_jv_at(list, i)); i++) {
        struct bh_jv basic = BH_JV_OBJ, outer = BH_JV_OBJ;

        for (size_t m = 0; dev->kind == BH_JSON_OBJ && m < dev->n_members; m++) {
            bool name = bh_str_eqc(dev->members[m].key, "name");

            (void)bh_jv_set(a, name ? &outer : &basic, dev->members[m].key, dev->members[m].v);
        }
        (void)bh_jv_setc(a, &outer, "basic", basic);
        *dev = outer;
    }
}

/* ---- events: one object, two forms; the core form is stored ---- */

static void move(struct bh_arena *a, struct bh_jv *o, const char *from, const char *to)
{
    struct bh_jv *v = bh_jv_getc(o, from), copy;

    if (!v)
        return;
    copy = *v;
    (void)bh_jv_del(o, bh_s(from));
    (void)bh_jv_setc(a, o, to, copy);
}

static void event_in(struct bh_arena *a, struct bh_jv *o) /* events.k8s.io to core */
{
    move(a, o, "regarding", "involvedObject");
    move(a, o, "note", "message");
    move(a, o, "reportingController", "reportingComponent");
    move(a, o, "deprecatedSource", "source");
    move(a, o, "deprecatedFirstTimestamp", "firstTimestamp");
    move(a, o, "deprecatedLastTimestamp", "lastTimestamp");
    move(a, o, "deprecatedCount", "count");
}

static void event_out(struct bh_arena *a, struct bh_jv *o)
{
    move(a, o, "involvedObject", "regarding");
    move(a, o, "message", "note");
    move(a, o, "reportingComponent", "reportingController");
    move(a, o, "source", "deprecatedSource");
    move(a, o, "firstTimestamp", "deprecatedFirstTimestamp");
    move(a, o, "lastTimestamp", "deprecatedLastTimestamp");
    move(a, o, "count", "deprecatedCount");
}

static const struct {
    const char *from_version, *to_version, *kind; /* apiVersions */
    rewrite_fn fn;
} rewrites[] = {
    {"resource.k8s.io/v1beta1", "resource.k8s.io/v1", "ResourceClaim", claim_in},
    {"resource.k8s.io/v1", "resource.k8s.io/v1beta1", "ResourceClaim", claim_out},
    {"resource.k8s.io/v1beta1", "resource.k8s.io/v1", "ResourceClaimTemplate", template_in},
    {"resource.k8s.io/v1", "resource.k8s.io/v1beta1", "ResourceClaimTemplate", template_out},
    {"resource.k8s.io/v1beta1", "resource.k8s.io/v1", "ResourceSlice", slice_in},
    {"resource.k8s.io/v1", "resource.k8s.io/v1beta1", "ResourceSlice", slice_out},
    {"events.k8s.io/v1", "v1", "Event", event_in},
    {"v1", "events.k8s.io/v1", "Event", event_out},
};

static rewrite_fn find_rewrite(const struct bh_kind *from, const struct bh_kind *to)
{
    for (size_t i = 0; i < BH_COUNT(rewrites); i++)
        if (bh_str_eqc(from->api_version, rewrites[i].from_version) &&
            bh_str_eqc(to->api_version, rewrites[i].to_version) &&
            bh_str_eqc(from->kind, rewrites[i].kind))
            return rewrites[i].fn;
    return NULL;
}

static int rewrite_text(const struct bh_kind *from, const struct bh_kind *to, struct bh_str json,
                        struct bh_arena *a, struct bh_str *ret, struct bh_err *err)
{
    rewrite_fn fn = find_rewrite(from, to);
    struct bh_jv v;
    int r;

    *ret = json;
    if (!fn)
        return 0;
    r = bh_jv_parse(a, json, NULL, &v, err);
    if (r < 0)
        return r;
    fn(a, &v);
    *ret = bh_jv_text(a, &v, 0);
    return 0;
}

int bh_convert(const struct bh_kind *from, void *obj, const struct bh_kind *to, struct bh_arena *a,
               void **ret, struct bh_err *err)
{
    BH_AUTO_BUF b = {0};
    struct bh_str text;
    int r;

    if (from == to) {
        *ret = obj;
        return 0;
    }
    bh_kind_encode_json(from, obj, &b);
    r = rewrite_text(from, to, bh_str_dup(a, bh_buf_str(&b)), a, &text, err);
    if (r == 0)
        r = bh_kind_decode_json(to, text, a, ret, NULL, err);
    if (r < 0)
        return bh_err_wrap(err, "convert %.*s to %.*s", BH_SF(from->api_version),
                           BH_SF(to->api_version));
    return 0;
}

struct bh_obj *bh_convert_obj(struct bh_obj *o, const struct bh_kind *to, struct bh_err *err)
{
    BH_AUTO_ARENA a = NULL;
    BH_AUTO_BUF b = {0};
    struct bh_str text;
    void *msg = NULL;

    if (o->kind == to)
        return bh_obj_ref(o);
    a = bh_arena_new(0);
    if (rewrite_text(o->kind, to, o->json, a, &text, err) < 0 ||
        bh_kind_decode_json(to, text, a, &msg, NULL, err) < 0)
        return NULL;
    bh_kind_encode_json(to, msg, &b);
    return bh_obj_new(to, bh_buf_str(&b), 0, err);
}
