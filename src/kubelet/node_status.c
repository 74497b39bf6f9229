/* The node's own objects: it registers the Node, renews its lease each 10 s and keeps its status
 * true.
 *
 * The status is looked at each 10 s and written when it changed, or after 5 minutes. The first
 * write of a start always happens: it is what says that this start is alive.
 */
#include <stdio.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "api/engine.h"
#include "api/gen/coordination_v1.h"
#include "api/gen/meta_v1.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/limits.h"
#include "base/log.h"
#include "kubelet/kubelet_int.h"

#define LEASE_NS        "kube-node-lease"
#define LEASE_SECONDS   40
#define RENEW_MS        10000
#define STATUS_MS       10000
#define STATUS_WRITE_NS ((int64_t)300 * 1000000000)
#define RETRY_MS        1000
#define PODS_MAX        110
#define IMAGES_MAX      50
#define KUBELET_VERSION "v1.36.2"

struct node_status {
    struct bh_kubelet *k;
    struct bh_timer lease_timer, status_timer;
    uint64_t lease_call, status_call;
    char *written; /* status last acknowledged, without heartbeats */
    char *sending;
    int64_t written_ns; /* monotonic */
    bool registered, told_ready;
    struct bh_arena *images_arena;
    struct bh_core_v1_container_image_vec images;
    bool runtime_ready;
    struct bh_str runtime_reason; /* in images_arena */
    struct bh_obj *node;          /* as last answered */
};

static void status_run(void *arg);
static void lease_run(void *arg);

static struct bh_time wall(const struct node_status *n)
{
    return (struct bh_time){bh_loop_wall_ns(n->k->loop) / 1000000000, 0};
}

/* ---- facts of the host ---- */

static struct bh_str file_line(struct bh_arena *a, const char *path)
{
    BH_AUTO_BUF b = {.max = 4096};
    struct bh_str s;

    if (bh_fs_read(path, 4096, &b, NULL) < 0)
        return (struct bh_str){"", 0};
    s = bh_buf_str(&b);
    return bh_str_dup(a, bh_str_trim(bh_str_cut(&s, '\n')));
}

static struct bh_str os_name(struct bh_arena *a)
{
    BH_AUTO_BUF b = {.max = 65536};
    struct bh_str rest, line;

    if (bh_fs_read("/etc/os-release", 65536, &b, NULL) < 0)
        return BH_S("Linux");
    for (rest = bh_buf_str(&b); rest.n;) {
        line = bh_str_cut(&rest, '\n');
        if (bh_str_starts(line, BH_S("PRETTY_NAME=\"")) && line.n > 14)
            return bh_str_dup(a, bh_str_sub(line, 13, line.n - 1));
    }
    return BH_S("Linux");
}

static void host_facts(struct bh_arena *a, struct bh_kubelet *k, struct bh_core_v1_node_status *st)
{
    struct utsname u;
    struct sysinfo si;
    struct statvfs fs;
    int64_t cpus = sysconf(_SC_NPROCESSORS_ONLN);

    if (uname(&u) == 0)
        st->node_info.kernel_version = bh_str_dup(a, bh_s(u.release));
    st->node_info.machine_id = file_line(a, "/etc/machine-id");
    st->node_info.system_uuid = file_line(a, "/sys/class/dmi/id/product_uuid");
    st->node_info.boot_id = file_line(a, "/proc/sys/kernel/random/boot_id");
    st->node_info.os_image = os_name(a);
    st->node_info.container_runtime_version =
        bh_str_fmt(a, "%s://%s", k->rt->ops->name, k->rt->ops->version);
    st->node_info.kubelet_version = BH_S(KUBELET_VERSION);
    st->node_info.operating_system = BH_S("linux");
#if defined(__x86_64__)
    st->node_info.architecture = BH_S("amd64");
#elif defined(__aarch64__)
    st->node_info.architecture = BH_S("arm64");
#else
    st->node_info.architecture = bh_str_dup(a, bh_s(u.machine));
#endif
    bh_str_map_put(a, &st->capacity, BH_S("cpu"),
                   bh_str_fmt(a, "%lld", (long long)(cpus > 0 ? cpus : 1)));
    if (sysinfo(&si) == 0)
        bh_str_map_put(
            a, &st->capacity, BH_S("memory"),
            bh_str_fmt(a, "%lluKi", (unsigned long long)si.totalram * si.mem_unit / 1024));
    if (statvfs(k->root, &fs) == 0)
        bh_str_map_put(
            a, &st->capacity, BH_S("ephemeral-storage"),
            bh_str_fmt(a, "%lluKi", (unsigned long long)fs.f_blocks * fs.f_frsize / 1024));
    bh_str_map_put(a, &st->capacity, BH_S("pods"), bh_str_fmt(a, "%d", PODS_MAX));
    st->allocatable = st->capacity;
}

static bool disk_low(const struct bh_kubelet *k)
{
    struct statvfs fs;

    return statvfs(k->root, &fs) == 0 &&
           (fs.f_bavail * 10 < fs.f_blocks || (fs.f_files && fs.f_favail * 20 < fs.f_files));
}

static bool memory_low(void)
{
    BH_AUTO_BUF b = {.max = 65536};
    struct bh_str rest, line;
    int64_t kb;

    if (bh_fs_read("/proc/meminfo", 65536, &b, NULL) < 0)
        return false;
    for (rest = bh_buf_str(&b); rest.n;) {
        line = bh_str_cut(&rest, '\n');
        if (!bh_str_starts(line, BH_S("MemAvailable:")))
            continue;
        line = bh_str_trim(bh_str_sub(line, 13, line.n));
        return bh_str_i64(bh_str_cut(&line, ' '), 0, INT64_MAX, &kb) && kb < 100 * 1024;
    }
    return false;
}

/* ---- status ---- */

static void add_condition(struct node_status *n, struct bh_core_v1_node_status *st,
                          const char *type, bool on, const char *reason, struct bh_str message)
{
    struct bh_core_v1_node_condition *c = &st->conditions.p[st->conditions.n++];
    const struct bh_core_v1_node *old = n->node ? bh_obj_struct(n->node) : NULL;

    c->type = bh_s(type);
    c->status = on ? BH_S("True") : BH_S("False");
    c->reason = bh_s(reason);
    c->message = message;
    c->last_heartbeat_time = c->last_transition_time = wall(n);
    for (size_t i = 0; old && i < old->status.conditions.n; i++)
        if (bh_str_eq(old->status.conditions.p[i].type, c->type) &&
            bh_str_eq(old->status.conditions.p[i].status, c->status))
            c->last_transition_time = old->status.conditions.p[i].last_transition_time;
}

static void make_status(struct node_status *n, struct bh_arena *a,
                        struct bh_core_v1_node_status *st)
{
    bool disk = disk_low(n->k), memory = memory_low();

    host_facts(a, n->k, st);
    st->addresses.p = bh_new_n(a, struct bh_core_v1_node_address, 2);
    st->addresses.n = 2;
    st->addresses.p[0] = (struct bh_core_v1_node_address){BH_S("InternalIP"), bh_s(n->k->node_ip)};
    st->addresses.p[1] = (struct bh_core_v1_node_address){BH_S("Hostname"), bh_s(n->k->node_name)};
    st->daemon_endpoints.kubelet_endpoint.port = n->k->port;
    st->images = n->images;
    st->conditions.p = bh_new_n(a, struct bh_core_v1_node_condition, 4);
    add_condition(n, st, "MemoryPressure", memory,
                  memory ? "KubeletHasInsufficientMemory" : "KubeletHasSufficientMemory",
                  memory ? BH_S("kubelet has insufficient memory available")
                         : BH_S("kubelet has sufficient memory available"));
    add_condition(n, st, "DiskPressure", disk,
                  disk ? "KubeletHasDiskPressure" : "KubeletHasNoDiskPressure",
                  disk ? BH_S("kubelet has disk pressure") : BH_S("kubelet has no disk pressure"));
    add_condition(n, st, "PIDPressure", false, "KubeletHasSufficientPID",
                  BH_S("kubelet has sufficient PID available"));
    if (n->runtime_ready)
        add_condition(n, st, "Ready", true, "KubeletReady",
                      BH_S("kubelet is posting ready status"));
    else
        add_condition(n, st, "Ready", false, "KubeletNotReady",
                      n->runtime_reason.n
                          ? n->runtime_reason
                          : BH_S("container runtime status check may not have completed yet"));
}

static void status_written(void *arg, const struct bh_client_res *res)
{
    struct node_status *n = arg;

    n->status_call = 0;
    if (res->err.code == BH_OK && res->obj) {
        bh_free(n->written);
        n->written = n->sending;
        n->written_ns = bh_loop_mono_ns(n->k->loop);
        (void)bh_obj_unref(n->node);
        n->node = bh_obj_ref(res->obj);
        if (n->runtime_ready && !n->told_ready) {
            n->told_ready = true;
            bh_log(BH_INFO, "node is ready", BH_CSTR("node", n->k->node_name));
            if (n->k->ready)
                n->k->ready(n->k->ready_arg);
        }
        bh_timer_start(&n->status_timer, n->runtime_ready ? STATUS_MS : RETRY_MS);
    } else {
        bh_free(n->sending);
        if (res->err.code == BH_E_NOT_FOUND)
            n->registered = false;
        bh_log(BH_WARN, "node status not written", BH_CSTR("error", res->err.msg));
        bh_timer_start(&n->status_timer, RETRY_MS);
    }
    n->sending = NULL;
}

static void write_status(struct node_status *n);

/* Nothing changed here; but while we were silent somebody may have written that nobody knows how we
 * are. */
static void status_compared(void *arg, const struct bh_client_res *res)
{
    struct node_status *n = arg;
    const struct bh_core_v1_node *node =
        res->err.code == BH_OK && res->obj ? bh_obj_struct(res->obj) : NULL;
    bool unknown = false;

    n->status_call = 0;
    for (size_t i = 0; node && i < node->status.conditions.n; i++)
        unknown = unknown || bh_str_eqc(node->status.conditions.p[i].status, "Unknown");
    if (!unknown) {
        bh_timer_start(&n->status_timer, STATUS_MS);
        return;
    }
    bh_free(n->written);
    n->written = NULL;
    write_status(n);
}

static void write_status(struct node_status *n)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF b = {.max = BH_BODY_BYTES_MAX}, plain = {.max = BH_BODY_BYTES_MAX};
    struct bh_core_v1_node_status st = {0};

    make_status(n, a, &st);
    bh_buf_addz(&b, "{\"status\":");
    bh_msg_encode_json(&bh_core_v1_node_status_type, &st, &b);
    bh_buf_addc(&b, '}');
    for (size_t i = 0; i < st.conditions.n; i++)
        st.conditions.p[i].last_heartbeat_time = (struct bh_time){0};
    bh_msg_encode_json(&bh_core_v1_node_status_type, &st, &plain);
    if (n->written && bh_str_eqc(bh_buf_str(&plain), n->written) &&
        bh_loop_mono_ns(n->k->loop) - n->written_ns < STATUS_WRITE_NS) {
        n->status_call = bh_client_call(n->k->client,
                                        &(struct bh_client_req){.verb = BH_VERB_GET,
                                                                .kind = &bh_core_v1_node_kind,
                                                                .name = bh_s(n->k->node_name)},
                                        status_compared, n);
        return;
    }
    n->sending = bh_strdup_c(bh_buf_str(&plain));
    n->status_call = bh_client_patch(n->k->client, &bh_core_v1_node_kind, (struct bh_str){0},
                                     bh_s(n->k->node_name), "status", BH_PATCH_STRATEGIC,
                                     bh_buf_str(&b), status_written, n);
}

static void images_listed(void *arg, const struct bh_err *err, const struct bh_cri_image_vec *v)
{
    struct node_status *n = arg;
    size_t count = err ? 0 : v->n < IMAGES_MAX ? v->n : IMAGES_MAX;

    n->images = (struct bh_core_v1_container_image_vec){0};
    n->images.p =
        count ? bh_new_n(n->images_arena, struct bh_core_v1_container_image, count) : NULL;
    for (size_t i = 0; i < count; i++) {
        struct bh_core_v1_container_image *c = &n->images.p[n->images.n++];
        size_t names = v->p[i].repo_tags.n + v->p[i].repo_digests.n;

        c->size_bytes = v->p[i].size;
        c->names.p = bh_new_n(n->images_arena, struct bh_str, names + 1);
        for (size_t k = 0; k < v->p[i].repo_digests.n; k++)
            c->names.p[c->names.n++] = bh_str_dup(n->images_arena, v->p[i].repo_digests.p[k]);
        for (size_t k = 0; k < v->p[i].repo_tags.n; k++)
            c->names.p[c->names.n++] = bh_str_dup(n->images_arena, v->p[i].repo_tags.p[k]);
    }
    write_status(n);
}

static void runtime_asked(void *arg, const struct bh_err *err, const struct bh_cri_status *s)
{
    struct node_status *n = arg;

    (void)bh_arena_free(n->images_arena);
    n->images_arena = bh_arena_new(0);
    n->runtime_reason = (struct bh_str){0};
    n->runtime_ready = !err && s->runtime_ready && s->network_ready;
    if (err)
        n->runtime_reason = bh_str_fmt(n->images_arena, "container runtime is down: %s", err->msg);
    else if (!s->runtime_ready)
        n->runtime_reason = bh_str_fmt(n->images_arena, "container runtime is not ready: %.*s",
                                       BH_SF(s->runtime_reason));
    else if (!s->network_ready)
        n->runtime_reason = bh_str_fmt(n->images_arena, "container runtime network not ready: %.*s",
                                       BH_SF(s->network_reason));
    n->k->rt->ops->image_list(n->k->rt, images_listed, n);
}

/* ---- registration ---- */

static void registered(void *arg, const struct bh_client_res *res)
{
    struct node_status *n = arg;

    n->status_call = 0;
    if (res->err.code == BH_OK || res->err.code == BH_E_EXISTS) {
        n->registered = true;
        bh_timer_start(&n->status_timer, 0);
        return;
    }
    bh_log(BH_WARN, "node not registered, trying again", BH_CSTR("error", res->err.msg));
    bh_timer_start(&n->status_timer, RETRY_MS);
}

static void register_node(struct node_status *n)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_core_v1_node node = {0};

    node.metadata.name = bh_s(n->k->node_name);
    host_facts(a, n->k, &node.status);
    bh_str_map_put(a, &node.metadata.labels, BH_S("kubernetes.io/hostname"), bh_s(n->k->node_name));
    bh_str_map_put(a, &node.metadata.labels, BH_S("kubernetes.io/os"), BH_S("linux"));
    bh_str_map_put(a, &node.metadata.labels, BH_S("kubernetes.io/arch"),
                   node.status.node_info.architecture);
    node.status = (struct bh_core_v1_node_status){0};
    n->status_call = bh_client_create(n->k->client, &bh_core_v1_node_kind, (struct bh_str){0},
                                      &node, registered, n);
}

static void status_run(void *arg)
{
    struct node_status *n = arg;

    if (n->status_call)
        return;
    if (!n->registered)
        register_node(n);
    else
        n->k->rt->ops->status(n->k->rt, runtime_asked, n);
}

/* ---- lease ---- */

static void lease_written(void *arg, const struct bh_client_res *res)
{
    struct node_status *n = arg;

    n->lease_call = 0;
    if (res->err.code == BH_OK || res->err.code == BH_E_EXISTS) {
        bh_timer_start(&n->lease_timer, res->err.code == BH_OK ? RENEW_MS : 0);
        return;
    }
    bh_log(BH_DEBUG, "lease not renewed", BH_CSTR("error", res->err.msg));
    bh_timer_start(&n->lease_timer, RETRY_MS);
}

static void lease_read(void *arg, const struct bh_client_res *res)
{
    struct node_status *n = arg;
    int64_t now = bh_loop_wall_ns(n->k->loop);
    struct bh_coordination_v1_lease lease = {0};
    struct bh_meta_v1_owner_reference owner = {0};

    n->lease_call = 0;
    if (res->err.code != BH_OK && res->err.code != BH_E_NOT_FOUND) {
        bh_timer_start(&n->lease_timer, RETRY_MS);
        return;
    }
    if (res->obj)
        lease = *(const struct bh_coordination_v1_lease *)bh_obj_struct(
            res->obj); /* shallow: only encoded */
    lease.metadata.name = bh_s(n->k->node_name);
    lease.metadata.namespace = BH_S(LEASE_NS);
    lease.spec.holder_identity = bh_s(n->k->node_name);
    lease.spec.has_holder_identity = true;
    lease.spec.lease_duration_seconds = LEASE_SECONDS;
    lease.spec.has_lease_duration_seconds = true;
    lease.spec.renew_time =
        (struct bh_time){now / 1000000000, (int32_t)(now % 1000000000 / 1000 * 1000)};
    if (!lease.metadata.owner_references.n && n->node) {
        owner = (struct bh_meta_v1_owner_reference){.api_version = BH_S("v1"),
                                                    .kind = BH_S("Node"),
                                                    .name = n->node->name,
                                                    .uid = n->node->uid};
        lease.metadata.owner_references.p = &owner;
        lease.metadata.owner_references.n = 1;
    }
    n->lease_call = res->obj ? bh_client_update(n->k->client, &bh_coordination_v1_lease_kind,
                                                &lease, "", lease_written, n)
                             : bh_client_create(n->k->client, &bh_coordination_v1_lease_kind,
                                                BH_S(LEASE_NS), &lease, lease_written, n);
}

static void lease_run(void *arg)
{
    struct node_status *n = arg;

    n->lease_call = bh_client_call(n->k->client,
                                   &(struct bh_client_req){.verb = BH_VERB_GET,
                                                           .kind = &bh_coordination_v1_lease_kind,
                                                           .ns = BH_S(LEASE_NS),
                                                           .name = bh_s(n->k->node_name)},
                                   lease_read, n);
}

struct node_status *node_status_new(struct bh_kubelet *k)
{
    struct node_status *n = bh_calloc(1, sizeof(*n));

    n->k = k;
    bh_timer_init(&n->lease_timer, k->loop, lease_run, n);
    bh_timer_init(&n->status_timer, k->loop, status_run, n);
    bh_timer_start(&n->status_timer, 0);
    bh_timer_start(&n->lease_timer, 0);
    return n;
}

struct node_status *node_status_free(struct node_status *n)
{
    if (!n)
        return NULL;
    bh_timer_stop(&n->lease_timer);
    bh_timer_stop(&n->status_timer);
    bh_client_cancel(n->k->client, n->lease_call);
    bh_client_cancel(n->k->client, n->status_call);
    (void)bh_arena_free(n->images_arena);
    (void)bh_obj_unref(n->node);
    bh_free(n->written);
    bh_free(n->sending);
    bh_free(n);
    return NULL;
}
