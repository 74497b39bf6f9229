/* What the runtime is asked for: sandbox and container configurations made from a pod. */
#include <errno.h>
#include <stdio.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "api/gen/meta_v1.h"
#include "base/buf.h"
#include "base/fs.h"
#include "data/quantity.h"
#include "kubelet/kubelet_int.h"

#define CPU_PERIOD_US    100000
#define SHARES_PER_CPU   1024
#define SHARES_MIN       2
#define QUOTA_MIN_US     1000
#define ENV_EXPANDED_MAX 65536

/* ---- quantities ---- */

static bool amount(const struct bh_str_map *m, const char *name, bool milli, int64_t *ret)
{
    const struct bh_str *text = bh_str_map_get(m, bh_s(name));
    struct bh_quantity q;

    if (!text || bh_quantity_parse(*text, &q, NULL) < 0)
        return false;
    *ret = milli ? bh_quantity_milli_value(q) : bh_quantity_value(q);
    return true;
}

static bool requests_all_equal_limits(const struct bh_core_v1_container *c, bool *any)
{
    static const char *const names[] = {"cpu", "memory"};

    for (size_t i = 0; i < BH_COUNT(names); i++) {
        int64_t req = 0, lim = 0;
        bool has_req = amount(&c->resources.requests, names[i], true, &req) && req > 0;
        bool has_lim = amount(&c->resources.limits, names[i], true, &lim) && lim > 0;

        *any = *any || has_req || has_lim;
        if (!has_lim || (has_req && req != lim))
            return false;
    }
    return true;
}

const char *pod_qos(const struct bh_core_v1_pod *pod)
{
    bool any = false, guaranteed = true;

    if (pod->status.qos_class.n)
        return bh_str_eqc(pod->status.qos_class, "Guaranteed")  ? "Guaranteed"
               : bh_str_eqc(pod->status.qos_class, "Burstable") ? "Burstable"
                                                                : "BestEffort";
    for (size_t i = 0; i < pod->spec.containers.n; i++)
        guaranteed = requests_all_equal_limits(&pod->spec.containers.p[i], &any) && guaranteed;
    for (size_t i = 0; i < pod->spec.init_containers.n; i++)
        guaranteed = requests_all_equal_limits(&pod->spec.init_containers.p[i], &any) && guaranteed;
    return !any ? "BestEffort" : guaranteed ? "Guaranteed" : "Burstable";
}

static int64_t oom_score(const struct bh_core_v1_pod *pod, const struct bh_core_v1_container *c)
{
    const char *qos = pod_qos(pod);
    struct sysinfo si;
    int64_t req = 0, adj;

    if (qos[0] == 'G')
        return -997;
    if (qos[0] == 'B' && qos[1] == 'e')
        return 1000;
    (void)amount(&c->resources.requests, "memory", false, &req);
    if (sysinfo(&si) < 0)
        return 999;
    adj = 1000 - (int64_t)(1000.0 * (double)req / ((double)si.totalram * si.mem_unit));
    return adj < 3 ? 3 : adj > 999 ? 999 : adj;
}

static struct bh_cri_resources container_resources(const struct bh_core_v1_pod *pod,
                                                   const struct bh_core_v1_container *c)
{
    struct bh_cri_resources r = {.oom_score_adj = oom_score(pod, c), .cpu_shares = SHARES_MIN};
    int64_t v;

    if (amount(&c->resources.requests, "cpu", true, &v) ||
        amount(&c->resources.limits, "cpu", true, &v)) {
        r.cpu_shares = v * SHARES_PER_CPU / 1000;
        r.cpu_shares = r.cpu_shares < SHARES_MIN ? SHARES_MIN : r.cpu_shares;
    }
    if (amount(&c->resources.limits, "cpu", true, &v) && v > 0) {
        r.cpu_period = CPU_PERIOD_US;
        r.cpu_quota = v * CPU_PERIOD_US / 1000;
        r.cpu_quota = r.cpu_quota < QUOTA_MIN_US ? QUOTA_MIN_US : r.cpu_quota;
    }
    if (amount(&c->resources.limits, "memory", false, &v))
        r.memory_limit = v;
    return r;
}

/* ---- sandbox ---- */

static void pod_labels(struct bh_arena *a, struct bh_str_map *m, const struct bh_obj *o)
{
    bh_str_map_put(a, m, BH_S(KL_LABEL_POD_NAME), bh_str_dup(a, o->name));
    bh_str_map_put(a, m, BH_S(KL_LABEL_POD_NS), bh_str_dup(a, o->ns));
    bh_str_map_put(a, m, BH_S(KL_LABEL_POD_UID), bh_str_dup(a, o->uid));
}

struct bh_cri_sandbox_config *pod_sandbox_config(struct bh_arena *a, struct bh_kubelet *k,
                                                 struct bh_obj *o, uint32_t attempt)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(o);
    struct bh_cri_sandbox_config *c = bh_new(a, struct bh_cri_sandbox_config);
    const char *qos = pod_qos(pod);

    c->name = o->name;
    c->ns = o->ns;
    c->uid = o->uid;
    c->attempt = attempt;
    c->hostname = bh_str_sub(pod->spec.hostname.n ? pod->spec.hostname : o->name, 0, 63);
    if (pod->spec.host_network)
        c->hostname = (struct bh_str){0};
    c->log_directory = bh_str_fmt(a, "%s/pods/%.*s_%.*s_%.*s", k->log_dir, BH_SF(o->ns),
                                  BH_SF(o->name), BH_SF(o->uid));
    pod_labels(a, &c->labels, o);
    c->annotations = pod->metadata.annotations;
    c->cgroup_parent = bh_str_fmt(a, "kubepods/%s%spod%.*s",
                                  qos[0] == 'G'                    ? ""
                                  : qos[0] == 'B' && qos[1] == 'e' ? "besteffort"
                                                                   : "burstable",
                                  qos[0] == 'G' ? "" : "/", BH_SF(o->uid));
    c->host_network = pod->spec.host_network;
    c->host_pid = pod->spec.host_pid;
    c->host_ipc = pod->spec.host_ipc;
    c->share_pid = pod->spec.share_process_namespace;
    for (size_t i = 0; pod->spec.security_context && i < pod->spec.security_context->sysctls.n; i++)
        bh_str_map_put(a, &c->sysctls, pod->spec.security_context->sysctls.p[i].name,
                       pod->spec.security_context->sysctls.p[i].value);
    return c;
}

/* ---- environment ---- */

struct env {
    struct bh_arena *a;
    struct bh_kubelet *k;
    struct bh_obj *pod;
    const struct bh_core_v1_container *c;
    const struct pod_refs *refs;
    struct bh_str pod_ip;
    struct bh_cri_env_vec out;
    size_t cap;
};

static const struct bh_str *env_find(const struct env *e, struct bh_str name)
{
    for (size_t i = 0; i < e->out.n; i++)
        if (bh_str_eq(e->out.p[i].key, name))
            return &e->out.p[i].value;
    return NULL;
}

static void env_set(struct env *e, struct bh_str name, struct bh_str value)
{
    for (size_t i = 0; i < e->out.n; i++)
        if (bh_str_eq(e->out.p[i].key, name)) {
            e->out.p[i].value = value;
            return;
        }
    bh_arena_grow(e->a, &e->out.p, &e->cap, e->out.n + 1, sizeof(*e->out.p));
    e->out.p[e->out.n++] = (struct bh_cri_env){name, value};
}

/* $(NAME) becomes the value when NAME is known, "$$" is a dollar sign, all else stays. */
static struct bh_str expand(const struct env *e, struct bh_str s)
{
    BH_AUTO_BUF b = {.max = ENV_EXPANDED_MAX};

    if (bh_str_chr(s, '$', 0) < 0)
        return s;
    for (size_t i = 0; i < s.n; i++) {
        ptrdiff_t end;
        const struct bh_str *v;

        if (s.p[i] != '$' || i + 1 >= s.n) {
            bh_buf_addc(&b, s.p[i]);
            continue;
        }
        if (s.p[i + 1] == '$') {
            bh_buf_addc(&b, '$');
            i++;
            continue;
        }
        end = s.p[i + 1] == '(' ? bh_str_chr(s, ')', i + 2) : -1;
        v = end > 0 ? env_find(e, bh_str_sub(s, i + 2, (size_t)end)) : NULL;
        if (v) {
            bh_buf_adds(&b, *v);
            i = (size_t)end;
        } else if (end > 0) {
            bh_buf_adds(&b, bh_str_sub(s, i, (size_t)end + 1));
            i = (size_t)end;
        } else {
            bh_buf_addc(&b, '$');
        }
    }
    return bh_str_dup(e->a, bh_buf_str(&b));
}

static bool subscript(struct bh_str path, const char *prefix, struct bh_str *key)
{
    struct bh_str p = bh_s(prefix);

    if (!bh_str_starts(path, p) || path.n < p.n + 4 || path.p[p.n] != '[' ||
        path.p[path.n - 1] != ']')
        return false;
    *key = bh_str_sub(path, p.n + 2, path.n - 2); /* the quotes go too */
    return true;
}

static struct bh_str map_lines(struct bh_arena *a, const struct bh_str_map *m)
{
    BH_AUTO_BUF b = {.max = (size_t)4 << 20};

    for (size_t i = 0; i < m->n; i++) {
        bh_buf_addf(&b, "%s%.*s=\"", i ? "\n" : "", BH_SF(m->p[i].key));
        for (size_t k = 0; k < m->p[i].value.n; k++) {
            char ch = m->p[i].value.p[k];

            if (ch == '"' || ch == '\\')
                bh_buf_addc(&b, '\\');
            if (ch == '\n')
                bh_buf_addz(&b, "\\n");
            else
                bh_buf_addc(&b, ch);
        }
        bh_buf_addc(&b, '"');
    }
    return bh_str_dup(a, bh_buf_str(&b));
}

bool pod_field_value(struct bh_arena *a, struct bh_kubelet *k, struct bh_obj *o, struct bh_str path,
                     struct bh_str pod_ip, struct bh_str *ret)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(o);
    struct bh_str key = {0};
    const struct bh_str *v;

    *ret = (struct bh_str){"", 0};
    if (subscript(path, "metadata.labels", &key) || subscript(path, "metadata.annotations", &key)) {
        v = bh_str_map_get(bh_str_starts(path, BH_S("metadata.labels"))
                               ? &pod->metadata.labels
                               : &pod->metadata.annotations,
                           key);
        if (v)
            *ret = *v;
        return true;
    }
    if (bh_str_eqc(path, "metadata.name"))
        *ret = o->name;
    else if (bh_str_eqc(path, "metadata.namespace"))
        *ret = o->ns;
    else if (bh_str_eqc(path, "metadata.uid"))
        *ret = o->uid;
    else if (bh_str_eqc(path, "metadata.labels"))
        *ret = map_lines(a, &pod->metadata.labels);
    else if (bh_str_eqc(path, "metadata.annotations"))
        *ret = map_lines(a, &pod->metadata.annotations);
    else if (bh_str_eqc(path, "spec.nodeName"))
        *ret = pod->spec.node_name;
    else if (bh_str_eqc(path, "spec.serviceAccountName"))
        *ret = pod->spec.service_account_name;
    else if (k && (bh_str_eqc(path, "status.hostIP") || bh_str_eqc(path, "status.hostIPs")))
        *ret = bh_s(k->node_ip);
    else if (bh_str_eqc(path, "status.podIP") || bh_str_eqc(path, "status.podIPs"))
        *ret = pod_ip;
    else
        return false;
    return true;
}

/* limits.cpu and the like, divided and rounded up; an unset limit is what the node has. */
static int resource_field(struct env *e, const struct bh_core_v1_resource_field_selector *f,
                          struct bh_str *ret, struct bh_err *err)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(e->pod);
    const struct bh_core_v1_container *c = e->c;
    struct bh_str rest = f->resource, kind = bh_str_cut(&rest, '.');
    bool limits = bh_str_eqc(kind, "limits"), cpu = bh_str_eqc(rest, "cpu");
    struct bh_quantity q = {0}, div = {0};
    const struct bh_str *text;
    int64_t value, by;
    struct sysinfo si;

    for (size_t i = 0; f->container_name.n && i < pod->spec.containers.n; i++)
        if (bh_str_eq(pod->spec.containers.p[i].name, f->container_name))
            c = &pod->spec.containers.p[i];
    text = bh_str_map_get(limits ? &c->resources.limits : &c->resources.requests, rest);
    if (text && bh_quantity_parse(*text, &q, err) < 0)
        return -BH_E_INVALID;
    value = text ? (cpu ? bh_quantity_milli_value(q) : bh_quantity_value(q)) : 0;
    if (!text && limits && sysinfo(&si) == 0)
        value = cpu ? (int64_t)sysconf(_SC_NPROCESSORS_ONLN) * 1000
                    : (int64_t)(si.totalram * si.mem_unit);
    by = cpu ? 1000 : 1;
    if (f->divisor.n && !bh_str_eqc(f->divisor, "0")) {
        if (bh_quantity_parse(f->divisor, &div, err) < 0)
            return -BH_E_INVALID;
        by = cpu ? bh_quantity_milli_value(div) : bh_quantity_value(div);
    }
    *ret = bh_str_fmt(e->a, "%lld", (long long)((value + by - 1) / (by ? by : 1)));
    return 0;
}

static int key_ref(struct env *e, struct bh_str object, struct bh_str key, bool optional,
                   bool secret, struct bh_str *ret, bool *ret_set, struct bh_err *err)
{
    const struct bh_core_v1_config_map *cm = secret ? NULL : pod_refs_config_map(e->refs, object);
    const struct bh_core_v1_secret *s = secret ? pod_refs_secret(e->refs, object) : NULL;
    const struct bh_str *v = NULL;

    *ret_set = true;
    if (!cm && !s) {
        *ret_set = false;
        return optional ? 0
                        : bh_err_set(err, BH_E_INVALID, "%s \"%.*s\" not found",
                                     secret ? "secret" : "configmap", BH_SF(object));
    }
    v = bh_str_map_get(secret ? &s->data : &cm->data, key);
    if (!v) {
        *ret_set = false;
        return optional ? 0
                        : bh_err_set(err, BH_E_INVALID, "couldn't find key %.*s in %s %.*s/%.*s",
                                     BH_SF(key), secret ? "Secret" : "ConfigMap", BH_SF(e->pod->ns),
                                     BH_SF(object));
    }
    *ret = *v;
    return 0;
}

static int env_value(struct env *e, const struct bh_core_v1_env_var *v, struct bh_str *ret,
                     bool *ret_set, struct bh_err *err)
{
    const struct bh_core_v1_env_var_source *s = v->value_from;

    *ret_set = true;
    if (!s) {
        *ret = expand(e, v->value);
        return 0;
    }
    if (s->field_ref)
        return pod_field_value(e->a, e->k, e->pod, s->field_ref->field_path, e->pod_ip, ret)
                   ? 0
                   : bh_err_set(err, BH_E_INVALID, "unsupported fieldPath: %.*s",
                                BH_SF(s->field_ref->field_path));
    if (s->resource_field_ref)
        return resource_field(e, s->resource_field_ref, ret, err);
    if (s->config_map_key_ref)
        return key_ref(e, s->config_map_key_ref->local_object_reference.name,
                       s->config_map_key_ref->key, s->config_map_key_ref->optional, false, ret,
                       ret_set, err);
    if (s->secret_key_ref)
        return key_ref(e, s->secret_key_ref->local_object_reference.name, s->secret_key_ref->key,
                       s->secret_key_ref->optional, true, ret, ret_set, err);
    return bh_err_set(err, BH_E_UNSUPPORTED, "env %.*s: this source is not supported",
                      BH_SF(v->name));
}

static int env_from(struct env *e, const struct bh_core_v1_env_from_source *f, struct bh_err *err)
{
    const struct bh_core_v1_config_map *cm =
        f->config_map_ref
            ? pod_refs_config_map(e->refs, f->config_map_ref->local_object_reference.name)
            : NULL;
    const struct bh_core_v1_secret *s =
        f->secret_ref ? pod_refs_secret(e->refs, f->secret_ref->local_object_reference.name) : NULL;
    const struct bh_str_map *m = cm ? &cm->data : s ? &s->data : NULL;
    bool optional =
        f->config_map_ref ? f->config_map_ref->optional : f->secret_ref && f->secret_ref->optional;

    if (!m)
        return optional
                   ? 0
                   : bh_err_set(err, BH_E_INVALID, "an object that envFrom names was not found");
    for (size_t i = 0; i < m->n; i++)
        env_set(e, bh_str_fmt(e->a, "%.*s%.*s", BH_SF(f->prefix), BH_SF(m->p[i].key)),
                m->p[i].value);
    return 0;
}

static int make_env(struct env *e, struct bh_err *err)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < e->c->env_from.n; i++)
        r = env_from(e, &e->c->env_from.p[i], err);
    for (size_t i = 0; r >= 0 && i < e->c->env.n; i++) {
        struct bh_str value = {"", 0};
        bool set;

        r = env_value(e, &e->c->env.p[i], &value, &set, err);
        if (r >= 0 && set)
            env_set(e, e->c->env.p[i].name, value);
    }
    return r;
}

static struct bh_str_vec expand_all(const struct env *e, const struct bh_str_vec *v)
{
    struct bh_str_vec out = {bh_new_n(e->a, struct bh_str, v->n + 1), v->n};

    for (size_t i = 0; i < v->n; i++)
        out.p[i] = expand(e, v->p[i]);
    return out;
}

/* ---- mounts ---- */

const char *pod_termination_log(struct bh_arena *a, const char *root, struct bh_str uid,
                                struct bh_str container, uint32_t attempt)
{
    return bh_str_fmt(a, "%s/pods/%.*s/containers/%.*s/%u", root, BH_SF(uid), BH_SF(container),
                      attempt)
        .p;
}

static bool is_inside(struct bh_str path)
{
    struct bh_str rest = path;

    while (rest.n)
        if (bh_str_eqc(bh_str_cut(&rest, '/'), ".."))
            return false;
    return path.n == 0 || path.p[0] != '/';
}

static int add_mounts(struct env *e, struct bh_cri_container_config *cfg, uint32_t attempt,
                      struct bh_err *err)
{
    const struct bh_core_v1_volume_mount_vec *v = &e->c->volume_mounts;
    struct bh_cri_mount *m = bh_new_n(e->a, struct bh_cri_mount, v->n + 3);
    const char *log;
    char dir[4096];
    int r;

    cfg->mounts.p = m;
    for (size_t i = 0; i < v->n; i++) {
        const char *host = pod_volume_path(e->a, e->k->root, e->pod, e->refs, v->p[i].name);
        struct bh_str sub =
            v->p[i].sub_path_expr.n ? expand(e, v->p[i].sub_path_expr) : v->p[i].sub_path;

        if (!host)
            return bh_err_set(err, BH_E_INVALID, "volume \"%.*s\" cannot be mounted",
                              BH_SF(v->p[i].name));
        if (!is_inside(sub))
            return bh_err_set(err, BH_E_INVALID, "subPath \"%.*s\" leads outside its volume",
                              BH_SF(sub));
        m[cfg->mounts.n] = (struct bh_cri_mount){
            .container_path = v->p[i].mount_path,
            .host_path = sub.n ? bh_str_fmt(e->a, "%s/%.*s", host, BH_SF(sub)) : bh_s(host),
            .readonly = v->p[i].read_only || pod_volume_read_only(e->pod, v->p[i].name)};
        if (sub.n && !bh_fs_exists(m[cfg->mounts.n].host_path.p)) {
            r = bh_fs_mkdir_p(m[cfg->mounts.n].host_path.p, 0755, err);
            if (r < 0)
                return bh_err_wrap(err, "subPath");
        }
        if (bh_str_eqc(v->p[i].mount_propagation, "HostToContainer"))
            m[cfg->mounts.n].propagation = BH_CRI_HOST_TO_CONTAINER;
        else if (bh_str_eqc(v->p[i].mount_propagation, "Bidirectional"))
            m[cfg->mounts.n].propagation = BH_CRI_BIDIRECTIONAL;
        cfg->mounts.n++;
    }
    if (!e->c->termination_message_path.n)
        return 0;
    log = pod_termination_log(e->a, e->k->root, e->pod->uid, e->c->name, attempt);
    r = bh_path(dir, sizeof(dir), err, "%s/pods/%.*s/containers/%.*s", e->k->root,
                BH_SF(e->pod->uid), BH_SF(e->c->name));
    if (r >= 0)
        r = bh_fs_mkdir_p(dir, 0755, err);
    if (r >= 0 && !bh_fs_exists(log))
        r = bh_fs_write_plain(log, (struct bh_str){0}, 0666, err);
    if (r < 0)
        return bh_err_wrap(err, "termination log");
    m[cfg->mounts.n++] = (struct bh_cri_mount){.container_path = e->c->termination_message_path,
                                               .host_path = bh_s(log)};
    return 0;
}

/* ---- security ---- */

static int make_security(struct env *e, struct bh_cri_container_config *cfg, struct bh_err *err)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(e->pod);
    const struct bh_core_v1_pod_security_context *p = pod->spec.security_context;
    const struct bh_core_v1_security_context *c = e->c->security_context;
    struct bh_cri_security *s = &cfg->security;
    bool non_root = p && p->run_as_non_root;
    size_t n = 0;

    if (p) {
        s->has_run_as_user = p->has_run_as_user;
        s->run_as_user = p->run_as_user;
        s->has_run_as_group = p->has_run_as_group;
        s->run_as_group = p->run_as_group;
        s->supplemental_groups.p = bh_new_n(e->a, int64_t, p->supplemental_groups.n + 1);
        for (; n < p->supplemental_groups.n; n++)
            s->supplemental_groups.p[n] = p->supplemental_groups.p[n];
        if (p->has_fs_group)
            s->supplemental_groups.p[n++] = p->fs_group;
        s->supplemental_groups.n = n;
    }
    if (c) {
        if (c->has_run_as_user) {
            s->has_run_as_user = true;
            s->run_as_user = c->run_as_user;
        }
        if (c->has_run_as_group) {
            s->has_run_as_group = true;
            s->run_as_group = c->run_as_group;
        }
        if (c->has_run_as_non_root)
            non_root = c->run_as_non_root;
        s->privileged = c->privileged;
        s->readonly_rootfs = c->read_only_root_filesystem;
        s->no_new_privs = c->has_allow_privilege_escalation && !c->allow_privilege_escalation;
        if (c->capabilities) {
            s->add_caps = c->capabilities->add;
            s->drop_caps = c->capabilities->drop;
        }
    }
    if (non_root && s->has_run_as_user && s->run_as_user == 0)
        return bh_err_set(err, BH_E_INVALID,
                          "container's runAsUser breaks non-root policy (pod: \"%.*s_%.*s(%.*s)\", "
                          "container: %.*s)",
                          BH_SF(e->pod->name), BH_SF(e->pod->ns), BH_SF(e->pod->uid),
                          BH_SF(e->c->name));
    if (non_root && !s->has_run_as_user)
        return bh_err_set(err, BH_E_INVALID,
                          "container has runAsNonRoot and image will run as root (pod: "
                          "\"%.*s_%.*s(%.*s)\", container: %.*s)",
                          BH_SF(e->pod->name), BH_SF(e->pod->ns), BH_SF(e->pod->uid),
                          BH_SF(e->c->name));
    return 0;
}

int pod_container_config(struct bh_arena *a, struct bh_kubelet *k, struct bh_obj *o,
                         const struct bh_core_v1_container *c, const struct pod_refs *refs,
                         uint32_t attempt, struct bh_str pod_ip, struct bh_str image_id,
                         struct bh_cri_container_config **ret, struct bh_err *err)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(o);
    struct bh_cri_container_config *cfg = bh_new(a, struct bh_cri_container_config);
    struct env e = {.a = a, .k = k, .pod = o, .c = c, .refs = refs, .pod_ip = pod_ip};
    int r = make_env(&e, err);

    if (r >= 0)
        r = add_mounts(&e, cfg, attempt, err);
    if (r >= 0)
        r = make_security(&e, cfg, err);
    if (r >= 0 && k->dra && bh_dra_pod_needs(o))
        r = bh_dra_cdi_devices(k->dra, o, c, a, &cfg->cdi_devices, err);
    if (r < 0)
        return r;
    cfg->name = c->name;
    cfg->attempt = attempt;
    cfg->image = image_id;
    cfg->user_image = c->image;
    cfg->command = expand_all(&e, &c->command);
    cfg->args = expand_all(&e, &c->args);
    cfg->working_dir = c->working_dir;
    cfg->envs = e.out;
    pod_labels(a, &cfg->labels, o);
    bh_str_map_put(a, &cfg->labels, BH_S(KL_LABEL_CONTAINER), c->name);
    cfg->log_path = bh_str_fmt(a, "%.*s/%u.log", BH_SF(c->name), attempt);
    cfg->stdin_open = c->stdin;
    cfg->stdin_once = c->stdin_once;
    cfg->tty = c->tty;
    cfg->resources = container_resources(pod, c);
    *ret = cfg;
    return 0;
}
