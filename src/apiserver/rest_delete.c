/* DELETE: preconditions, grace periods, finalizers, and what comes back. */
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "apiserver/body.h"
#include "apiserver/rest_list.h"
#include "apiserver/write.h"

#include <string.h>

#define FINALIZER_ORPHAN     "orphan"
#define FINALIZER_FOREGROUND "foregroundDeletion"

/* ---- options ---- */

static int check_options(struct bh_rq *rq, const struct bh_meta_v1_delete_options *o)
{
    static const struct bh_str policies[] = {BH_S_INIT("Foreground"), BH_S_INIT("Background"),
                                             BH_S_INIT("Orphan"), BH_S_INIT("nil")};
    struct bh_field_errs errs = {.a = rq->a};
    bool bad = false;

    for (size_t i = 0; i < o->dry_run.n; i++)
        bad |= !bh_str_eqc(o->dry_run.p[i], "All");
    rq->dry_run = o->dry_run.n > 0 && !bad;
    if (o->has_propagation_policy) {
        bool known = false;

        for (size_t i = 0; i < 3; i++)
            known |= bh_str_eq(o->propagation_policy, policies[i]);
        if (!known)
            bh_fe_not_supported(&errs, BH_FP(NULL, "propagationPolicy"), o->propagation_policy,
                                policies, 4);
        else if (o->has_orphan_dependents)
            bh_fe_invalid(&errs, BH_FP(NULL, "propagationPolicy"), o->propagation_policy,
                          "orphanDependents and deletionPropagation cannot be both set");
    }
    if (bad) {
        BH_AUTO_BUF b = {0};

        for (size_t i = 0; i < o->dry_run.n; i++) {
            bh_buf_addz(&b, i > 0 ? "," : "[");
            bh_go_quote(&b, o->dry_run.p[i]);
        }
        bh_fe_add(&errs, BH_FE_NOT_SUPPORTED, BH_FP(NULL, "dryRun"),
                  bh_str_fmt(rq->a, "Unsupported value: %.*s]: supported values: \"All\"",
                             BH_SF(bh_buf_str(&b))));
    }
    if (errs.n > 0)
        return bh_fail_invalid(rq, BH_S("meta.k8s.io"), BH_S("DeleteOptions"), BH_S(""), &errs);
    return 0;
}

static bool truthy(struct bh_str v)
{
    return !bh_str_eqc(v, "0") && !bh_str_eq_nocase(v, BH_S("false"));
}

static int options_of_query(struct bh_rq *rq, struct bh_meta_v1_delete_options *o)
{
    const struct bh_str *grace = bh_rq_query(rq, "gracePeriodSeconds"),
                        *policy = bh_rq_query(rq, "propagationPolicy"),
                        *orphan = bh_rq_query(rq, "orphanDependents"),
                        *uid = bh_rq_query(rq, "uid"), *rv = bh_rq_query(rq, "resourceVersion");

    if (grace) {
        if (!bh_str_i64(*grace, INT64_MIN, INT64_MAX, &o->grace_period_seconds))
            return bh_fail_msg(rq, BH_E_BAD_REQUEST,
                               "strconv.ParseInt: parsing \"%.*s\": invalid syntax", BH_SF(*grace));
        o->has_grace_period_seconds = true;
    }
    if (policy) {
        o->propagation_policy = *policy;
        o->has_propagation_policy = true;
    }
    if (orphan) {
        o->orphan_dependents = truthy(*orphan);
        o->has_orphan_dependents = true;
    }
    if ((uid || rv) && !rq->ri.old_watch && rq->ri.name.n > 0) {
        o->preconditions = bh_new(rq->a, struct bh_meta_v1_preconditions);
        if (uid) {
            o->preconditions->uid = *uid;
            o->preconditions->has_uid = true;
        }
        if (rv) {
            o->preconditions->resource_version = *rv;
            o->preconditions->has_resource_version = true;
        }
    }
    for (size_t i = 0; i < rq->q.n; i++)
        if (bh_str_eqc(rq->q.p[i].key, "dryRun")) {
            size_t n = o->dry_run.n;
            struct bh_str *p = bh_new_n(rq->a, struct bh_str, n + 1);

            if (n > 0)
                memcpy(p, o->dry_run.p, n * sizeof(*p));
            p[n] = rq->q.p[i].value;
            o->dry_run = (struct bh_str_vec){p, n + 1};
        }
    return 0;
}

static int read_options(struct bh_rq *rq, struct bh_meta_v1_delete_options **ret)
{
    struct bh_meta_v1_delete_options *o = bh_new(rq->a, struct bh_meta_v1_delete_options);
    struct bh_str json = rq->body, api_version, kind;
    struct bh_strict dups = {0}, strict = {0};
    struct bh_err err = {0};
    enum bh_form form;
    void *p = o;
    int r = 0;

    if (rq->body.n == 0) {
        r = options_of_query(rq, o);
    } else {
        r = bh_media_of_body(rq, &form);
        if (r < 0)
            return r;
        if (form == BH_FORM_PB) {
            struct bh_pb_unknown u = {0};

            if (bh_pb_open(rq->body, &u, &err) < 0 ||
                bh_kind_decode_pb(&bh_meta_v1_delete_options_kind, u.raw, rq->a, &p, &err) < 0)
                return bh_fail_msg(rq, BH_E_BAD_REQUEST, "%s", err.msg);
        } else {
            if (form == BH_FORM_YAML && bh_body_yaml_to_json(rq, rq->body, &dups, &json, &err) < 0)
                return bh_fail_msg(rq, BH_E_BAD_REQUEST, "%s", err.msg);
            if (bh_json_peek_kind(json, rq->a, &api_version, &kind, &err) < 0)
                return bh_fail_msg(rq, BH_E_BAD_REQUEST, "%s", err.msg);
            if (kind.n > 0 && !bh_str_eqc(kind, "DeleteOptions"))
                return bh_fail_msg(
                    rq, BH_E_BAD_REQUEST,
                    "no kind \"%.*s\" is registered for version \"%.*s\" in scheme "
                    "\"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\"",
                    BH_SF(kind), BH_SF(api_version));
            if (bh_kind_decode_json(&bh_meta_v1_delete_options_kind, json, rq->a, &p, &strict,
                                    &err) < 0)
                return bh_fail_msg(rq, BH_E_BAD_REQUEST, "%s", err.msg);
        }
        o = p;
    }
    if (r == 0)
        r = check_options(rq, o);
    *ret = o;
    return r;
}

/* ---- what deleting means for a kind ---- */

/* Kinds whose deletion answers with the object. */
static bool returns_object(const struct bh_kind *k)
{
    static const char *const core[] = {
        "pods",           "services",         "serviceaccounts",
        "resourcequotas", "podtemplates",     "persistentvolumeclaims",
        "namespaces",     "persistentvolumes"};

    if (bh_str_eqc(k->group, "resource.k8s.io"))
        return true;
    if (bh_str_eqc(k->group, "storage.k8s.io"))
        return !bh_str_eqc(k->resource, "csistoragecapacities");
    if (k->group.n > 0)
        return false;
    for (size_t i = 0; i < BH_COUNT(core); i++)
        if (bh_str_eqc(k->resource, core[i]))
            return true;
    return false;
}

static bool orphans_by_default(const struct bh_kind *k)
{
    return bh_str_eqc(k->resource, "replicationcontrollers") ||
           (bh_str_eqc(k->resource, "jobs") && bh_str_eqc(k->group, "batch"));
}

static bool has_finalizer(const struct bh_meta_v1_object_meta *m, const char *name)
{
    for (size_t i = 0; i < m->finalizers.n; i++)
        if (bh_str_eqc(m->finalizers.p[i], name))
            return true;
    return false;
}

static bool wants_orphan(const struct bh_kind *k, const struct bh_meta_v1_object_meta *m,
                         const struct bh_meta_v1_delete_options *o)
{
    if (o->has_orphan_dependents)
        return o->orphan_dependents;
    if (o->has_propagation_policy)
        return bh_str_eqc(o->propagation_policy, "Orphan");
    if (has_finalizer(m, FINALIZER_ORPHAN))
        return true;
    if (has_finalizer(m, FINALIZER_FOREGROUND))
        return false;
    return orphans_by_default(k);
}

static bool wants_foreground(const struct bh_meta_v1_object_meta *m,
                             const struct bh_meta_v1_delete_options *o)
{
    if (o->has_orphan_dependents)
        return false;
    if (o->has_propagation_policy)
        return bh_str_eqc(o->propagation_policy, "Foreground");
    if (has_finalizer(m, FINALIZER_ORPHAN))
        return false;
    return has_finalizer(m, FINALIZER_FOREGROUND);
}

/* Puts the collector's finalizers in or out; true when they changed. */
static bool set_gc_finalizers(struct bh_rq *rq, const struct bh_kind *k,
                              struct bh_meta_v1_object_meta *m,
                              const struct bh_meta_v1_delete_options *o)
{
    bool orphan = wants_orphan(k, m, o), foreground = wants_foreground(m, o);
    struct bh_str *p;
    size_t n = 0;

    /* Events are not part of any dependency graph. */
    if (bh_str_eqc(k->resource, "events"))
        return false;
    if (orphan == has_finalizer(m, FINALIZER_ORPHAN) &&
        foreground == has_finalizer(m, FINALIZER_FOREGROUND))
        return false;
    p = bh_new_n(rq->a, struct bh_str, m->finalizers.n + 2);
    for (size_t i = 0; i < m->finalizers.n; i++)
        if (!bh_str_eqc(m->finalizers.p[i], FINALIZER_ORPHAN) &&
            !bh_str_eqc(m->finalizers.p[i], FINALIZER_FOREGROUND))
            p[n++] = m->finalizers.p[i];
    if (orphan)
        p[n++] = BH_S(FINALIZER_ORPHAN);
    if (foreground)
        p[n++] = BH_S(FINALIZER_FOREGROUND);
    m->finalizers = (struct bh_str_vec){n > 0 ? p : NULL, n};
    return true;
}

/* Seconds of grace for a pod; other kinds have none (false). */
static bool grace_of(const struct bh_kind *k, const void *obj,
                     const struct bh_meta_v1_delete_options *o, int64_t *ret)
{
    const struct bh_core_v1_pod *pod = obj;
    int64_t s = 0;

    if (k != &bh_core_v1_pod_kind)
        return false;
    if (o->has_grace_period_seconds)
        s = o->grace_period_seconds;
    else if (pod->spec.has_termination_grace_period_seconds)
        s = pod->spec.termination_grace_period_seconds;
    if (pod->spec.node_name.n == 0 || bh_str_eqc(pod->status.phase, "Failed") ||
        bh_str_eqc(pod->status.phase, "Succeeded"))
        s = 0;
    *ret = s < 0 ? 1 : s;
    return true;
}

/* Upstream names the kind here, not the resource. */
static int precondition_conflict(struct bh_rq *rq, const struct bh_obj *old, const char *what,
                                 struct bh_str want, struct bh_str have, const char *happened)
{
    const struct bh_kind *k = rq->kind;
    int r =
        bh_fail_msg(rq, BH_E_CONFLICT,
                    "Operation cannot be fulfilled on %.*s \"%.*s\": the %s in the precondition "
                    "(%.*s) does not match the %s in record (%.*s). The object might have been %s",
                    BH_SF(bh_qualified(rq, k->group, k->kind)), BH_SF(old->name), what, BH_SF(want),
                    what, BH_SF(have), happened);

    rq->fail.name = old->name;
    rq->fail.group = k->group;
    rq->fail.kind = k->kind;
    return r;
}

static int check_preconditions(struct bh_rq *rq, const struct bh_obj *old,
                               const struct bh_meta_v1_delete_options *o)
{
    const struct bh_meta_v1_preconditions *p = o->preconditions;
    struct bh_str have = bh_str_fmt(rq->a, "%llu", (unsigned long long)old->rv);

    if (p && p->has_uid && !bh_str_eq(p->uid, old->uid))
        return precondition_conflict(rq, old, "UID", p->uid, old->uid,
                                     "deleted and then recreated");
    if (p && p->has_resource_version && !bh_str_eq(p->resource_version, have))
        return precondition_conflict(rq, old, "ResourceVersion", p->resource_version, have,
                                     "modified");
    return 0;
}

/* ---- one object ---- */

enum outcome {
    KEEP,   /* stored again as changed: grace period, finalizers */
    REMOVE, /* gone at once */
    TWO,    /* stored once more with its deletion time, then gone */
    AGAIN,  /* it is being deleted already: nothing changes */
};

struct deletion {
    const struct bh_kind *hub;
    const struct bh_meta_v1_delete_options *o;
    void *obj; /* a private copy of the old struct, changed */
    enum outcome outcome;
};

static void mark(struct bh_rq *rq, struct bh_meta_v1_object_meta *m, int64_t grace)
{
    if (bh_time_is_zero(m->deletion_timestamp) && m->generation > 0)
        m->generation++;
    if (bh_time_is_zero(m->deletion_timestamp))
        m->deletion_timestamp = (struct bh_time){rq->now.sec + grace, 0};
    m->deletion_grace_period_seconds = grace;
    m->has_deletion_grace_period_seconds = true;
}

/* A namespace is emptied first: it stays, terminating, until its finalizers are gone. */
static void decide_namespace(struct bh_rq *rq, struct deletion *d, struct bh_meta_v1_object_meta *m)
{
    struct bh_core_v1_namespace *ns = d->obj;

    if (bh_time_is_zero(m->deletion_timestamp)) {
        m->deletion_timestamp = rq->now;
        ns->status.phase = BH_S("Terminating");
        d->outcome = KEEP;
    } else {
        d->outcome = AGAIN;
    }
    if (ns->spec.finalizers.n == 0 && m->finalizers.n == 0)
        d->outcome = d->outcome == KEEP ? TWO : REMOVE;
}

static void decide_repeated(struct deletion *d, struct bh_meta_v1_object_meta *m)
{
    int64_t want = d->o->grace_period_seconds;

    d->outcome = AGAIN;
    if (!m->has_deletion_grace_period_seconds || !d->o->has_grace_period_seconds)
        return;
    if (want < 0)
        want = 1;
    if (want >= m->deletion_grace_period_seconds)
        return;
    m->deletion_timestamp.sec += want - m->deletion_grace_period_seconds;
    m->deletion_grace_period_seconds = want;
    d->outcome = want > 0 || m->finalizers.n > 0 ? KEEP : TWO;
}

static void decide(struct bh_rq *rq, struct deletion *d)
{
    struct bh_meta_v1_object_meta *m = bh_meta_of(d->hub, d->obj);
    bool deleting = !bh_time_is_zero(m->deletion_timestamp);
    int64_t grace = 0;
    bool graceful, changed;

    if (d->hub == &bh_core_v1_namespace_kind) {
        decide_namespace(rq, d, m);
        return;
    }
    graceful = grace_of(d->hub, d->obj, d->o, &grace);
    if (graceful && deleting) {
        decide_repeated(d, m);
        return;
    }
    changed = set_gc_finalizers(rq, d->hub, m, d->o);
    if (graceful) {
        mark(rq, m, grace);
        d->outcome = grace > 0 || m->finalizers.n > 0 ? KEEP : TWO;
        return;
    }
    if (m->finalizers.n == 0) {
        d->outcome = REMOVE;
        return;
    }
    d->outcome = deleting && !changed && m->has_deletion_grace_period_seconds ? AGAIN : KEEP;
    mark(rq, m, 0);
}

static void answer_deleted(struct bh_rq *rq, struct bh_obj *o, bool object)
{
    if (object || returns_object(rq->res->hub))
        bh_rq_answer_obj(rq, 200, o);
    else
        bh_rq_answer_success(rq, o->name, o->uid);
}

static void kept(void *arg, struct bh_obj *obj, const struct bh_err *err)
{
    struct bh_rq *rq = arg;

    if (err) {
        (void)bh_fail_err(rq, err);
        bh_rq_send_fail(rq);
        return;
    }
    answer_deleted(rq, obj, true);
}

static void removed(void *arg, struct bh_obj *obj, const struct bh_err *err)
{
    struct bh_rq *rq = arg;

    if (err) {
        (void)bh_fail_err(rq, err);
        bh_rq_send_fail(rq);
        return;
    }
    answer_deleted(rq, obj, false);
}

static int answer_dry(struct bh_rq *rq, struct deletion *d)
{
    BH_AUTO_OBJ *dry = bh_write_dry(rq, d->hub, d->obj);

    if (!dry)
        return -BH_E_INTERNAL;
    answer_deleted(rq, dry, d->outcome == KEEP || d->outcome == AGAIN);
    return 0;
}

/* Carries a decided deletion out. done may be NULL: then nobody is answered. */
static int carry_out(struct bh_rq *rq, struct deletion *d, bool answer)
{
    int r = 0;

    if (d->outcome == KEEP)
        return bh_write_submit_then(rq, BH_STORE_UPDATE, rq->res, d->obj, answer ? kept : NULL, rq);
    if (d->outcome == TWO)
        r = bh_write_submit_then(rq, BH_STORE_UPDATE, rq->res, d->obj, NULL, NULL);
    if (r == 0)
        r = bh_write_submit_then(rq, BH_STORE_DELETE, rq->res, d->obj, answer ? removed : NULL, rq);
    return r;
}

static void prepare(struct bh_rq *rq, struct bh_obj *old, const struct bh_meta_v1_delete_options *o,
                    struct deletion *d)
{
    d->hub = rq->res->hub;
    d->o = o;
    d->obj = bh_msg_dup(d->hub->type, bh_obj_struct(old), rq->a);
    decide(rq, d);
}

int bh_rest_delete_obj(struct bh_rq *rq, struct bh_obj *old,
                       const struct bh_meta_v1_delete_options *o)
{
    struct deletion d;
    int r = check_preconditions(rq, old, o);

    if (r == 0)
        r = bh_admit_delete(rq, old);
    if (r < 0)
        return r;
    prepare(rq, old, o, &d);
    if (rq->dry_run)
        return answer_dry(rq, &d);
    if (d.outcome == AGAIN && old->rv == 0) {
        bh_pipeline_join(rq->srv->pipe, bh_rq_key(rq, rq->res, old->ns, old->name), kept, rq);
        return 0;
    }
    if (d.outcome == AGAIN) {
        answer_deleted(rq, old, true);
        return 0;
    }
    return carry_out(rq, &d, true);
}

int bh_rest_delete(struct bh_rq *rq)
{
    struct bh_obj *old;
    struct bh_meta_v1_delete_options *o;
    int r = read_options(rq, &o);

    if (r == 0)
        r = bh_rq_head(rq, &old);
    if (r < 0)
        return r;
    return bh_rest_delete_obj(rq, old, o);
}

/* ---- a collection ---- */

struct collection {
    struct bh_rq *rq;
    struct bh_list_page page; /* references, as listed before */
    size_t waiting;           /* commits under way, and one for the loop that starts them */
    bool failed;
};

static void collection_step(struct collection *c)
{
    struct bh_rq *rq = c->rq;
    struct bh_list_page page;

    if (--c->waiting > 0)
        return;
    page =
        c->page; /* answering may put converted items in place of those that are released later */
    if (c->failed || bh_list_answer(rq, &page) < 0)
        bh_rq_send_fail(rq);
}

static void one_done(void *arg, struct bh_obj *obj, const struct bh_err *err)
{
    struct collection *c = arg;

    (void)obj;
    if (err && !c->failed) {
        c->failed = true;
        (void)bh_fail_err(c->rq, err);
    }
    collection_step(c);
}

static void unref_page(void *arg)
{
    struct collection *c = arg;

    for (size_t i = 0; i < c->page.n; i++)
        (void)bh_obj_unref(c->page.items[i]);
}

static int delete_one(struct collection *c, struct bh_obj *item,
                      const struct bh_meta_v1_delete_options *o)
{
    struct bh_rq *rq = c->rq;
    struct bh_obj *old =
        bh_pipeline_head(rq->srv->pipe, rq->res->wc, bh_rq_key(rq, rq->res, item->ns, item->name));
    struct deletion d;
    int r;

    if (!old)
        return 0;
    r = check_preconditions(rq, old, o);
    if (r == 0)
        r = bh_admit_delete(rq, old);
    if (r < 0)
        return r;
    prepare(rq, old, o, &d);
    if (rq->dry_run || d.outcome == AGAIN)
        return 0;
    c->waiting++;
    if (d.outcome == TWO) {
        r = bh_write_submit_then(rq, BH_STORE_UPDATE, rq->res, d.obj, NULL, NULL);
        if (r == 0)
            r = bh_write_submit_then(rq, BH_STORE_DELETE, rq->res, d.obj, one_done, c);
    } else {
        r = bh_write_submit_then(rq, d.outcome == KEEP ? BH_STORE_UPDATE : BH_STORE_DELETE, rq->res,
                                 d.obj, one_done, c);
    }
    if (r < 0)
        c->waiting--;
    return r;
}

int bh_rest_delete_collection(struct bh_rq *rq)
{
    struct collection *c = bh_new(rq->a, struct collection);
    struct bh_listopts lo;
    struct bh_select sel;
    struct bh_meta_v1_delete_options *o;
    int r = read_options(rq, &o);

    if (r == 0)
        r = bh_listopts_parse(rq, false, &lo);
    if (r == 0)
        r = bh_select_parse(rq, &sel);
    /* Upstream lists what it deletes in chunks, and a version in a chunk is meant exactly. */
    if (r == 0 && lo.match.n == 0 && lo.rv_n > 0)
        lo.match = BH_S("Exact");
    if (r == 0)
        r = bh_list_select(rq, &lo, &sel, &c->page);
    if (r < 0)
        return r;
    c->rq = rq;
    c->waiting = 1;
    for (size_t i = 0; i < c->page.n; i++)
        (void)bh_obj_ref(c->page.items[i]);
    bh_arena_on_reset(rq->a, unref_page, c);
    for (size_t i = 0; i < c->page.n && !c->failed; i++)
        if (delete_one(c, c->page.items[i], o) < 0)
            c->failed = true;
    collection_step(c);
    return 0;
}

/* ---- eviction: a deletion that is answered by others ---- */

/* A pod that goes slowly says why. */
static void mark_disrupted(struct bh_rq *rq, struct bh_core_v1_pod *p)
{
    size_t n = p->status.conditions.n, at = n;
    struct bh_core_v1_pod_condition *v = bh_new_n(rq->a, struct bh_core_v1_pod_condition, n + 1);

    if (n > 0)
        memcpy(v, p->status.conditions.p, n * sizeof(*v));
    for (size_t i = 0; i < n; i++)
        if (bh_str_eqc(v[i].type, "DisruptionTarget"))
            at = i;
    v[at] = (struct bh_core_v1_pod_condition){.type = BH_S("DisruptionTarget"),
                                              .status = BH_S("True"),
                                              .last_transition_time = rq->now,
                                              .reason = BH_S("EvictionByEvictionAPI"),
                                              .message = BH_S("Eviction API: evicting")};
    p->status.conditions.p = v;
    p->status.conditions.n = at == n ? n + 1 : n;
}

int bh_rest_evict(struct bh_rq *rq, struct bh_obj *old,
                  const struct bh_meta_v1_delete_options *given, bh_pipeline_done done)
{
    struct bh_meta_v1_delete_options none = {0};
    const struct bh_meta_v1_delete_options *o = given ? given : &none;
    bool dry = rq->dry_run;
    struct deletion d;
    int r = check_options(rq, o);

    rq->dry_run |= dry;
    if (r == 0)
        r = bh_budget_take(rq, old);
    if (r == 0) /* told after the budget was asked, as upstream does */
        r = check_preconditions(rq, old, o);
    if (r < 0)
        return r;
    prepare(rq, old, o, &d);
    if (d.outcome == AGAIN && old->rv == 0 && !rq->dry_run) {
        bh_pipeline_join(rq->srv->pipe, bh_rq_key(rq, rq->res, old->ns, old->name), done, rq);
        return 0;
    }
    if (rq->dry_run || d.outcome == AGAIN) {
        done(rq, old, NULL);
        return 0;
    }
    if (d.hub == &bh_core_v1_pod_kind)
        mark_disrupted(rq, d.obj);
    if (d.outcome == TWO) {
        r = bh_write_submit_then(rq, BH_STORE_UPDATE, rq->res, d.obj, NULL, NULL);
        if (r < 0)
            return r;
    }
    return bh_write_submit_then(rq, d.outcome == KEEP ? BH_STORE_UPDATE : BH_STORE_DELETE, rq->res,
                                d.obj, done, rq);
}
