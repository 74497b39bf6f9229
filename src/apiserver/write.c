/* Create and update on the stored form, dry runs, and the way through the pipeline. */
#include "apiserver/write.h"

#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/obj_commit.h"
#include "apiserver/convert.h"
#include "apiserver/scale.h"
#include "base/limits.h"

#include <string.h>

#define GENERATED_NAME_MAX 63
#define GENERATED_SUFFIX   5

struct bh_str bh_rq_key(struct bh_rq *rq, const struct bh_resource *res, struct bh_str ns,
                        struct bh_str name)
{
    return bh_wc_key(res->wc, rq->a, res->hub->namespaced ? ns : BH_S(""), name);
}

int bh_rq_head(struct bh_rq *rq, struct bh_obj **ret)
{
    struct bh_str key = bh_rq_key(rq, rq->res, rq->ri.ns, rq->ri.name);
    struct bh_obj *o = bh_pipeline_head(rq->srv->pipe, rq->res->wc, key);

    if (!o)
        return bh_fail_not_found(rq, rq->kind->group, rq->kind->resource, rq->ri.name);
    *ret = o;
    return 0;
}

int bh_check_namespace(struct bh_rq *rq, struct bh_meta_v1_object_meta *m)
{
    if (!rq->kind->namespaced) {
        m->namespace = BH_S("");
        return 0;
    }
    if (m->namespace.n == 0)
        m->namespace = rq->ri.ns;
    if (!bh_str_eq(m->namespace, rq->ri.ns))
        return bh_fail_msg(rq, BH_E_BAD_REQUEST,
                           "the namespace of the provided object does not match the namespace sent "
                           "on the request");
    return 0;
}

int bh_check_name(struct bh_rq *rq, struct bh_meta_v1_object_meta *m)
{
    if (m->name.n == 0)
        return bh_fail_msg(
            rq, BH_E_BAD_REQUEST,
            "the name of the object (%.*s based on URL) was undeterminable: name must be provided",
            BH_SF(rq->ri.name));
    if (!bh_str_eq(m->name, rq->ri.name))
        return bh_fail_msg(
            rq, BH_E_BAD_REQUEST,
            "the name of the object (%.*s) does not match the name on the URL (%.*s)",
            BH_SF(m->name), BH_SF(rq->ri.name));
    return 0;
}

int bh_to_hub(struct bh_rq *rq, void *obj, void **ret)
{
    struct bh_err err = {0};

    if (bh_convert(rq->kind, obj, rq->res->hub, rq->a, ret, &err) < 0)
        return bh_fail_err(rq, &err);
    return 0;
}

int bh_from_hub(struct bh_rq *rq, const struct bh_kind *hub, void *obj, void **ret)
{
    struct bh_err err = {0};

    if (bh_convert(hub, obj, rq->kind, rq->a, ret, &err) < 0)
        return bh_fail_err(rq, &err);
    return 0;
}

int bh_check_errs(struct bh_rq *rq, const struct bh_kind *hub, struct bh_str name,
                  const struct bh_field_errs *errs)
{
    if (errs->n == 0)
        return 0;
    if (bh_scale_asked(rq))
        return bh_fail_invalid(rq, bh_body_kind(rq)->group, bh_body_kind(rq)->kind, name, errs);
    return bh_fail_invalid(rq, hub->group, hub->kind, name, errs);
}

struct bh_obj *bh_write_dry(struct bh_rq *rq, const struct bh_kind *hub, const void *hub_obj)
{
    struct bh_err err = {0};
    struct bh_obj *o = bh_obj_from_struct(hub, hub_obj, &err);

    if (!o)
        (void)bh_fail_err(rq, &err);
    return o;
}

static void answer_committed(struct bh_rq *rq, int http, struct bh_obj *obj,
                             const struct bh_err *err)
{
    if (err) {
        (void)bh_fail_err(rq, err);
        bh_rq_send_fail(rq);
        return;
    }
    bh_rq_answer_obj(rq, http, obj);
}

void bh_write_answered(void *arg, struct bh_obj *obj, const struct bh_err *err)
{
    answer_committed(arg, 200, obj, err);
}

static void write_created(void *arg, struct bh_obj *obj, const struct bh_err *err)
{
    answer_committed(arg, 201, obj, err);
}

/* Where an object is encoded. */
struct encoded {
    struct bh_buf json;
    struct bh_image image;
};

/* enc: of hub_obj, as encode() gives it. */
static int submit_encoded(struct bh_rq *rq, enum bh_store_op op, struct bh_resource *res,
                          const void *hub_obj, const struct encoded *enc, bh_pipeline_done done,
                          void *arg)
{
    const struct bh_buf *json = &enc->json;
    const struct bh_meta_v1_object_meta *m = bh_meta_const(res->hub, hub_obj);
    struct bh_obj *obj;
    struct bh_err err = {0};

    if (json->overflow || json->n > BH_OBJECT_BYTES_MAX)
        return bh_fail_plain(rq, "etcdserver: request is too large");
    obj = bh_obj_new_pending(res->hub, bh_buf_str(json), m,
                             res->wc->readers > 0 ? &enc->image : NULL);
    if (bh_pipeline_submit(rq->srv->pipe, op, res->wc, bh_rq_key(rq, res, m->namespace, m->name),
                           obj, done, arg, &err) < 0) {
        int r = bh_fail_err(rq, &err);

        rq->fail.retry_after = 1;
        return r;
    }
    return 0;
}

/* Objects mostly take less: the server keeps buffers of that size, and those that have grown beyond
 * are given back. */
#define SCRATCH_BYTES 16384

static struct encoded scratch_take(struct bh_apiserver *srv)
{
    struct encoded e = {srv->scratch, srv->image};

    srv->scratch = (struct bh_buf){0};
    srv->image = (struct bh_image){0};
    e.json.max = BH_OBJECT_BYTES_MAX + 1;
    bh_buf_clear(&e.json);
    bh_buf_reserve(&e.json, SCRATCH_BYTES - 1);
    return e;
}

static void scratch_give(struct bh_apiserver *srv, struct encoded *e)
{
    if (srv->scratch.p || e->json.cap > SCRATCH_BYTES)
        bh_buf_done(&e->json);
    else
        srv->scratch = e->json;
    if (srv->image.p || e->image.cap > SCRATCH_BYTES)
        bh_image_done(&e->image);
    else
        srv->image = e->image;
}

/* With the struct when somebody will ask for it, once for all of them. */
static void encode(const struct bh_resource *res, const void *h, struct encoded *e)
{
    bh_buf_clear(&e->json);
    bh_obj_encode(res->hub, h, &e->json, res->wc->readers > 0 ? &e->image : NULL);
}

int bh_write_submit_then(struct bh_rq *rq, enum bh_store_op op, struct bh_resource *res,
                         const void *hub_obj, bh_pipeline_done done, void *arg)
{
    struct bh_apiserver *srv = rq->srv;
    struct encoded enc = scratch_take(srv);
    int r;

    encode(res, hub_obj, &enc);
    r = submit_encoded(rq, op, res, hub_obj, &enc, done, arg);
    scratch_give(srv, &enc);
    return r;
}

int bh_write_submit(struct bh_rq *rq, enum bh_store_op op, struct bh_resource *res,
                    const void *hub_obj, int http)
{
    int r = bh_write_submit_then(rq, op, res, hub_obj,
                                 http == 201 ? write_created : bh_write_answered, rq);

    rq->accepted = r == 0;
    return r;
}

/* A copy of obj for add_status(), before the first half takes its status away; NULL: not asked. */
static void *copy_for_status(struct bh_rq *rq, const void *obj)
{
    return rq->with_status ? bh_msg_dup(rq->kind->type, obj, rq->a) : NULL;
}

static int add_status(struct bh_rq *rq, void *given, void **h);

/* ---- create ---- */

static struct bh_str generate_name(struct bh_rq *rq, struct bh_str base)
{
    static const char alphabet[] = "bcdfghjklmnpqrstvwxz2456789";
    char suffix[GENERATED_SUFFIX + 1] = {0};

    if (base.n > GENERATED_NAME_MAX - GENERATED_SUFFIX)
        base.n = GENERATED_NAME_MAX - GENERATED_SUFFIX;
    for (int i = 0; i < GENERATED_SUFFIX; i++)
        suffix[i] = alphabet[bh_loop_random(rq->srv->loop) % (sizeof(alphabet) - 1)];
    return bh_str_fmt(rq->a, "%.*s%s", BH_SF(base), suffix);
}

/* System fields are the server's: whatever was sent in them is replaced. */
static void fill_system_fields(struct bh_rq *rq, struct bh_meta_v1_object_meta *m)
{
    char uid[37];

    bh_loop_uuid(rq->srv->loop, uid);
    m->uid = bh_str_dup(rq->a, bh_s(uid));
    m->creation_timestamp = rq->now;
    m->deletion_timestamp = (struct bh_time){0, 0};
    m->has_deletion_grace_period_seconds = false;
    m->deletion_grace_period_seconds = 0;
    m->self_link = BH_S("");
}

static int check_create_version(struct bh_rq *rq, struct bh_meta_v1_object_meta *m)
{
    int64_t v;

    /* Anything that is no number, and 0, is let through and replaced. */
    if (bh_str_i64(m->resource_version, 1, INT64_MAX, &v))
        return bh_fail_plain(rq, "resourceVersion should not be set on objects to be created");
    return 0;
}

static int already_exists(struct bh_rq *rq, const struct bh_obj *have, struct bh_str name)
{
    return bh_fail_named(rq, BH_E_EXISTS, rq->kind, name, "%s%.*s \"%.*s\" already exists",
                         have->deleting ? "object is being deleted: " : "",
                         BH_SF(bh_qualified(rq, rq->kind->group, rq->kind->resource)), BH_SF(name));
}

static int create(struct bh_rq *rq, void *obj, bool applied)
{
    const struct bh_kind *hub = rq->res->hub;
    struct bh_field_errs errs = {.a = rq->a};
    struct bh_meta_v1_object_meta *m;
    struct bh_str_vec warnings = {NULL, 0};
    struct bh_obj *have;
    void *h = NULL, *given = copy_for_status(rq, obj);
    int r;

    bh_rq_env(rq, "create");
    bh_rules_default(&rq->env, rq->kind, obj);
    r = bh_to_hub(rq, obj, &h);
    if (r < 0)
        return r;
    m = bh_meta_of(hub, h);
    bh_dedup_owners(rq, m);
    fill_system_fields(rq, m);
    r = 0;
    if (!applied)
        r = bh_managed_keep(rq, hub, h, NULL, BH_S(""));
    if (r == 0)
        r = bh_admit(rq, hub, BH_S(""), h, NULL);
    if (r < 0)
        return r;
    if (m->name.n == 0 && m->generate_name.n > 0)
        m->name = generate_name(rq, m->generate_name);
    if (hub == &bh_core_v1_service_kind) {
        r = bh_service_begin(rq, h, NULL);
        if (r < 0)
            return r;
    }
    bh_rules_prepare_create(&rq->env, hub, h);
    bh_rules_validate_create(&rq->env, hub, h, &errs);
    bh_rules_warnings(&rq->env, hub, BH_S(""), h, NULL, &warnings);
    r = bh_check_errs(rq, hub, m->name, &errs);
    if (r < 0)
        return r;
    for (size_t i = 0; i < warnings.n; i++)
        bh_rq_warn(rq, warnings.p[i]);
    r = bh_admit_check(rq, hub, h);
    if (r < 0)
        return r;
    have =
        bh_pipeline_head(rq->srv->pipe, rq->res->wc, bh_rq_key(rq, rq->res, m->namespace, m->name));
    if (have)
        return already_exists(rq, have, m->name);
    if (given) {
        struct bh_str version = m->resource_version;

        m->resource_version = BH_S("1"); /* some version: the second half updates */
        r = add_status(rq, given, &h);
        if (r < 0)
            return r;
        m = bh_meta_of(hub, h);
        m->resource_version = version;
    }
    if (rq->dry_run) { /* nothing looks at a version then: it stays in the answer */
        BH_AUTO_OBJ *dry = bh_write_dry(rq, hub, h);

        if (!dry)
            return -BH_E_INTERNAL;
        bh_rq_answer_obj(rq, 201, dry);
        return 0;
    }
    r = check_create_version(rq, m);
    if (r < 0)
        return r;
    m->resource_version = BH_S("");
    return bh_write_submit(rq, BH_STORE_CREATE, rq->res, h, 201);
}

int bh_write_create(struct bh_rq *rq, void *obj)
{
    return create(rq, obj, false);
}

int bh_write_create_applied(struct bh_rq *rq, void *obj)
{
    return create(rq, obj, true);
}

/* ---- update ---- */

/* What an update may never change comes from the old object. */
static void keep_system_fields(struct bh_meta_v1_object_meta *m,
                               const struct bh_meta_v1_object_meta *old)
{
    m->uid = old->uid;
    m->creation_timestamp = old->creation_timestamp;
    /* While it is being deleted; before, neither can be set (validation tells). */
    if (!bh_time_is_zero(old->deletion_timestamp))
        m->deletion_timestamp = old->deletion_timestamp;
    if (old->has_deletion_grace_period_seconds && !m->has_deletion_grace_period_seconds) {
        m->deletion_grace_period_seconds = old->deletion_grace_period_seconds;
        m->has_deletion_grace_period_seconds = true;
    }
    m->self_link = BH_S("");
    m->generation = old->generation;
}

static int check_uid(struct bh_rq *rq, const struct bh_update *u, struct bh_str uid)
{
    /* A patch that changes the uid fails validation instead. */
    if (strcmp(u->verb, "patch") == 0 || uid.n == 0 || bh_str_eq(uid, u->old->uid))
        return 0;
    return bh_fail_conflict(rq, rq->kind, u->old->name,
                            "StorageError: invalid object, Code: 4, Key: %.*s, ResourceVersion: 0, "
                            "AdditionalErrorMsg: Precondition failed: UID in precondition: %.*s, "
                            "UID in object meta: %.*s",
                            BH_SF(bh_rq_key(rq, rq->res, u->old->ns, u->old->name)), BH_SF(uid),
                            BH_SF(u->old->uid));
}

static int check_version(struct bh_rq *rq, const struct bh_update *u, struct bh_str version)
{
    int64_t v = 0;

    if (version.n > 0 && !bh_str_i64(version, 0, INT64_MAX, &v))
        return bh_fail_plain(rq, "%.*s", BH_SF(bh_uint_error(rq, version)));
    if (v != 0 && (uint64_t)v != u->old->rv)
        return bh_fail_conflict(
            rq, rq->kind, u->old->name,
            "the object has been modified; please apply your changes to the latest version and "
            "try again");
    return 0;
}

bool bh_deletes_during_update(const struct bh_kind *hub, const void *obj, const struct bh_obj *old)
{
    const struct bh_meta_v1_object_meta *m = bh_meta_const(hub, obj);

    (void)old;
    if (bh_time_is_zero(m->deletion_timestamp) || m->finalizers.n > 0)
        return false;
    if (m->has_deletion_grace_period_seconds && m->deletion_grace_period_seconds != 0)
        return false;
    if (hub == &bh_core_v1_namespace_kind)
        return ((const struct bh_core_v1_namespace *)obj)->spec.finalizers.n == 0;
    return true;
}

/* Whether the new bytes say the same as the old ones, the version aside. */
static bool same_bytes(const struct bh_obj *old, const struct bh_meta_v1_object_meta *m,
                       struct bh_str json)
{
    size_t before = bh_obj_hole(old->kind, m, json);
    struct bh_str head, tail, otail;
    ptrdiff_t end;

    if (before == SIZE_MAX)
        return false;
    head = bh_str_sub(json, 0, before);
    tail = bh_str_sub(json, before + sizeof(BH_OBJ_RV_HOLE) - 1, json.n);
    if (!bh_str_starts(old->json, head))
        return false;
    end = bh_str_chr(old->json, '"', before);
    if (end < 0)
        return false;
    otail = bh_str_sub(old->json, (size_t)end, old->json.n);
    return bh_str_eq(tail, otail);
}

/* A write that changes nothing but the times of managedFields entries does not change these either.
 * True when times were taken from old: *ret_saved then is what stood there. */
static bool keep_times(struct bh_rq *rq, struct bh_meta_v1_object_meta *m,
                       const struct bh_meta_v1_object_meta *old, struct bh_time **ret_saved)
{
    struct bh_meta_v1_managed_fields_entry *e = m->managed_fields.p;
    const struct bh_meta_v1_managed_fields_entry *o = old->managed_fields.p;
    bool differ = false;

    if (m->managed_fields.n != old->managed_fields.n)
        return false;
    for (size_t i = 0; i < m->managed_fields.n; i++) {
        if (!bh_str_eq(e[i].manager, o[i].manager) || !bh_str_eq(e[i].operation, o[i].operation) ||
            !bh_str_eq(e[i].subresource, o[i].subresource) ||
            !bh_str_eq(e[i].api_version, o[i].api_version) ||
            !bh_str_eq(e[i].fields_v_1, o[i].fields_v_1))
            return false;
        differ |= e[i].time.sec != o[i].time.sec;
    }
    if (!differ)
        return false;
    *ret_saved = bh_new_n(rq->a, struct bh_time, m->managed_fields.n);
    for (size_t i = 0; i < m->managed_fields.n; i++) {
        (*ret_saved)[i] = e[i].time;
        e[i].time = o[i].time;
    }
    return true;
}

/* Encodes h; true when that says the same as what is stored. */
static bool encode_update(struct bh_rq *rq, const struct bh_update *u, void *h, const void *old,
                          struct encoded *enc)
{
    const struct bh_kind *hub = rq->res->hub;
    struct bh_meta_v1_object_meta *m = bh_meta_of(hub, h);
    struct bh_time *saved = NULL;
    bool kept = keep_times(rq, m, bh_meta_const(hub, old), &saved);

    encode(rq->res, h, enc);
    if (same_bytes(u->old, m, bh_buf_str(&enc->json)))
        return true;
    if (kept) {
        for (size_t i = 0; i < m->managed_fields.n; i++)
            m->managed_fields.p[i].time = saved[i];
        encode(rq->res, h, enc);
    }
    return false;
}

static int answer_unchanged(struct bh_rq *rq, const struct bh_update *u)
{
    if (u->old->rv == 0) {
        /* The same write is on its way: the answer waits for it by writing nothing new but the same
         * bytes again. */
        return 1;
    }
    bh_rq_answer_obj(rq, 200, u->old);
    return 0;
}

/* An update that takes the last finalizer away deletes: the answer shows the update, the event the
 * last stored state. */
static void emptied(void *arg, struct bh_obj *obj, const struct bh_err *err)
{
    struct bh_rq *rq = arg;

    (void)obj;
    answer_committed(rq, 200, rq->shown, err);
}

/* enc: where to encode. */
static int update_prepared(struct bh_rq *rq, const struct bh_update *u, void *h, const void *old,
                           struct encoded *enc)
{
    const struct bh_kind *hub = rq->res->hub;
    int r;

    if (bh_deletes_during_update(hub, h, u->old)) {
        if (rq->dry_run) {
            /* A copy: the bytes of an object that is on its way still move. */
            BH_AUTO_OBJ *shown = bh_write_dry(rq, hub, old);

            if (!shown)
                return -BH_E_INTERNAL;
            bh_rq_answer_obj(rq, 200, shown);
            return 0;
        }
        rq->shown = bh_write_dry(rq, hub, h);
        if (!rq->shown)
            return -BH_E_INTERNAL;
        return bh_write_submit_then(rq, BH_STORE_DELETE, rq->res, old, emptied, rq);
    }
    if (rq->dry_run) {
        BH_AUTO_OBJ *dry = NULL;

        (void)encode_update(rq, u, h, old, enc);
        bh_meta_of(hub, h)->resource_version = bh_meta_const(hub, old)->resource_version;
        dry = bh_write_dry(rq, hub, h);
        if (!dry)
            return -BH_E_INTERNAL;
        bh_rq_answer_obj(rq, 200, dry);
        return 0;
    }
    if (encode_update(rq, u, h, old, enc)) {
        r = answer_unchanged(rq, u);
        if (r <= 0)
            return r;
    }
    r = submit_encoded(rq, BH_STORE_UPDATE, rq->res, h, enc, bh_write_answered, rq);
    rq->accepted = r == 0;
    return r;
}

/* What is owned is what was asked for, before the rules of the kind took part of it back: on the
 * path of the status the status, on the path of the object all but the status (see
 * bh_managed_keep). This is a copy of what was asked for, before the rules see it: the status, the
 * object, or NULL on other paths. */
static void *copy_asked(struct bh_rq *rq, const struct bh_update *u, const void *h,
                        const struct bh_field **ret_status)
{
    const struct bh_kind *hub = rq->res->hub;
    const struct bh_field *status = bh_type_field(hub->type, BH_S("status"));

    *ret_status = NULL;
    if (!u->applied && bh_str_eqc(u->sub, "status") && status && !(status->flags & BH_F_PTR)) {
        *ret_status = status;
        return bh_msg_dup(status->msg, (const char *)h + status->off, rq->a);
    }
    if (u->sub.n > 0 && !u->applied && !bh_str_eqc(u->sub, "ephemeralcontainers") &&
        !bh_str_eqc(u->sub, "resize"))
        return NULL;
    return bh_msg_dup(hub->type, h, rq->a);
}

static int keep_managed(struct bh_rq *rq, const struct bh_update *u, const void *old, void *asked,
                        const struct bh_field *status, void *h)
{
    const struct bh_kind *hub = rq->res->hub;
    void *doc = asked;
    int r;

    if (u->applied) {
        bh_meta_of(hub, h)->managed_fields = bh_meta_of(hub, asked)->managed_fields;
        return 0;
    }
    if (status) {
        doc = bh_arena_memdup(rq->a, h, hub->type->size);
        memcpy((char *)doc + status->off, asked, status->msg->size);
    } else if (!asked) {
        doc = h;
    }
    r = bh_managed_keep(rq, hub, doc, old, u->sub);
    if (r == 0)
        bh_meta_of(hub, h)->managed_fields = bh_meta_of(hub, doc)->managed_fields;
    return r;
}

/* All that an update says of what will be stored, from the struct that was there: rules, admission,
 * ownership, validation. uid: as it was sent. */
static int prepare_update(struct bh_rq *rq, const struct bh_update *u, const void *old, void *h,
                          struct bh_str uid)
{
    const struct bh_kind *hub = rq->res->hub;
    struct bh_meta_v1_object_meta *m = bh_meta_of(hub, h);
    const struct bh_meta_v1_object_meta *om = bh_meta_const(hub, old);
    struct bh_field_errs errs = {.a = rq->a};
    struct bh_str_vec warnings = {NULL, 0};
    const struct bh_field *status;
    void *asked;
    int r;

    keep_system_fields(m, om);
    m->resource_version = om->resource_version;
    asked = copy_asked(rq, u, h, &status);
    if (hub == &bh_core_v1_service_kind && u->sub.n == 0) {
        r = bh_service_begin(rq, h, old);
        if (r < 0)
            return r;
    }
    bh_rules_prepare_update(&rq->env, hub, u->sub, h, old);
    r = keep_managed(rq, u, old, asked, status, h);
    if (r < 0)
        return r;
    if (uid.n > 0)
        m->uid = uid;
    bh_rules_validate_update(&rq->env, hub, u->sub, h, old, &errs);
    bh_rules_warnings(&rq->env, hub, u->sub, h, old, &warnings);
    r = bh_check_errs(rq, hub, om->name, &errs);
    if (r == 0)
        r = bh_admit_validated(rq, hub, u->sub, h, old);
    for (size_t i = 0; r == 0 && i < warnings.n; i++)
        bh_rq_warn(rq, warnings.p[i]);
    return r;
}

/* The second half of a request with_status: what the update of the status alone would make of *h,
 * the object that will be there. */
static int add_status(struct bh_rq *rq, void *given, void **h)
{
    const struct bh_kind *hub = rq->res->hub;
    const struct bh_update u = {.obj = given, .sub = BH_S("status"), .verb = "update"};
    void *old = *h, *now = NULL;
    int r;

    bh_rq_env(rq, u.verb);
    bh_rules_default(&rq->env, rq->kind, given);
    r = bh_to_hub(rq, given, &now);
    if (r < 0)
        return r;
    bh_meta_of(hub, now)->name = bh_meta_of(hub, old)->name; /* it may have been generated */
    bh_meta_of(hub, now)->namespace = bh_meta_of(hub, old)->namespace;
    bh_dedup_owners(rq, bh_meta_of(hub, now));
    r = bh_admit(rq, hub, u.sub, now, old);
    if (r == 0)
        r = prepare_update(rq, &u, old, now, (struct bh_str){NULL, 0});
    *h = now;
    return r;
}

int bh_write_update(struct bh_rq *rq, const struct bh_update *u)
{
    const struct bh_kind *hub = rq->res->hub;
    const void *old = bh_obj_struct(u->old);
    struct bh_field_errs errs = {.a = rq->a};
    struct bh_meta_v1_object_meta *m;
    struct bh_str version, uid;
    struct bh_apiserver *srv = rq->srv;
    void *h = NULL, *given = u->sub.n == 0 ? copy_for_status(rq, u->obj) : NULL;
    struct encoded enc;
    int r;

    bh_rq_env(rq, u->verb);
    bh_rules_default(&rq->env, rq->kind, u->obj);
    r = bh_to_hub(rq, u->obj, &h);
    if (r < 0)
        return r;
    m = bh_meta_of(hub, h);
    bh_dedup_owners(rq, m);
    version = m->resource_version;
    uid = m->uid;
    r = check_uid(rq, u, uid);
    if (r == 0)
        r = check_version(rq, u, version);
    if (r < 0)
        return r;
    r = bh_admit(rq, hub, u->sub, h, old);
    if (r < 0)
        return r;
    if (version.n == 0 || bh_str_eqc(version, "0")) {
        if (!bh_rules_unconditional_update(hub) && strcmp(u->verb, "update") == 0) {
            bh_fe_invalid_i64(&errs, BH_FP(BH_FP(NULL, "metadata"), "resourceVersion"), 0,
                              "must be specified for an update");
            return bh_fail_invalid(rq, hub->group, hub->resource, u->old->name, &errs);
        }
    }
    r = prepare_update(rq, u, old, h, uid);
    if (r == 0 && given)
        r = add_status(rq, given, &h);
    if (r < 0)
        return r;
    enc = scratch_take(srv);
    r = update_prepared(rq, u, h, old, &enc); /* which may end the request */
    scratch_give(srv, &enc);
    return r;
}
