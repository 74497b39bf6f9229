/* PATCH: the stored object in the version asked for goes through the patch and comes back as an
 * update. */
#include "api/gen/meta_v1.h"
#include "api/patch.h"
#include "apiserver/body.h"
#include "apiserver/convert.h"
#include "apiserver/patch_error.h"
#include "apiserver/rest_apply.h"
#include "apiserver/scale.h"
#include "apiserver/write.h"

enum patch_type { PATCH_NONE, PATCH_JSON, PATCH_MERGE, PATCH_STRATEGIC, PATCH_APPLY };

static enum patch_type type_of(struct bh_rq *rq)
{
    struct bh_str rest = rq->content_type, t = bh_str_trim(bh_str_cut(&rest, ';'));

    if (bh_str_eqc(t, "application/json-patch+json"))
        return PATCH_JSON;
    if (bh_str_eqc(t, "application/merge-patch+json"))
        return PATCH_MERGE;
    if (bh_str_eqc(t, "application/strategic-merge-patch+json"))
        return PATCH_STRATEGIC;
    if (bh_str_eqc(t, "application/apply-patch+yaml"))
        return PATCH_APPLY;
    return PATCH_NONE;
}

/* What a patch made cannot be an object of this kind. */
static int bad_result(struct bh_rq *rq, enum patch_type t, struct bh_str doc, struct bh_str why)
{
    struct bh_field_errs errs = {.a = rq->a};
    struct bh_str shown = t == PATCH_STRATEGIC ? bh_patch_go_map(rq->a, rq->body) : doc;

    bh_fe_invalid(&errs, BH_FP(NULL, "patch"), shown, "%.*s", BH_SF(why));
    return bh_fail_invalid(rq, BH_S(""), BH_S(""), BH_S(""), &errs);
}

static int run_patch(struct bh_rq *rq, enum patch_type t, struct bh_str doc, struct bh_buf *out,
                     struct bh_strict *strict)
{
    struct bh_err err = {0};
    int r = t == PATCH_JSON    ? bh_patch_json(doc, rq->body, rq->a, out, strict, &err)
            : t == PATCH_MERGE ? bh_patch_merge(doc, rq->body, rq->a, out, strict, &err)
                               : bh_patch_strategic(bh_body_kind(rq)->type, doc, rq->body, rq->a,
                                                    out, strict, &err);

    if (r == 0)
        return 0;
    if (t == PATCH_JSON && r == -BH_E_INVALID)
        return bh_fail_generic(rq, BH_E_INVALID);
    if (r == -BH_E_INTERNAL)
        return bh_fail_plain(rq, "%s", err.msg);
    if (t == PATCH_STRATEGIC && bh_str_starts(bh_s(err.msg), BH_S("error decoding patch: ")))
        return bh_fail_msg(rq, BH_E_BAD_REQUEST, "%s",
                           err.msg + sizeof("error decoding patch: ") - 1);
    if (t == PATCH_STRATEGIC && r == -BH_E_INVALID)
        return bad_result(rq, t, doc, bh_s(err.msg));
    return bh_fail_err(rq, &err);
}

/* Doubles in the patch come before what is unknown in its result. */
static void join(struct bh_rq *rq, struct bh_strict *all, const struct bh_strict *more)
{
    struct bh_str *p = bh_new_n(rq->a, struct bh_str, all->texts.n + more->texts.n + 1);
    size_t n = 0;

    for (size_t i = 0; i < all->texts.n; i++)
        p[n++] = all->texts.p[i];
    for (size_t i = 0; i < more->texts.n; i++)
        p[n++] = more->texts.p[i];
    all->texts = (struct bh_str_vec){p, n};
}

static int decode_result(struct bh_rq *rq, enum patch_type t, struct bh_str doc,
                         struct bh_strict *strict, void **ret)
{
    struct bh_str api_version, kind, why = BH_S("");
    struct bh_strict unknown = {0};
    struct bh_err err = {0};

    if (t != PATCH_STRATEGIC && bh_json_peek_kind(doc, rq->a, &api_version, &kind, &err) == 0)
        why = bh_body_kind_error(rq, bh_body_kind(rq), api_version, kind);
    if (why.n > 0)
        return bad_result(rq, t, doc, why);
    if (bh_kind_decode_json(bh_body_kind(rq), doc, rq->a, ret, &unknown, &err) < 0)
        return bad_result(rq, t, doc, bh_s(err.msg));
    join(rq, strict, &unknown);
    if (strict->texts.n == 0 || bh_str_eqc(rq->field_validation, "Ignore"))
        return 0;
    if (bh_str_eqc(rq->field_validation, "Strict"))
        return bad_result(
            rq, t, doc,
            bh_str_fmt(rq->a, "strict decoding error: %.*s", BH_SF(bh_strict_join(strict, rq->a))));
    for (size_t i = 0; i < strict->texts.n; i++)
        bh_rq_warn(rq, strict->texts.p[i]);
    return 0;
}

/* The old object as the JSON that the patch sees. */
static int doc_of(struct bh_rq *rq, struct bh_obj *old, struct bh_str *ret)
{
    struct bh_err err = {0};
    BH_AUTO_OBJ *o =
        bh_scale_asked(rq) ? bh_scale_of(rq, old, &err) : bh_convert_obj(old, rq->kind, &err);

    if (!o)
        return bh_fail_err(rq, &err);
    *ret = bh_str_dup(rq->a, o->json);
    return 0;
}

/* The old object patched, through its text. */
static int patch_text(struct bh_rq *rq, enum patch_type t, struct bh_obj *old, void **ret)
{
    struct bh_strict strict = {0};
    BH_AUTO_BUF out = {0};
    struct bh_str doc;
    int r = doc_of(rq, old, &doc);

    if (r == 0)
        r = run_patch(rq, t, doc, &out, &strict);
    if (r == 0)
        r = decode_result(rq, t, bh_str_dup(rq->a, bh_buf_str(&out)), &strict, ret);
    return r;
}

/* The same without any text, for what is plain; false: it is not. */
static bool patch_plain(struct bh_rq *rq, enum patch_type t, struct bh_obj *old, void **ret)
{
    if (rq->kind != old->kind || (t != PATCH_MERGE && t != PATCH_STRATEGIC))
        return false;
    *ret = bh_msg_dup(rq->kind->type, bh_obj_struct(old), rq->a);
    return bh_patch_struct(rq->kind->type, rq->body, t == PATCH_STRATEGIC, *ret, rq->a);
}

static int patch_stored(struct bh_rq *rq, enum patch_type t)
{
    struct bh_update u = {.sub = rq->ri.sub, .verb = "patch"};
    struct bh_meta_v1_object_meta *m;
    int r = bh_rq_head(rq, &u.old);

    if (r == 0 && !patch_plain(rq, t, u.old, &u.obj))
        r = patch_text(rq, t, u.old, &u.obj);
    if (r < 0)
        return r;
    m = bh_meta_of(bh_body_kind(rq), u.obj);
    /* Taking the version out of the document lifts the check, as upstream. An uncommitted base has
     * the hole in it. */
    if (bh_str_eqc(m->resource_version, BH_OBJ_RV_HOLE))
        m->resource_version = BH_S("");
    r = bh_check_namespace(rq, m);
    if (r == 0)
        r = bh_check_name(rq, m);
    if (r < 0)
        return r;
    return bh_scale_asked(rq) ? bh_scale_write(rq, u.old, u.obj, u.verb) : bh_write_update(rq, &u);
}

int bh_rest_patch(struct bh_rq *rq)
{
    enum patch_type t = type_of(rq);
    int r;

    if (t == PATCH_NONE)
        return bh_fail_generic(rq, BH_E_MEDIA);
    r = bh_options_write(rq, "PatchOptions");
    if (r < 0)
        return r;
    if (t == PATCH_APPLY)
        return bh_rest_apply(rq);
    return patch_stored(rq, t);
}
