/* Binding: the writes that make a decision true, many pods at a time.
 *
 * Per pod, one after the other: each new allocation (finalizer when missing, then status), each
 * reservation of a claim that was allocated before, then the binding itself. A write whose answer
 * is lost is repeated until the server says definitely what became of it: a reservation is given
 * back only when the write can no longer take effect, or a device could be given twice.
 */
#include <string.h>

#include "api/engine.h"
#include "base/log.h"
#include "scheduler/sched_int.h"

#define FINALIZER      "resource.kubernetes.io/delete-protection"
#define CONFLICT_TRIES 5
#define RETRY_FIRST_MS 10
#define RETRY_MAX_MS   5000

struct bind_claim {
    struct bh_str ns, name, uid;
    const struct bh_resource_v1_allocation_result *alloc; /* to be stored; NULL: only reserve */
    struct bh_obj *obj;                                   /* newest that we know; referenced */
    const struct ext_claim *create; /* to be made first; its reservation stands under its own uid */
    /* A sibling of the group stores this allocation; NULL: it is ours, or was there before. */
    const struct bh_resource_v1_allocation_result *shared;
    uint64_t reservation; /* ours, in the ledger */
    bool stored;          /* the allocation is in the API */
    bool reserved;        /* by a write of ours */
};

enum bind_step {
    STEP_VOLUMES, /* their binding is begun; the claims follow at once */
    STEP_CREATE,  /* of the claim for extended resources */
    STEP_FINALIZER,
    STEP_STATUS,
    STEP_GET,
    STEP_POD_STATUS, /* which claim serves the extended resources, what devices take of the node */
    STEP_SHARED,     /* for a sibling that stores an allocation of both */
    STEP_WAIT,       /* for the devices' binding conditions */
    STEP_GROUP,      /* for the rest of the group */
    STEP_BIND,
    STEP_GET_POD,
};

/* Bindings that are made together: none is written before all are ready to be. */
struct bind_group {
    struct bh_link members;
    uint32_t refs; /* members, and whoever makes them */
    uint32_t expected, ready;
};

struct sbind {
    struct bh_link link;      /* in s->binds */
    struct bind_group *group; /* NULL: alone, or all of them are ready */
    struct bh_link group_link;
    bool begun;
    bool dead;               /* the group or the volumes failed: it ends when its write is over */
    struct bh_str dead_text; /* none: the group's */
    struct bh_scheduler *s;
    struct bh_arena *arena;
    struct spod *pod; /* NULL: it is gone meanwhile */
    struct bh_obj *pod_obj;
    struct bh_str node;
    struct bh_recorder *recorder;
    int64_t timeout_s; /* of binding conditions */
    struct bind_claim *claims;
    size_t n, i;
    const struct bind_claim *ext; /* one of them, or NULL */
    /* What devices take of the node's own resources, or NULL. */
    const struct bh_core_v1_pod_status *native;
    bool pod_told;          /* the pod's status says these two */
    struct bh_str *watched; /* uids of all claims of the pod */
    struct bh_str *watched_names;
    size_t watched_n;
    struct sched_vbind *volumes; /* of claims that waited for the pod; NULL: none, or bound */
    struct bh_link wait;         /* in s->bind_waits */
    int64_t wait_until;
    bool waiting;
    bool devices_ready;
    bool node_told;
    enum bind_step step;
    bool unsure; /* the last write of the step may still have taken effect */
    int tries;   /* conflicts of this claim */
    int64_t wait_ms;
    uint64_t call;
    struct bh_timer retry;
};

static void bind_go(struct sbind *b);
static void bind_answer(void *arg, const struct bh_client_res *res);
static void post_binding(struct sbind *b);

/* ---- groups ---- */

#define GROUP_TEXT                                                                                 \
    "running Permit plugin \"GangScheduling\": another pod of the group could not be bound"

struct bind_group *sched_bind_group_add(struct bind_group *bg)
{
    if (!bg) {
        bg = bh_calloc(1, sizeof(*bg));
        bg->refs = 1;
        bh_list_init(&bg->members);
    }
    bg->expected++;
    return bg;
}

static void group_unref(struct bind_group *bg)
{
    if (--bg->refs == 0)
        bh_free(bg);
}

static struct bh_str end_text(const struct sbind *b)
{
    if (b->dead_text.n)
        return b->dead_text;
    return b->dead ? BH_S(GROUP_TEXT) : (struct bh_str){NULL, 0};
}

/* Of what ends a bind that is to end; the volumes end with it. */
static bool nothing_writes(const struct sbind *b)
{
    return !b->begun || (!b->call && (b->step == STEP_WAIT || b->step == STEP_GROUP));
}

static void group_leave(struct sbind *b)
{
    struct bind_group *bg = b->group;

    if (!bg)
        return;
    bh_list_del(&b->group_link);
    b->group = NULL;
    group_unref(bg);
}

static void bind_failed(struct sbind *b, struct bh_str why);

/* One of the group cannot be bound: neither are the others. */
static void group_failed(struct sbind *b)
{
    struct bind_group *bg = b->group;

    if (!bg)
        return;
    bg->refs++;
    group_leave(b);
    while (!bh_list_empty(&bg->members)) {
        struct sbind *o = bh_container(bg->members.next, struct sbind, group_link);

        group_leave(o);
        o->dead = true;
        if (nothing_writes(o))
            bind_failed(o, end_text(o)); /* nothing would end it */
    }
    group_unref(bg);
}

/* True: all are ready, and b goes on as the others do. */
static bool group_ready(struct sbind *b)
{
    struct bind_group *bg = b->group;

    if (!bg)
        return true;
    if (b->step != STEP_GROUP)
        bg->ready++;
    b->step = STEP_GROUP;
    if (bg->ready < bg->expected)
        return false;
    bg->refs++;
    group_leave(b);
    while (!bh_list_empty(&bg->members)) {
        struct sbind *o = bh_container(bg->members.next, struct sbind, group_link);

        group_leave(o);
        post_binding(o);
    }
    group_unref(bg);
    return true;
}

static bool ends(const struct sbind *b)
{
    return !b->pod || b->dead;
}

static void bind_free(struct sbind *b)
{
    struct bh_arena *a = b->arena;

    group_leave(b);

    if (b->call)
        bh_client_cancel(b->s->client, b->call);
    bh_timer_stop(&b->retry);
    bh_list_del(&b->link);
    bh_list_del(&b->wait);
    b->s->binds_n--;
    sched_vbind_free(b->volumes);
    if (b->pod)
        b->pod->bind = NULL;
    for (size_t i = 0; i < b->n; i++)
        (void)bh_obj_unref(b->claims[i].obj);
    (void)bh_obj_unref(b->pod_obj);
    (void)bh_arena_free(a);
}

/* The attempt ends without a bound pod. why empty: the pod is gone, nobody is to be told. */
static void untell_pod(const struct sbind *b);
static void bind_failed(struct sbind *b, struct bh_str why)
{
    struct bh_scheduler *s = b->s;
    struct spod *pod = b->pod;
    bool freed = false;

    group_failed(b);
    for (size_t i = 0; i < b->n; i++) {
        struct bind_claim *k = &b->claims[i];

        if (k->create && k->obj)
            sched_claim_remove(s, k->obj);
        else if (k->reserved && pod) /* of a pod that is gone the claim controller gives all back */
            sched_release(s, k->obj, b->pod_obj); /* the allocation stays for the next attempt */
        /* Another pod may have reserved for the claim since ours was lost. */
        if (k->alloc && !k->stored && bh_dra_reservation(s->model, k->uid) == k->reservation) {
            bh_dra_unreserve(s->model, k->uid);
            freed = true;
        }
    }
    if (pod && pod->assumed) {
        struct snode *n = pod->node->obj ? pod->node : NULL; /* one without object may go now */

        if (b->native && b->pod_told)
            untell_pod(b);
        pod->assumed = false;
        sched_node_del_pod(s, pod);
        sched_happened(s, &(struct happening){.ev = EV_POD_GONE, .pod = pod, .node = n});
    }
    if (freed)
        sched_devices_freed(s);
    if (pod && pod->where == POD_BINDING)
        pod->where = POD_OFF;
    if (pod && why.n && !pod->node && !pod->obj->deleting) {
        sched_requeue(s, pod, 0, true);
        sched_say(s, pod, "SchedulerError", why, true);
    }
    sched_turn_soon(s); /* room for another bind */
    bind_free(b);
}

static void bind_done(struct sbind *b)
{
    struct bh_scheduler *s = b->s;

    s->stats.scheduled++;
    if (b->pod)
        sched_attempt_over(s, b->pod, ATTEMPT_SCHEDULED);
    bh_event(b->recorder, b->pod_obj, "Normal", "Scheduled",
             "Successfully assigned %.*s/%.*s to %.*s", BH_SF(b->pod_obj->ns),
             BH_SF(b->pod_obj->name), BH_SF(b->node));
    if (b->pod && b->pod->where == POD_BINDING)
        b->pod->where = POD_OFF;
    sched_turn_soon(s);
    bind_free(b);
}

static void fail_f(struct sbind *b, const char *fmt, ...) BH_PRINTF(2, 3);
static void fail_f(struct sbind *b, const char *fmt, ...)
{
    va_list ap;
    struct bh_str text;

    va_start(ap, fmt);
    text = bh_str_vfmt(b->arena, fmt, ap);
    va_end(ap);
    bind_failed(b, text);
}

/* ---- the writes ---- */

static bool has_finalizer(const struct bh_resource_v1_resource_claim *c)
{
    for (size_t i = 0; i < c->metadata.finalizers.n; i++)
        if (bh_str_eqc(c->metadata.finalizers.p[i], FINALIZER))
            return true;
    return false;
}

static bool reserved_for(const struct bh_resource_v1_resource_claim *c, struct bh_str uid)
{
    for (size_t i = 0; i < c->status.reserved_for.n; i++)
        if (bh_str_eq(c->status.reserved_for.p[i].uid, uid))
            return true;
    return false;
}

static void put_finalizer(struct sbind *b, struct bind_claim *k)
{
    struct bh_resource_v1_resource_claim c =
        *(const struct bh_resource_v1_resource_claim *)bh_obj_struct(k->obj);
    struct bh_str_vec f = {bh_new_n(b->arena, struct bh_str, c.metadata.finalizers.n + 1), 0};

    for (size_t i = 0; i < c.metadata.finalizers.n; i++)
        f.p[f.n++] = c.metadata.finalizers.p[i];
    f.p[f.n++] = BH_S(FINALIZER);
    c.metadata.finalizers = f;
    b->step = STEP_FINALIZER;
    b->call =
        bh_client_update(b->s->client, &bh_resource_v1_resource_claim_kind, &c, "", bind_answer, b);
}

/* Siblings of a group reserve a claim all at once: without versions, so that none is in another's
 * way. The answer shows whether it is the allocation that was meant. */
static void join_reservation(struct sbind *b, const struct bind_claim *k)
{
    struct bh_str body =
        bh_str_fmt(b->arena,
                   "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{\"reservedFor\":[{\"resource\":"
                   "\"pods\",\"name\":\"%.*s\",\"uid\":\"%.*s\"}]}}",
                   BH_SF(k->uid), BH_SF(b->pod_obj->name), BH_SF(b->pod_obj->uid));

    b->step = STEP_STATUS;
    b->call = bh_client_patch(b->s->client, &bh_resource_v1_resource_claim_kind, k->ns, k->name,
                              "status", BH_PATCH_STRATEGIC, body, bind_answer, b);
}

static void put_status(struct sbind *b, struct bind_claim *k)
{
    struct bh_resource_v1_resource_claim c =
        *(const struct bh_resource_v1_resource_claim *)bh_obj_struct(k->obj);
    struct bh_resource_v1_resource_claim_consumer_reference_vec r = {
        bh_new_n(b->arena, struct bh_resource_v1_resource_claim_consumer_reference,
                 c.status.reserved_for.n + 1),
        c.status.reserved_for.n};

    if (r.n)
        memcpy(r.p, c.status.reserved_for.p, r.n * sizeof(*r.p));
    r.p[r.n++] = (struct bh_resource_v1_resource_claim_consumer_reference){
        .resource = BH_S("pods"), .name = b->pod_obj->name, .uid = b->pod_obj->uid};
    c.status.reserved_for = r;
    if (k->alloc) {
        struct bh_resource_v1_allocation_result *al =
            bh_arena_memdup(b->arena, k->alloc, sizeof(*k->alloc));

        al->allocation_timestamp = (struct bh_time){bh_loop_wall_ns(b->s->loop) / 1000000000, 0};
        c.status.allocation = al;
    }
    b->step = STEP_STATUS;
    b->call = bh_client_update(b->s->client, &bh_resource_v1_resource_claim_kind, &c, "status",
                               bind_answer, b);
}

static void get_claim(struct sbind *b, const struct bind_claim *k)
{
    struct bh_client_req req = {.verb = BH_VERB_GET,
                                .kind = &bh_resource_v1_resource_claim_kind,
                                .ns = k->ns,
                                .name = k->name};

    b->step = STEP_GET;
    b->call = bh_client_call(b->s->client, &req, bind_answer, b);
}

static void create_claim(struct sbind *b, const struct bind_claim *k)
{
    struct bh_resource_v1_resource_claim c = k->create->claim;

    c.metadata.name = c.metadata.uid = (struct bh_str){NULL, 0};
    c.metadata.finalizers.p = bh_new(b->arena, struct bh_str);
    c.metadata.finalizers.p[0] = BH_S(FINALIZER);
    c.metadata.finalizers.n = 1;
    b->step = STEP_CREATE;
    b->call = bh_client_create(b->s->client, &bh_resource_v1_resource_claim_kind, k->ns, &c,
                               bind_answer, b);
}

static void add_ext_status(const struct sbind *b, struct bh_buf *out)
{
    const struct bh_core_v1_container_extended_resource_request_vec *m = &b->ext->create->mappings;

    bh_buf_addf(out, "\"extendedResourceClaimStatus\":{\"requestMappings\":[");
    for (size_t i = 0; i < m->n; i++)
        bh_buf_addf(out,
                    "%s{\"containerName\":\"%.*s\",\"resourceName\":\"%.*s\",\"requestName\":"
                    "\"%.*s\"}",
                    i ? "," : "", BH_SF(m->p[i].container_name), BH_SF(m->p[i].resource_name),
                    BH_SF(m->p[i].request_name));
    bh_buf_addf(out, "],\"resourceClaimName\":\"%.*s\"}", BH_SF(b->ext->name));
}

static void add_native_status(const struct bh_core_v1_pod_status *st, struct bh_buf *out)
{
    bh_buf_addf(out, "\"nodeAllocatableResourceClaimStatuses\":[");
    for (size_t i = 0; i < st->node_allocatable_resource_claim_statuses.n; i++) {
        if (i)
            bh_buf_addc(out, ',');
        bh_msg_encode_json(&bh_core_v1_node_allocatable_resource_claim_status_type,
                           &st->node_allocatable_resource_claim_statuses.p[i], out);
    }
    bh_buf_addc(out, ']');
}

static void tell_pod(struct sbind *b)
{
    BH_AUTO_BUF out = {.max = 256u << 10};

    bh_buf_addf(&out, "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{", BH_SF(b->pod_obj->uid));
    if (b->ext)
        add_ext_status(b, &out);
    if (b->ext && b->native)
        bh_buf_addc(&out, ',');
    if (b->native)
        add_native_status(b->native, &out);
    bh_buf_addf(&out, "}}");
    b->step = STEP_POD_STATUS;
    b->call = bh_client_patch(b->s->client, &bh_core_v1_pod_kind, b->pod_obj->ns, b->pod_obj->name,
                              "status", BH_PATCH_MERGE, bh_buf_str(&out), bind_answer, b);
}

/* What was told of the node's resources is not so. */
static void untell_pod(const struct sbind *b)
{
    (void)bh_client_patch(b->s->client, &bh_core_v1_pod_kind, b->pod_obj->ns, b->pod_obj->name,
                          "status", BH_PATCH_MERGE,
                          bh_str_fmt(b->arena,
                                     "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{"
                                     "\"nodeAllocatableResourceClaimStatuses\":null}}",
                                     BH_SF(b->pod_obj->uid)),
                          NULL, NULL);
}

enum devices { DEVICES_READY, DEVICES_PENDING, DEVICES_FAILED };

/* Whether the devices are bound. Failed: the attempt has ended, and b with it. */
static enum devices devices_bound(struct sbind *b)
{
    const struct bh_meta_v1_condition *failure = NULL;
    bool pending = false;

    for (size_t i = 0; i < b->watched_n; i++) {
        struct bh_obj *o = bh_informer_get(b->s->inf_claims, b->pod_obj->ns, b->watched_names[i]);

        for (size_t k = 0; k < b->n; k++) /* the answer to our own write may be newer */
            if (bh_str_eq(b->claims[k].name, b->watched_names[i]) && b->claims[k].obj &&
                (!o || b->claims[k].obj->rv > o->rv))
                o = b->claims[k].obj;
        if (!o)
            continue;
        switch (sched_binding_state(bh_obj_struct(o), &failure)) {
        case BINDING_FAILED:
            fail_f(
                b,
                "running PreBind plugin \"DynamicResources\": device binding failed: claim=%.*s, "
                "reason=%.*s, message=\"%.*s\"",
                BH_SF(o->name), BH_SF(failure->reason), BH_SF(failure->message));
            return DEVICES_FAILED;
        case BINDING_PENDING:
            if (b->wait_until && bh_loop_mono_ns(b->s->loop) >= b->wait_until) {
                fail_f(b,
                       "running PreBind plugin \"DynamicResources\": device binding timeout: "
                       "claim=%.*s",
                       BH_SF(o->name));
                return DEVICES_FAILED;
            }
            pending = true;
            break;
        case BINDING_NONE:
        case BINDING_READY:
            break;
        }
    }
    return pending ? DEVICES_PENDING : DEVICES_READY;
}

/* Where the pod will be, told before it is bound: what is awaited may depend on it. */
static void tell_node(struct sbind *b)
{
    if (b->node_told)
        return;
    b->node_told = true;
    (void)bh_client_patch(
        b->s->client, &bh_core_v1_pod_kind, b->pod_obj->ns, b->pod_obj->name, "status",
        BH_PATCH_MERGE,
        bh_str_fmt(b->arena,
                   "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{\"nominatedNodeName\":\"%.*s\"}}",
                   BH_SF(b->pod_obj->uid), BH_SF(b->node)),
        NULL, NULL);
}

static void begin_wait(struct sbind *b)
{
    b->waiting = true;
    b->wait_until = bh_loop_mono_ns(b->s->loop) + b->timeout_s * 1000000000;
    bh_list_add_tail(&b->s->bind_waits, &b->wait);
    bh_timer_start(&b->retry, b->timeout_s * 1000 + 1);
    tell_node(b);
    bh_event(b->recorder, b->pod_obj, "Normal", "BindingConditionsPending",
             "waiting for binding conditions for device on node %.*s", BH_SF(b->node));
}

/* Whether the pod still names the claims that were prepared for it: a controller that lost an
 * answer may have made another one. */
static bool names_its_claims(const struct sbind *b)
{
    const struct spod *pod = b->pod;

    for (size_t i = 0; pod && i < b->watched_n; i++) {
        bool named = b->ext && bh_str_eq(b->ext->name, b->watched_names[i]);
        struct bh_str name;

        for (size_t k = 0; !named && k < pod->p->spec.resource_claims.n; k++)
            named = sched_claim_named(pod, k, &name) && bh_str_eq(name, b->watched_names[i]);
        if (!named)
            return false;
    }
    return true;
}

/* False: the devices are still awaited. Otherwise b may be gone. */
static bool go_wait(struct sbind *b)
{
    if (!names_its_claims(b)) {
        fail_f(b, "running PreBind plugin \"DynamicResources\": the pod uses another claim by now");
        return true;
    }
    b->step = STEP_WAIT;
    switch (b->devices_ready ? DEVICES_READY : devices_bound(b)) {
    case DEVICES_FAILED:
        return true;
    case DEVICES_PENDING:
        if (!b->waiting)
            begin_wait(b);
        return false;
    case DEVICES_READY:
        break;
    }
    b->devices_ready = true;
    bh_list_del(&b->wait);
    bh_timer_stop(&b->retry);
    if (!b->volumes && group_ready(b))
        post_binding(b);
    return true;
}

static bool watches(const struct sbind *b, struct bh_str uid)
{
    for (size_t i = 0; i < b->watched_n; i++)
        if (bh_str_eq(b->watched[i], uid))
            return true;
    return false;
}

void sched_bind_claim(struct bh_scheduler *s, const struct bh_obj *claim)
{
    for (bool more = true; more;) {
        more = false;
        bh_list_for(it, &s->bind_waits)
        {
            struct sbind *b = bh_container(it, struct sbind, wait);

            if (!watches(b, claim->uid) || !go_wait(b))
                continue;
            more = true;
            break; /* one that fails takes the others of its group with it */
        }
    }
}

static void post_binding(struct sbind *b)
{
    const struct bh_core_v1_binding msg = {
        .metadata = {.name = b->pod_obj->name, .namespace = b->pod_obj->ns, .uid = b->pod_obj->uid},
        .target = {.kind = BH_S("Node"), .name = b->node}};
    struct bh_client_req req = {.verb = BH_VERB_CREATE,
                                .kind = &bh_core_v1_pod_kind,
                                .ns = b->pod_obj->ns,
                                .name = b->pod_obj->name,
                                .subresource = BH_S("binding"),
                                .msg = &msg,
                                .msg_kind = &bh_core_v1_binding_kind};

    b->step = STEP_BIND;
    b->call = bh_client_call(b->s->client, &req, bind_answer, b);
}

static void get_pod(struct sbind *b)
{
    struct bh_client_req req = {.verb = BH_VERB_GET,
                                .kind = &bh_core_v1_pod_kind,
                                .ns = b->pod_obj->ns,
                                .name = b->pod_obj->name};

    b->step = STEP_GET_POD;
    b->call = bh_client_call(b->s->client, &req, bind_answer, b);
}

static void again_later(struct sbind *b);

/* A sibling stores the allocation. Each retry asks the informer's newest state for it. */
static void await_sibling(struct sbind *b, struct bind_claim *k)
{
    struct bh_obj *o = bh_informer_get(b->s->inf_claims, k->ns, k->name);

    b->step = STEP_SHARED;
    if (o && o->rv > k->obj->rv) {
        struct bh_obj *old = k->obj;

        k->obj = bh_obj_ref(o);
        (void)bh_obj_unref(old);
    }
    again_later(b);
}

/* At any time: while claims are written, and while devices are awaited. */
static void volumes_bound(void *arg, struct bh_str why)
{
    struct sbind *b = arg;
    struct sched_vbind *v = b->volumes;

    if (why.n && !b->dead) {
        b->dead = true;
        b->dead_text = bh_str_dup(b->arena, why);
    }
    b->volumes = NULL;
    sched_vbind_free(v);
    if (b->call || b->step != STEP_WAIT)
        return; /* what is under way goes on, or ends it */
    if (b->dead)
        bind_failed(b, end_text(b));
    else
        (void)go_wait(b);
}

/* The next write, from what the newest objects say. */
static void bind_go(struct sbind *b)
{
    while (b->i < b->n) {
        struct bind_claim *k = &b->claims[b->i];
        const struct bh_resource_v1_resource_claim *c;

        if (!k->obj) {
            create_claim(b, k);
            return;
        }
        c = bh_obj_struct(k->obj);
        if (!bh_str_eq(k->obj->uid, k->uid) || k->obj->deleting) {
            fail_f(b,
                   "running PreBind plugin \"DynamicResources\": claim %.*s/%.*s got deleted in "
                   "the meantime",
                   BH_SF(k->ns), BH_SF(k->name));
            return;
        }
        if (k->alloc && !k->stored && c->status.allocation) {
            fail_f(b,
                   "running PreBind plugin \"DynamicResources\": claim %.*s/%.*s got allocated "
                   "elsewhere in the meantime",
                   BH_SF(k->ns), BH_SF(k->name));
            return;
        }
        if (k->shared && !c->status.allocation) {
            await_sibling(b, k);
            return;
        }
        /* Written already, seen and given back by somebody before the answer came: the devices may
         * be another's by now. */
        if (k->alloc && !k->stored && !bh_dra_is_reserved(b->s->model, k->uid)) {
            fail_f(b,
                   "running PreBind plugin \"DynamicResources\": claim %.*s/%.*s got deallocated "
                   "elsewhere in the meantime",
                   BH_SF(k->ns), BH_SF(k->name));
            return;
        }
        if (!k->alloc && !c->status.allocation) {
            fail_f(b,
                   "running PreBind plugin \"DynamicResources\": claim %.*s/%.*s got deallocated "
                   "elsewhere in the meantime",
                   BH_SF(k->ns), BH_SF(k->name));
            return;
        }
        if (k->alloc && !k->stored &&
            bh_dra_reservation_lost(b->s->model, k->uid, k->reservation)) {
            fail_f(b,
                   "running PreBind plugin \"DynamicResources\": claim %.*s/%.*s got deallocated "
                   "elsewhere in the meantime",
                   BH_SF(k->ns), BH_SF(k->name));
            return;
        }
        if (k->alloc && !has_finalizer(c)) {
            put_finalizer(b, k);
            return;
        }
        if (!reserved_for(c, b->pod_obj->uid) || (k->alloc && !k->stored)) {
            if (k->shared)
                join_reservation(b, k);
            else
                put_status(b, k);
            return;
        }
        b->i++;
        b->tries = 0;
        b->wait_ms = 0;
    }
    if ((b->ext || b->native) && !b->pod_told)
        tell_pod(b);
    else
        (void)go_wait(b);
}

static void on_retry(void *arg)
{
    struct sbind *b = arg;

    switch (b->step) {
    case STEP_GET:
        get_claim(b, &b->claims[b->i]);
        break;
    case STEP_GET_POD:
        get_pod(b);
        break;
    case STEP_WAIT:
        (void)go_wait(b);
        break;
    case STEP_GROUP:
        break;
    case STEP_VOLUMES:
        break; /* it has a timer of its own */
    case STEP_SHARED:
    case STEP_CREATE:
    case STEP_POD_STATUS:
    case STEP_FINALIZER:
    case STEP_STATUS:
    case STEP_BIND:
        /* The same write again: what it names (version, uid) lets it take effect once only. */
        if (ends(b) && !b->unsure)
            bind_failed(b, end_text(b));
        else
            bind_go(b);
        break;
    }
}

static void again_later(struct sbind *b)
{
    b->wait_ms = b->wait_ms ? 2 * b->wait_ms : RETRY_FIRST_MS;
    if (b->wait_ms > RETRY_MAX_MS)
        b->wait_ms = RETRY_MAX_MS;
    bh_timer_start(&b->retry, b->wait_ms);
}

/* No answer, or one that says nothing about the write: it may have taken effect. */
static bool unknown(const struct bh_client_res *res)
{
    return res->status == 0 || res->status == 429 || res->status >= 500;
}

static void take_claim(struct bind_claim *k, const struct bh_obj *o)
{
    struct bh_obj *old = k->obj;

    k->obj = bh_obj_ref(o);
    (void)bh_obj_unref(old);
}

static bool same_allocation(const struct bh_resource_v1_allocation_result *a,
                            const struct bh_resource_v1_allocation_result *b)
{
    return bh_msg_equal(&bh_resource_v1_device_allocation_result_type, &a->devices, &b->devices);
}

static bool same_shared(const struct bind_claim *k)
{
    const struct bh_resource_v1_resource_claim *c = bh_obj_struct(k->obj);

    return c->status.allocation && same_allocation(k->shared, c->status.allocation);
}

/* Looks whether a write of ours, whose answer was lost, is in the object that was read. */
static void recognise(struct sbind *b, struct bind_claim *k)
{
    const struct bh_resource_v1_resource_claim *c = bh_obj_struct(k->obj);

    if (!bh_str_eq(k->obj->uid, k->uid) || !c->status.allocation ||
        !reserved_for(c, b->pod_obj->uid))
        return;
    if (k->alloc && !same_allocation(k->alloc, c->status.allocation))
        return;
    k->reserved = true;
    if (k->alloc) {
        k->stored = true;
        sched_claim_written(b->s, k->obj);
    }
}

static void claim_answer(struct sbind *b, const struct bh_client_res *res)
{
    struct bind_claim *k = &b->claims[b->i];

    if (unknown(res)) {
        b->unsure |= b->step == STEP_STATUS;
        again_later(b);
        return;
    }
    if (res->status == 404 || (b->step == STEP_GET && !res->obj)) {
        fail_f(b,
               "running PreBind plugin \"DynamicResources\": claim %.*s/%.*s got deleted in the "
               "meantime",
               BH_SF(k->ns), BH_SF(k->name));
        return;
    }
    if (res->status == 409) { /* our version is old: whatever was sent with it cannot land now */
        if (b->tries++ >= CONFLICT_TRIES && !b->unsure) {
            fail_f(b, "running PreBind plugin \"DynamicResources\": %s", res->err.msg);
            return;
        }
        if (b->tries == 1) {
            get_claim(b, k);
        } else { /* the version that is in our way may not be there to be read yet */
            b->step = STEP_GET;
            again_later(b);
        }
        return;
    }
    if (res->err.code != BH_OK || !res->obj) {
        fail_f(b,
               "running PreBind plugin \"DynamicResources\": add reservation to claim %.*s/%.*s: "
               "%s",
               BH_SF(k->ns), BH_SF(k->name), res->err.msg);
        return;
    }
    take_claim(k, res->obj);
    if (b->step == STEP_STATUS && k->shared && !same_shared(k)) {
        k->reserved = true;
        fail_f(b,
               "running PreBind plugin \"DynamicResources\": claim %.*s/%.*s got allocated "
               "elsewhere in the meantime",
               BH_SF(k->ns), BH_SF(k->name));
        return;
    }
    if (b->step == STEP_STATUS) {
        k->reserved = true;
        if (k->alloc) {
            k->stored = true;
            sched_claim_written(b->s, k->obj);
        }
    } else if (b->step == STEP_GET) {
        recognise(b, k);
    }
    b->unsure = false;
    b->wait_ms = 0;
    if (ends(b))
        bind_failed(b, end_text(b));
    else
        bind_go(b);
}

/* The reservation moves to the uid that the server gave; in one step, so it is never open. */
static void create_answer(struct sbind *b, const struct bh_client_res *res)
{
    struct bind_claim *k = &b->claims[b->i];
    struct bh_err err = {0};

    if (res->err.code != BH_OK || !res->obj) {
        fail_f(b, "running PreBind plugin \"DynamicResources\": create claim: %s", res->err.msg);
        return;
    }
    take_claim(k, res->obj);
    bh_dra_unreserve(b->s->model, k->uid);
    k->uid = bh_str_dup(b->arena, res->obj->uid);
    k->name = bh_str_dup(b->arena, res->obj->name);
    b->watched[b->watched_n] = k->uid;
    b->watched_names[b->watched_n++] = k->name;
    if (bh_dra_reserve(b->s->model, bh_obj_struct(k->obj), k->alloc, &err) < 0) {
        k->stored = true; /* nothing is left to take back */
        fail_f(b, "running PreBind plugin \"DynamicResources\": %s", err.msg);
        return;
    }
    k->reservation = bh_dra_reservation(b->s->model, k->uid);
    if (ends(b))
        bind_failed(b, end_text(b));
    else
        bind_go(b);
}

static void pod_status_answer(struct sbind *b, const struct bh_client_res *res)
{
    if (unknown(res)) {
        again_later(b);
    } else if (res->err.code != BH_OK) {
        fail_f(b, "running PreBind plugin \"DynamicResources\": update pod status: %s",
               res->err.msg);
    } else {
        b->pod_told = true;
        if (ends(b))
            bind_failed(b, end_text(b));
        else
            bind_go(b);
    }
}

static void binding_answer(struct sbind *b, const struct bh_client_res *res)
{
    if (unknown(res)) {
        b->unsure = true;
        again_later(b);
        return;
    }
    if (res->status >= 200 && res->status < 300) {
        bind_done(b);
        return;
    }
    if (res->status == 409 && b->unsure) {
        get_pod(b); /* perhaps by ourselves */
        return;
    }
    if (res->status == 404) {
        bind_failed(b, (struct bh_str){NULL, 0});
        return;
    }
    fail_f(b, "running Bind plugin \"DefaultBinder\": binding rejected: %s", res->err.msg);
}

static void pod_answer(struct sbind *b, const struct bh_client_res *res)
{
    const struct bh_core_v1_pod *p;

    if (unknown(res)) {
        again_later(b);
        return;
    }
    if (!res->obj || !bh_str_eq(res->obj->uid, b->pod_obj->uid)) {
        bind_failed(b, (struct bh_str){NULL, 0});
        return;
    }
    p = bh_obj_struct(res->obj);
    if (bh_str_eq(p->spec.node_name, b->node))
        bind_done(b);
    else
        fail_f(b,
               "running Bind plugin \"DefaultBinder\": binding rejected: pod %.*s is already "
               "assigned to node \"%.*s\"",
               BH_SF(b->pod_obj->name), BH_SF(p->spec.node_name));
}

static void bind_answer(void *arg, const struct bh_client_res *res)
{
    struct sbind *b = arg;

    b->call = 0;
    switch (b->step) {
    case STEP_CREATE:
        create_answer(b, res);
        break;
    case STEP_POD_STATUS:
        pod_status_answer(b, res);
        break;
    case STEP_SHARED:
    case STEP_VOLUMES:
    case STEP_WAIT:
    case STEP_GROUP:
        break;
    case STEP_FINALIZER:
    case STEP_STATUS:
    case STEP_GET:
        claim_answer(b, res);
        break;
    case STEP_BIND:
        binding_answer(b, res);
        break;
    case STEP_GET_POD:
        pod_answer(b, res);
        break;
    }
}

static void add_claim(struct sbind *b, const struct pod_claim *pc, const struct candidate *k)
{
    struct bind_claim *bc = &b->claims[b->n];
    struct bh_arena *a = b->arena;

    b->watched[b->watched_n] = bh_str_dup(a, pc->obj->uid);
    b->watched_names[b->watched_n++] = bh_str_dup(a, pc->obj->name);
    if (pc->allocated && pc->mine)
        return;
    b->n++;
    bc->obj = bh_obj_ref(pc->obj);
    bc->ns = bh_str_dup(a, pc->obj->ns);
    bc->name = bh_str_dup(a, pc->obj->name);
    bc->uid = bh_str_dup(a, pc->obj->uid);
    if (pc->pending)
        bc->shared = bh_msg_dup(&bh_resource_v1_allocation_result_type, pc->alloc, a);
    if (pc->ask_at >= 0)
        bc->alloc =
            bh_msg_dup(&bh_resource_v1_allocation_result_type, &k->dra.allocations[pc->ask_at], a);
    bc->reservation = bh_dra_reservation(b->s->model, bc->uid);
}

static void add_ext(struct sbind *b, const struct ask_set *set,
                    const struct bh_resource_v1_allocation_result *alloc)
{
    struct bind_claim *bc = &b->claims[b->n++];
    struct bh_arena *a = b->arena;
    struct ext_claim *e = bh_new(a, struct ext_claim);

    bh_msg_copy(&bh_resource_v1_resource_claim_type, &e->claim, &set->ext->claim, a);
    e->mappings.n = set->ext->mappings.n;
    e->mappings.p =
        bh_new_n(a, struct bh_core_v1_container_extended_resource_request, e->mappings.n);
    for (size_t i = 0; i < e->mappings.n; i++)
        bh_msg_copy(&bh_core_v1_container_extended_resource_request_type, &e->mappings.p[i],
                    &set->ext->mappings.p[i], a);
    bc->create = e;
    bc->ns = bh_str_dup(a, b->pod_obj->ns);
    bc->uid = e->claim.metadata.uid;
    bc->alloc = bh_msg_dup(&bh_resource_v1_allocation_result_type, alloc, a);
    bc->reservation = bh_dra_reservation(b->s->model, bc->uid);
    b->ext = bc;
}

static const struct bh_core_v1_pod_status *
native_status(const struct bh_core_v1_node_allocatable_resource_claim_status_vec *v,
              struct bh_arena *a)
{
    struct bh_core_v1_pod_status st = {.node_allocatable_resource_claim_statuses = *v};

    return bh_msg_dup(&bh_core_v1_pod_status_type, &st, a);
}

static void begin(struct sbind *b)
{
    b->begun = true;
    if (b->volumes) {
        b->step = STEP_VOLUMES;
        tell_node(b);
        sched_vbind_start(b->volumes, volumes_bound, b);
    }
    if (b->dead)
        bind_failed(b, end_text(b));
    else
        bind_go(b);
}

/* The last member is there: all begin. One that fails at once takes the others with it. */
static void group_begin(struct bind_group *bg)
{
    for (bool more = true; more;) {
        more = false;
        bh_list_for(it, &bg->members)
        {
            struct sbind *b = bh_container(it, struct sbind, group_link);

            if (b->begun)
                continue;
            begin(b);
            more = true;
            break; /* the list may be another one by now */
        }
    }
}

void sched_bind(struct cycle *c, const struct candidate *k, struct bind_group *bg)
{
    struct bh_arena *a = bh_arena_new(0);
    struct sbind *b = bh_new(a, struct sbind);

    b->s = c->s;
    b->arena = a;
    b->pod = c->pod;
    b->pod_obj = bh_obj_ref(c->pod->obj);
    b->node = bh_str_dup(a, k->node->name);
    b->recorder = sched_recorder(c->s, c->pod);
    b->timeout_s = c->prof->binding_timeout_s;
    b->claims = bh_new_n(a, struct bind_claim, c->claims_n + 1);
    b->watched = bh_new_n(a, struct bh_str, c->claims_n + 1);
    b->watched_names = bh_new_n(a, struct bh_str, c->claims_n + 1);
    for (size_t i = 0; i < c->claims_n; i++)
        add_claim(b, &c->claims[i], k);
    if (k->set && k->set->ext)
        add_ext(b, k->set, &k->dra.allocations[k->set->n - 1]);
    if (k->native)
        b->native = native_status(k->native, a);
    b->volumes = sched_vbind_new(c, k->node, a);
    bh_timer_init(&b->retry, c->s->loop, on_retry, b);
    bh_list_add_tail(&c->s->binds, &b->link);
    c->s->binds_n++;
    c->pod->bind = b;
    if (!bg) {
        begin(b);
        return;
    }
    b->group = bg;
    bh_list_add_tail(&bg->members, &b->group_link);
    if (bg->refs++ == bg->expected) {
        group_begin(bg);
        group_unref(bg);
    }
}

void sched_bind_pod_gone(struct spod *pod)
{
    struct sbind *b = pod->bind;

    if (!b)
        return;
    pod->bind = NULL;
    b->pod = NULL;
    if (nothing_writes(b))
        bind_failed(b, (struct bh_str){NULL, 0}); /* nothing would end it */
}

void sched_bind_abandon(struct bh_scheduler *s)
{
    while (!bh_list_empty(&s->binds))
        bind_free(bh_container(s->binds.next, struct sbind, link));
}
