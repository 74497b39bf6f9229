/* Config maps and secrets that a pod names in volumes and environments, and the persistent volumes
 * behind its claims: read live, one after the other, before they are used. */
#include "base/buf.h"
#include "client/volumes.h"
#include "kubelet/kubelet_int.h"

#define REFS_MAX 512

struct want {
    const struct bh_kind *kind;
    struct bh_str name;
    bool optional;
};

struct pod_refs {
    struct bh_kubelet *k;
    struct bh_arena *arena;
    struct bh_obj *pod;
    struct want *wants;
    size_t n, cap, i;
    struct bh_map objs;
    uint64_t call;
    bool begins;
    struct bh_timer now; /* for an answer that needs no request: never inside fetch */
    pod_refs_fn done;
    void *arg;
};

static struct bh_str ref_key(struct bh_arena *a, const struct bh_kind *kind, struct bh_str name)
{
    return bh_str_fmt(a, "%.*s/%.*s", BH_SF(kind->resource), BH_SF(name));
}

static void want(struct pod_refs *r, const struct bh_kind *kind, struct bh_str name, bool optional)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->wants[i].kind == kind && bh_str_eq(r->wants[i].name, name)) {
            r->wants[i].optional = r->wants[i].optional && optional;
            return;
        }
    if (!name.n || r->n >= REFS_MAX)
        return;
    bh_arena_grow(r->arena, &r->wants, &r->cap, r->n + 1, sizeof(*r->wants));
    r->wants[r->n++] = (struct want){kind, name, optional};
}

static void want_of_container(struct pod_refs *r, const struct bh_core_v1_container *c)
{
    for (size_t i = 0; i < c->env_from.n; i++) {
        const struct bh_core_v1_env_from_source *f = &c->env_from.p[i];

        if (f->config_map_ref)
            want(r, &bh_core_v1_config_map_kind, f->config_map_ref->local_object_reference.name,
                 f->config_map_ref->optional);
        if (f->secret_ref)
            want(r, &bh_core_v1_secret_kind, f->secret_ref->local_object_reference.name,
                 f->secret_ref->optional);
    }
    for (size_t i = 0; i < c->env.n; i++) {
        const struct bh_core_v1_env_var_source *s = c->env.p[i].value_from;

        if (s && s->config_map_key_ref)
            want(r, &bh_core_v1_config_map_kind, s->config_map_key_ref->local_object_reference.name,
                 s->config_map_key_ref->optional);
        if (s && s->secret_key_ref)
            want(r, &bh_core_v1_secret_kind, s->secret_key_ref->local_object_reference.name,
                 s->secret_key_ref->optional);
    }
}

static void want_of_volume(struct pod_refs *r, const struct bh_core_v1_volume_source *v)
{
    if (v->config_map)
        want(r, &bh_core_v1_config_map_kind, v->config_map->local_object_reference.name,
             v->config_map->optional);
    if (v->secret)
        want(r, &bh_core_v1_secret_kind, v->secret->secret_name, v->secret->optional);
    for (size_t i = 0; v->projected && i < v->projected->sources.n; i++) {
        const struct bh_core_v1_volume_projection *p = &v->projected->sources.p[i];

        if (p->config_map)
            want(r, &bh_core_v1_config_map_kind, p->config_map->local_object_reference.name,
                 p->config_map->optional);
        if (p->secret)
            want(r, &bh_core_v1_secret_kind, p->secret->local_object_reference.name,
                 p->secret->optional);
    }
}

static bool is_ephemeral(const struct pod_refs *r, struct bh_str claim)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(r->pod);

    for (size_t i = 0; i < pod->spec.volumes.n; i++)
        if (pod->spec.volumes.p[i].volume_source.ephemeral &&
            bh_str_eq(bh_pod_volume_claim(r->arena, r->pod->name, &pod->spec.volumes.p[i]), claim))
            return true;
    return false;
}

static bool made_for(const struct bh_core_v1_persistent_volume_claim *c, const struct bh_obj *pod)
{
    for (size_t i = 0; i < c->metadata.owner_references.n; i++)
        if (c->metadata.owner_references.p[i].controller &&
            bh_str_eq(c->metadata.owner_references.p[i].uid, pod->uid))
            return true;
    return false;
}

/* Only a claim that is bound, and to whose volume it is bound too, may be used. */
static int check_claim(struct pod_refs *r, const struct bh_obj *o, struct bh_err *err)
{
    const struct bh_core_v1_persistent_volume_claim *c = bh_obj_struct(o);
    const char *why = NULL;

    if (is_ephemeral(r, o->name) && !made_for(c, r->pod))
        return bh_err_set(err, BH_E_INVALID,
                          "error processing PVC %.*s/%.*s: PVC %.*s/%.*s was not created for pod "
                          "%.*s/%.*s (pod is not owner)",
                          BH_SF(o->ns), BH_SF(o->name), BH_SF(o->ns), BH_SF(o->name),
                          BH_SF(r->pod->ns), BH_SF(r->pod->name));
    if (o->deleting && r->begins)
        why = "PVC is being deleted";
    else if (!bh_str_eqc(c->status.phase, "Bound") || !c->spec.volume_name.n)
        why = "PVC is not bound";
    if (why)
        return bh_err_set(err, BH_E_INVALID, "error processing PVC %.*s/%.*s: %s", BH_SF(o->ns),
                          BH_SF(o->name), why);
    want(r, &bh_core_v1_persistent_volume_kind, c->spec.volume_name, false);
    return 0;
}

static const void *find(const struct pod_refs *r, const struct bh_kind *kind, struct bh_str name);

static int check_volume(struct pod_refs *r, const struct bh_obj *o, struct bh_err *err)
{
    const struct bh_core_v1_object_reference *ref =
        ((const struct bh_core_v1_persistent_volume *)bh_obj_struct(o))->spec.claim_ref;
    const struct bh_core_v1_persistent_volume_claim *c =
        ref ? find(r, &bh_core_v1_persistent_volume_claim_kind, ref->name) : NULL;

    if (!ref)
        return bh_err_set(
            err, BH_E_INVALID,
            "found PV object \"%.*s\" but it has a nil pv.Spec.ClaimRef indicating it "
            "is not yet bound to the claim",
            BH_SF(o->name));
    if (!c || !bh_str_eq(c->metadata.uid, ref->uid))
        return bh_err_set(err, BH_E_INVALID,
                          "found PV object \"%.*s\" but its pv.Spec.ClaimRef.UID \"%.*s\" does not "
                          "point to claim.UID \"%.*s\"",
                          BH_SF(o->name), BH_SF(ref->uid), BH_SF(c ? c->metadata.uid : BH_S("")));
    return 0;
}

static void next(struct pod_refs *r);

static void got(void *arg, const struct bh_client_res *res)
{
    struct pod_refs *r = arg;
    const struct want *w = &r->wants[r->i];
    struct bh_err err = {0};

    r->call = 0;
    if (res->err.code == BH_OK && res->obj) {
        const struct bh_kind *kind = w->kind;
        int ok = 0;

        (void)bh_obj_unref(
            bh_map_put(&r->objs, ref_key(r->arena, kind, w->name), bh_obj_ref(res->obj)));
        if (kind == &bh_core_v1_persistent_volume_claim_kind)
            ok = check_claim(r, res->obj, &err);
        else if (kind == &bh_core_v1_persistent_volume_kind)
            ok = check_volume(r, res->obj, &err);
        if (ok < 0) {
            r->done(r->arg, &err);
            return;
        }
    } else if (!(res->err.code == BH_E_NOT_FOUND && w->optional)) {
        (void)bh_err_set(&err, res->err.code ? res->err.code : BH_E_INTERNAL, "%s",
                         res->err.msg[0] ? res->err.msg : "no object in the answer");
        r->done(r->arg, &err);
        return;
    }
    r->i++;
    next(r);
}

static void next(struct pod_refs *r)
{
    if (r->i == r->n) {
        r->done(r->arg, NULL);
        return;
    }
    r->call = bh_client_call(r->k->client,
                             &(struct bh_client_req){.verb = BH_VERB_GET,
                                                     .kind = r->wants[r->i].kind,
                                                     .ns = r->wants[r->i].kind->namespaced
                                                               ? r->pod->ns
                                                               : (struct bh_str){NULL, 0},
                                                     .name = r->wants[r->i].name},
                             got, r);
}

static void begin(void *arg)
{
    next(arg);
}

struct pod_refs *pod_refs_fetch(struct bh_kubelet *k, struct bh_obj *o, bool begins,
                                pod_refs_fn done, void *arg)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(o);
    struct bh_arena *a = bh_arena_new(0);
    struct pod_refs *r = bh_new(a, struct pod_refs);

    r->k = k;
    r->arena = a;
    r->pod = bh_obj_ref(o);
    r->begins = begins;
    r->done = done;
    r->arg = arg;
    for (size_t i = 0; i < pod->spec.volumes.n; i++) {
        want_of_volume(r, &pod->spec.volumes.p[i].volume_source);
        want(r, &bh_core_v1_persistent_volume_claim_kind,
             bh_pod_volume_claim(a, o->name, &pod->spec.volumes.p[i]), false);
    }
    for (size_t i = 0; i < pod->spec.init_containers.n; i++)
        want_of_container(r, &pod->spec.init_containers.p[i]);
    for (size_t i = 0; i < pod->spec.containers.n; i++)
        want_of_container(r, &pod->spec.containers.p[i]);
    bh_timer_init(&r->now, k->loop, begin, r);
    bh_timer_start(&r->now, 0);
    return r;
}

struct pod_refs *pod_refs_free(struct pod_refs *r)
{
    void *v;

    if (!r)
        return NULL;
    bh_timer_stop(&r->now);
    bh_client_cancel(r->k->client, r->call);
    for (size_t it = 0; bh_map_next(&r->objs, &it, NULL, &v);)
        (void)bh_obj_unref(v);
    bh_map_done(&r->objs);
    (void)bh_obj_unref(r->pod);
    (void)bh_arena_free(r->arena);
    return NULL;
}

static const void *find(const struct pod_refs *r, const struct bh_kind *kind, struct bh_str name)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    const struct bh_obj *o = r ? bh_map_get(&r->objs, ref_key(a, kind, name)) : NULL;

    return o ? bh_obj_struct(o) : NULL;
}

const struct bh_core_v1_config_map *pod_refs_config_map(const struct pod_refs *r,
                                                        struct bh_str name)
{
    return find(r, &bh_core_v1_config_map_kind, name);
}

const struct bh_core_v1_secret *pod_refs_secret(const struct pod_refs *r, struct bh_str name)
{
    return find(r, &bh_core_v1_secret_kind, name);
}

const struct bh_core_v1_persistent_volume *pod_refs_volume(const struct pod_refs *r,
                                                           const struct bh_core_v1_volume *v)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    const struct bh_core_v1_persistent_volume_claim *c;
    struct bh_str name = r ? bh_pod_volume_claim(a, r->pod->name, v) : (struct bh_str){NULL, 0};

    c = name.n ? find(r, &bh_core_v1_persistent_volume_claim_kind, name) : NULL;
    return c ? find(r, &bh_core_v1_persistent_volume_kind, c->spec.volume_name) : NULL;
}
