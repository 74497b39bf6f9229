/* Binding: its writes. What is missing of claims, pod status and binding goes out as one sequence;
 * each answer moves the bind on, or says from where to try again.
 *
 * The same write may be sent again at any time: what it names (version, uid, allocation) lets it
 * take effect once only.
 */
#include <inttypes.h>
#include <string.h>

#include "api/engine.h"
#include "scheduler/bind_int.h"

#define FINALIZER      "resource.kubernetes.io/delete-protection"
#define CONFLICT_TRIES 5
#define NAME_TRIES     8
#define RETRY_FIRST_MS 10
#define RETRY_MAX_MS   5000

static const struct bh_kind *const claim_kind = &bh_resource_v1_resource_claim_kind;

const struct bind_claim *bind_unsure_claim(const struct sbind *b)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->claims[i].unsure)
            return &b->claims[i];
    return NULL;
}

static const struct bh_resource_v1_resource_claim *claim_of(const struct bind_claim *k)
{
    return bh_obj_struct(k->obj);
}

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

static bool lacks_finalizer(const struct bind_claim *k)
{
    return k->alloc && !has_finalizer(claim_of(k));
}

static bool lacks_status(const struct sbind *b, const struct bind_claim *k)
{
    return (k->alloc && !k->stored) || !reserved_for(claim_of(k), b->pod_obj->uid);
}

static bool same_allocation(const struct bh_resource_v1_allocation_result *a,
                            const struct bh_resource_v1_allocation_result *b)
{
    return bh_msg_equal(&bh_resource_v1_device_allocation_result_type, &a->devices, &b->devices);
}

/* ---- the requests ---- */

static void add_finalizer(struct bh_arena *a, struct bh_meta_v1_object_meta *m)
{
    struct bh_str_vec f = {bh_new_n(a, struct bh_str, m->finalizers.n + 1), 0};

    for (size_t i = 0; i < m->finalizers.n; i++)
        f.p[f.n++] = m->finalizers.p[i];
    f.p[f.n++] = BH_S(FINALIZER);
    m->finalizers = f;
}

static void add_status(const struct sbind *b, const struct bind_claim *k,
                       struct bh_resource_v1_resource_claim_status *st)
{
    struct bh_resource_v1_resource_claim_consumer_reference_vec r = {
        bh_new_n(b->out, struct bh_resource_v1_resource_claim_consumer_reference,
                 st->reserved_for.n + 1),
        st->reserved_for.n};

    if (r.n)
        memcpy(r.p, st->reserved_for.p, r.n * sizeof(*r.p));
    r.p[r.n++] = (struct bh_resource_v1_resource_claim_consumer_reference){
        .resource = BH_S("pods"), .name = b->pod_obj->name, .uid = b->pod_obj->uid};
    st->reserved_for = r;
    if (k->alloc) {
        struct bh_resource_v1_allocation_result *al =
            bh_arena_memdup(b->out, k->alloc, sizeof(*k->alloc));

        al->allocation_timestamp = (struct bh_time){bh_loop_wall_ns(b->s->loop) / 1000000000, 0};
        st->allocation = al;
    }
}

static void create_request(const struct sbind *b, const struct bind_claim *k,
                           struct bh_client_req *req)
{
    struct bh_resource_v1_resource_claim *c =
        bh_arena_memdup(b->out, &k->create->claim, sizeof(struct bh_resource_v1_resource_claim));

    c->metadata.name = k->name;
    c->metadata.uid = (struct bh_str){NULL, 0};
    add_finalizer(b->out, &c->metadata);
    add_status(b, k, &c->status);
    *req = (struct bh_client_req){.verb = BH_VERB_CREATE,
                                  .kind = claim_kind,
                                  .ns = k->ns,
                                  .msg = c,
                                  .msg_kind = claim_kind,
                                  .with_status = true};
}

/* Only the reservation is missing: pods that share a claim reserve it without versions, so that
 * none is in another's way. It takes effect on this claim with this allocation only. */
static void join_request(const struct sbind *b, const struct bind_claim *k,
                         struct bh_client_req *req)
{
    const struct bh_resource_v1_resource_claim *c = claim_of(k);
    BH_AUTO_BUF out = {.max = 1u << 20};

    bh_buf_addf(&out,
                "[{\"op\":\"test\",\"path\":\"/metadata/uid\",\"value\":\"%.*s\"},"
                "{\"op\":\"test\",\"path\":\"/status/allocation/devices\",\"value\":",
                BH_SF(k->uid));
    bh_msg_encode_json(&bh_resource_v1_device_allocation_result_type,
                       &(c->status.allocation ? c->status.allocation : k->shared)->devices, &out);
    bh_buf_addf(&out,
                "},{\"op\":\"add\",\"path\":\"/status/reservedFor/-\",\"value\":{\"resource\":"
                "\"pods\",\"name\":\"%.*s\",\"uid\":\"%.*s\"}}]",
                BH_SF(b->pod_obj->name), BH_SF(b->pod_obj->uid));
    *req = (struct bh_client_req){.verb = BH_VERB_PATCH,
                                  .kind = claim_kind,
                                  .ns = k->ns,
                                  .name = k->name,
                                  .subresource = BH_S("status"),
                                  .patch = BH_PATCH_JSON,
                                  .body = bh_str_dup(b->out, bh_buf_str(&out))};
}

static void claim_request(const struct sbind *b, struct bind_part *p, struct bh_client_req *req)
{
    const struct bind_claim *k = p->claim;
    bool finalizer = lacks_finalizer(k);
    struct bh_resource_v1_resource_claim *c;

    p->status = lacks_status(b, k);
    p->joins =
        !k->alloc && !k->plain &&
        (claim_of(k)->status.reserved_for.n > 0 || (k->shared && !claim_of(k)->status.allocation));
    if (p->joins) {
        join_request(b, k, req);
        return;
    }
    c = bh_arena_memdup(b->out, claim_of(k), sizeof(*c));
    if (finalizer)
        add_finalizer(b->out, &c->metadata);
    if (p->status)
        add_status(b, k, &c->status);
    *req = (struct bh_client_req){.verb = BH_VERB_UPDATE,
                                  .kind = claim_kind,
                                  .ns = k->ns,
                                  .name = k->name,
                                  .subresource = finalizer ? BH_S("") : BH_S("status"),
                                  .msg = c,
                                  .msg_kind = claim_kind,
                                  .with_status = finalizer && p->status};
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

static void pod_status_request(const struct sbind *b, struct bh_client_req *req)
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
    *req = (struct bh_client_req){.verb = BH_VERB_PATCH,
                                  .kind = &bh_core_v1_pod_kind,
                                  .ns = b->pod_obj->ns,
                                  .name = b->pod_obj->name,
                                  .subresource = BH_S("status"),
                                  .patch = BH_PATCH_MERGE,
                                  .body = bh_str_dup(b->out, bh_buf_str(&out))};
}

void bind_untell(const struct sbind *b)
{
    (void)bh_client_patch(b->s->client, &bh_core_v1_pod_kind, b->pod_obj->ns, b->pod_obj->name,
                          "status", BH_PATCH_MERGE,
                          bh_str_fmt(b->arena,
                                     "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{"
                                     "\"nodeAllocatableResourceClaimStatuses\":null}}",
                                     BH_SF(b->pod_obj->uid)),
                          NULL, NULL);
}

static void binding_request(const struct sbind *b, struct bh_client_req *req)
{
    struct bh_core_v1_binding *msg = bh_new(b->out, struct bh_core_v1_binding);

    msg->metadata.name = b->pod_obj->name;
    msg->metadata.namespace = b->pod_obj->ns;
    msg->metadata.uid = b->pod_obj->uid;
    if (b->named_rv)
        msg->metadata.resource_version = bh_str_fmt(b->out, "%" PRIu64, b->named_rv);
    msg->target.kind = BH_S("Node");
    msg->target.name = b->node;
    *req = (struct bh_client_req){.verb = BH_VERB_CREATE,
                                  .kind = &bh_core_v1_pod_kind,
                                  .ns = b->pod_obj->ns,
                                  .name = b->pod_obj->name,
                                  .subresource = BH_S("binding"),
                                  .msg = msg,
                                  .msg_kind = &bh_core_v1_binding_kind};
}

static void sent(void *arg, const struct bh_client_res *res, size_t n);

static void add_part(struct sbind *b, enum bind_part_kind kind, struct bind_claim *k)
{
    b->parts[b->parts_n++] = (struct bind_part){.kind = kind, .claim = k};
}

/* The client copies what it is given: what is sent again takes the memory of the time before. */
static void requests_begin(struct sbind *b)
{
    if (!b->out) {
        b->out = b->arena;
        return;
    }
    if (b->again)
        bh_arena_reset(b->again);
    else
        b->again = bh_arena_new(0);
    b->out = b->again;
}

static void send_parts(struct sbind *b)
{
    struct bh_client_req *reqs;

    requests_begin(b);
    reqs = bh_new_n(b->out, struct bh_client_req, b->parts_n);

    for (size_t i = 0; i < b->parts_n; i++) {
        struct bind_part *p = &b->parts[i];

        switch (p->kind) {
        case PART_CREATE:
            create_request(b, p->claim, &reqs[i]);
            break;
        case PART_CLAIM:
            claim_request(b, p, &reqs[i]);
            break;
        case PART_POD_STATUS:
            pod_status_request(b, &reqs[i]);
            b->pod_tried = true;
            break;
        case PART_BIND:
            binding_request(b, &reqs[i]);
            break;
        }
    }
    b->step = STEP_SEND;
    b->call = bh_client_sequence(b->s->client, reqs, b->parts_n, sent, b);
}

void bind_post(struct sbind *b)
{
    b->parts_n = 0;
    add_part(b, PART_BIND, NULL);
    send_parts(b);
}

static void got_claim(void *arg, const struct bh_client_res *res);
static void got_pod(void *arg, const struct bh_client_res *res);

static void get_claim(struct sbind *b)
{
    const struct bind_claim *k = &b->claims[b->i];
    struct bh_client_req req = {
        .verb = BH_VERB_GET, .kind = claim_kind, .ns = k->ns, .name = k->name};

    b->step = STEP_GET;
    b->call = bh_client_call(b->s->client, &req, got_claim, b);
}

static void get_pod(struct sbind *b)
{
    struct bh_client_req req = {.verb = BH_VERB_GET,
                                .kind = &bh_core_v1_pod_kind,
                                .ns = b->pod_obj->ns,
                                .name = b->pod_obj->name};

    b->step = STEP_GET_POD;
    b->call = bh_client_call(b->s->client, &req, got_pod, b);
}

static void again_later(struct sbind *b)
{
    b->wait_ms = b->wait_ms ? 2 * b->wait_ms : RETRY_FIRST_MS;
    if (b->wait_ms > RETRY_MAX_MS)
        b->wait_ms = RETRY_MAX_MS;
    bh_timer_start(&b->retry, b->wait_ms);
}

/* ---- what comes next ---- */

static void take_claim(struct bind_claim *k, const struct bh_obj *o)
{
    struct bh_obj *old = k->obj;

    k->obj = bh_obj_ref(o);
    (void)bh_obj_unref(old);
}

static void recognise(struct sbind *b, struct bind_claim *k);

/* What the informer knows of a claim that a sibling is to store, or that may hold a write of ours
 * whose answer was lost: what was sent with an older version cannot land any more. */
static void look_again(struct sbind *b, struct bind_claim *k)
{
    struct bh_obj *o;

    if (!k->unsure && (!k->shared || claim_of(k)->status.allocation))
        return;
    o = bh_informer_get(b->s->inf_claims, k->ns, k->name);
    if (!o || !bh_str_eq(o->uid, k->uid) || o->rv <= k->obj->rv)
        return;
    take_claim(k, o);
    recognise(b, k);
    k->unsure = false;
}

/* Whether the informer shows the allocation that another bind stores. */
static bool shows_allocation(const struct sbind *b, const struct bind_claim *k)
{
    const struct bh_obj *o = bh_informer_get(b->s->inf_claims, k->ns, k->name);

    return o && bh_str_eq(o->uid, k->uid) &&
           ((const struct bh_resource_v1_resource_claim *)bh_obj_struct(o))->status.allocation;
}

/* Where writes take effect in the order in which they are asked for, the reservation may follow the
 * allocation that another bind has sent, before that is durable. It is for that allocation only. */
static bool may_hurry(const struct sbind *b, struct bind_claim *k)
{
    if (k->hurried || b->group || !bh_client_in_order(b->s->client))
        return false;
    k->hurried = true;
    return true;
}

/* What happened to the claim that makes this attempt void; NULL: nothing. */
static const char *claim_trouble(const struct sbind *b, const struct bind_claim *k)
{
    const struct bh_resource_v1_resource_claim *c = claim_of(k);
    const struct bh_resource_v1_allocation_result *was = k->shared;
    struct bh_dra_model *m = b->s->model;

    if (k->found &&
        k->found != k->obj) /* given back and allocated anew it may be at another node */
        was = ((const struct bh_resource_v1_resource_claim *)bh_obj_struct(k->found))
                  ->status.allocation;
    if (!bh_str_eq(k->obj->uid, k->uid) || k->obj->deleting)
        return "got deleted";
    if (k->alloc && !k->stored && c->status.allocation)
        return "got allocated elsewhere";
    /* Written already, seen and given back by somebody before the answer came: the devices may be
     * another's by now. */
    if (k->alloc && !k->stored &&
        (!bh_dra_is_reserved(m, k->uid) || bh_dra_reservation_lost(m, k->uid, k->reservation)))
        return "got deallocated elsewhere";
    if (!k->alloc && !c->status.allocation &&
        (!k->shared || (!bh_dra_is_reserved(m, k->uid) && !shows_allocation(b, k))))
        return "got deallocated elsewhere";
    if (was && c->status.allocation && !same_allocation(was, c->status.allocation))
        return "got allocated elsewhere";
    return NULL;
}

static void claim_failed(struct sbind *b, struct bind_claim *k, const char *what)
{
    k->unsure = false;
    bind_fail_f(b, PRE_BIND "claim %.*s/%.*s %s in the meantime", BH_SF(k->ns), BH_SF(k->name),
                what);
}

static struct bh_str generated_name(const struct sbind *b, const struct bind_claim *k)
{
    static const char alphabet[] = "bcdfghjklmnpqrstvwxz2456789";
    struct bh_str base = k->create->claim.metadata.generate_name;
    char suffix[6] = {0};

    for (int i = 0; i < 5; i++)
        suffix[i] = alphabet[bh_loop_random(b->s->loop) % (sizeof(alphabet) - 1)];
    if (base.n > 58)
        base.n = 58;
    return bh_str_fmt(b->arena, "%.*s%s", BH_SF(base), suffix);
}

/* The parts for what is missing of the claims from the first unfinished one on. False: b ended, or
 * waits for a sibling. */
static bool add_claims(struct sbind *b, bool *ret_all)
{
    for (size_t i = b->i; i < b->n; i++) {
        struct bind_claim *k = &b->claims[i];
        const char *what;

        if (bind_ends(b) && !k->unsure)
            continue;
        if (!k->obj) {
            if (!k->name.n)
                k->name = generated_name(b, k);
            add_part(b, PART_CREATE, k);
            continue;
        }
        look_again(b, k);
        if (bind_ends(b) && !k->unsure)
            continue;
        what = claim_trouble(b, k);
        if (what) {
            claim_failed(b, k, what);
            return false;
        }
        if (k->shared && !claim_of(k)->status.allocation && !may_hurry(b, k)) {
            if (b->parts_n)
                return true;
            b->step = STEP_SHARED; /* until the informer shows the claim otherwise */
            bh_list_del(&b->wait);
            bh_list_add_tail(&b->s->bind_waits, &b->wait);
            return false;
        }
        if (lacks_finalizer(k) || lacks_status(b, k)) {
            add_part(b, PART_CLAIM, k);
        } else if (!b->parts_n) {
            k->unsure = false;
            b->i = i + 1;
            b->tries = 0;
            b->wait_ms = 0;
        }
    }
    *ret_all = true;
    return true;
}

void bind_go(struct sbind *b)
{
    bool all = false;

    /* What is begun here shall not be begun once more: a claim's event may come between the end of
     * another bind and the time that it set for those that shared with it. */
    bh_timer_stop(&b->retry);
    b->parts_n = 0;
    if (!add_claims(b, &all))
        return;
    if (bind_ends(b)) {
        if (b->parts_n)
            send_parts(b);
        else
            bind_failed(b, bind_end_text(b));
        return;
    }
    if (all) {
        bool now = bind_at_once(b);

        if ((b->ext || b->native) && !b->pod_told)
            add_part(b, PART_POD_STATUS, NULL);
        if (!now && !b->parts_n) {
            (void)bind_wait(b);
            return;
        }
        if (now)
            add_part(b, PART_BIND, NULL);
    }
    send_parts(b);
}

void bind_retry(void *arg)
{
    struct sbind *b = arg;

    switch (b->step) {
    case STEP_GET:
        get_claim(b);
        break;
    case STEP_GET_POD:
        get_pod(b);
        break;
    case STEP_WAIT:
        (void)bind_wait(b);
        break;
    case STEP_GROUP:
        break;
    case STEP_VOLUMES:
        break; /* it has a timer of its own */
    case STEP_SHARED:
    case STEP_SEND:
        bh_list_del(&b->wait);
        bind_go(b);
        break;
    }
}

/* ---- what the server says ---- */

/* No answer, or one that says nothing about the write: it may have taken effect. */
static bool unknown(const struct bh_client_res *res)
{
    return res->status == 0 || res->status == 429 || res->status >= 500;
}

/* What became of this part and of those after it is not known. */
static void parts_lost(struct sbind *b, const struct bind_part *from)
{
    for (const struct bind_part *p = from; p < b->parts + b->parts_n; p++) {
        if (p->kind == PART_CREATE || (p->kind == PART_CLAIM && p->status))
            p->claim->unsure = true;
        b->bind_unsure |= p->kind == PART_BIND;
    }
    again_later(b);
}

static void claim_stored(struct sbind *b, struct bind_claim *k)
{
    k->unsure = false;
    k->reserved = true;
    if (!k->alloc)
        return;
    k->stored = true;
    /* When this is told late, the claim may be reserved by another attempt already. */
    if (bh_dra_reservation(b->s->model, k->uid) == k->reservation)
        sched_claim_written(b->s, k->obj);
}

/* Looks whether a write of ours, whose answer was lost, is in the object that was read. */
static void recognise(struct sbind *b, struct bind_claim *k)
{
    const struct bh_resource_v1_resource_claim *c = claim_of(k);

    if (!bh_str_eq(k->obj->uid, k->uid) || !c->status.allocation ||
        !reserved_for(c, b->pod_obj->uid))
        return;
    if (!k->alloc || same_allocation(k->alloc, c->status.allocation))
        claim_stored(b, k);
}

/* The reservation of a claim that was made moves to the uid that the server gave; in one step, so
 * it is never open. False: b failed. */
static bool adopt(struct sbind *b, struct bind_claim *k, const struct bh_obj *o)
{
    struct bh_err err = {0};

    if (k->obj) { /* the informer was faster */
        if (o->rv > k->obj->rv)
            take_claim(k, o);
        return true;
    }
    take_claim(k, o);
    bh_dra_unreserve(b->s->model, k->uid);
    k->uid = bh_str_dup(b->arena, o->uid);
    b->watched[b->watched_n] = k->uid;
    b->watched_names[b->watched_n++] = k->name;
    if (bh_dra_reserve(b->s->model, claim_of(k), k->alloc, &err) < 0) {
        k->stored = true; /* nothing is left to take back */
        k->unsure = false;
        bind_fail_f(b, PRE_BIND "%s", err.msg);
        return false;
    }
    k->reservation = bh_dra_reservation(b->s->model, k->uid);
    return true;
}

/* Another write came first. */
static bool claim_conflict(struct sbind *b, struct bind_claim *k, const struct bh_client_res *res)
{
    if (b->tries++ >= CONFLICT_TRIES && !k->unsure) {
        bind_fail_f(b, PRE_BIND "%s", res->err.msg);
        return false;
    }
    if (b->tries == 1) {
        get_claim(b);
    } else { /* the version that is in our way may not be there to be read yet */
        b->step = STEP_GET;
        again_later(b);
    }
    return false;
}

/* All of these return whether the part succeeded and b is still there. */
static bool claim_answer(struct sbind *b, struct bind_part *p, const struct bh_client_res *res)
{
    struct bind_claim *k = p->claim;

    b->i = (size_t)(k - b->claims);
    if (res->obj) /* also the object alone: the status that is lost was sent for its version */
        take_claim(k, res->obj);
    if (unknown(res)) {
        parts_lost(b, p);
        return false;
    }
    if (res->status == 404) {
        claim_failed(b, k, "got deleted");
        return false;
    }
    if (p->joins && res->status == 422) { /* another allocation, or none yet, or it is invalid */
        k->plain = claim_of(k)->status.allocation != NULL;
        get_claim(b);
        return false;
    }
    if (res->status == 409)
        return claim_conflict(b, k, res);
    if (res->err.code != BH_OK || !res->obj) {
        k->unsure = false;
        bind_fail_f(b, PRE_BIND "add reservation to claim %.*s/%.*s: %s", BH_SF(k->ns),
                    BH_SF(k->name), res->err.msg);
        return false;
    }
    if (p->status)
        claim_stored(b, k);
    b->tries = 0;
    b->wait_ms = 0;
    return true;
}

static bool create_answer(struct sbind *b, struct bind_part *p, const struct bh_client_res *res)
{
    struct bind_claim *k = p->claim;

    b->i = (size_t)(k - b->claims);
    if (res->obj && !adopt(b, k, res->obj))
        return false;
    if (unknown(res)) {
        parts_lost(b, p);
        return false;
    }
    if (res->err.code == BH_E_EXISTS && !k->obj) {
        if (k->unsure) { /* perhaps made by ourselves */
            get_claim(b);
            return false;
        }
        if (b->tries++ < NAME_TRIES) {
            k->name = (struct bh_str){NULL, 0};
            bind_go(b);
            return false;
        }
    }
    if (k->obj && res->status == 409) /* its status has been written meanwhile */
        return claim_conflict(b, k, res);
    if (res->err.code != BH_OK || !k->obj) {
        k->unsure = false;
        bind_fail_f(b, PRE_BIND "create claim: %s", res->err.msg);
        return false;
    }
    recognise(b, k);
    b->tries = 0;
    b->wait_ms = 0;
    return true;
}

static bool pod_status_answer(struct sbind *b, const struct bind_part *p,
                              const struct bh_client_res *res)
{
    if (unknown(res)) {
        parts_lost(b, p);
        return false;
    }
    if (res->err.code != BH_OK) {
        bind_fail_f(b, PRE_BIND "update pod status: %s", res->err.msg);
        return false;
    }
    b->pod_told = true;
    return true;
}

static void bind_refused(struct sbind *b, struct bh_str why)
{
    bind_fail_f(b, "running Bind plugin \"DefaultBinder\": binding rejected: %.*s", BH_SF(why));
}

static void binding_answer(struct sbind *b, const struct bind_part *p,
                           const struct bh_client_res *res)
{
    if (unknown(res)) {
        parts_lost(b, p);
    } else if (res->status >= 200 && res->status < 300) {
        bind_done(b);
    } else if (res->status == 409 && (b->bind_unsure || b->named_rv)) {
        b->refusal = bh_str_dup(b->arena, bh_s(res->err.msg));
        get_pod(b); /* perhaps by ourselves, or it has another version by now */
    } else if (res->status == 404) {
        bind_failed(b, (struct bh_str){NULL, 0});
    } else {
        bind_refused(b, bh_s(res->err.msg));
    }
}

static void sent(void *arg, const struct bh_client_res *res, size_t n)
{
    struct sbind *b = arg;
    bool ok = true;

    b->call = 0;
    for (size_t i = 0; ok && i < n; i++) {
        struct bind_part *p = &b->parts[i];

        switch (p->kind) {
        case PART_CREATE:
            ok = create_answer(b, p, &res[i]);
            break;
        case PART_CLAIM:
            ok = claim_answer(b, p, &res[i]);
            break;
        case PART_POD_STATUS:
            ok = pod_status_answer(b, p, &res[i]);
            break;
        case PART_BIND:
            binding_answer(b, p, &res[i]);
            ok = false;
            break;
        }
    }
    if (ok)
        bind_go(b);
}

static void got_claim(void *arg, const struct bh_client_res *res)
{
    struct sbind *b = arg;
    struct bind_claim *k = &b->claims[b->i];
    bool newer;

    b->call = 0;
    if (unknown(res)) {
        again_later(b);
        return;
    }
    if (res->err.code != BH_OK || !res->obj) {
        claim_failed(b, k, "got deleted");
        return;
    }
    if (!k->obj) { /* was it we who made it? */
        const struct bh_resource_v1_resource_claim *c = bh_obj_struct(res->obj);

        if (!sched_owned_by(&c->metadata, b->pod_obj->uid)) {
            k->unsure = false;
            k->name = (struct bh_str){NULL, 0};
        } else if (!adopt(b, k, res->obj)) {
            return;
        }
    }
    if (k->obj) {
        /* What was sent with an older version cannot land any more. */
        newer = res->obj->rv > k->obj->rv || !bh_str_eq(res->obj->uid, k->obj->uid);
        take_claim(k, res->obj);
        recognise(b, k);
        k->unsure &= !newer;
    }
    b->wait_ms = 0;
    bind_go(b);
}

static void got_pod(void *arg, const struct bh_client_res *res)
{
    struct sbind *b = arg;
    const struct bh_core_v1_pod *p;

    b->call = 0;
    if (unknown(res)) {
        again_later(b);
        return;
    }
    if (!res->obj || !bh_str_eq(res->obj->uid, b->pod_obj->uid)) {
        bind_failed(b, (struct bh_str){NULL, 0});
        return;
    }
    p = bh_obj_struct(res->obj);
    if (bh_str_eq(p->spec.node_name, b->node)) {
        bind_done(b);
        return;
    }
    if (p->spec.node_name.n || res->obj->deleting || !b->named_rv || b->tries++ >= CONFLICT_TRIES) {
        bind_refused(b, b->refusal);
        return;
    }
    if (!bind_names_claims(b, p)) {
        bind_fail_f(b, PRE_BIND BIND_OTHER_CLAIM);
        return;
    }
    if (res->obj->rv <= b->named_rv) { /* what is in our way is not there to be read yet */
        again_later(b);
        return;
    }
    b->named_rv = res->obj->rv;
    bind_post(b);
}

/* The informer has a claim of which no answer told yet. What it holds must not be counted a second
 * time beside our reservation. */
void sched_bind_made(struct bh_scheduler *s, const struct bh_obj *o)
{
    bh_list_for(it, &s->binds)
    {
        struct sbind *b = bh_container(it, struct sbind, link);
        struct bind_claim *k = b->ext ? &b->claims[b->ext - b->claims] : NULL;

        if (!k || k->obj || !bh_str_eq(k->name, o->name) || !bh_str_eq(k->ns, o->ns) ||
            !sched_owned_by(
                &((const struct bh_resource_v1_resource_claim *)bh_obj_struct(o))->metadata,
                b->pod_obj->uid))
            continue;
        if (adopt(b, k, o))
            recognise(b, k);
        return;
    }
}
