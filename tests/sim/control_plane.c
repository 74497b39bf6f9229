/* The whole control plane in one thread and in virtual time, from one seed: API server, memory
 * store, controllers and scheduler, on a bad network, with roles and servers that die and disks
 * that fail. Pods ask for whole devices, partitions, shares of a network device, extended
 * resources; some are more important than others, alone or in gangs, and take their places.
 *
 * What must hold at every revision: no device, counter or capacity is given away twice, no node is
 * overcommitted, a pod that has a node has its devices. And in the end, when all is well again, no
 * pod waits for what is free or held by the less important, no gang is bound by half while there is
 * room for the rest, and nothing is held by a pod that is gone.
 *
 *     control_plane_sim [--seed N] [--fixed N] [--random N]      20 fixed and 5 random seeds by
 * default
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "api/gen/coordination_v1.h"
#include "api/gen/core_v1.h"
#include "api/gen/resource_v1.h"
#include "api/gen/resource_v1beta2.h"
#include "api/gen/scheduling_v1.h"
#include "api/gen/scheduling_v1alpha2.h"
#include "apiserver/apiserver.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "books.h"
#include "controllers/controllers.h"
#include "lossy.h"
#include "net/loop.h"
#include "scheduler/scheduler.h"
#include "store/store.h"

#define NODE_CPU  10 /* each pod takes one */
#define STORM_MS  20000
#define CALM_MS   120000
#define DELAY_NS  ((int64_t)50000000) /* way of a request that is not late */
#define SECOND_NS ((int64_t)1000000000)
#define WALL0     ((int64_t)1790000000 * SECOND_NS)
#define PODS_MAX  200
#define GANGS_MAX 64

/* Stands in for the C library's: the key of the hash maps comes from here, and with it the order in
 * which they are walked. A seed then plays the same run in every process. */
ssize_t getrandom(void *buf, size_t n, unsigned flags)
{
    unsigned char *p = buf;

    (void)flags;
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)(i * 37 + 11);
    return (ssize_t)n;
}

struct sim {
    uint64_t seed;
    struct bh_loop *loop;
    struct bh_store *store;
    struct bh_apiserver *api;
    struct bh_client *admin, *sched_inner, *ctl_inner;
    struct lossy sched_net, ctl_net;
    struct bh_scheduler *sched;
    struct bh_controllers *ctl;
    struct bh_informer *pods, *claims;
    struct bh_arena *a;
    struct bh_timer action, restart, restart_ctl, restart_api;
    bool storm, failed, down; /* down: the server is dead, or dying */
    int pods_n, claims_n, rules_n, fences_n;
    int gangs_n, gangs_whole, gang_min[GANGS_MAX];
    uint64_t events, crashes, ctl_crashes, restarts, binds;
    struct books books;
    struct books_node nodes[NODES];
    char why[512];
};

static void broken(struct sim *s, const char *fmt, ...) BH_PRINTF(2, 3);
static void broken(struct sim *s, const char *fmt, ...)
{
    va_list ap;

    if (s->failed)
        return;
    s->failed = true;
    va_start(ap, fmt);
    (void)vsnprintf(s->why, sizeof(s->why), fmt, ap);
    va_end(ap);
}

static uint64_t pick(struct sim *s, uint64_t n)
{
    return bh_loop_random(s->loop) % n;
}

/* ---- what must hold ---- */

static void claim_seen(void *arg, struct bh_obj *o)
{
    struct sim *s = arg;
    char why[300];

    s->events++;
    books_put(&s->books, o);
    if (!books_add_up(&s->books, s->nodes, why, sizeof(why)))
        broken(s, "revision %" PRIu64 ": %s", o->rv, why);
}

static void claim_changed(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    (void)old;
    claim_seen(arg, o);
}

static void claim_gone(void *arg, struct bh_obj *last)
{
    struct sim *s = arg;

    s->events++;
    books_del(&s->books, last);
}

static bool over(const struct bh_core_v1_pod *p)
{
    return bh_str_eqc(p->status.phase, "Succeeded") || bh_str_eqc(p->status.phase, "Failed");
}

static int pods_on(struct sim *s, struct bh_str node)
{
    int n = 0;
    struct bh_obj *o;

    for (size_t it = 0; (o = bh_informer_next(s->pods, &it));) {
        const struct bh_core_v1_pod *p = bh_obj_struct(o);

        n += bh_str_eq(p->spec.node_name, node) && !over(p);
    }
    return n;
}

static void check_node(struct sim *s, struct bh_str node)
{
    int n = pods_on(s, node);

    if (n > NODE_CPU)
        broken(s, "%.*s has %d pods and room for %d", BH_SF(node), n, NODE_CPU);
}

static struct bh_str claim_name(const struct bh_core_v1_pod *p, size_t i)
{
    const struct bh_core_v1_pod_resource_claim *r = &p->spec.resource_claims.p[i];

    if (r->has_resource_claim_name)
        return r->resource_claim_name;
    for (size_t k = 0; k < p->status.resource_claim_statuses.n; k++)
        if (bh_str_eq(p->status.resource_claim_statuses.p[k].name, r->name))
            return p->status.resource_claim_statuses.p[k].resource_claim_name;
    return (struct bh_str){NULL, 0};
}

static bool wants_extended(const struct bh_core_v1_pod *p)
{
    return p->spec.containers.p[0].resources.limits.n != 0;
}

static void check_reserved(struct sim *s, const struct bh_obj *o, struct bh_str claim)
{
    struct bh_obj *co = bh_informer_get(s->claims, o->ns, claim);
    const struct bh_resource_v1_resource_claim *c = co ? bh_obj_struct(co) : NULL;
    bool reserved = false;

    for (size_t k = 0; c && k < c->status.reserved_for.n; k++)
        reserved |= bh_str_eq(c->status.reserved_for.p[k].uid, o->uid);
    if ((!c || !c->status.allocation || !reserved) && !o->deleting)
        broken(s, "revision %" PRIu64 ": pod %.*s is bound without its devices", o->rv,
               BH_SF(o->name));
}

/* At the moment of binding; afterwards the claim may be cleaned up, as when the pod is done. */
static void check_bound(struct sim *s, struct bh_obj *o)
{
    const struct bh_core_v1_pod *p = bh_obj_struct(o);

    s->binds++;
    check_node(s, p->spec.node_name);
    for (size_t i = 0; i < p->spec.resource_claims.n; i++)
        check_reserved(s, o, claim_name(p, i));
    if (wants_extended(p))
        check_reserved(s, o,
                       p->status.extended_resource_claim_status
                           ? p->status.extended_resource_claim_status->resource_claim_name
                           : (struct bh_str){NULL, 0});
}

static void pod_changed(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    struct sim *s = arg;
    const struct bh_core_v1_pod *a = bh_obj_struct(old), *b = bh_obj_struct(o);

    s->events++;
    if (!a->spec.node_name.n && b->spec.node_name.n)
        check_bound(s, o);
}

static const struct bh_informer_ops claim_ops = {claim_seen, claim_changed, claim_gone, NULL};
static const struct bh_informer_ops pod_ops = {NULL, pod_changed, NULL, NULL};

/* ---- the admin's hand ---- */

static void create(struct sim *s, const struct bh_kind *k, const char *ns, struct bh_str json)
{
    (void)bh_client_call(
        s->admin,
        &(struct bh_client_req){.verb = BH_VERB_CREATE, .kind = k, .ns = bh_s(ns), .body = json},
        NULL, NULL);
}

static void merge(struct sim *s, const struct bh_kind *k, struct bh_str ns, struct bh_str name,
                  const char *sub, struct bh_str json)
{
    (void)bh_client_patch(s->admin, k, ns, name, sub, BH_PATCH_MERGE, json, NULL, NULL);
}

#define POOL(n) "\"pool\":{\"name\":\"n-%d\",\"generation\":1,\"resourceSliceCount\":" #n "}"

static void make_slices(struct sim *s, int node)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addf(&b,
                "{\"metadata\":{\"name\":\"s-%d\"},\"spec\":{\"driver\":\"" GPU_DRIVER
                "\"," POOL(1) ",\"nodeName\":\"n-%d\",\"devices\":[",
                node, node, node);
    for (int i = 0; i < GPUS; i++)
        bh_buf_addf(&b, "%s{\"name\":\"gpu-%d\"}", i ? "," : "", i);
    bh_buf_addz(&b, "]}}");
    create(s, &bh_resource_v1_resource_slice_kind, "", bh_buf_str(&b));
    create(s, &bh_resource_v1_resource_slice_kind, "",
           bh_str_fmt(s->a,
                      "{\"metadata\":{\"name\":\"c-%d\"},\"spec\":{\"driver\":\"" PART_DRIVER
                      "\"," POOL(2) ",\"nodeName\":\"n-%d\",\"sharedCounters\":[{\"name\":\"gpu\","
                                    "\"counters\":{\"units\":{\"value\":\"%d\"}}}]}}",
                      node, node, node, UNITS));
    bh_buf_clear(&b);
    bh_buf_addf(&b,
                "{\"metadata\":{\"name\":\"p-%d\"},\"spec\":{\"driver\":\"" PART_DRIVER
                "\"," POOL(2) ",\"nodeName\":\"n-%d\",\"devices\":[",
                node, node, node);
    for (int i = 0; i < PARTS; i++)
        bh_buf_addf(&b,
                    "%s{\"name\":\"part-%d\",\"attributes\":{\"units\":{\"int\":%d}},"
                    "\"consumesCounters\":[{\"counterSet\":\"gpu\",\"counters\":{\"units\":{"
                    "\"value\":\"%d\"}}}]}",
                    i ? "," : "", i, part_units[i], part_units[i]);
    bh_buf_addz(&b, "]}}");
    create(s, &bh_resource_v1_resource_slice_kind, "", bh_buf_str(&b));
    create(s, &bh_resource_v1_resource_slice_kind, "",
           bh_str_fmt(s->a,
                      "{\"metadata\":{\"name\":\"e-%d\"},\"spec\":{\"driver\":\"" NIC_DRIVER
                      "\"," POOL(1) ",\"nodeName\":\"n-%d\",\"devices\":[{\"name\":\"eth\","
                                    "\"allowMultipleAllocations\":true,\"capacity\":{\"bw\":{"
                                    "\"value\":\"%d\"}}}]}}",
                      node, node, node, BANDWIDTH));
}

static void make_class(struct sim *s, const char *name, const char *driver, const char *more)
{
    create(s, &bh_resource_v1_device_class_kind, "",
           bh_str_fmt(s->a,
                      "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"selectors\":[{\"cel\":{"
                      "\"expression\":\"device.driver == '%s'\"}}]%s}}",
                      name, driver, more));
}

static void make_template(struct sim *s, const char *name, const char *exactly)
{
    create(s, &bh_resource_v1_resource_claim_template_kind, "default",
           bh_str_fmt(s->a,
                      "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"spec\":{\"devices\":{"
                      "\"requests\":[{\"name\":\"r\",\"exactly\":{%s}}]}}}}",
                      name, exactly));
}

/* Two units of the partitioned device, or one. */
static const char *part_of(struct sim *s, int units)
{
    return bh_str_fmt(s->a,
                      "\"deviceClassName\":\"part\",\"selectors\":[{\"cel\":{\"expression\":"
                      "\"device.attributes['" PART_DRIVER "'].units == %d\"}}]",
                      units)
        .p;
}

static void furnish(struct sim *s)
{
    for (int i = 0; i < NODES; i++) {
        create(s, &bh_core_v1_node_kind, "",
               bh_str_fmt(s->a,
                          "{\"metadata\":{\"name\":\"n-%d\"},\"status\":{\"allocatable\":{\"cpu\":"
                          "\"%d\",\"memory\":\"8Gi\",\"pods\":\"50\"}}}",
                          i, NODE_CPU));
        make_slices(s, i);
    }
    create(s, &bh_scheduling_v1_priority_class_kind, "",
           BH_S("{\"metadata\":{\"name\":\"high\"},\"value\":1000}"));
    bh_loop_advance(s->loop, SECOND_NS);
    for (int i = 0; i < NODES; i++)
        merge(s, &bh_core_v1_node_kind, (struct bh_str){NULL, 0}, bh_str_fmt(s->a, "n-%d", i), "",
              BH_S("{\"spec\":{\"taints\":null}}"));
    make_class(s, "gpu", GPU_DRIVER, ",\"extendedResourceName\":\"example.com/gpu\"");
    make_class(s, "part", PART_DRIVER, "");
    make_class(s, "nic", NIC_DRIVER, "");
    make_template(s, "one", "\"deviceClassName\":\"gpu\"");
    make_template(s, "two", "\"deviceClassName\":\"gpu\",\"count\":2");
    make_template(s, "half", part_of(s, 2));
    make_template(s, "quarter", part_of(s, 1));
    make_template(s, "nic",
                  "\"deviceClassName\":\"nic\",\"capacity\":{\"requests\":{\"bw\":\"3\"}}");
    bh_loop_advance(s->loop, SECOND_NS);
}

/* One that pods share, made beside the pod or before. */
static const char *shared_claim(struct sim *s)
{
    if (s->claims_n == 0 || pick(s, 3) == 0)
        create(s, &bh_resource_v1_resource_claim_kind, "default",
               bh_str_fmt(s->a,
                          "{\"metadata\":{\"name\":\"shared-%d\"},\"spec\":{\"devices\":{"
                          "\"requests\":[{\"name\":\"gpu\",\"exactly\":{\"deviceClassName\":"
                          "\"gpu\"}}]}}}",
                          s->claims_n++));
    return bh_str_fmt(s->a,
                      ",\"resourceClaims\":[{\"name\":\"d\",\"resourceClaimName\":\"shared-%d\"}]",
                      s->claims_n - 1)
        .p;
}

#define TEMPLATE(name, t) "{\"name\":\"" name "\",\"resourceClaimTemplateName\":\"" t "\"}"

#define HIGH ",\"priorityClassName\":\"high\""

static void make_pod(struct sim *s)
{
    static const char *const asks[] = {"",
                                       TEMPLATE("d", "one"),
                                       TEMPLATE("d", "one"),
                                       TEMPLATE("d", "two"),
                                       TEMPLATE("d", "half"),
                                       TEMPLATE("d", "quarter"),
                                       TEMPLATE("d", "nic"),
                                       TEMPLATE("d", "one") "," TEMPLATE("e", "nic")};
    uint64_t kind = pick(s, BH_COUNT(asks) + 2);
    const char *claims = "", *limits = "", *class = pick(s, 6) ? "" : HIGH;

    if (kind == BH_COUNT(asks))
        claims = shared_claim(s);
    else if (kind > BH_COUNT(asks))
        limits = ",\"limits\":{\"example.com/gpu\":\"1\"}";
    else if (asks[kind][0])
        claims = bh_str_fmt(s->a, ",\"resourceClaims\":[%s]", asks[kind]).p;
    create(
        s, &bh_core_v1_pod_kind, "default",
        bh_str_fmt(s->a,
                   "{\"metadata\":{\"name\":\"p-%d\"},\"spec\":{\"terminationGracePeriodSeconds\""
                   ":%d,\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"resources\":{"
                   "\"requests\":{\"cpu\":\"1\"%s}%s}}]%s%s}}",
                   s->pods_n++, (int)pick(s, 2) * 30, limits[0] ? ",\"example.com/gpu\":\"1\"" : "",
                   limits, claims, class));
}

/* As many pods as the group wants: together, or not at all. */
static void make_gang(struct sim *s)
{
    int g = s->gangs_n, want = 2 + (int)pick(s, 4);
    const char *claims = pick(s, 3) ? ",\"resourceClaims\":[{\"name\":\"d\","
                                      "\"resourceClaimTemplateName\":\"one\"}]"
                                    : "";
    const char *class = pick(s, 3) ? "" : HIGH;

    if (g == GANGS_MAX)
        return;
    s->gang_min[s->gangs_n++] = want;
    create(s, &bh_scheduling_v1alpha2_pod_group_kind, "default",
           bh_str_fmt(s->a,
                      "{\"metadata\":{\"name\":\"g-%d\"},\"spec\":{\"schedulingPolicy\":{\"gang\":{"
                      "\"minCount\":%d}}}}",
                      g, want));
    for (int i = 0; i < want; i++)
        create(s, &bh_core_v1_pod_kind, "default",
               bh_str_fmt(s->a,
                          "{\"metadata\":{\"name\":\"g-%d-%d\"},\"spec\":{"
                          "\"terminationGracePeriodSeconds\":0,\"schedulingGroup\":{"
                          "\"podGroupName\":\"g-%d\"},\"containers\":[{\"name\":\"c\",\"image\":"
                          "\"i\",\"resources\":{\"requests\":{\"cpu\":\"1\"}}}]%s%s}}",
                          g, i, g, claims, class));
}

static struct bh_obj *some_pod(struct sim *s, bool bound)
{
    struct bh_obj *o, *found = NULL;
    uint64_t n = 0;

    for (size_t it = 0; (o = bh_informer_next(s->pods, &it));) {
        const struct bh_core_v1_pod *p = bh_obj_struct(o);

        if (bound && (!p->spec.node_name.n || over(p)))
            continue;
        if (pick(s, ++n) == 0)
            found = o;
    }
    return found;
}

static void end_pod(struct sim *s, bool remove)
{
    struct bh_obj *o = some_pod(s, !remove);

    if (!o)
        return;
    if (remove)
        (void)bh_client_delete(s->admin, &bh_core_v1_pod_kind, o->ns, o->name, o->uid, 0, NULL,
                               NULL);
    else
        merge(s, &bh_core_v1_pod_kind, o->ns, o->name, "status",
              BH_S("{\"status\":{\"phase\":\"Succeeded\"}}"));
}

/* As node agents do: pods that are to go are gone after a while. */
static void reap(struct sim *s, uint64_t one_of)
{
    struct bh_obj *o;

    for (size_t it = 0; (o = bh_informer_next(s->pods, &it));)
        if (o->deleting && pick(s, one_of) == 0)
            (void)bh_client_delete(s->admin, &bh_core_v1_pod_kind, o->ns, o->name, o->uid, 0, NULL,
                                   NULL);
}

static void taint(struct sim *s)
{
    int node = (int)pick(s, NODES), gpu = (int)pick(s, GPUS);

    create(s, &bh_resource_v1beta2_device_taint_rule_kind, "",
           bh_str_fmt(s->a,
                      "{\"metadata\":{\"name\":\"r-%d\"},\"spec\":{\"deviceSelector\":{\"pool\":"
                      "\"n-%d\",\"device\":\"gpu-%d\"},\"taint\":{\"key\":\"k\",\"effect\":\"%s\"}"
                      "}}",
                      s->rules_n++, node, gpu, pick(s, 2) ? "NoExecute" : "NoSchedule"));
}

static void untaint(struct sim *s, int rule)
{
    (void)bh_client_delete(s->admin, &bh_resource_v1beta2_device_taint_rule_kind,
                           (struct bh_str){NULL, 0}, bh_str_fmt(s->a, "r-%d", rule),
                           (struct bh_str){NULL, 0}, -1, NULL, NULL);
}

/* ---- lives of the scheduler ---- */

static void fenced(void *arg, const struct bh_client_res *res)
{
    struct sim *s = arg;
    struct bh_err err = {0};

    if (s->down || s->sched)
        return;
    if (res->err.code != BH_OK) {
        bh_timer_start(&s->restart, 50);
        return;
    }
    s->sched = bh_scheduler_new(&s->sched_net.base, NULL, &err);
}

/* A lease outlasts every request that is on its way: the next one starts after those have landed.
 * As leadership does: nothing is decided before a write of its own is answered, so everything that
 * the one before it wrote is seen. */
static void start_scheduler(void *arg)
{
    struct sim *s = arg;
    struct bh_str body = bh_str_fmt(s->a, "{\"metadata\":{\"name\":\"fence-%d\"}}", s->fences_n++);

    (void)bh_client_call(s->admin,
                         &(struct bh_client_req){.verb = BH_VERB_CREATE,
                                                 .kind = &bh_coordination_v1_lease_kind,
                                                 .ns = BH_S("kube-system"),
                                                 .body = body},
                         fenced, s);
}

static void stop_scheduler(struct sim *s)
{
    bh_timer_stop(&s->restart);
    lossy_crash(&s->sched_net);
    s->sched = bh_scheduler_free(s->sched);
    lossy_crash(&s->sched_net);
}

static void crash(struct sim *s)
{
    if (!s->sched)
        return;
    s->crashes++;
    stop_scheduler(s);
    bh_timer_start(&s->restart, LOSSY_LATE_MAX_MS + (int64_t)pick(s, 500));
}

/* ---- lives of the controllers ---- */

static void stop_controllers(struct sim *s)
{
    bh_timer_stop(&s->restart_ctl);
    lossy_crash(&s->ctl_net);
    s->ctl = bh_controllers_free(s->ctl);
    lossy_crash(&s->ctl_net);
}

static void start_controllers(void *arg)
{
    struct sim *s = arg;
    struct bh_controllers_opts co = {
        .controllers = "resourceclaim-controller,device-taint-eviction-controller,"
                       "garbage-collector-controller,pod-garbage-collector-controller"};
    struct bh_err err = {0};

    s->ctl = bh_controllers_new(&s->ctl_net.base, &co, &err);
    if (!s->ctl)
        broken(s, "%s", err.msg);
}

static void crash_controllers(struct sim *s)
{
    if (!s->ctl)
        return;
    s->ctl_crashes++;
    stop_controllers(s);
    bh_timer_start(&s->restart_ctl, LOSSY_LATE_MAX_MS + (int64_t)pick(s, 500));
}

/* ---- lives of the server ---- */

static bool open_server(struct sim *s)
{
    struct bh_apiserver_opts o = {.disable_admission = "ServiceAccount"};
    struct bh_str masters[] = {BH_S("system:masters"), BH_S("system:authenticated")};
    struct bh_str none = {NULL, 0};
    struct bh_err err = {0};

    if (bh_apiserver_new(s->loop, s->store, &o, &s->api, &err) < 0) {
        broken(s, "%s", err.msg);
        return false;
    }
    s->admin = bh_client_new_inproc(s->loop, s->api, BH_S("admin"), masters, 2, "sim");
    s->sched_inner = bh_client_new_inproc(s->loop, s->api, BH_S("system:kube-scheduler"),
                                          masters + 1, 1, "scheduler");
    s->ctl_inner = bh_client_new_inproc(s->loop, s->api, BH_S("system:kube-controller-manager"),
                                        masters + 1, 1, "controllers");
    lossy_init(&s->sched_net, s->sched_inner);
    lossy_init(&s->ctl_net, s->ctl_inner);
    s->claims = bh_informer_new(s->admin, &bh_resource_v1_resource_claim_kind, none, none, none,
                                &claim_ops, s);
    s->pods = bh_informer_new(s->admin, &bh_core_v1_pod_kind, none, none, none, &pod_ops, s);
    return true;
}

/* Nothing of the roles is left, and what they sent has come to its end. */
static void close_server(struct sim *s)
{
    s->pods = bh_informer_free(s->pods);
    s->claims = bh_informer_free(s->claims);
    s->admin = bh_client_free(s->admin);
    s->sched_inner = bh_client_free(s->sched_inner);
    s->ctl_inner = bh_client_free(s->ctl_inner);
    s->api = bh_apiserver_free(s->api);
}

static void bad_network(struct sim *s, bool bad);

static void reopen_server(void *arg)
{
    struct sim *s = arg;

    close_server(s);
    books_done(&s->books); /* what the store lost shows: the claims are read anew */
    if (!open_server(s))
        return;
    s->down = false;
    bad_network(s, s->storm);
    start_controllers(s);
    start_scheduler(s);
}

static void crash_server(struct sim *s)
{
    s->restarts++;
    s->down = true;
    stop_scheduler(s);
    stop_controllers(s);
    bh_timer_start(&s->restart_api, 5 * LOSSY_LATE_MAX_MS + (int64_t)pick(s, 500));
}

static void bad_network(struct sim *s, bool bad)
{
    struct lossy *nets[] = {&s->sched_net, &s->ctl_net};

    for (size_t i = 0; i < BH_COUNT(nets); i++) {
        nets[i]->lose_answer = bad ? 30 : 0;
        nets[i]->lose_request = bad ? 10 : 0;
        nets[i]->late = bad ? 30 : 0;
        nets[i]->lose_watch = bad ? 10 : 0;
        nets[i]->delay_max_ns = bad ? DELAY_NS : 0;
    }
}

static void act(void *arg)
{
    struct sim *s = arg;

    if (!s->storm || s->failed)
        return;
    if (s->down) {
        bh_timer_start(&s->action, 100);
        return;
    }
    switch (pick(s, 16)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
        if (bh_informer_count(s->pods) < PODS_MAX)
            make_pod(s);
        break;
    case 5:
    case 6:
    case 7:
        end_pod(s, true);
        break;
    case 8:
    case 9:
        end_pod(s, false);
        break;
    case 10:
        taint(s);
        break;
    case 11:
        if (s->rules_n)
            untaint(s, (int)pick(s, (uint64_t)s->rules_n));
        break;
    case 12:
        if (pick(s, 8) == 0)
            crash(s);
        else if (pick(s, 16) == 0)
            crash_controllers(s);
        else if (pick(s, 40) == 0)
            crash_server(s);
        break;
    case 13:
        if (pick(s, 3) == 0 && bh_informer_count(s->pods) < PODS_MAX)
            make_gang(s);
        if (pick(s, 10) == 0)
            bh_store_memory_fail(s->store, 1 + (int)pick(s, 3));
        break;
    default:
        for (uint64_t n = pick(s, 4); n > 0; n--)
            make_pod(s);
        break;
    }
    reap(s, 16);
    bh_timer_start_ns(&s->action, (int64_t)pick(s, 60) * 1000000);
}

/* ---- in the end ---- */

/* What a pod asks of one node; false when that hangs on others (a shared claim). */
struct need {
    int gpus, half, quarter, nic;
};

static bool need_of(const struct bh_core_v1_pod *p, struct need *n)
{
    *n = (struct need){.gpus = wants_extended(p)};
    for (size_t i = 0; i < p->spec.resource_claims.n; i++) {
        const struct bh_core_v1_pod_resource_claim *r = &p->spec.resource_claims.p[i];

        if (!r->has_resource_claim_template_name)
            return false;
        n->gpus += bh_str_eqc(r->resource_claim_template_name, "one");
        n->gpus += 2 * bh_str_eqc(r->resource_claim_template_name, "two");
        n->half += bh_str_eqc(r->resource_claim_template_name, "half");
        n->quarter += bh_str_eqc(r->resource_claim_template_name, "quarter");
        n->nic += bh_str_eqc(r->resource_claim_template_name, "nic");
    }
    return true;
}

static bool has_room(const struct books_node *b, const struct need *n)
{
    if (GPUS - b->gpus < n->gpus || b->bandwidth + 3 * n->nic > BANDWIDTH)
        return false;
    /* The units decide: there are as many devices of a size as fit. */
    return b->units + 2 * n->half + n->quarter <= UNITS;
}

static bool important(const struct bh_core_v1_pod *p)
{
    return p->spec.priority > 0;
}

/* What the less important have on a node, as far as their templates tell. */
static int held_by_low(struct sim *s, struct bh_str node, struct need *ret)
{
    int n = 0;
    struct bh_obj *o;

    *ret = (struct need){0};
    for (size_t it = 0; (o = bh_informer_next(s->pods, &it));) {
        const struct bh_core_v1_pod *p = bh_obj_struct(o);
        struct need k;

        if (!bh_str_eq(p->spec.node_name, node) || over(p) || important(p) || !need_of(p, &k))
            continue;
        n++;
        ret->gpus += k.gpus;
        ret->half += k.half;
        ret->quarter += k.quarter;
        ret->nic += k.nic;
    }
    return n;
}

static void check_preemption(struct sim *s, const struct bh_obj *o, const struct need *n)
{
    for (int i = 0; i < NODES; i++) {
        struct bh_str node = bh_str_fmt(s->a, "n-%d", i);
        struct books_node left = s->nodes[i];
        struct need low;
        int pods = held_by_low(s, node, &low);

        left.gpus -= low.gpus;
        left.units -= 2 * low.half + low.quarter;
        left.bandwidth -= 3 * low.nic;
        if (has_room(&left, n) && pods_on(s, node) - pods < NODE_CPU)
            broken(s, "pod %.*s waits though less important ones have what it asks for on n-%d",
                   BH_SF(o->name), i);
    }
}

static void check_waiting(struct sim *s)
{
    struct bh_obj *o;

    for (size_t it = 0; (o = bh_informer_next(s->pods, &it));) {
        const struct bh_core_v1_pod *p = bh_obj_struct(o);
        struct need n;

        if (p->spec.node_name.n || over(p) || o->deleting || p->spec.scheduling_group ||
            !need_of(p, &n))
            continue;
        for (int i = 0; i < NODES; i++)
            if (has_room(&s->nodes[i], &n) && pods_on(s, bh_str_fmt(s->a, "n-%d", i)) < NODE_CPU)
                broken(s, "pod %.*s waits though n-%d has what it asks for", BH_SF(o->name), i);
        if (important(p))
            check_preemption(s, o, &n);
    }
}

/* Pods with one GPU each that would find a place now, or if the less important went. */
static int room_for_gang(struct sim *s, bool high)
{
    int sum = 0;

    for (int i = 0; i < NODES; i++) {
        struct bh_str node = bh_str_fmt(s->a, "n-%d", i);
        struct need low = {0};
        int cpu = NODE_CPU - pods_on(s, node) + (high ? held_by_low(s, node, &low) : 0);
        int gpus = GPUS - s->nodes[i].gpus + low.gpus;

        sum += cpu < gpus ? cpu : gpus;
    }
    return sum;
}

static void check_gangs(struct sim *s)
{
    for (int g = 0; g < s->gangs_n; g++) {
        struct bh_str name = bh_str_fmt(s->a, "g-%d", g);
        int bound = 0, waiting = 0;
        bool high = false;
        struct bh_obj *o;

        for (size_t it = 0; (o = bh_informer_next(s->pods, &it));) {
            const struct bh_core_v1_pod *p = bh_obj_struct(o);

            if (!p->spec.scheduling_group || over(p) || o->deleting ||
                !bh_str_eq(p->spec.scheduling_group->pod_group_name, name))
                continue;
            high = important(p);
            bound += p->spec.node_name.n > 0;
            waiting += !p->spec.node_name.n;
        }
        s->gangs_whole += bound >= s->gang_min[g];
        if (waiting && bound + waiting >= s->gang_min[g] && room_for_gang(s, high) >= waiting)
            broken(s, "gang %d: %d pods are bound, %d wait though there is room", g, bound,
                   waiting);
    }
}

static bool lives(struct sim *s, struct bh_str ns, struct bh_str pod, struct bh_str uid)
{
    struct bh_obj *o = bh_informer_get(s->pods, ns, pod);

    return o && bh_str_eq(o->uid, uid) && !over(bh_obj_struct(o));
}

/* Whoever holds devices is a pod that is not over. */
static void check_holders(struct sim *s)
{
    struct bh_obj *o;

    for (size_t it = 0; (o = bh_informer_next(s->claims, &it));) {
        const struct bh_resource_v1_resource_claim *c = bh_obj_struct(o);
        /* One that a user made keeps what it was given while no pod ever had it. */
        bool used = !c->status.allocation || bh_str_starts(o->name, BH_S("shared-"));

        for (size_t i = 0; i < c->status.reserved_for.n; i++)
            used |=
                lives(s, o->ns, c->status.reserved_for.p[i].name, c->status.reserved_for.p[i].uid);
        /* What an attempt that failed left behind goes with the pod that it was made for. */
        for (size_t i = 0; i < c->metadata.owner_references.n; i++)
            used |= lives(s, o->ns, c->metadata.owner_references.p[i].name,
                          c->metadata.owner_references.p[i].uid);
        if (!used)
            broken(s, "claim %.*s holds devices for nobody", BH_SF(o->name));
    }
}

static void check_calm(struct sim *s)
{
    char why[300];

    if (s->down || !books_add_up(&s->books, s->nodes, why, sizeof(why)))
        broken(s, "%s", s->down ? "the server is down" : why);
    if (s->failed)
        return;
    check_waiting(s);
    check_gangs(s);
    check_holders(s);
}

static bool open_world(struct sim *s)
{
    s->a = bh_arena_new(0);
    s->loop = bh_loop_new_virtual(s->seed, WALL0);
    s->store = bh_store_new_memory(s->loop);
    bh_timer_init(&s->action, s->loop, act, s);
    bh_timer_init(&s->restart, s->loop, start_scheduler, s);
    bh_timer_init(&s->restart_ctl, s->loop, start_controllers, s);
    bh_timer_init(&s->restart_api, s->loop, reopen_server, s);
    if (!open_server(s))
        return false;
    start_controllers(s);
    return s->ctl != NULL;
}

static void close_world(struct sim *s)
{
    bh_timer_stop(&s->action);
    bh_timer_stop(&s->restart_api);
    stop_scheduler(s);
    stop_controllers(s);
    if (s->api) {
        bh_loop_advance(s->loop, 5 * SECOND_NS); /* what was on its way comes to its end */
        close_server(s);
    }
    (void)bh_store_free(s->store);
    (void)bh_loop_free(s->loop);
    books_done(&s->books);
    (void)bh_arena_free(s->a);
}

static bool play(uint64_t seed)
{
    struct sim s = {.seed = seed};

    if (open_world(&s)) {
        furnish(&s);
        start_scheduler(&s);
        bh_loop_advance(s.loop, SECOND_NS);
        s.storm = true;
        bad_network(&s, true);
        bh_timer_start(&s.action, 1);
        for (int ms = 0; ms < STORM_MS && !s.failed; ms += 100)
            bh_loop_advance(s.loop, SECOND_NS / 10);
        s.storm = false;
        bad_network(&s, false);
        bh_store_memory_fail(s.store, 0);
        for (int i = 0; i < s.rules_n; i++)
            untaint(&s, i);
        for (int ms = 0; ms < CALM_MS && !s.failed; ms += 1000) {
            reap(&s, 1);
            bh_loop_advance(s.loop, SECOND_NS);
        }
        check_calm(&s);
    }
    printf("seed %" PRIu64 ": %s%s (%d pods made, %" PRIu64 " bound, %d of %d gangs whole, %" PRIu64
           " schedulers, %" PRIu64 " controllers and %" PRIu64 " servers died, %" PRIu64
           " events)\n",
           seed, s.failed ? "BROKEN: " : "holds", s.failed ? s.why : "", s.pods_n, s.binds,
           s.gangs_whole, s.gangs_n, s.crashes, s.ctl_crashes, s.restarts, s.events);
    fflush(stdout);
    close_world(&s);
    return !s.failed;
}

static bool number(const char *text, uint64_t *ret)
{
    int64_t v;

    if (!bh_str_i64(bh_s(text), 0, INT64_MAX, &v))
        return false;
    *ret = (uint64_t)v;
    return true;
}

/* Runs that once were broken: a nomination that outlived its hope, a claim given back for a version
 * that was old, over and over. */
static const uint64_t once_broken[] = {1937769141765181422, 3465428112555759045};

int main(int argc, char **argv)
{
    uint64_t fixed = 20, random = 5, seed = 0;
    struct timespec now;
    int failures = 0;

    bh_log_init(BH_ERROR, "sim");
    bh_log_fd(open("/dev/null", O_WRONLY | O_CLOEXEC)); /* failing commits are reported, rightly */
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t *v = !strcmp(argv[i], "--seed")     ? &seed
                      : !strcmp(argv[i], "--fixed")  ? &fixed
                      : !strcmp(argv[i], "--random") ? &random
                                                     : NULL;
        if (!v || !number(argv[i + 1], v)) {
            fprintf(stderr, "usage: %s [--seed N] [--fixed N] [--random N]\n", argv[0]);
            return 2;
        }
    }
    if (seed)
        return play(seed) ? 0 : 1;
    for (uint64_t i = 1; i <= fixed; i++)
        failures += !play(i);
    for (size_t i = 0; i < BH_COUNT(once_broken); i++)
        failures += !play(once_broken[i]);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    for (uint64_t i = 0; i < random; i++)
        failures += !play(((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec + i) *
                              0x9e3779b97f4a7c15u >>
                          2);
    printf("%d of %d runs broken\n", failures, (int)(fixed + random + BH_COUNT(once_broken)));
    return failures ? 1 : 0;
}
