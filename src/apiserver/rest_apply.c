/* Server-side apply: PATCH with application/apply-patch+yaml. The engine (api/apply.h) merges and
 * keeps the owners; what it makes is written like any other create or update. */
#include "apiserver/rest_apply.h"

#include "api/apply.h"
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "apiserver/convert.h"
#include "apiserver/scale.h"
#include "apiserver/write.h"
#include "base/limits.h"
#include "data/codec.h"
#include "data/yaml.h"

#include <string.h>

struct applying {
    struct bh_rq *rq;
    struct bh_obj *old; /* NULL: it is made now */
    struct bh_jv patch, live, empty;
    struct bh_yaml_dups dups;
    struct bh_apply u;
    struct bh_apply_convert convert;
    struct bh_managers managers;
};

/* ---- the body ---- */

/* Numbers as upstream holds them: in a double, and whole ones without a fraction. */
static void as_doubles(struct bh_arena *a, struct bh_jv *v)
{
    double d;

    switch ((enum bh_json_kind)v->kind) {
    case BH_JSON_NUM:
        if (bh_json_num_double(v->s, &d) && d > -9.2e18 && d < 9.2e18 &&
            !((double)(int64_t)d < d || (double)(int64_t)d > d))
            *v = bh_jv_i64(a, (int64_t)d);
        break;
    case BH_JSON_ARR:
        for (size_t i = 0; i < v->n_items; i++)
            as_doubles(a, &v->items[i]);
        break;
    case BH_JSON_OBJ:
        for (size_t i = 0; i < v->n_members; i++)
            as_doubles(a, &v->members[i].v);
        break;
    default:
        break;
    }
}

static int read_body(struct applying *ap)
{
    struct bh_rq *rq = ap->rq;
    struct bh_err err = {0};

    if (bh_yaml_parse(rq->a, rq->body, &ap->dups, &ap->patch, &err) < 0)
        return bh_fail_msg(rq, BH_E_BAD_REQUEST,
                           "error decoding YAML: error converting YAML to JSON: %s", err.msg);
    if (ap->patch.kind == BH_JSON_NULL)
        ap->patch = BH_JV_OBJ;
    if (ap->patch.kind != BH_JSON_OBJ)
        return bh_fail_msg(rq, BH_E_BAD_REQUEST,
                           "error decoding YAML: error unmarshaling JSON: while decoding JSON: "
                           "json: cannot unmarshal %s into Go value of type map[string]interface "
                           "{}",
                           bh_json_kind_name((enum bh_json_kind)ap->patch.kind));
    as_doubles(rq->a, &ap->patch);
    return 0;
}

/* "apps/v1, Kind=Deployment", as upstream prints a kind in a version. */
static struct bh_str gvk_text(struct bh_rq *rq, struct bh_str api_version, struct bh_str kind)
{
    ptrdiff_t at = bh_str_chr(api_version, '/', 0);

    if (at >= 0 && bh_str_chr(api_version, '/', (size_t)at + 1) >= 0)
        return BH_S("/, Kind=");
    return bh_str_fmt(rq->a, "%s%.*s, Kind=%.*s", at < 0 ? "/" : "", BH_SF(api_version),
                      BH_SF(kind));
}

static int check_body(struct applying *ap)
{
    struct bh_rq *rq = ap->rq;
    struct bh_str api_version = bh_jv_get_str(&ap->patch, "apiVersion"),
                  kind = bh_jv_get_str(&ap->patch, "kind");
    const struct bh_jv *given = bh_jv_path(&ap->patch, "metadata.managedFields");

    if (!bh_str_eq(api_version, bh_body_kind(rq)->api_version) ||
        !bh_str_eq(kind, bh_body_kind(rq)->kind))
        return bh_fail_msg(rq, BH_E_BAD_REQUEST, "invalid object type: %.*s",
                           BH_SF(gvk_text(rq, api_version, kind)));
    if (given && given->kind != BH_JSON_NULL)
        return bh_fail_msg(rq, BH_E_BAD_REQUEST, "metadata.managedFields must be nil");
    if (bh_scale_asked(rq))
        bh_scale_apply(rq, &ap->patch);
    return 0;
}

/* "/c; /v1, Kind=ConfigMap": how upstream names what is applied in an error. */
static struct bh_str object_text(struct applying *ap)
{
    const struct bh_jv *meta = bh_jv_getc(&ap->patch, "metadata");

    return bh_str_fmt(ap->rq->a, "%.*s/%.*s; %.*s", BH_SF(bh_jv_get_str(meta, "namespace")),
                      BH_SF(bh_jv_get_str(meta, "name")),
                      BH_SF(gvk_text(ap->rq, ap->rq->kind->api_version, ap->rq->kind->kind)));
}

/* Keys that stand twice are told after everything else went well. */
static int tell_doubles(struct applying *ap)
{
    struct bh_rq *rq = ap->rq;
    BH_AUTO_BUF b = {0};

    if (ap->dups.lines.n == 0 || bh_str_eqc(rq->field_validation, "Ignore"))
        return 0;
    for (size_t i = 0; i < ap->dups.lines.n; i++) {
        bh_buf_addf(&b, "\n  %.*s", BH_SF(ap->dups.lines.p[i]));
        if (!bh_str_eqc(rq->field_validation, "Strict"))
            bh_rq_warn(rq, ap->dups.lines.p[i]);
    }
    if (!bh_str_eqc(rq->field_validation, "Strict"))
        return 0;
    return bh_fail_msg(rq, BH_E_BAD_REQUEST,
                       "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal "
                       "errors:%.*s",
                       BH_SF(bh_buf_str(&b)));
}

/* ---- documents ---- */

static bool parse_doc(struct bh_rq *rq, const struct bh_kind *k, const void *obj, struct bh_jv *ret)
{
    BH_AUTO_BUF b = {0};

    bh_kind_encode_json(k, obj, &b);
    if (bh_jv_parse(rq->a, bh_str_dup(rq->a, bh_buf_str(&b)), NULL, ret, NULL) < 0)
        return false;
    if (bh_jv_getc(ret, "metadata"))
        (void)bh_jv_del(bh_jv_getc(ret, "metadata"), BH_S("managedFields"));
    return true;
}

static int struct_of(struct bh_rq *rq, const struct bh_kind *k, const struct bh_jv *doc, void **ret,
                     struct bh_err *err)
{
    struct bh_jv v = bh_jv_copy(rq->a, doc);
    int r = bh_apply_fit(k->type, &v, rq->a, err);

    if (r < 0)
        return r;
    return bh_kind_decode_json(k, bh_jv_text(rq->a, &v, BH_JSON_SORTED | BH_JSON_GO_NUMS), rq->a,
                               ret, NULL, err);
}

static bool convert_doc(void *arg, struct bh_str from, const struct bh_jv *doc, struct bh_str to,
                        const struct bh_type **ret_t, struct bh_jv *ret)
{
    struct applying *ap = arg;
    const struct bh_kind *hub = ap->rq->res->hub, *kf = bh_kind_by_api_version(from, hub->kind),
                         *kt = bh_kind_by_api_version(to, hub->kind);
    void *obj = NULL, *h = NULL, *out = NULL;

    if (!kf || !kt || kt->resource.n == 0 || bh_kind_hub(kt) != hub || bh_kind_hub(kf) != hub)
        return false;
    if (struct_of(ap->rq, kf, doc, &obj, NULL) < 0 ||
        bh_convert(kf, obj, hub, ap->rq->a, &h, NULL) < 0 ||
        bh_convert(hub, h, kt, ap->rq->a, &out, NULL) < 0)
        return false;
    *ret_t = kt->type;
    return parse_doc(ap->rq, kt, out, ret);
}

/* Fields that a write of this path takes from the stored object whatever is sent. */
static const struct bh_fset *reset_fields(struct bh_rq *rq)
{
    static const char *const status[] = {"status"}, *const spec[] = {"spec"},
                             *const meta[] = {"spec", "metadata"},
                             *const pod[] = {"spec", "metadata.deletionTimestamp",
                                             "metadata.ownerReferences"},
                             *const labels[] = {"spec", "metadata.labels"};
    static const char *const whole[] = {"resource.k8s.io", "storage.k8s.io", "networking.k8s.io"};
    const struct bh_kind *k = rq->kind;

    if (rq->ri.sub.n == 0)
        return bh_kind_sub(k, BH_S("status")) ? bh_fset_of_paths(rq->a, status, 1) : NULL;
    if (!bh_str_eqc(rq->ri.sub, "status"))
        return NULL;
    if (rq->res->hub == &bh_core_v1_pod_kind)
        return bh_fset_of_paths(rq->a, pod, 3);
    if (bh_str_eqc(k->group, "apps") && bh_str_eqc(k->kind, "Deployment"))
        return bh_fset_of_paths(rq->a, labels, 2);
    for (size_t i = 0; i < BH_COUNT(whole); i++)
        if (bh_str_eqc(k->group, whole[i]) && !bh_str_eqc(k->kind, "Ingress"))
            return bh_fset_of_paths(rq->a, meta, 2);
    return bh_fset_of_paths(rq->a, spec, 1);
}

static int prepare(struct applying *ap)
{
    struct bh_rq *rq = ap->rq;
    const struct bh_kind *hub = rq->res->hub;
    void *live = bh_arena_alloc(rq->a, rq->kind->type->size);

    ap->convert = (struct bh_apply_convert){convert_doc, ap};
    if (!parse_doc(rq, rq->kind, live, &ap->empty))
        return bh_fail_plain(rq, "an empty object cannot be encoded");
    ap->live = ap->empty;
    if (ap->old) {
        void *h = bh_arena_memdup(rq->a, bh_obj_struct(ap->old), hub->type->size);

        if (bh_managed_decode(rq->a, &bh_meta_of(hub, h)->managed_fields, &ap->managers) < 0)
            ap->managers = (struct bh_managers){NULL, 0};
        if (bh_from_hub(rq, hub, h, &live) < 0)
            return -BH_E_INTERNAL;
        if (!parse_doc(rq, rq->kind, live, &ap->live))
            return bh_fail_plain(rq, "the stored object cannot be encoded");
    }
    ap->u = (struct bh_apply){.t = rq->kind->type,
                              .empty = &ap->empty,
                              .live = &ap->live,
                              .patch = &ap->patch,
                              .self = {.manager = rq->field_manager,
                                       .operation = BH_S("Apply"),
                                       .api_version = rq->kind->api_version,
                                       .subresource = rq->ri.sub,
                                       .time = bh_scale_time(rq)},
                              .force = rq->force,
                              .reset = reset_fields(rq),
                              .convert = &ap->convert};
    return 0;
}

/* ---- conflicts ---- */

struct causes {
    struct bh_rq *rq;
    struct bh_cause *p;
    size_t n, cap;
    struct bh_str who;
    struct bh_buf list;
};

static void add_cause(void *arg, struct bh_str path)
{
    struct causes *c = arg;

    bh_arena_grow(c->rq->a, &c->p, &c->cap, c->n + 1, sizeof(*c->p));
    c->p[c->n++] = (struct bh_cause){BH_S("FieldManagerConflict"),
                                     bh_str_fmt(c->rq->a, "conflict with %.*s", BH_SF(c->who)),
                                     bh_str_dup(c->rq->a, path)};
    bh_buf_addf(&c->list, "\n- %.*s", BH_SF(path));
}

static struct bh_str who_text(struct bh_rq *rq, const struct bh_manager *m)
{
    BH_AUTO_BUF b = {0};

    bh_go_quote(&b, m->manager);
    if (m->subresource.n > 0) {
        bh_buf_addz(&b, " with subresource ");
        bh_go_quote(&b, m->subresource);
    }
    if (bh_str_eqc(m->operation, "Update"))
        bh_buf_addf(&b, " using %.*s",
                    BH_SF(bh_scale_asked(rq) ? bh_body_kind(rq)->api_version : m->api_version));
    return bh_str_dup(rq->a, bh_buf_str(&b));
}

static int fail_conflicts(struct bh_rq *rq, const struct bh_apply_result *res)
{
    struct causes c = {.rq = rq};
    int r;

    for (size_t i = 0; i < res->n_conflicts; i++) {
        c.who = who_text(rq, &res->conflicts[i].by);
        bh_buf_addf(&c.list, "%sconflicts with %.*s:", i ? "\n" : "", BH_SF(c.who));
        bh_fset_each(res->conflicts[i].set, add_cause, &c);
    }
    if (c.n == 1)
        r = bh_fail_msg(rq, BH_E_CONFLICT, "Apply failed with 1 conflict: %.*s: %.*s",
                        BH_SF(c.p[0].message), BH_SF(c.p[0].field));
    else
        r = bh_fail_msg(rq, BH_E_CONFLICT, "Apply failed with %zu conflicts: %.*s", c.n,
                        BH_SF(bh_buf_str(&c.list)));
    rq->fail.more_causes = c.p;
    rq->fail.more_causes_n = c.n;
    bh_buf_done(&c.list);
    return r;
}

static int merge(struct applying *ap, struct bh_apply_result *res)
{
    struct bh_rq *rq = ap->rq;
    bool kubectl = bh_str_eqc(rq->field_manager, "kubectl");
    struct bh_err err = {0};
    int r = bh_apply_run(&ap->managers, &ap->u, rq->a, res, &err);

    if (r == 0 && res->n_conflicts > 0 && kubectl && bh_apply_kubectl_allows(&ap->u, rq->a, res)) {
        ap->u.force = true;
        r = bh_apply_run(&ap->managers, &ap->u, rq->a, res, &err);
    }
    if (r < 0)
        return bh_fail_plain(rq, "%s", err.msg);
    if (res->mistyped.n > 0)
        return bh_fail_plain(rq, "failed to create typed patch object (%.*s): %.*s",
                             BH_SF(object_text(ap)), BH_SF(res->mistyped));
    if (res->n_conflicts > 0)
        return fail_conflicts(rq, res);
    if (kubectl)
        bh_apply_kubectl_annotate(&ap->u, rq->a, &res->obj);
    return 0;
}

/* ---- all of it ---- */

static int to_struct(struct applying *ap, const struct bh_jv *doc, void **ret)
{
    struct bh_rq *rq = ap->rq;
    struct bh_err err = {0};

    if (struct_of(rq, rq->kind, doc, ret, &err) < 0)
        return bh_fail_plain(
            rq,
            "failed to convert new object (%.*s) to proper version: unable to convert "
            "unstructured object to %.*s: %s%s",
            BH_SF(object_text(ap)), BH_SF(gvk_text(rq, rq->kind->api_version, rq->kind->kind)),
            bh_str_starts(bh_s(err.msg), BH_S("illegal base64")) ? "error decoding from json: "
                                                                 : "",
            err.msg);
    return 0;
}

static int write_result(struct applying *ap, void *obj)
{
    struct bh_rq *rq = ap->rq;
    struct bh_meta_v1_object_meta *m = bh_meta_of(rq->kind, obj);
    struct bh_update u = {
        .old = ap->old, .obj = obj, .sub = rq->ri.sub, .verb = "patch", .applied = true};
    int r;

    if (!ap->old && m->uid.n > 0)
        return bh_fail_conflict(rq, rq->kind, rq->ri.name,
                                "uid mismatch: the provided object specified uid %.*s, and no "
                                "existing object was found",
                                BH_SF(m->uid));
    if (bh_str_eqc(m->resource_version, BH_OBJ_RV_HOLE))
        m->resource_version = BH_S("");
    r = bh_check_name(rq, m);
    if (r == 0)
        r = bh_check_namespace(rq, m);
    if (r == 0)
        r = bh_managed_store(rq, &ap->managers, m);
    if (r == 0 && !ap->old)
        r = bh_may_create(rq);
    if (!ap->old)
        m->resource_version = BH_S("");
    if (r < 0)
        return r;
    return ap->old ? bh_write_update(rq, &u) : bh_write_create_applied(rq, obj);
}

int bh_rest_apply(struct bh_rq *rq)
{
    struct applying *ap = bh_new(rq->a, struct applying);
    struct bh_apply_result res;
    void *obj = NULL;
    int r;

    ap->rq = rq;
    ap->old = bh_pipeline_head(rq->srv->pipe, rq->res->wc,
                               bh_rq_key(rq, rq->res, rq->ri.ns, rq->ri.name));
    if (!ap->old && rq->ri.sub.n > 0)
        return bh_fail_not_found(rq, rq->kind->group, rq->kind->resource, rq->ri.name);
    r = read_body(ap);
    if (r == 0)
        r = check_body(ap);
    if (r == 0)
        r = prepare(ap);
    if (r == 0)
        r = merge(ap, &res);
    if (r == 0)
        r = to_struct(ap, &res.obj, &obj);
    if (r == 0)
        r = tell_doubles(ap);
    if (r < 0)
        return r;
    return write_result(ap, obj);
}
