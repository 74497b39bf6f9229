/* resourceclaim-controller: claims from templates, and claims whose consumers are gone.
 *
 * Two kinds of keys in one queue: "pod:NS/N" makes the claims that a pod's templates ask for and
 * writes their names into the pod's status; "claim:NS/N" drops consumers that are gone, deallocates
 * when none is left, takes the finalizer off and deletes a generated claim whose pod is done.
 * Facts: the device specification, section 7.
 */
#include <inttypes.h>
#include <stdio.h>

#include "api/engine.h"
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/resource_v1.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/map.h"
#include "controllers/controllers_int.h"
#include "data/json.h"

#define FINALIZER         "resource.kubernetes.io/delete-protection"
#define POD_CLAIM_NAME    "resource.kubernetes.io/pod-claim-name"
#define EXT_CLAIM         "resource.kubernetes.io/extended-resource-claim"
#define EXT_CLAIMS_MAX    8
#define GENERATE_NAME_MAX 57
#define NAME_TRIES        8
#define WORKERS           256 /* claims wait for the disk together */
#define GONE_UIDS         512
#define KEY_MAX           340
#define UNSEEN_NS         ((int64_t)60 * 1000000000)

struct rc {
    struct ctl *ctl;
    struct bh_workqueue *queue;
    struct bh_informer *pods, *claims, *templates;
    struct bh_map ext;   /* pod uid -> struct ext_claims */
    struct bh_map owned; /* pod uid + "/" + pod claim name -> struct owned, of generated claims */
    struct bh_str
        gone[GONE_UIDS]; /* ring of uids of deleted pods: saves asking the server for them */
    size_t gone_at;
    struct bh_map gone_set;
    struct bh_link works;
};

/* Claims of one pod that its status need not name: those that the scheduler made for its extended
 * resources (more than one when an attempt failed), and generated ones that were made twice because
 * an answer was lost. */
struct ext_claims {
    size_t n;
    char *names[EXT_CLAIMS_MAX];
};

/* A generated claim, in the cache or just made. */
struct owned {
    char *name;
    int64_t made_ns; /* monotonic: made by us and not in the cache yet; 0: in the cache */
};

/* One key being worked on: lives until bh_workqueue_done(). */
struct work {
    struct bh_link link; /* in rc->works */
    struct rc *rc;
    struct bh_arena *arena;
    uint64_t call; /* the request under way, to be cancelled when the controller stops */
    struct bh_str key;
    struct bh_obj *obj; /* the pod or claim it began with */
    size_t i;           /* progress: index in the claim's consumers */
    /* Of a pod, per entry of spec.resourceClaims. */
    struct bh_str *names; /* of the claim that is made for it; empty: none */
    bool *made;           /* it is there, and new to the status */
    bool *given_up;       /* it could not be made */
    size_t *making;       /* the entries whose claims are under way, */
    size_t making_n;      /* the names of all in one status after them */
    size_t name_tries;
    struct bh_resource_v1_resource_claim *claim; /* claim: our copy */
    bool changed;
    bool failed;
};

static void pod_next(struct work *w);
static void claim_next(struct work *w);

static struct work *work_new(struct rc *rc, struct bh_str key, struct bh_obj *o)
{
    struct bh_arena *a = bh_arena_new(0);
    struct work *w = bh_new(a, struct work);

    w->rc = rc;
    w->arena = a;
    w->key = key;
    w->obj = bh_obj_ref(o);
    bh_list_add_tail(&rc->works, &w->link);
    return w;
}

static void work_end(struct work *w, enum bh_work_result r)
{
    struct rc *rc = w->rc;
    struct bh_arena *a = w->arena;
    struct bh_str key = w->key;

    bh_list_del(&w->link);
    (void)bh_obj_unref(w->obj);
    bh_workqueue_done(rc->queue, key, r);
    (void)bh_arena_free(a);
}

static void enqueue(struct rc *rc, const char *type, struct bh_str ns, struct bh_str name)
{
    char key[KEY_MAX];
    int n = snprintf(key, sizeof(key), "%s:%.*s/%.*s", type, BH_SF(ns), BH_SF(name));

    if (n > 0 && (size_t)n < sizeof(key))
        bh_workqueue_add(rc->queue, (struct bh_str){key, (size_t)n});
}

/* ---- pods: claims from templates ---- */

static struct bh_str owned_key(struct bh_arena *a, struct bh_str pod_uid, struct bh_str entry)
{
    return bh_str_fmt(a, "%.*s/%.*s", BH_SF(pod_uid), BH_SF(entry));
}

static void owned_free(struct owned *o)
{
    if (o)
        bh_free(o->name);
    bh_free(o);
}

static void owned_put(struct rc *rc, struct bh_str key, struct bh_str name, int64_t made_ns)
{
    struct owned *o = bh_calloc(1, sizeof(*o));

    o->name = bh_strdup_c(name);
    o->made_ns = made_ns;
    owned_free(bh_map_put(&rc->owned, key, o));
}

/* The name of the claim that was made for an entry of a pod; NULL when there is none. A claim that
 * we made and that never showed up was deleted at once: after a minute it does not count. */
static const char *owned_name(struct rc *rc, struct bh_str key)
{
    const struct owned *o = bh_map_get(&rc->owned, key);

    if (!o || (o->made_ns && bh_loop_mono_ns(rc->ctl->loop) - o->made_ns > UNSEEN_NS))
        return NULL;
    return o->name;
}

/* The name from which the server makes the claim's: pod-entry-, cut so that both parts keep their
 * share. */
static struct bh_str generate_name(struct bh_arena *a, struct bh_str pod, struct bh_str entry)
{
    struct bh_str base = bh_str_fmt(a, "%.*s-%.*s-", BH_SF(pod), BH_SF(entry));

    if (base.n <= GENERATE_NAME_MAX)
        return base;
    return bh_str_fmt(a, "%.*s-%.*s", BH_SF(bh_str_sub(pod, 0, pod.n * GENERATE_NAME_MAX / base.n)),
                      BH_SF(bh_str_sub(entry, 0, entry.n * GENERATE_NAME_MAX / base.n)));
}

/* The name as the server would generate it. It is ours, so that the pod's status can name the claim
 * in the same sequence in which it is made. */
static struct bh_str generated_name(struct work *w, struct bh_str entry)
{
    static const char alphabet[] = "bcdfghjklmnpqrstvwxz2456789";
    char suffix[6] = {0};

    for (int i = 0; i < 5; i++)
        suffix[i] = alphabet[bh_loop_random(w->rc->ctl->loop) % (sizeof(alphabet) - 1)];
    return bh_str_fmt(w->arena, "%.*s%s", BH_SF(generate_name(w->arena, w->obj->name, entry)),
                      suffix);
}

static void pod_failed(struct work *w, size_t i, const char *what)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(w->obj);

    bh_event(w->rc->ctl->recorder, w->obj, "Warning", "FailedResourceClaimCreation",
             "PodResourceClaim %.*s: %s", BH_SF(pod->spec.resource_claims.p[i].name), what);
    w->failed = true;
    w->given_up[i] = true;
}

/* The claim of entry i, from its template; NULL: there is none. */
static struct bh_resource_v1_resource_claim *pod_claim(struct work *w, size_t i)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(w->obj);
    const struct bh_core_v1_pod_resource_claim *ref = &pod->spec.resource_claims.p[i];
    struct bh_obj *t =
        bh_informer_get(w->rc->templates, w->obj->ns, ref->resource_claim_template_name);
    const struct bh_resource_v1_resource_claim_template *tmpl = t ? bh_obj_struct(t) : NULL;
    struct bh_resource_v1_resource_claim *claim;
    struct bh_meta_v1_owner_reference *owner;

    if (!tmpl)
        return NULL;
    claim = bh_new(w->arena, struct bh_resource_v1_resource_claim);
    owner = bh_new(w->arena, struct bh_meta_v1_owner_reference);
    claim->metadata.name = w->names[i];
    claim->metadata.generate_name = generate_name(w->arena, w->obj->name, ref->name);
    claim->metadata.labels = tmpl->spec.metadata.labels;
    for (size_t k = 0; k < tmpl->spec.metadata.annotations.n; k++)
        bh_str_map_put(w->arena, &claim->metadata.annotations,
                       tmpl->spec.metadata.annotations.p[k].key,
                       tmpl->spec.metadata.annotations.p[k].value);
    bh_str_map_put(w->arena, &claim->metadata.annotations, BH_S(POD_CLAIM_NAME), ref->name);
    *owner = (struct bh_meta_v1_owner_reference){.api_version = BH_S("v1"),
                                                 .kind = BH_S("Pod"),
                                                 .name = w->obj->name,
                                                 .uid = w->obj->uid,
                                                 .controller = true,
                                                 .has_controller = true};
    claim->metadata.owner_references.p = owner;
    claim->metadata.owner_references.n = 1;
    claim->spec = tmpl->spec.spec;
    return claim;
}

/* Indices of the pod's entries in the order of their names, as upstream writes them. */
static size_t *entries_by_name(struct work *w, const struct bh_core_v1_pod *pod)
{
    size_t n = pod->spec.resource_claims.n;
    size_t *order = bh_new_n(w->arena, size_t, n + 1);

    for (size_t i = 0; i < n; i++) {
        size_t at = i;

        for (; at > 0 && bh_str_cmp(pod->spec.resource_claims.p[order[at - 1]].name,
                                    pod->spec.resource_claims.p[i].name) > 0;
             at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return order;
}

/* The patch of the pod's status that names its new claims; false: there are none. */
static bool names_patch(struct work *w, struct bh_buf *b)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(w->obj);
    const size_t *order = entries_by_name(w, pod);
    bool any = false;

    /* Of this version only: a name that is written already, and that the scheduler goes by, is not
     * replaced by another one of whoever saw an older pod. */
    bh_buf_addf(b,
                "{\"metadata\":{\"uid\":\"%.*s\",\"resourceVersion\":\"%" PRIu64
                "\"},\"status\":{\"resourceClaimStatuses\":[",
                BH_SF(w->obj->uid), w->obj->rv);
    for (size_t k = 0; k < pod->spec.resource_claims.n; k++) {
        size_t i = order[k];

        if (!w->names[i].n)
            continue;
        bh_buf_addf(b, "%s{\"name\":", any ? "," : "");
        bh_json_write_str(b, pod->spec.resource_claims.p[i].name);
        bh_buf_addz(b, ",\"resourceClaimName\":");
        bh_json_write_str(b, w->names[i]);
        bh_buf_addc(b, '}');
        any = true;
    }
    bh_buf_addz(b, "]}}");
    return any;
}

static void pod_claim_made(struct work *w, size_t i, const struct bh_obj *claim)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(w->obj);
    struct bh_str key = owned_key(w->arena, w->obj->uid, pod->spec.resource_claims.p[i].name);

    /* The pod may come back here before the cache shows the claim: it must not get another. */
    if (!bh_map_get(&w->rc->owned, key))
        owned_put(w->rc, key, claim->name, bh_loop_mono_ns(w->rc->ctl->loop));
    w->made[i] = true;
}

static void pod_named(struct work *w, const struct bh_client_res *res)
{
    bool gone = res->err.code == BH_E_NOT_FOUND;

    if (res->err.code != BH_OK && !gone)
        bh_log(BH_DEBUG, "claim names not written", BH_STR("pod", w->obj->name),
               BH_CSTR("error", res->err.msg));
    work_end(w, (res->err.code != BH_OK && !gone) || w->failed ? BH_WORK_RETRY : BH_WORK_OK);
}

static void pod_answered(void *arg, const struct bh_client_res *res, size_t n)
{
    struct work *w = arg;

    for (size_t k = 0; k < w->making_n; k++) {
        size_t i = w->making[k];

        if (k < n && res[k].err.code == BH_OK && res[k].obj) {
            pod_claim_made(w, i, res[k].obj);
            continue;
        }
        w->names[i] = (struct bh_str){NULL, 0};
        /* A name that is taken is replaced; what was not tried is tried again. */
        if (k + 1 == n && (res[k].err.code != BH_E_EXISTS || ++w->name_tries == NAME_TRIES))
            pod_failed(w, i, res[k].err.msg);
    }
    if (n <= w->making_n)
        pod_next(w);
    else
        pod_named(w, &res[n - 1]);
}

/* Whether the entry's claim is there, or known to have been made. */
static bool entry_settled(struct rc *rc, struct bh_obj *o, size_t i)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(o);
    struct bh_str name = ctl_pod_claim_name(pod, i);
    const char *own;

    if (!name.n || bh_informer_get(rc->claims, o->ns, name))
        return name.n > 0;
    BH_AUTO_ARENA a = bh_arena_new(0);
    own = owned_name(rc, owned_key(a, o->uid, pod->spec.resource_claims.p[i].name));
    return own && bh_str_eqc(name, own);
}

/* Whether a claim of this entry is to be made or named. */
static bool entry_wants(struct work *w, size_t i)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(w->obj);
    struct bh_str name = ctl_pod_claim_name(pod, i);
    struct bh_obj *c = name.n ? bh_informer_get(w->rc->claims, w->obj->ns, name) : NULL;

    if (!pod->spec.resource_claims.p[i].has_resource_claim_template_name || w->given_up[i] ||
        w->made[i])
        return false;
    if (c &&
        !ctl_owned_by(&((const struct bh_resource_v1_resource_claim *)bh_obj_struct(c))->metadata,
                      "Pod", w->obj->uid)) {
        bh_log(BH_DEBUG, "the claim was not created for the pod", BH_STR("claim", c->name),
               BH_STR("pod", w->obj->name));
        w->failed = true;
        return false;
    }
    return !entry_settled(w->rc, w->obj, i);
}

/* Makes the claims that are not there, and then names them in the pod's status: in one sequence. */
static void pod_next(struct work *w)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(w->obj);
    size_t n = pod->spec.resource_claims.n;
    struct bh_client_req *reqs = bh_new_n(w->arena, struct bh_client_req, n + 1);
    BH_AUTO_BUF names = {.max = BH_BODY_BYTES_MAX};

    w->making_n = 0;
    for (size_t i = 0; i < n; i++) {
        const struct bh_core_v1_pod_resource_claim *ref = &pod->spec.resource_claims.p[i];
        struct bh_resource_v1_resource_claim *claim;
        const char *own;

        if (!entry_wants(w, i))
            continue;
        own = owned_name(w->rc, owned_key(w->arena, w->obj->uid, ref->name));
        if (own) { /* made, but not written down */
            w->names[i] = bh_str_dup(w->arena, bh_s(own));
            w->made[i] = true;
            continue;
        }
        w->names[i] = generated_name(w, ref->name);
        claim = pod_claim(w, i);
        if (!claim) {
            struct bh_str t = ref->resource_claim_template_name;

            w->names[i] = (struct bh_str){NULL, 0};
            pod_failed(w, i,
                       bh_str_fmt(w->arena,
                                  "resource claim template \"%.*s\": "
                                  "resourceclaimtemplate.resource.k8s.io \"%.*s\" not found",
                                  BH_SF(t), BH_SF(t))
                           .p);
            continue;
        }
        reqs[w->making_n] = (struct bh_client_req){.verb = BH_VERB_CREATE,
                                                   .kind = &bh_resource_v1_resource_claim_kind,
                                                   .ns = w->obj->ns,
                                                   .msg = claim,
                                                   .msg_kind = &bh_resource_v1_resource_claim_kind};
        w->making[w->making_n++] = i;
    }
    if (!names_patch(w, &names)) {
        work_end(w, w->failed ? BH_WORK_RETRY : BH_WORK_OK);
        return;
    }
    reqs[w->making_n] = (struct bh_client_req){.verb = BH_VERB_PATCH,
                                               .kind = &bh_core_v1_pod_kind,
                                               .ns = w->obj->ns,
                                               .name = w->obj->name,
                                               .subresource = BH_S("status"),
                                               .patch = BH_PATCH_STRATEGIC,
                                               .body = bh_buf_str(&names)};
    w->call = bh_client_sequence(w->rc->ctl->client, reqs, w->making_n + 1, pod_answered, w);
}

/* An allocated claim of a pod that has a node, and does not know the pod: NULL when there is none
 * at this index. */
static struct bh_obj *unreserved(struct rc *rc, struct bh_obj *o, const struct bh_core_v1_pod *pod,
                                 size_t i)
{
    struct bh_obj *c = bh_informer_get(rc->claims, o->ns, ctl_pod_claim_name(pod, i));
    const struct bh_resource_v1_resource_claim *claim;

    if (!c || !pod->spec.node_name.n)
        return NULL;
    claim = bh_obj_struct(c);
    if (pod->spec.resource_claims.p[i].has_resource_claim_template_name &&
        !ctl_owned_by(&claim->metadata, "Pod", o->uid))
        return NULL;
    for (size_t k = 0; k < claim->status.reserved_for.n; k++)
        if (bh_str_eq(claim->status.reserved_for.p[k].uid, o->uid))
            return NULL;
    return claim->status.allocation ? c : NULL;
}

/* A pod that got its node without our scheduler: its allocated claims must know it. */
static void pod_reserve_static(struct rc *rc, struct bh_obj *o, const struct bh_core_v1_pod *pod)
{
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        struct bh_obj *c = unreserved(rc, o, pod, i);
        BH_AUTO_BUF b = {.max = 4096};

        if (!c)
            continue;
        bh_buf_addf(&b,
                    "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{\"reservedFor\":[{\"resource\":"
                    "\"pods\",\"name\":"
                    "\"%.*s\",\"uid\":\"%.*s\"}]}}",
                    BH_SF(c->uid), BH_SF(o->name), BH_SF(o->uid));
        (void)bh_client_patch(rc->ctl->client, &bh_resource_v1_resource_claim_kind, c->ns, c->name,
                              "status", BH_PATCH_STRATEGIC, bh_buf_str(&b), NULL, NULL);
    }
}

static void sync_pod(struct rc *rc, struct bh_str key, struct bh_str ns, struct bh_str name)
{
    struct bh_obj *o = bh_informer_get(rc->pods, ns, name);
    const struct bh_core_v1_pod *pod = o ? bh_obj_struct(o) : NULL;
    struct work *w;

    if (!o || ctl_pod_done(pod) || o->deleting) {
        bh_workqueue_done(rc->queue, key, BH_WORK_OK);
        return;
    }
    pod_reserve_static(rc, o, pod);
    w = work_new(rc, key, o);
    w->names = bh_new_n(w->arena, struct bh_str, pod->spec.resource_claims.n + 1);
    w->made = bh_new_n(w->arena, bool, pod->spec.resource_claims.n + 1);
    w->given_up = bh_new_n(w->arena, bool, pod->spec.resource_claims.n + 1);
    w->making = bh_new_n(w->arena, size_t, pod->spec.resource_claims.n + 1);
    pod_next(w);
}

/* ---- claims: consumers that are gone ---- */

static bool gone_known(struct rc *rc, struct bh_str uid)
{
    return bh_map_get(&rc->gone_set, uid) != NULL;
}

static void gone_remember(struct rc *rc, struct bh_str uid)
{
    struct bh_str *slot = &rc->gone[rc->gone_at];

    if (gone_known(rc, uid))
        return;
    rc->gone_at = (rc->gone_at + 1) % GONE_UIDS;
    if (slot->p) {
        (void)bh_map_del(&rc->gone_set, *slot);
        bh_free((void *)(uintptr_t)slot->p);
    }
    *slot = (struct bh_str){bh_strdup_c(uid), uid.n};
    (void)bh_map_put(&rc->gone_set, uid, slot);
}

static void claim_drop(struct work *w, size_t i)
{
    struct bh_resource_v1_resource_claim_consumer_reference_vec *r = &w->claim->status.reserved_for;

    for (size_t k = i; k + 1 < r->n; k++)
        r->p[k] = r->p[k + 1];
    r->n--;
    w->changed = true;
}

static void claim_asked(void *arg, const struct bh_client_res *res)
{
    struct work *w = arg;
    const struct bh_resource_v1_resource_claim_consumer_reference *r =
        &w->claim->status.reserved_for.p[w->i];

    if (res->err.code == BH_E_NOT_FOUND ||
        (res->err.code == BH_OK && res->obj &&
         (!bh_str_eq(res->obj->uid, r->uid) || ctl_pod_done(bh_obj_struct(res->obj))))) {
        claim_drop(w, w->i);
    } else if (res->err.code != BH_OK) {
        work_end(w, BH_WORK_RETRY);
        return;
    } else {
        w->i++;
    }
    claim_next(w);
}

static void claim_deleted(void *arg, const struct bh_client_res *res)
{
    struct work *w = arg;
    bool ok =
        res->err.code == BH_OK || res->err.code == BH_E_NOT_FOUND || res->err.code == BH_E_CONFLICT;

    work_end(w, ok ? BH_WORK_OK : BH_WORK_RETRY);
}

/* Whether a generated claim's pod is done or replaced. A pod that is not in the cache is left to
 * the garbage collector, which asks the server. */
static bool owner_done(struct rc *rc, const struct bh_obj *o)
{
    const struct bh_resource_v1_resource_claim *claim = bh_obj_struct(o);
    const struct bh_meta_v1_owner_reference *owner = NULL;
    struct bh_obj *p;

    for (size_t i = 0; i < claim->metadata.owner_references.n; i++) {
        const struct bh_meta_v1_owner_reference *r = &claim->metadata.owner_references.p[i];

        if (r->controller && bh_str_eqc(r->kind, "Pod") && bh_str_eqc(r->api_version, "v1"))
            owner = r;
    }
    p = owner ? bh_informer_get(rc->pods, o->ns, owner->name) : NULL;
    return p && (!bh_str_eq(p->uid, owner->uid) || ctl_pod_done(bh_obj_struct(p)));
}

/* Last step: a generated claim goes with its pod. */
static void claim_owner(struct work *w)
{
    if (w->claim->status.reserved_for.n || w->obj->deleting || !owner_done(w->rc, w->obj)) {
        work_end(w, BH_WORK_OK);
        return;
    }
    w->call = bh_client_delete(w->rc->ctl->client, &bh_resource_v1_resource_claim_kind, w->obj->ns,
                               w->obj->name, w->obj->uid, -1, claim_deleted, w);
}

static void claim_finalizer_gone(void *arg, const struct bh_client_res *res)
{
    struct work *w = arg;

    if (res->err.code != BH_OK && res->err.code != BH_E_NOT_FOUND) {
        work_end(w, BH_WORK_RETRY);
        return;
    }
    claim_owner(w);
}

static void claim_drop_finalizer(struct work *w)
{
    struct bh_str_vec *f = &w->claim->metadata.finalizers;
    size_t n = 0;

    for (size_t i = 0; i < f->n; i++)
        if (!bh_str_eqc(f->p[i], FINALIZER))
            f->p[n++] = f->p[i];
    if (n == f->n || w->claim->status.allocation) {
        claim_owner(w);
        return;
    }
    f->n = n;
    w->call = bh_client_update(w->rc->ctl->client, &bh_resource_v1_resource_claim_kind, w->claim,
                               "", claim_finalizer_gone, w);
}

static void claim_status_written(void *arg, const struct bh_client_res *res)
{
    struct work *w = arg;

    if (res->err.code == BH_E_NOT_FOUND) {
        work_end(w, BH_WORK_OK);
        return;
    }
    if (res->err.code != BH_OK || !res->obj) {
        work_end(w, BH_WORK_RETRY);
        return;
    }
    (void)bh_obj_unref(w->obj);
    w->obj = bh_obj_ref(res->obj);
    w->claim = bh_msg_dup(&bh_resource_v1_resource_claim_type, bh_obj_struct(w->obj), w->arena);
    if (w->claim->status.reserved_for.n == 0)
        claim_drop_finalizer(w);
    else
        work_end(w, BH_WORK_OK);
}

static bool has_finalizer(const struct bh_resource_v1_resource_claim *c)
{
    for (size_t i = 0; i < c->metadata.finalizers.n; i++)
        if (bh_str_eqc(c->metadata.finalizers.p[i], FINALIZER))
            return true;
    return false;
}

static void claim_write(struct work *w)
{
    struct bh_resource_v1_resource_claim *c = w->claim;
    bool none = c->status.reserved_for.n == 0;

    if (none && has_finalizer(c) && c->status.allocation && (w->changed || w->obj->deleting)) {
        c->status.allocation = NULL;
        c->status.devices.p = NULL; /* the server would prune them */
        c->status.devices.n = 0;
        w->changed = true;
    }
    if (w->changed) {
        if (none)
            c->status.reserved_for.p = NULL;
        w->call = bh_client_update(w->rc->ctl->client, &bh_resource_v1_resource_claim_kind, c,
                                   "status", claim_status_written, w);
    } else if (none && w->obj->deleting) {
        claim_drop_finalizer(w);
    } else {
        claim_owner(w);
    }
}

/* Looks at one consumer after the other, asking the server only about those the cache does not
 * hold. */
static void claim_next(struct work *w)
{
    struct rc *rc = w->rc;

    while (w->i < w->claim->status.reserved_for.n) {
        const struct bh_resource_v1_resource_claim_consumer_reference *r =
            &w->claim->status.reserved_for.p[w->i];
        struct bh_obj *p;

        if (r->api_group.n || !bh_str_eqc(r->resource, "pods")) {
            w->i++;
            continue;
        }
        p = bh_informer_get(rc->pods, w->obj->ns, r->name);
        if (p && bh_str_eq(p->uid, r->uid)) {
            if (ctl_pod_done(bh_obj_struct(p)))
                claim_drop(w, w->i);
            else
                w->i++;
            continue;
        }
        if (gone_known(rc, r->uid)) {
            claim_drop(w, w->i);
            continue;
        }
        w->call = bh_client_call(rc->ctl->client,
                                 &(struct bh_client_req){.verb = BH_VERB_GET,
                                                         .kind = &bh_core_v1_pod_kind,
                                                         .ns = w->obj->ns,
                                                         .name = r->name},
                                 claim_asked, w);
        return;
    }
    claim_write(w);
}

/* Most events of a claim change nothing for us: every consumer is there and not done, or it has
 * none and may stay as it is. */
static bool claim_fine(struct rc *rc, struct bh_obj *o)
{
    const struct bh_resource_v1_resource_claim *c = bh_obj_struct(o);

    for (size_t i = 0; i < c->status.reserved_for.n; i++) {
        const struct bh_resource_v1_resource_claim_consumer_reference *r =
            &c->status.reserved_for.p[i];
        struct bh_obj *p = bh_informer_get(rc->pods, o->ns, r->name);

        if (r->api_group.n || !bh_str_eqc(r->resource, "pods"))
            continue;
        if (!p || !bh_str_eq(p->uid, r->uid) || ctl_pod_done(bh_obj_struct(p)))
            return false;
    }
    return c->status.reserved_for.n > 0 || (!o->deleting && !owner_done(rc, o));
}

static void sync_claim(struct rc *rc, struct bh_str key, struct bh_str ns, struct bh_str name)
{
    struct bh_obj *o = bh_informer_get(rc->claims, ns, name);
    struct work *w;

    if (!o || claim_fine(rc, o)) {
        bh_workqueue_done(rc->queue, key, BH_WORK_OK);
        return;
    }
    w = work_new(rc, key, o);
    w->claim = bh_msg_dup(&bh_resource_v1_resource_claim_type, bh_obj_struct(o), w->arena);
    claim_next(w);
}

static void rc_sync(void *arg, struct bh_str key)
{
    struct rc *rc = arg;
    struct bh_str name = key, type = bh_str_cut(&name, ':'), ns = bh_str_cut(&name, '/');

    if (bh_str_eqc(type, "pod"))
        sync_pod(rc, key, ns, name);
    else
        sync_claim(rc, key, ns, name);
}

/* ---- events ---- */

static void pod_claims_changed(struct rc *rc, struct bh_obj *o)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(o);
    BH_AUTO_ARENA a = bh_arena_new(0);
    const struct ext_claims *ext;

    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        const struct bh_core_v1_pod_resource_claim *ref = &pod->spec.resource_claims.p[i];
        struct bh_str name = ctl_pod_claim_name(pod, i);
        const struct owned *own = ref->has_resource_claim_template_name
                                      ? bh_map_get(&rc->owned, owned_key(a, o->uid, ref->name))
                                      : NULL;

        if (name.n)
            enqueue(rc, "claim", o->ns, name);
        if (own && !bh_str_eqc(name, own->name)) /* made twice, see struct ext_claims */
            enqueue(rc, "claim", o->ns, bh_s(own->name));
    }
    if (pod->status.extended_resource_claim_status)
        enqueue(rc, "claim", o->ns,
                pod->status.extended_resource_claim_status->resource_claim_name);
    ext = bh_map_get(&rc->ext, o->uid);
    for (size_t i = 0; ext && i < ext->n; i++)
        enqueue(rc, "claim", o->ns, bh_s(ext->names[i]));
}

static bool pod_needs_look(struct rc *rc, struct bh_obj *o, const struct bh_core_v1_pod *pod)
{
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++)
        if ((pod->spec.resource_claims.p[i].has_resource_claim_template_name &&
             !entry_settled(rc, o, i)) ||
            unreserved(rc, o, pod, i))
            return true;
    return false;
}

static void pod_added(void *arg, struct bh_obj *o)
{
    struct rc *rc = arg;
    const struct bh_core_v1_pod *pod = bh_obj_struct(o);

    if (ctl_pod_done(pod))
        pod_claims_changed(rc, o);
    else if (pod_needs_look(rc, o, pod))
        enqueue(rc, "pod", o->ns, o->name);
}

static void pod_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    (void)old;
    pod_added(arg, o);
}

static void pod_deleted(void *arg, struct bh_obj *last)
{
    struct rc *rc = arg;

    gone_remember(rc, last->uid);
    pod_claims_changed(rc, last);
}

/* Of a generated claim: for which entry of which pod it was made. */
static bool claim_entry(const struct bh_resource_v1_resource_claim *c, struct bh_str *ret_uid,
                        struct bh_str *ret_entry)
{
    const struct bh_str *entry = bh_str_map_get(&c->metadata.annotations, BH_S(POD_CLAIM_NAME));

    for (size_t i = 0; entry && i < c->metadata.owner_references.n; i++) {
        if (!c->metadata.owner_references.p[i].controller)
            continue;
        *ret_uid = c->metadata.owner_references.p[i].uid;
        *ret_entry = *entry;
        return true;
    }
    return false;
}

static void ext_index(struct rc *rc, struct bh_str name, struct bh_str uid, bool present)
{
    struct ext_claims *e = bh_map_get(&rc->ext, uid);

    for (size_t i = 0; e && i < e->n; i++)
        if (bh_str_eqc(name, e->names[i])) {
            bh_free(e->names[i]);
            e->names[i] = e->names[--e->n];
            break;
        }
    if (present && !e) {
        e = bh_calloc(1, sizeof(*e));
        (void)bh_map_put(&rc->ext, uid, e);
    }
    if (present && e->n < EXT_CLAIMS_MAX)
        e->names[e->n++] = bh_strdup_c(name);
    if (e && e->n == 0)
        bh_free(bh_map_del(&rc->ext, uid));
}

static void claim_index(struct rc *rc, struct bh_obj *o, bool present)
{
    const struct bh_resource_v1_resource_claim *c = bh_obj_struct(o);
    BH_AUTO_ARENA a = bh_arena_new(0);
    const struct owned *have;
    struct bh_str uid, entry;
    bool same;

    if (bh_str_map_get(&c->metadata.annotations, BH_S(EXT_CLAIM)))
        for (size_t i = 0; i < c->metadata.owner_references.n; i++)
            ext_index(rc, o->name, c->metadata.owner_references.p[i].uid, present);
    if (!claim_entry(bh_obj_struct(o), &uid, &entry))
        return;
    struct bh_str key = owned_key(a, uid, entry);
    have = bh_map_get(&rc->owned, key);
    same = have && bh_str_eqc(o->name, have->name);
    /* An earlier claim, whose creation was answered to nobody, does not take the place of the one
     * that was made then and that the pod's status names. */
    if (present && (same || !have || !owned_name(rc, key) || !have->made_ns)) {
        if (have && !same)
            ext_index(rc, bh_s(have->name), uid, true);
        owned_put(rc, key, o->name, 0);
    } else if (present) {
        ext_index(rc, o->name, uid, true);
    } else if (same) {
        owned_free(bh_map_del(&rc->owned, key));
    } else {
        ext_index(rc, o->name, uid, false);
    }
}

static void claim_added(void *arg, struct bh_obj *o)
{
    struct rc *rc = arg;

    claim_index(rc, o, true);
    enqueue(rc, "claim", o->ns, o->name);
}

static void claim_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    struct rc *rc = arg;

    (void)old;
    enqueue(rc, "claim", o->ns, o->name);
}

static void claim_gone(void *arg, struct bh_obj *last)
{
    struct rc *rc = arg;
    const struct bh_resource_v1_resource_claim *c = bh_obj_struct(last);

    claim_index(rc, last, false);
    /* A generated claim that vanished under its pod is made again. */
    for (size_t i = 0; i < c->metadata.owner_references.n; i++)
        if (bh_str_eqc(c->metadata.owner_references.p[i].kind, "Pod"))
            enqueue(rc, "pod", last->ns, c->metadata.owner_references.p[i].name);
}

static bool rc_synced(const struct rc *rc)
{
    return ctl_synced((struct bh_informer *[]){rc->pods, rc->claims, rc->templates}, 3);
}

static void rc_begin(void *arg)
{
    struct rc *rc = arg;

    if (rc_synced(rc))
        bh_workqueue_resume(rc->queue);
}

static void template_added(void *arg, struct bh_obj *o)
{
    struct rc *rc = arg;
    struct bh_obj *p;

    if (!rc_synced(rc)) /* every pod is looked at then */
        return;
    for (size_t it = 0; (p = bh_informer_next(rc->pods, &it));) {
        const struct bh_core_v1_pod *pod = bh_obj_struct(p);

        if (!bh_str_eq(p->ns, o->ns))
            continue;
        for (size_t i = 0; i < pod->spec.resource_claims.n; i++)
            if (bh_str_eq(pod->spec.resource_claims.p[i].resource_claim_template_name, o->name))
                enqueue(rc, "pod", p->ns, p->name);
    }
}

/* A pod that came and went while our watch was lost is never told of: after a full list, claims of
 * consumers that are not in it are looked at. */
static void pods_listed(void *arg, uint64_t rv)
{
    struct rc *rc = arg;
    struct bh_obj *o;

    (void)rv;
    for (size_t it = 0; (o = bh_informer_next(rc->claims, &it));) {
        const struct bh_resource_v1_resource_claim *c = bh_obj_struct(o);
        bool missing = false;

        for (size_t i = 0; i < c->status.reserved_for.n && !missing; i++) {
            struct bh_obj *p = bh_informer_get(rc->pods, o->ns, c->status.reserved_for.p[i].name);

            missing = !p || !bh_str_eq(p->uid, c->status.reserved_for.p[i].uid);
        }
        if (missing)
            enqueue(rc, "claim", o->ns, o->name);
    }
}

static const struct bh_informer_ops pod_ops = {pod_added, pod_updated, pod_deleted, rc_begin,
                                               pods_listed};
static const struct bh_informer_ops claim_ops = {claim_added, claim_updated, claim_gone, rc_begin};
static const struct bh_informer_ops template_ops = {template_added, NULL, NULL, rc_begin};

static void *rc_start(struct ctl *c)
{
    struct rc *rc = bh_calloc(1, sizeof(*rc));

    rc->ctl = c;
    bh_list_init(&rc->works);
    rc->queue = bh_workqueue_new(c->loop, WORKERS, rc_sync, rc);
    bh_workqueue_pause(rc->queue);
    rc->pods = ctl_subscribe(c->informers, &bh_core_v1_pod_kind, &pod_ops, rc);
    rc->claims = ctl_subscribe(c->informers, &bh_resource_v1_resource_claim_kind, &claim_ops, rc);
    rc->templates = ctl_subscribe(c->informers, &bh_resource_v1_resource_claim_template_kind,
                                  &template_ops, rc);
    return rc;
}

static void rc_stop(void *self)
{
    struct rc *rc = self;
    size_t it = 0;
    void *v;

    bh_list_for_safe(l, &rc->works)
    {
        struct work *w = bh_container(l, struct work, link);

        bh_client_cancel(rc->ctl->client, w->call);
        (void)bh_obj_unref(w->obj);
        (void)bh_arena_free(w->arena);
    }
    rc->queue = bh_workqueue_free(rc->queue);
    while (bh_map_next(&rc->owned, &it, NULL, &v))
        owned_free(v);
    bh_map_done(&rc->owned);
    for (it = 0; bh_map_next(&rc->ext, &it, NULL, &v);) {
        struct ext_claims *e = v;

        while (e->n)
            bh_free(e->names[--e->n]);
        bh_free(e);
    }
    bh_map_done(&rc->ext);
    for (size_t i = 0; i < GONE_UIDS; i++)
        bh_free((void *)(uintptr_t)rc->gone[i].p);
    bh_map_done(&rc->gone_set);
    bh_free(rc);
}

const struct ctl_controller ctl_resource_claim = {"resourceclaim-controller", rc_start, rc_stop};
