/* Containers: ports, environment, mounts, probes, hooks, restart rules, resources. */
#include "apiserver/validate/validate_pod.h"

#include <string.h>

#define RESTART_RULES_MAX 20u
#define EXIT_CODES_MAX    255u

/* ---- small things ---- */

void bh_v_port_number(struct bh_field_errs *e, const struct bh_fpath *at, int64_t port)
{
    if (port < 1 || port > 65535)
        bh_fe_invalid_i64(e, at, port, "must be between 1 and 65535, inclusive");
}

static void port_or_name(struct bh_field_errs *e, const struct bh_fpath *at,
                         const struct bh_intstr *p)
{
    if (p->is_str)
        bh_v_check(e, at, bh_check_port_name, p->s);
    else
        bh_v_port_number(e, at, p->i);
}

void bh_v_no_backsteps(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str path)
{
    struct bh_str rest = path;

    do
        if (bh_str_eqc(bh_str_cut(&rest, '/'), "..")) {
            bh_fe_invalid(e, at, path, "must not contain '..'");
            return;
        }
    while (rest.p);
}

void bh_v_descending_path(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str path)
{
    if (path.n && path.p[0] == '/')
        bh_fe_invalid(e, at, path, "must be a relative path");
    bh_v_no_backsteps(e, at, path);
}

static bool has_backsteps(struct bh_str path)
{
    struct bh_str rest = path;

    do
        if (bh_str_eqc(bh_str_cut(&rest, '/'), ".."))
            return true;
    while (rest.p);
    return false;
}

/* ---- ports ---- */

static void port_name(struct bh_field_errs *e, const struct bh_fpath *at,
                      const struct bh_core_v1_container_port_vec *v, size_t i)
{
    struct bh_str name = v->p[i].name;

    if (name.n == 0)
        return;
    if (!bh_v_fits(bh_check_port_name, name)) {
        bh_v_check(e, at, bh_check_port_name, name);
        return;
    }
    for (size_t k = 0; k < i; k++)
        if (bh_str_eq(v->p[k].name, name)) {
            bh_fe_duplicate(e, at, name);
            return;
        }
}

static void ports(struct bh_field_errs *e, const struct bh_fpath *at,
                  const struct bh_core_v1_container_port_vec *v)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_core_v1_container_port *p = &v->p[i];
        const struct bh_fpath *ix = BH_FPI(at, i);

        port_name(e, BH_FP(ix, "name"), v, i);
        if (p->container_port == 0)
            bh_fe_required(e, BH_FP(ix, "containerPort"), NULL);
        else
            bh_v_port_number(e, BH_FP(ix, "containerPort"), p->container_port);
        if (p->host_port != 0)
            bh_v_port_number(e, BH_FP(ix, "hostPort"), p->host_port);
        if (p->protocol.n == 0)
            bh_fe_required(e, BH_FP(ix, "protocol"), NULL);
        else if (!BH_V_ONE_OF(p->protocol, "SCTP", "TCP", "UDP"))
            BH_V_NOT_SUPPORTED(e, BH_FP(ix, "protocol"), p->protocol, "SCTP", "TCP", "UDP");
    }
}

struct host_port_seen {
    struct bh_str_map m;
};

static void host_ports(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_core_v1_container *c, struct host_port_seen *seen)
{
    for (size_t i = 0; i < c->ports.n; i++) {
        const struct bh_core_v1_container_port *p = &c->ports.p[i];
        struct bh_str key;

        if (p->host_port == 0)
            continue;
        key = bh_str_fmt(e->a, "%.*s/%.*s/%d", BH_SF(p->protocol), BH_SF(p->host_ip), p->host_port);
        if (bh_str_map_get(&seen->m, key))
            bh_fe_duplicate(e, BH_FP(BH_FPI(BH_FP(at, "ports"), i), "hostPort"), key);
        else
            bh_str_map_put(e->a, &seen->m, key, BH_S(""));
    }
}

/* ---- environment ---- */

/* "metadata.labels['key']": the path before the bracket and the key, when the label has that form.
 */
static bool subscripted(struct bh_str s, struct bh_str *path, struct bh_str *key)
{
    ptrdiff_t open = bh_str_find(s, BH_S("['"));

    if (open <= 0 || !bh_str_ends(s, BH_S("']")) || s.n < (size_t)open + 4)
        return false;
    *path = bh_str_sub(s, 0, (size_t)open);
    *key = bh_str_sub(s, (size_t)open + 2, s.n - 2);
    return true;
}

static bool known_label(struct bh_str s)
{
    return BH_V_ONE_OF(s, "metadata.annotations", "metadata.labels", "metadata.name",
                       "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.restartPolicy",
                       "spec.serviceAccountName", "spec.schedulerName", "status.phase",
                       "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
                       "spec.host");
}

void bh_v_object_field(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_core_v1_object_field_selector *f, bool volume)
{
    const struct bh_fpath *path_at = BH_FP(at, "fieldPath");
    struct bh_str path, key;
    bool ok;

    if (f->api_version.n == 0) {
        bh_fe_required(e, BH_FP(at, "apiVersion"), NULL);
        return;
    }
    if (f->field_path.n == 0) {
        bh_fe_required(e, path_at, NULL);
        return;
    }
    if (!bh_str_eqc(f->api_version, "v1")) {
        bh_fe_invalid(e, path_at, f->field_path,
                      "error converting fieldPath: unsupported pod version: %.*s",
                      BH_SF(f->api_version));
        return;
    }
    if (subscripted(f->field_path, &path, &key)) {
        if (bh_str_eqc(path, "metadata.annotations"))
            bh_v_check_as(e, at, bh_check_qualified_name, bh_v_lower(e->a, key),
                          bh_v_lower(e->a, key));
        else if (bh_str_eqc(path, "metadata.labels"))
            bh_v_check(e, at, bh_check_qualified_name, key);
        else
            bh_fe_invalid(
                e, path_at, f->field_path,
                "error converting fieldPath: field label does not support subscript: %.*s",
                BH_SF(f->field_path));
        return;
    }
    if (!known_label(f->field_path)) {
        bh_fe_invalid(e, path_at, f->field_path,
                      "error converting fieldPath: field label not supported: %.*s",
                      BH_SF(f->field_path));
        return;
    }
    path = bh_str_eqc(f->field_path, "spec.host") ? BH_S("spec.nodeName") : f->field_path;
    if (volume) {
        ok = BH_V_ONE_OF(path, "metadata.annotations", "metadata.labels", "metadata.name",
                         "metadata.namespace", "metadata.uid");
        if (!ok)
            BH_V_NOT_SUPPORTED(e, path_at, path, "metadata.annotations", "metadata.labels",
                               "metadata.name", "metadata.namespace", "metadata.uid");
        return;
    }
    ok = BH_V_ONE_OF(path, "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
                     "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP",
                     "status.podIPs");
    if (!ok)
        BH_V_NOT_SUPPORTED(e, path_at, path, "metadata.name", "metadata.namespace", "metadata.uid",
                           "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
                           "status.hostIPs", "status.podIP", "status.podIPs");
}

#define SIZE_DIVISORS "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"

static void divisor(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str resource,
                    struct bh_str d)
{
    const struct bh_fpath *dat = BH_FP(at, "divisor");
    bool size_ok;

    if (d.n == 0 || bh_quantity_sign(bh_v_qty(d)) == 0)
        return;
    size_ok = BH_V_ONE_OF(d, "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti",
                          "1Pi", "1Ei");
    if (BH_V_ONE_OF(resource, "limits.cpu", "requests.cpu")) {
        if (!BH_V_ONE_OF(d, "1m", "1"))
            bh_fe_invalid(e, dat, resource,
                          "only divisor's values 1m and 1 are supported with the cpu resource");
    } else if (BH_V_ONE_OF(resource, "limits.memory", "requests.memory")) {
        if (!size_ok)
            bh_fe_invalid(e, dat, resource,
                          "only divisor's values " SIZE_DIVISORS
                          " are supported with the memory resource");
    } else if (BH_V_ONE_OF(resource, "limits.ephemeral-storage", "requests.ephemeral-storage")) {
        if (!size_ok)
            bh_fe_invalid(e, dat, resource,
                          "only divisor's values " SIZE_DIVISORS
                          " are supported with the local ephemeral storage resource");
    } else if (bh_str_starts(resource, BH_S("requests.hugepages-")) ||
               bh_str_starts(resource, BH_S("limits.hugepages-"))) {
        if (!size_ok)
            bh_fe_invalid(e, dat, resource,
                          "only divisor's values " SIZE_DIVISORS
                          " are supported with the hugepages resource");
    }
}

void bh_v_resource_field(struct bh_field_errs *e, const struct bh_fpath *at,
                         const struct bh_core_v1_resource_field_selector *f, bool volume)
{
    bool known = BH_V_ONE_OF(f->resource, "limits.cpu", "limits.memory", "limits.ephemeral-storage",
                             "requests.cpu", "requests.memory", "requests.ephemeral-storage") ||
                 bh_str_starts(f->resource, BH_S("requests.hugepages-")) ||
                 bh_str_starts(f->resource, BH_S("limits.hugepages-"));

    if (volume && f->container_name.n == 0)
        bh_fe_required(e, BH_FP(at, "containerName"), NULL);
    else if (f->resource.n == 0)
        bh_fe_required(e, BH_FP(at, "resource"), NULL);
    else if (!known)
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "resource"), f->resource, "limits.cpu",
                           "limits.ephemeral-storage", "limits.memory", "requests.cpu",
                           "requests.ephemeral-storage", "requests.memory");
    divisor(e, at, f->resource, f->divisor);
}

static void key_selector(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str name,
                         struct bh_str key)
{
    bh_v_check(e, BH_FP(at, "name"), bh_check_dns1123_subdomain, name);
    if (key.n == 0)
        bh_fe_required(e, BH_FP(at, "key"), NULL);
    else
        bh_v_check(e, BH_FP(at, "key"), bh_check_config_map_key, key);
}

static void file_key(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_core_v1_file_key_selector *f)
{
    if (f->key.n == 0)
        bh_fe_required(e, BH_FP(at, "key"), NULL);
    else
        bh_v_check(e, BH_FP(at, "key"), bh_check_env_var_name, f->key);
    if (f->volume_name.n == 0)
        bh_fe_required(e, BH_FP(at, "volumeName"), NULL);
    else
        bh_v_check(e, BH_FP(at, "volumeName"), bh_check_dns1123_label, f->volume_name);
    if (f->path.n == 0)
        bh_fe_required(e, BH_FP(at, "path"), NULL);
    else
        bh_v_no_backsteps(e, BH_FP(at, "path"), f->path);
}

static void env_source(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_core_v1_env_var *v, const struct bh_pod_opts *o)
{
    const struct bh_core_v1_env_var_source *s = v->value_from;
    unsigned n = 0;

    if (!s)
        return;
    if (s->field_ref) {
        n++;
        bh_v_object_field(e, BH_FP(at, "fieldRef"), s->field_ref, false);
    }
    if (s->resource_field_ref) {
        n++;
        bh_v_resource_field(e, BH_FP(at, "resourceFieldRef"), s->resource_field_ref, false);
    }
    if (s->config_map_key_ref) {
        n++;
        key_selector(e, BH_FP(at, "configMapKeyRef"),
                     s->config_map_key_ref->local_object_reference.name,
                     s->config_map_key_ref->key);
    }
    if (s->secret_key_ref) {
        n++;
        key_selector(e, BH_FP(at, "secretKeyRef"), s->secret_key_ref->local_object_reference.name,
                     s->secret_key_ref->key);
    }
    if (s->file_key_ref) {
        n++;
        file_key(e, BH_FP(at, "fileKeyRef"), s->file_key_ref);
    }
    if (n == 0 && bh_rules_gate(o->env, "EnvFiles"))
        bh_fe_invalid(e, at, BH_S(""),
                      "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
                      "`secretKeyRef` or "
                      "`fileKeyRef`");
    else if (n == 0)
        bh_fe_invalid(e, at, BH_S(""),
                      "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or "
                      "`secretKeyRef`");
    else if (v->value.n)
        bh_fe_invalid(e, at, BH_S(""), "may not be specified when `value` is not empty");
    else if (n > 1)
        bh_fe_invalid(e, at, BH_S(""), "may not have more than one field specified at a time");
}

static void env(struct bh_field_errs *e, const struct bh_fpath *at,
                const struct bh_core_v1_env_var_vec *v, const struct bh_pod_opts *o)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_fpath *ix = BH_FPI(at, i);

        if (v->p[i].name.n == 0)
            bh_fe_required(e, BH_FP(ix, "name"), NULL);
        else
            bh_v_check(e, BH_FP(ix, "name"), bh_check_env_var_name, v->p[i].name);
        env_source(e, BH_FP(ix, "valueFrom"), &v->p[i], o);
    }
}

static void source_name(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str name)
{
    if (name.n == 0)
        bh_fe_required(e, BH_FP(at, "name"), NULL);
    else
        bh_v_check(e, BH_FP(at, "name"), bh_check_dns1123_subdomain, name);
}

/* The errors about the number of sources stand at the list, as upstream has them. */
static void env_from(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_core_v1_env_from_source_vec *v)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_core_v1_env_from_source *s = &v->p[i];
        const struct bh_fpath *ix = BH_FPI(at, i);

        if (s->prefix.n)
            bh_v_check(e, BH_FP(ix, "prefix"), bh_check_env_var_name, s->prefix);
        if (s->config_map_ref)
            source_name(e, BH_FP(ix, "configMapRef"),
                        s->config_map_ref->local_object_reference.name);
        if (s->secret_ref)
            source_name(e, BH_FP(ix, "secretRef"), s->secret_ref->local_object_reference.name);
        if (!s->config_map_ref && !s->secret_ref)
            bh_fe_invalid(e, at, BH_S(""), "must specify one of: `configMapRef` or `secretRef`");
        else if (s->config_map_ref && s->secret_ref)
            bh_fe_invalid(e, at, BH_S(""), "may not have more than one field specified at a time");
    }
}

/* ---- mounts and devices ---- */

const struct bh_core_v1_volume *bh_pod_volume(const struct bh_core_v1_pod_spec *s,
                                              struct bh_str name, const struct bh_pod_opts *o)
{
    const struct bh_core_v1_volume *found = NULL;

    for (size_t i = 0; i < s->volumes.n; i++)
        if (bh_str_eq(s->volumes.p[i].name, name) && (!o->volume_ok || o->volume_ok[i]))
            found = &s->volumes.p[i];
    return found;
}

static void propagation(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str mode,
                        const struct bh_core_v1_container *c)
{
    const struct bh_core_v1_security_context *sc = c->security_context;

    if (!BH_V_ONE_OF(mode, "Bidirectional", "HostToContainer", "None"))
        BH_V_NOT_SUPPORTED(e, at, mode, "Bidirectional", "HostToContainer", "None");
    if (bh_str_eqc(mode, "Bidirectional") && !(sc && sc->has_privileged && sc->privileged))
        bh_fe_forbidden(
            e, at, "Bidirectional mount propagation is available only to privileged containers");
}

static void recursive_read_only(struct bh_field_errs *e, const struct bh_fpath *at,
                                const struct bh_core_v1_volume_mount *m)
{
    if (!m->has_recursive_read_only || bh_str_eqc(m->recursive_read_only, "Disabled"))
        return;
    if (!BH_V_ONE_OF(m->recursive_read_only, "Enabled", "IfPossible")) {
        BH_V_NOT_SUPPORTED(e, at, m->recursive_read_only, "Disabled", "Enabled", "IfPossible");
        return;
    }
    if (!m->read_only)
        bh_fe_forbidden(e, at, "may only be specified when readOnly is true");
    if (m->has_mount_propagation && !bh_str_eqc(m->mount_propagation, "None"))
        bh_fe_forbidden(e, at,
                        "may only be specified when mountPropagation is None or not specified");
}

/* Paths below a mount stand at the list, without an index, as upstream has them. */
static void mount(struct bh_field_errs *e, const struct bh_fpath *at,
                  const struct bh_core_v1_container *c, size_t i,
                  const struct bh_core_v1_pod_spec *s, const struct bh_pod_opts *o)
{
    const struct bh_core_v1_volume_mount *m = &c->volume_mounts.p[i];
    const struct bh_fpath *ix = BH_FPI(at, i), *name = BH_FP(ix, "name"),
                          *path = BH_FP(ix, "mountPath");

    if (m->name.n == 0)
        bh_fe_required(e, name, NULL);
    if (!bh_pod_volume(s, m->name, o))
        bh_fe_not_found(e, name, m->name);
    if (m->mount_path.n == 0)
        bh_fe_required(e, path, NULL);
    for (size_t k = 0; k < i; k++)
        if (bh_str_eq(c->volume_mounts.p[k].mount_path, m->mount_path)) {
            bh_fe_invalid(e, path, m->mount_path, "must be unique");
            break;
        }
    for (size_t k = 0; k < c->volume_devices.n; k++)
        if (bh_str_eq(c->volume_devices.p[k].name, m->name)) {
            bh_fe_invalid(e, name, m->name, "must not already exist in volumeDevices");
            break;
        }
    for (size_t k = 0; k < c->volume_devices.n; k++)
        if (bh_str_eq(c->volume_devices.p[k].device_path, m->mount_path)) {
            bh_fe_invalid(e, path, m->mount_path,
                          "must not already exist as a path in volumeDevices");
            break;
        }
    if (m->sub_path.n)
        bh_v_descending_path(e, BH_FP(at, "subPath"), m->sub_path);
    if (m->sub_path_expr.n) {
        if (m->sub_path.n)
            bh_fe_invalid(e, BH_FP(ix, "subPathExpr"), m->sub_path_expr,
                          "subPathExpr and subPath are mutually exclusive");
        bh_v_descending_path(e, BH_FP(at, "subPathExpr"), m->sub_path_expr);
    }
    if (m->has_mount_propagation)
        propagation(e, BH_FP(at, "mountPropagation"), m->mount_propagation, c);
    recursive_read_only(e, BH_FP(at, "recursiveReadOnly"), m);
}

static void device(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_core_v1_container *c, size_t i,
                   const struct bh_core_v1_pod_spec *s, const struct bh_pod_opts *o)
{
    const struct bh_core_v1_volume_device_vec *v = &c->volume_devices;
    const struct bh_core_v1_volume_device *d = &v->p[i];
    const struct bh_core_v1_volume *vol = bh_pod_volume(s, d->name, o);
    const struct bh_fpath *ix = BH_FPI(at, i), *name = BH_FP(ix, "name"),
                          *path = BH_FP(ix, "devicePath");
    bool same_name = false, same_path = false;

    for (size_t k = 0; k < i; k++) {
        same_name = same_name || (d->name.n && bh_str_eq(v->p[k].name, d->name));
        same_path = same_path || (bh_str_eq(v->p[k].device_path, d->device_path) &&
                                  !has_backsteps(d->device_path));
    }
    if (d->name.n == 0)
        bh_fe_required(e, name, NULL);
    if (same_name)
        bh_fe_invalid(e, name, d->name, "must be unique");
    if (vol && !vol->volume_source.persistent_volume_claim && !vol->volume_source.ephemeral)
        bh_fe_invalid(
            e, name, d->name,
            "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode");
    if (!vol)
        bh_fe_not_found(e, name, d->name);
    if (d->device_path.n == 0)
        bh_fe_required(e, path, NULL);
    if (same_path)
        bh_fe_invalid(e, path, d->device_path, "must be unique");
    if (d->device_path.n && has_backsteps(d->device_path))
        bh_fe_invalid(e, path, d->device_path, "can not contain backsteps ('..')");
    for (size_t k = 0; k < c->volume_mounts.n; k++)
        if (bh_str_eq(c->volume_mounts.p[k].name, d->name)) {
            bh_fe_invalid(e, name, d->name, "must not already exist in volumeMounts");
            break;
        }
    for (size_t k = 0; k < c->volume_mounts.n; k++)
        if (bh_str_eq(c->volume_mounts.p[k].mount_path, d->device_path)) {
            bh_fe_invalid(e, path, d->device_path,
                          "must not already exist as a path in volumeMounts");
            break;
        }
}

/* ---- resources ---- */

static bool standard_resource(struct bh_str name)
{
    return BH_V_ONE_OF(name, "cpu", "memory", "ephemeral-storage", "requests.cpu",
                       "requests.memory", "requests.ephemeral-storage", "limits.cpu",
                       "limits.memory", "limits.ephemeral-storage", "pods", "resourcequotas",
                       "services", "replicationcontrollers", "secrets", "configmaps",
                       "persistentvolumeclaims", "storage", "requests.storage",
                       "services.nodeports", "services.loadbalancers") ||
           bh_v_is_hugepages(name) || bh_str_starts(name, BH_S("requests.hugepages-"));
}

/* True when the name was well-formed. */
static bool resource_name(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str name)
{
    if (!bh_v_fits(bh_check_qualified_name, name)) {
        bh_v_check(e, at, bh_check_qualified_name, name);
        return false;
    }
    if (bh_str_chr(name, '/', 0) < 0 && !standard_resource(name)) {
        bh_fe_invalid(e, at, name, "must be a standard resource type or fully qualified");
        return false;
    }
    return true;
}

static void container_resource_name(struct bh_field_errs *e, const struct bh_fpath *at,
                                    struct bh_str name)
{
    (void)resource_name(e, at, name);
    if (bh_str_chr(name, '/', 0) < 0) {
        if (!BH_V_ONE_OF(name, "cpu", "memory", "ephemeral-storage") && !bh_v_is_hugepages(name))
            bh_fe_invalid(e, at, name, "must be a standard resource for containers");
    } else if (!bh_v_is_native_resource(name) && !bh_v_is_extended_resource(e->a, name)) {
        bh_fe_invalid(e, at, name, "doesn't follow extended resource name standard");
    }
}

static void pod_resource_name(struct bh_field_errs *e, const struct bh_fpath *at,
                              struct bh_str name)
{
    if (resource_name(e, at, name) && !bh_pod_level_resource(name))
        BH_V_NOT_SUPPORTED(e, at, name, "cpu", "hugepages-", "memory");
}

/* Whole pages: hugepages-2Mi needs a multiple of 2Mi. */
static void huge_value(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str name,
                       struct bh_str value)
{
    struct bh_quantity page, q = bh_v_qty(value);
    int64_t size;

    if (!bh_v_is_hugepages(name))
        return;
    page = bh_v_qty(bh_str_sub(name, 10, SIZE_MAX));
    size = bh_quantity_value(page);
    if (bh_quantity_sign(page) <= 0 || size == 0 || bh_quantity_value(q) % size != 0)
        bh_fe_invalid(e, at, value, "%.*s is not positive integer multiple of %.*s", BH_SF(value),
                      BH_SF(name));
}

static void claim_names(struct bh_field_errs *e, const struct bh_fpath *at,
                        const struct bh_core_v1_resource_claim_vec *v,
                        const struct bh_core_v1_pod_spec *s);

static void one_request(struct bh_field_errs *e, const struct bh_fpath *at,
                        const struct bh_str_pair *q,
                        const struct bh_core_v1_resource_requirements *r)
{
    const struct bh_fpath *requests = BH_FP(at, "requests");
    const struct bh_str *limit = bh_str_map_get(&r->limits, q->key);
    bool over = bh_pod_overcommit_ok(q->key);
    int c = limit ? bh_quantity_cmp(bh_v_qty(q->value), bh_v_qty(*limit)) : 0;

    if (limit && c != 0 && !over)
        bh_fe_invalid(e, requests, q->value, "must be equal to %.*s limit of %.*s", BH_SF(q->key),
                      BH_SF(*limit));
    else if (limit && c > 0)
        bh_fe_invalid(e, requests, q->value, "must be less than or equal to %.*s limit of %.*s",
                      BH_SF(q->key), BH_SF(*limit));
    else if (!limit && !over)
        bh_fe_required(e, BH_FP(at, "limits"),
                       "Limit must be set for non overcommitable resources");
}

void bh_v_requirements(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_core_v1_resource_requirements *r,
                       const struct bh_core_v1_pod_spec *s, bool pod_level)
{
    bool plain = false, huge = false;

    for (unsigned pass = 0; pass < 2; pass++) {
        const struct bh_str_map *m = pass ? &r->requests : &r->limits;
        const struct bh_fpath *list = BH_FPS(at, pass ? BH_S("requests") : BH_S("limits"));

        for (size_t i = 0; i < m->n; i++) {
            const struct bh_str_pair *q = &m->p[i];
            const struct bh_fpath *key = BH_FPK(list, q->key);

            if (pod_level)
                pod_resource_name(e, key, q->key);
            else
                container_resource_name(e, key, q->key);
            bh_v_resource_value(e, key, q->key, q->value);
            if (pass)
                one_request(e, at, q, r);
            huge_value(e, key, q->key, q->value);
            huge = huge || bh_v_is_hugepages(q->key);
            plain = plain || BH_V_ONE_OF(q->key, "cpu", "memory");
        }
    }
    if (huge && !plain)
        bh_fe_forbidden(e, at, "HugePages require cpu or memory");
    claim_names(e, BH_FP(at, "claims"), &r->claims, s);
}

/* The key of a reference is name/request; a bare name clashes with each of its requests. */
static void claim_duplicates(struct bh_field_errs *e, const struct bh_fpath *at,
                             const struct bh_core_v1_resource_claim_vec *v, size_t i)
{
    const struct bh_core_v1_resource_claim *c = &v->p[i];

    for (size_t k = 0; k < i; k++)
        if (bh_str_eq(v->p[k].name, c->name) && v->p[k].request.n == 0) {
            bh_fe_duplicate(e, at, c->name);
            return;
        }
    if (c->request.n)
        bh_v_check(e, BH_FP(at, "request"), bh_check_dns1123_label, c->request);
    for (size_t k = 0; k < i; k++) {
        if (!bh_str_eq(v->p[k].name, c->name))
            continue;
        if (c->request.n == 0)
            bh_fe_duplicate(e, at, c->name);
        else if (bh_str_eq(v->p[k].request, c->request)) {
            bh_fe_duplicate(e, at,
                            bh_str_fmt(e->a, "%.*s/%.*s", BH_SF(c->name), BH_SF(c->request)));
            return;
        }
    }
}

static void claim_names(struct bh_field_errs *e, const struct bh_fpath *at,
                        const struct bh_core_v1_resource_claim_vec *v,
                        const struct bh_core_v1_pod_spec *s)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_fpath *ix = BH_FPI(at, i);
        struct bh_str_map names = {0};
        struct bh_str list = BH_S("");

        if (v->p[i].name.n == 0) {
            bh_fe_required(e, ix, NULL);
        } else {
            claim_duplicates(e, ix, v, i);
        }
        for (size_t k = 0; s && k < s->resource_claims.n; k++)
            if (s->resource_claims.p[k].name.n)
                bh_str_map_put(e->a, &names, s->resource_claims.p[k].name, BH_S(""));
        if (bh_str_map_get(&names, v->p[i].name) || v->p[i].name.n == 0)
            continue;
        for (size_t k = 0; k < names.n; k++)
            list =
                bh_str_fmt(e->a, "%.*s%s%.*s", BH_SF(list), k ? ", " : ": ", BH_SF(names.p[k].key));
        bh_fe_add(
            e, BH_FE_NOT_FOUND, ix,
            bh_str_fmt(
                e->a,
                "Not found: \"%.*s\": must be one of the names in pod.spec.resourceClaims%.*s",
                BH_SF(v->p[i].name), BH_SF(names.n ? list : BH_S(" which is empty"))));
    }
}

static void resize_policy(struct bh_field_errs *e, const struct bh_fpath *at,
                          const struct bh_core_v1_container_resize_policy_vec *v,
                          struct bh_str pod_restart)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_core_v1_container_resize_policy *p = &v->p[i];

        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(v->p[k].resource_name, p->resource_name)) {
                bh_fe_duplicate(e, BH_FPI(at, i), p->resource_name);
                break;
            }
        if (p->resource_name.n == 0)
            bh_fe_required(e, at, NULL);
        else if (!BH_V_ONE_OF(p->resource_name, "cpu", "memory"))
            BH_V_NOT_SUPPORTED(e, at, p->resource_name, "cpu", "memory");
        if (p->restart_policy.n == 0)
            bh_fe_required(e, at, NULL);
        else if (!BH_V_ONE_OF(p->restart_policy, "NotRequired", "RestartContainer"))
            BH_V_NOT_SUPPORTED(e, at, p->restart_policy, "NotRequired", "RestartContainer");
        if (bh_str_eqc(pod_restart, "Never") && !bh_str_eqc(p->restart_policy, "NotRequired"))
            bh_fe_invalid(e, at, p->restart_policy,
                          "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
    }
}

/* ---- probes and hooks ---- */

struct handler {
    const struct bh_core_v1_exec_action *exec;
    const struct bh_core_v1_http_get_action *http_get;
    const struct bh_core_v1_tcp_socket_action *tcp_socket;
    const struct bh_core_v1_grpc_action *grpc;
    const struct bh_core_v1_sleep_action *sleep;
};

static void http_get(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_core_v1_http_get_action *h)
{
    if (h->path.n == 0)
        bh_fe_required(e, BH_FP(at, "path"), NULL);
    port_or_name(e, BH_FP(at, "port"), &h->port);
    if (!BH_V_ONE_OF(h->scheme, "HTTP", "HTTPS"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "scheme"), h->scheme, "HTTP", "HTTPS");
    for (size_t i = 0; i < h->http_headers.n; i++)
        bh_v_check(e, BH_FP(at, "httpHeaders"), bh_check_http_header_name,
                   h->http_headers.p[i].name);
}

/* Counts a handler; a second one is refused and not looked at. */
static bool first_handler(struct bh_field_errs *e, const struct bh_fpath *at, const char *name,
                          unsigned *n)
{
    if ((*n)++ == 0)
        return true;
    bh_fe_forbidden(e, BH_FPS(at, bh_s(name)), "may not specify more than 1 handler type");
    return false;
}

static void handler(struct bh_field_errs *e, const struct bh_fpath *at, const struct handler *h,
                    const struct bh_core_v1_pod_spec *s)
{
    unsigned n = 0;

    if (h->exec && first_handler(e, at, "exec", &n) && h->exec->command.n == 0)
        bh_fe_required(e, BH_FP(BH_FP(at, "exec"), "command"), NULL);
    if (h->http_get && first_handler(e, at, "httpGet", &n))
        http_get(e, BH_FP(at, "httpGet"), h->http_get);
    if (h->tcp_socket && first_handler(e, at, "tcpSocket", &n))
        port_or_name(e, BH_FP(BH_FP(at, "tcpSocket"), "port"), &h->tcp_socket->port);
    if (h->grpc && first_handler(e, at, "grpc", &n))
        bh_v_port_number(e, BH_FP(BH_FP(at, "grpc"), "port"), h->grpc->port);
    if (h->sleep && first_handler(e, at, "sleep", &n) && s->has_termination_grace_period_seconds &&
        (h->sleep->seconds < 0 || h->sleep->seconds > s->termination_grace_period_seconds))
        bh_fe_invalid_i64(e, BH_FP(at, "sleep"), h->sleep->seconds,
                          "must be non-negative and less than terminationGracePeriodSeconds (%lld)",
                          (long long)s->termination_grace_period_seconds);
    if (n == 0)
        bh_fe_required(e, at, "must specify a handler type");
}

static void probe(struct bh_field_errs *e, const struct bh_fpath *at,
                  const struct bh_core_v1_probe *p, const struct bh_core_v1_pod_spec *s,
                  bool readiness)
{
    struct handler h;

    if (!p)
        return;
    h = (struct handler){.exec = p->handler.exec,
                         .http_get = p->handler.http_get,
                         .tcp_socket = p->handler.tcp_socket,
                         .grpc = p->handler.grpc};
    handler(e, at, &h, s);
    bh_v_nonnegative(e, BH_FP(at, "initialDelaySeconds"), p->initial_delay_seconds);
    bh_v_nonnegative(e, BH_FP(at, "timeoutSeconds"), p->timeout_seconds);
    bh_v_nonnegative(e, BH_FP(at, "periodSeconds"), p->period_seconds);
    bh_v_nonnegative(e, BH_FP(at, "successThreshold"), p->success_threshold);
    bh_v_nonnegative(e, BH_FP(at, "failureThreshold"), p->failure_threshold);
    if (p->has_termination_grace_period_seconds && p->termination_grace_period_seconds <= 0)
        bh_fe_invalid_i64(e, BH_FP(at, "terminationGracePeriodSeconds"),
                          p->termination_grace_period_seconds, "must be greater than 0");
    if (!readiness && p->success_threshold != 1)
        bh_fe_invalid_i64(e, BH_FP(at, "successThreshold"), p->success_threshold, "must be 1");
    if (readiness && p->has_termination_grace_period_seconds)
        bh_fe_invalid_i64(e, BH_FP(at, "terminationGracePeriodSeconds"),
                          p->termination_grace_period_seconds,
                          "must not be set for readinessProbes");
}

static void probes(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_core_v1_container *c, const struct bh_core_v1_pod_spec *s)
{
    probe(e, BH_FP(at, "livenessProbe"), c->liveness_probe, s, false);
    probe(e, BH_FP(at, "readinessProbe"), c->readiness_probe, s, true);
    probe(e, BH_FP(at, "startupProbe"), c->startup_probe, s, false);
}

static void hook(struct bh_field_errs *e, const struct bh_fpath *at,
                 const struct bh_core_v1_lifecycle_handler *l, const struct bh_core_v1_pod_spec *s)
{
    struct handler h = {
        .exec = l->exec, .http_get = l->http_get, .tcp_socket = l->tcp_socket, .sleep = l->sleep};

    handler(e, at, &h, s);
}

static void lifecycle(struct bh_field_errs *e, const struct bh_fpath *at,
                      const struct bh_core_v1_lifecycle *l, const struct bh_core_v1_pod_spec *s)
{
    if (l->post_start)
        hook(e, BH_FP(at, "postStart"), l->post_start, s);
    if (l->pre_stop)
        hook(e, BH_FP(at, "preStop"), l->pre_stop, s);
    if (l->has_stop_signal && !s->os)
        bh_fe_forbidden(e, BH_FP(at, "stopSignal"),
                        "may not be set for containers with empty `spec.os.name`");
}

/* ---- restart rules ---- */

static void restart_action(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str action,
                           const struct bh_pod_opts *o)
{
    if (!bh_rules_gate(o->env, "RestartAllContainersOnContainerExits")) {
        if (!bh_str_eqc(action, "Restart"))
            BH_V_NOT_SUPPORTED(e, at, action, "Restart");
    } else if (!BH_V_ONE_OF(action, "Restart", "RestartAllContainers")) {
        BH_V_NOT_SUPPORTED(e, at, action, "Restart", "RestartAllContainers");
    }
}

static void restart_rules(struct bh_field_errs *e, const struct bh_fpath *at,
                          const struct bh_core_v1_container *c, const struct bh_pod_opts *o)
{
    const struct bh_core_v1_container_restart_rule_vec *v = &c->restart_policy_rules;
    const struct bh_fpath *policy = BH_FP(at, "restartPolicy"),
                          *rules = BH_FP(at, "restartPolicyRules");

    if (!c->has_restart_policy) {
        if (v->n == 0)
            return;
        bh_fe_required(e, policy, "must specify restartPolicy when restart rules are used");
    } else if (!BH_V_ONE_OF(c->restart_policy, "Always", "Never", "OnFailure")) {
        BH_V_NOT_SUPPORTED(e, policy, c->restart_policy, "Always", "Never", "OnFailure");
    }
    if (v->n > RESTART_RULES_MAX)
        bh_fe_too_many(e, rules, v->n, RESTART_RULES_MAX);
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_core_v1_container_restart_rule *r = &v->p[i];
        const struct bh_fpath *ix = BH_FPI(rules, i), *codes = BH_FP(ix, "exitCodes");

        restart_action(e, BH_FP(ix, "action"), r->action, o);
        if (!r->exit_codes) {
            bh_fe_required(e, codes, "must be specified");
            continue;
        }
        if (!BH_V_ONE_OF(r->exit_codes->operator, "In", "NotIn"))
            BH_V_NOT_SUPPORTED(e, BH_FP(codes, "operator"), r->exit_codes->operator, "In", "NotIn");
        if (r->exit_codes->values.n > EXIT_CODES_MAX)
            bh_fe_too_many(e, BH_FP(codes, "values"), r->exit_codes->values.n, EXIT_CODES_MAX);
    }
}

static void init_restart(struct bh_field_errs *e, const struct bh_fpath *at,
                         const struct bh_core_v1_container *c, const struct bh_pod_opts *o)
{
    if (!bh_rules_gate(o->env, "ContainerRestartRules")) {
        if (c->has_restart_policy && !bh_str_eqc(c->restart_policy, "Always"))
            BH_V_NOT_SUPPORTED(e, BH_FP(at, "restartPolicy"), c->restart_policy, "Always");
        return;
    }
    if (!bh_pod_restartable(c))
        restart_rules(e, at, c, o);
    else if (c->restart_policy_rules.n)
        bh_fe_forbidden(
            e, BH_FP(at, "restartPolicyRules"),
            "restartPolicyRules are not allowed for init containers with restart policy Always");
}

/* ---- whole containers ---- */

static bool host_users(const struct bh_core_v1_pod_spec *s)
{
    return !s->has_host_users || s->host_users;
}

static void common(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_core_v1_container *c, const struct bh_core_v1_pod_spec *s,
                   const struct bh_pod_opts *o)
{
    const struct bh_fpath *policy = BH_FP(at, "terminationMessagePolicy"),
                          *pull = BH_FP(at, "imagePullPolicy");

    if (c->name.n == 0)
        bh_fe_required(e, BH_FP(at, "name"), NULL);
    else
        bh_v_check(e, BH_FP(at, "name"), bh_check_dns1123_label, c->name);
    if (c->image.n == 0)
        bh_fe_required(e, BH_FP(at, "image"), NULL);
    if (c->termination_message_policy.n == 0)
        bh_fe_required(e, policy, NULL);
    else if (!BH_V_ONE_OF(c->termination_message_policy, "File", "FallbackToLogsOnError"))
        BH_V_NOT_SUPPORTED(e, policy, c->termination_message_policy, "File",
                           "FallbackToLogsOnError");
    ports(e, BH_FP(at, "ports"), &c->ports);
    env(e, BH_FP(at, "env"), &c->env, o);
    env_from(e, BH_FP(at, "envFrom"), &c->env_from);
    for (size_t i = 0; i < c->volume_mounts.n; i++)
        mount(e, BH_FP(at, "volumeMounts"), c, i, s, o);
    for (size_t i = 0; i < c->volume_devices.n; i++)
        device(e, BH_FP(at, "volumeDevices"), c, i, s, o);
    if (c->image_pull_policy.n == 0)
        bh_fe_required(e, pull, NULL);
    else if (!BH_V_ONE_OF(c->image_pull_policy, "Always", "IfNotPresent", "Never"))
        BH_V_NOT_SUPPORTED(e, pull, c->image_pull_policy, "Always", "IfNotPresent", "Never");
    bh_v_requirements(e, BH_FP(at, "resources"), &c->resources, s, false);
    resize_policy(e, BH_FP(at, "resizePolicy"), &c->resize_policy, s->restart_policy);
    bh_v_container_security(e, BH_FP(at, "securityContext"), c->security_context, host_users(s), o);
}

void bh_v_containers(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_core_v1_pod_spec *s, const struct bh_pod_opts *o)
{
    const struct bh_core_v1_container_vec *v = &s->containers;
    struct host_port_seen seen = {0};

    if (v->n == 0) {
        bh_fe_required(e, at, NULL);
        return;
    }
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_core_v1_container *c = &v->p[i];
        const struct bh_fpath *ix = BH_FPI(at, i);

        common(e, ix, c, s, o);
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(v->p[k].name, c->name)) {
                bh_fe_duplicate(e, BH_FP(ix, "name"), c->name);
                break;
            }
        if (c->lifecycle)
            lifecycle(e, BH_FP(ix, "lifecycle"), c->lifecycle, s);
        probes(e, ix, c, s);
        if (bh_rules_gate(o->env, "ContainerRestartRules"))
            restart_rules(e, ix, c, o);
        else if (c->has_restart_policy)
            bh_fe_forbidden(e, BH_FP(ix, "restartPolicy"),
                            "may not be set for non-init containers");
    }
    for (size_t i = 0; i < v->n; i++)
        host_ports(e, BH_FPI(at, i), &v->p[i], &seen);
}

static void no_hooks(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_core_v1_container *c)
{
    const struct {
        const void *set;
        const char *name;
    } f[] = {{c->lifecycle, "lifecycle"},
             {c->liveness_probe, "livenessProbe"},
             {c->readiness_probe, "readinessProbe"},
             {c->startup_probe, "startupProbe"}};

    for (size_t i = 0; i < BH_COUNT(f); i++)
        if (f[i].set)
            bh_fe_forbidden(e, BH_FPS(at, bh_s(f[i].name)),
                            "may not be set for init containers without restartPolicy=Always");
}

static bool name_taken(const struct bh_core_v1_container_vec *v, size_t n, struct bh_str name)
{
    for (size_t i = 0; i < n && i < v->n; i++)
        if (bh_str_eq(v->p[i].name, name))
            return true;
    return false;
}

void bh_v_init_containers(struct bh_field_errs *e, const struct bh_fpath *at,
                          const struct bh_core_v1_pod_spec *s, const struct bh_pod_opts *o)
{
    for (size_t i = 0; i < s->init_containers.n; i++) {
        const struct bh_core_v1_container *c = &s->init_containers.p[i];
        const struct bh_fpath *ix = BH_FPI(at, i), *resize = BH_FP(ix, "resizePolicy");
        struct host_port_seen seen = {0};
        bool sidecar = bh_pod_restartable(c);

        common(e, ix, c, s, o);
        init_restart(e, ix, c, o);
        if (name_taken(&s->containers, SIZE_MAX, c->name) ||
            (c->name.n && name_taken(&s->init_containers, i, c->name)))
            bh_fe_duplicate(e, BH_FP(ix, "name"), c->name);
        /* Upstream checks each container as if it were the first of its list. */
        host_ports(e, BH_FPI(at, 0), c, &seen);
        if (!sidecar) {
            no_hooks(e, ix, c);
        } else {
            if (c->lifecycle)
                lifecycle(e, BH_FP(ix, "lifecycle"), c->lifecycle, s);
            probes(e, ix, c, s);
        }
        for (size_t k = 0; !sidecar && k < c->resize_policy.n; k++)
            if (bh_str_eqc(c->resize_policy.p[k].restart_policy, "RestartContainer"))
                bh_fe_invalid(
                    e, BH_FP(BH_FPI(resize, k), "restartPolicy"),
                    c->resize_policy.p[k].restart_policy,
                    "must not be set to 'RestartContainer' for non-sidecar initContainers");
    }
}

static void ephemeral_allowed(struct bh_field_errs *e, const struct bh_fpath *at,
                              const struct bh_core_v1_container *c)
{
    const struct {
        bool set;
        const char *name;
    } f[] = {
        {c->ports.p != NULL, "ports"},
        {!bh_msg_is_empty(&bh_core_v1_resource_requirements_type, &c->resources), "resources"},
        {c->resize_policy.p != NULL, "resizePolicy"},
        {c->has_restart_policy, "restartPolicy"},
        {c->restart_policy_rules.p != NULL, "restartPolicyRules"},
        {c->liveness_probe != NULL, "livenessProbe"},
        {c->readiness_probe != NULL, "readinessProbe"},
        {c->startup_probe != NULL, "startupProbe"},
        {c->lifecycle != NULL, "lifecycle"},
    };
    const struct bh_fpath *mounts = BH_FP(at, "volumeMounts");

    for (size_t i = 0; i < BH_COUNT(f); i++)
        if (f[i].set)
            bh_fe_forbidden(e, BH_FPS(at, bh_s(f[i].name)),
                            "cannot be set for an Ephemeral Container");
    for (size_t i = 0; i < c->volume_mounts.n; i++) {
        if (c->volume_mounts.p[i].sub_path.n)
            bh_fe_forbidden(e, BH_FP(BH_FPI(mounts, i), "subPath"),
                            "cannot be set for an Ephemeral Container");
        if (c->volume_mounts.p[i].sub_path_expr.n)
            bh_fe_forbidden(e, BH_FP(BH_FPI(mounts, i), "subPathExpr"),
                            "cannot be set for an Ephemeral Container");
    }
}

void bh_v_ephemeral_containers(struct bh_field_errs *e, const struct bh_fpath *at,
                               const struct bh_core_v1_pod_spec *s, const struct bh_pod_opts *o)
{
    const struct bh_core_v1_ephemeral_container_vec *v = &s->ephemeral_containers;

    for (size_t i = 0; i < v->n; i++) {
        const struct bh_core_v1_container *c = bh_pod_cephemeral(&v->p[i]);
        const struct bh_fpath *ix = BH_FPI(at, i);
        struct bh_str target = v->p[i].target_container_name;
        bool taken = name_taken(&s->containers, SIZE_MAX, c->name) ||
                     name_taken(&s->init_containers, SIZE_MAX, c->name);

        common(e, ix, c, s, o);
        if (!bh_str_eq(bh_str_trim(c->image), c->image))
            bh_fe_invalid(e, BH_FP(ix, "image"), c->image,
                          "must not have leading or trailing whitespace");
        for (size_t k = 0; k < i && !taken; k++)
            taken = bh_str_eq(bh_pod_cephemeral(&v->p[k])->name, c->name);
        if (taken)
            bh_fe_duplicate(e, BH_FP(ix, "name"), c->name);
        if (target.n && !name_taken(&s->containers, SIZE_MAX, target) &&
            !name_taken(&s->init_containers, SIZE_MAX, target))
            bh_fe_not_found(e, BH_FP(ix, "targetContainerName"), target);
        ephemeral_allowed(e, ix, c);
    }
}
