/* Binding: the stages of making a decision true, many pods at a time.
 *
 * Per pod: the claims are written, then devices, volumes and the rest of the group are awaited
 * where there are any, then the pod is bound. Where nothing is awaited it is one sequence of
 * writes. A write whose answer is lost is repeated until the server says definitely what became of
 * it: a reservation is given back only when the write can no longer take effect, or a device could
 * be given twice.
 */
#include <string.h>

#include "api/engine.h"
#include "scheduler/bind_int.h"

#define END_LATER_MS 10

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

struct bh_str bind_end_text(const struct sbind *b)
{
    if (b->dead_text.n)
        return b->dead_text;
    return b->dead ? BH_S(GROUP_TEXT) : (struct bh_str){NULL, 0};
}

/* Of what ends a bind that is to end; the volumes end with it. */
static bool nothing_writes(const struct sbind *b)
{
    return !b->begun ||
           (!b->call && (b->step == STEP_WAIT || b->step == STEP_GROUP || b->step == STEP_SHARED));
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
            bind_failed(o, bind_end_text(o)); /* nothing would end it */
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
        bind_post(o);
    }
    group_unref(bg);
    return true;
}

bool bind_ends(const struct sbind *b)
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
    for (size_t i = 0; i < b->n; i++) {
        const struct bind_claim *k = &b->claims[i];

        if (k->alloc && !k->create && bh_map_get(&b->s->allocating, k->uid) == b)
            (void)bh_map_del(&b->s->allocating, k->uid);
        (void)bh_obj_unref(k->obj);
        (void)bh_obj_unref(k->found);
    }
    (void)bh_obj_unref(b->pod_obj);
    (void)bh_arena_free(b->again);
    (void)bh_arena_free(a);
}

const struct bh_resource_v1_allocation_result *sched_bind_allocating(const struct bh_scheduler *s,
                                                                     struct bh_str uid)
{
    const struct sbind *b = bh_map_get(&s->allocating, uid);

    for (size_t i = 0; b && !bind_ends(b) && i < b->n; i++)
        if (b->claims[i].alloc && bh_str_eq(b->claims[i].uid, uid))
            return b->claims[i].alloc;
    return NULL;
}

static bool watches(const struct sbind *b, struct bh_str uid)
{
    for (size_t i = 0; i < b->watched_n; i++)
        if (bh_str_eq(b->watched[i], uid))
            return true;
    return false;
}

/* An allocation will not be stored: those that wait to share it find out, from the loop. */
static void share_ends(struct bh_scheduler *s, struct bh_str uid)
{
    bh_list_for(it, &s->bind_waits)
    {
        struct sbind *b = bh_container(it, struct sbind, wait);

        if (b->step == STEP_SHARED && watches(b, uid))
            bh_timer_start(&b->retry, 0);
    }
}

/* A write of it may still take effect: it ends when that is known. */
static void end_later(struct sbind *b, struct bh_str why)
{
    if (!b->dead) {
        b->dead = true;
        b->dead_text = why;
    }
    bh_list_del(&b->wait);
    if (b->call)
        return; /* its answer comes here again */
    b->step = STEP_SEND;
    bh_timer_start(&b->retry, END_LATER_MS);
}

void bind_failed(struct sbind *b, struct bh_str why)
{
    struct bh_scheduler *s = b->s;
    struct spod *pod = b->pod;
    bool freed = false;

    group_failed(b);
    if (bind_unsure_claim(b)) {
        end_later(b, why);
        return;
    }
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
            share_ends(s, k->uid);
        }
    }
    if (pod && pod->assumed) {
        struct snode *n = pod->node->obj ? pod->node : NULL; /* one without object may go now */

        if (b->native && b->pod_tried)
            bind_untell(b);
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

void bind_done(struct sbind *b)
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

void bind_fail_f(struct sbind *b, const char *fmt, ...)
{
    va_list ap;
    struct bh_str text;

    va_start(ap, fmt);
    text = bh_str_vfmt(b->arena, fmt, ap);
    va_end(ap);
    bind_failed(b, text);
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
            bind_fail_f(
                b,
                "running PreBind plugin \"DynamicResources\": device binding failed: claim=%.*s, "
                "reason=%.*s, message=\"%.*s\"",
                BH_SF(o->name), BH_SF(failure->reason), BH_SF(failure->message));
            return DEVICES_FAILED;
        case BINDING_PENDING:
            if (b->wait_until && bh_loop_mono_ns(b->s->loop) >= b->wait_until) {
                bind_fail_f(b,
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

bool bind_names_claims(const struct sbind *b, const struct bh_core_v1_pod *p)
{
    for (size_t i = 0; i < b->watched_n; i++) {
        bool named = b->ext && bh_str_eq(b->ext->name, b->watched_names[i]);
        struct bh_str name;

        for (size_t k = 0; !named && k < p->spec.resource_claims.n; k++)
            named = sched_claim_named(p, k, &name) && bh_str_eq(name, b->watched_names[i]);
        if (!named)
            return false;
    }
    return true;
}

/* The same of the pod as the informer has it. The names of generated claims may change until it is
 * bound, so that binding is for this version of the pod, unless we are changing it ourselves. */
static bool names_its_claims(struct sbind *b)
{
    const struct spod *pod = b->pod;

    b->named_rv = 0;
    if (!pod)
        return true;
    for (size_t k = 0; k < pod->p->spec.resource_claims.n; k++)
        if (pod->p->spec.resource_claims.p[k].has_resource_claim_template_name)
            b->named_rv = pod->obj->rv;
    return bind_names_claims(b, pod->p);
}

bool bind_wait(struct sbind *b)
{
    if (!names_its_claims(b)) {
        bind_fail_f(b, PRE_BIND BIND_OTHER_CLAIM);
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
        bind_post(b);
    return true;
}

/* Whether binding has to wait for conditions of these devices. */
static bool conditional(const struct bh_resource_v1_allocation_result *al)
{
    for (size_t i = 0; al && i < al->devices.results.n; i++)
        if (al->devices.results.p[i].binding_conditions.n)
            return true;
    return false;
}

bool bind_at_once(struct sbind *b)
{
    if (b->volumes || b->group || !names_its_claims(b))
        return false;
    if (b->named_rv && (b->ext || b->native) && !b->pod_told)
        return false; /* that gives the pod a version which is not known before */
    for (size_t i = 0; !b->devices_ready && i < b->n; i++)
        if (conditional(b->claims[i].alloc) || conditional(b->claims[i].shared))
            return false;
    for (size_t i = 0; !b->devices_ready && i < b->watched_n; i++) {
        struct bh_obj *o = bh_informer_get(b->s->inf_claims, b->pod_obj->ns, b->watched_names[i]);
        const struct bh_resource_v1_resource_claim *c = o ? bh_obj_struct(o) : NULL;

        if (c && conditional(c->status.allocation))
            return false;
    }
    return true;
}

void sched_bind_claim(struct bh_scheduler *s, struct bh_str uid)
{
    struct bh_link todo; /* one that fails takes the others of its group with it, out of here too */

    bh_list_init(&todo);
    bh_list_for_safe(it, &s->bind_waits)
    {
        struct sbind *b = bh_container(it, struct sbind, wait);

        if (!watches(b, uid))
            continue;
        bh_list_del(&b->wait);
        bh_list_add_tail(&todo, &b->wait);
    }
    while (!bh_list_empty(&todo)) {
        struct sbind *b = bh_container(todo.next, struct sbind, wait);

        bh_list_del(&b->wait);
        if (b->step == STEP_SHARED) {
            bind_go(b);
        } else {
            bh_list_add_tail(&s->bind_waits, &b->wait);
            (void)bind_wait(b);
        }
    }
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
    if (b->call || (b->step != STEP_WAIT && !(b->dead && b->step == STEP_SHARED)))
        return; /* what is under way goes on, or ends it */
    if (b->dead)
        bind_failed(b, bind_end_text(b));
    else
        (void)bind_wait(b);
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
    if (pc->allocated && !pc->pending)
        bc->found = bh_obj_ref(pc->obj);
    if (pc->pending)
        bc->shared = bh_msg_dup(&bh_resource_v1_allocation_result_type, pc->alloc, a);
    if (pc->ask_at >= 0)
        bc->alloc =
            bh_msg_dup(&bh_resource_v1_allocation_result_type, &k->dra.allocations[pc->ask_at], a);
    bc->reservation = bh_dra_reservation(b->s->model, bc->uid);
    if (bc->alloc)
        (void)bh_map_put(&b->s->allocating, bc->uid, b);
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

static void begin(struct sbind *b)
{
    b->begun = true;
    if (b->volumes) {
        b->step = STEP_VOLUMES;
        tell_node(b);
        sched_vbind_start(b->volumes, volumes_bound, b);
    }
    if (b->dead)
        bind_failed(b, bind_end_text(b));
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
        b->native = sched_native_status(k->native, a);
    b->volumes = sched_vbind_new(c, k->node, a);
    bh_timer_init(&b->retry, c->s->loop, bind_retry, b);
    b->parts = bh_new_n(a, struct bind_part, c->claims_n + 3);
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
