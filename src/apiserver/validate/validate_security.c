/* Security contexts of pods and containers, and what an operating system excludes. */
#include "apiserver/validate/validate_pod.h"

#include "base/buf.h"

#define SYSCTL_BYTES_MAX    253u
#define APP_ARMOR_BYTES_MAX 4095u /* PATH_MAX - 1 */
#define GMSA_BYTES_MAX      (64u << 10)
#define WINDOWS_DOMAIN_MAX  256u
#define WINDOWS_USER_MAX    104u

static void id_range(struct bh_field_errs *e, const struct bh_fpath *at, int64_t id)
{
    if (id < 0 || id > INT32_MAX)
        bh_fe_invalid_i64(e, at, id, "must be between 0 and 2147483647, inclusive");
}

void bh_v_seccomp(struct bh_field_errs *e, const struct bh_fpath *at,
                  const struct bh_core_v1_seccomp_profile *p)
{
    const struct bh_fpath *local = BH_FP(at, "localhostProfile");

    if (!p)
        return;
    if (p->type.n == 0)
        bh_fe_required(e, BH_FP(at, "type"), "type is required when seccompProfile is set");
    else if (!BH_V_ONE_OF(p->type, "Localhost", "RuntimeDefault", "Unconfined"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "type"), p->type, "Localhost", "RuntimeDefault",
                           "Unconfined");
    if (!bh_str_eqc(p->type, "Localhost")) {
        if (p->has_localhost_profile)
            bh_fe_invalid_text(e, local, bh_v_go_json(e->a, &bh_core_v1_seccomp_profile_type, p),
                               "can only be set when seccomp type is Localhost");
    } else if (!p->has_localhost_profile) {
        bh_fe_required(e, local, "must be set when seccomp type is Localhost");
    } else {
        bh_v_descending_path(e, local, p->localhost_profile);
    }
}

void bh_v_app_armor(struct bh_field_errs *e, const struct bh_fpath *at,
                    const struct bh_core_v1_app_armor_profile *p)
{
    const struct bh_fpath *local = BH_FP(at, "localhostProfile");

    if (!p)
        return;
    if (bh_str_eqc(p->type, "Localhost")) {
        if (!p->has_localhost_profile) {
            bh_fe_required(e, local, "must be set when AppArmor type is Localhost");
            return;
        }
        if (!bh_str_eq(bh_str_trim(p->localhost_profile), p->localhost_profile))
            bh_fe_invalid(e, local, p->localhost_profile, "must not be padded with whitespace");
        else if (p->localhost_profile.n == 0)
            bh_fe_required(e, local, "must be set when AppArmor type is Localhost");
        if (p->localhost_profile.n > APP_ARMOR_BYTES_MAX)
            bh_fe_too_long(e, local, APP_ARMOR_BYTES_MAX);
    } else if (BH_V_ONE_OF(p->type, "RuntimeDefault", "Unconfined")) {
        if (p->has_localhost_profile)
            bh_fe_invalid(e, local, p->localhost_profile,
                          "can only be set when AppArmor type is Localhost");
    } else if (p->type.n == 0) {
        bh_fe_required(e, BH_FP(at, "type"), "type is required when appArmorProfile is set");
    } else {
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "type"), p->type, "Localhost", "RuntimeDefault",
                           "Unconfined");
    }
}

/* ---- Windows ---- */

static bool any_of(struct bh_str s, const char *chars)
{
    for (size_t i = 0; i < s.n; i++)
        if (bh_str_chr(bh_s(chars), s.p[i], 0) >= 0)
            return true;
    return false;
}

static bool only_dots_and_blanks(struct bh_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] != '.' && s.p[i] != ' ')
            return false;
    return s.n > 0;
}

/* NetBIOS: up to 15 characters, none of the forbidden ones, no dot first; or a DNS name. */
static bool windows_domain_ok(struct bh_str s)
{
    bool dns = s.n > 0,
         netbios = s.n > 0 && s.n <= 15 && s.p[0] != '.' && !any_of(s, "\\/:*?\"<>|");

    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        dns = dns && (word || (i && i + 1 < s.n && (c == '-' || c == '.')));
    }
    return dns || netbios;
}

static void windows_user(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str name)
{
    struct bh_str user = name, domain = {0};

    if (name.n == 0) {
        bh_fe_invalid(e, at, name, "runAsUserName cannot be an empty string");
        return;
    }
    for (size_t i = 0; i < name.n; i++)
        if ((unsigned char)name.p[i] < 32 || name.p[i] == 127) {
            bh_fe_invalid(e, at, name, "runAsUserName cannot contain control characters");
            return;
        }
    if (bh_v_count(name, '\\') > 1) {
        bh_fe_invalid(e, at, name, "runAsUserName cannot contain more than one backslash");
        return;
    }
    if (bh_str_chr(name, '\\', 0) >= 0)
        domain = bh_str_cut(&user, '\\');
    if (domain.n >= WINDOWS_DOMAIN_MAX)
        bh_fe_invalid(e, at, name, "runAsUserName's Domain length must be under %u characters",
                      WINDOWS_DOMAIN_MAX);
    if (domain.p && !windows_domain_ok(domain))
        bh_fe_invalid(e, at, name,
                      "runAsUserName's Domain doesn't match the NetBios nor the DNS format");
    if (user.n == 0)
        bh_fe_invalid(e, at, name, "runAsUserName's User cannot be empty");
    else if (user.n > WINDOWS_USER_MAX)
        bh_fe_invalid(e, at, name,
                      "runAsUserName's User length must not be longer than %u characters",
                      WINDOWS_USER_MAX);
    if (only_dots_and_blanks(user))
        bh_fe_invalid(e, at, name, "runAsUserName's User cannot contain only periods or spaces");
    if (any_of(user, "\"/\\:;|=,+*?<>@[]"))
        bh_fe_invalid(e, at, name,
                      "runAsUserName's User cannot contain the following characters: "
                      "\"/\\:;|=,+*?<>@[]");
}

static void windows_options(struct bh_field_errs *e, const struct bh_fpath *at,
                            const struct bh_core_v1_windows_security_context_options *w)
{
    if (!w)
        return;
    if (w->has_gmsa_credential_spec_name)
        bh_v_check(e, BH_FP(at, "gmsaCredentialSpecName"), bh_check_dns1123_subdomain,
                   w->gmsa_credential_spec_name);
    if (w->has_gmsa_credential_spec && w->gmsa_credential_spec.n == 0)
        bh_fe_invalid(e, BH_FP(at, "gmsaCredentialSpec"), w->gmsa_credential_spec,
                      "gmsaCredentialSpec cannot be an empty string");
    else if (w->has_gmsa_credential_spec && w->gmsa_credential_spec.n > GMSA_BYTES_MAX)
        bh_fe_invalid(e, BH_FP(at, "gmsaCredentialSpec"), w->gmsa_credential_spec,
                      "gmsaCredentialSpec size must be under 64 KiB");
    if (w->has_run_as_user_name)
        windows_user(e, BH_FP(at, "runAsUserName"), w->run_as_user_name);
}

void bh_v_host_process(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_core_v1_pod_spec *s, const struct bh_pod_opts *o)
{
    const struct bh_core_v1_windows_security_context_options *pod =
        s->security_context ? s->security_context->windows_options : NULL;
    bool pod_set = pod && pod->has_host_process, pod_on = pod_set && pod->host_process;
    struct bh_pod_iter it = {.spec = s};
    size_t all = 0, on = 0;

    while (bh_pod_next(&it)) {
        const struct bh_core_v1_windows_security_context_options *w =
            it.c->security_context ? it.c->security_context->windows_options : NULL;
        bool set = w && w->has_host_process;

        all++;
        if (pod_set && set && pod_on != w->host_process)
            bh_fe_invalid_bool(
                e,
                BH_FP(BH_FP(BH_FP(BH_FPI(BH_FPS(at, bh_s(bh_pod_list_name(it.list))), it.i),
                                  "securityContext"),
                            "windowsOptions"),
                      "hostProcess"),
                w->host_process,
                "pod hostProcess value must be identical if both are specified, was %s",
                pod_on ? "true" : "false");
        on += set ? w->host_process : pod_on;
    }
    if (on == 0)
        return;
    if (on != all)
        bh_fe_invalid(e, at, BH_S(""),
                      "If pod contains any hostProcess containers then all containers must be "
                      "HostProcess containers");
    if (!s->host_network)
        bh_fe_invalid_bool(e, BH_FP(at, "hostNetwork"), false,
                           "hostNetwork must be true if pod contains any hostProcess containers");
    if (o->env->no_privileged)
        bh_fe_forbidden(e, at, "hostProcess containers are disallowed by cluster policy");
}

/* ---- containers ---- */

static void escalation(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_core_v1_security_context *c)
{
    if (!c->has_allow_privilege_escalation || c->allow_privilege_escalation)
        return;
    if (c->has_privileged && c->privileged)
        bh_fe_invalid_text(
            e, at, bh_v_go_json(e->a, &bh_core_v1_security_context_type, c),
            "cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
    for (size_t i = 0; c->capabilities && i < c->capabilities->add.n; i++)
        if (bh_str_eqc(c->capabilities->add.p[i], "CAP_SYS_ADMIN"))
            bh_fe_invalid_text(e, at, bh_v_go_json(e->a, &bh_core_v1_security_context_type, c),
                               "cannot set `allowPrivilegeEscalation` to false and "
                               "`capabilities.Add` CAP_SYS_ADMIN");
}

void bh_v_container_security(struct bh_field_errs *e, const struct bh_fpath *at,
                             const struct bh_core_v1_security_context *c, bool host_users,
                             const struct bh_pod_opts *o)
{
    const struct bh_fpath *proc = BH_FP(at, "procMount");

    if (!c)
        return;
    if (c->has_privileged && c->privileged && o->env->no_privileged)
        bh_fe_forbidden(e, BH_FP(at, "privileged"), "disallowed by cluster policy");
    if (c->has_run_as_user)
        id_range(e, BH_FP(at, "runAsUser"), c->run_as_user);
    if (c->has_run_as_group)
        id_range(e, BH_FP(at, "runAsGroup"), c->run_as_group);
    if (c->has_proc_mount && !BH_V_ONE_OF(c->proc_mount, "Default", "Unmasked"))
        BH_V_NOT_SUPPORTED(e, proc, c->proc_mount, "Default", "Unmasked");
    if (c->has_proc_mount && host_users && bh_str_eqc(c->proc_mount, "Unmasked"))
        bh_fe_invalid(e, proc, c->proc_mount, "`hostUsers` must be false to use `Unmasked`");
    bh_v_seccomp(e, BH_FP(at, "seccompProfile"), c->seccomp_profile);
    escalation(e, at, c);
    windows_options(e, BH_FP(at, "windowsOptions"), c->windows_options);
    bh_v_app_armor(e, BH_FP(at, "appArmorProfile"), c->app_armor_profile);
}

/* ---- pods ---- */

/* ([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])? */
static bool sysctl_name_ok(struct bh_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        bool edge = i == 0 || i + 1 == s.n || s.p[i - 1] == '.' || s.p[i - 1] == '/' ||
                    s.p[i + 1] == '.' || s.p[i + 1] == '/';

        if (!word && (edge || (c != '-' && c != '_' && c != '.' && c != '/')))
            return false;
    }
    return s.n > 0 && s.n <= SYSCTL_BYTES_MAX;
}

static bool in_net_namespace(struct bh_str s)
{
    return bh_str_starts(s, BH_S("net.")) || bh_str_starts(s, BH_S("net/"));
}

static bool in_ipc_namespace(struct bh_str s)
{
    return BH_V_ONE_OF(s, "kernel.sem", "kernel/sem") || bh_str_starts(s, BH_S("kernel.shm")) ||
           bh_str_starts(s, BH_S("kernel.msg")) || bh_str_starts(s, BH_S("fs.mqueue.")) ||
           bh_str_starts(s, BH_S("kernel/shm")) || bh_str_starts(s, BH_S("kernel/msg")) ||
           bh_str_starts(s, BH_S("fs/mqueue/"));
}

static void sysctls(struct bh_field_errs *e, const struct bh_fpath *at,
                    const struct bh_core_v1_sysctl_vec *v, const struct bh_core_v1_pod_spec *s)
{
    for (size_t i = 0; i < v->n; i++) {
        struct bh_str name = v->p[i].name;
        const struct bh_fpath *nat = BH_FP(BH_FPI(at, i), "name");

        if (name.n == 0) {
            bh_fe_required(e, nat, NULL);
        } else if (!sysctl_name_ok(name)) {
            bh_fe_invalid(e, nat, name,
                          "must have at most %u characters and match regex "
                          "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
                          SYSCTL_BYTES_MAX);
        } else {
            for (size_t k = 0; k < i; k++)
                if (bh_str_eq(v->p[k].name, name)) {
                    bh_fe_duplicate(e, nat, name);
                    break;
                }
        }
        if (s->host_network && in_net_namespace(name))
            bh_fe_invalid(e, nat, name, "may not be specified when 'hostNetwork' is true");
        else if (s->host_ipc && in_ipc_namespace(name))
            bh_fe_invalid(e, nat, name, "may not be specified when 'hostIPC' is true");
    }
}

void bh_v_pod_security(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_core_v1_pod_spec *s)
{
    const struct bh_core_v1_pod_security_context *c = s->security_context;

    if (s->has_share_process_namespace && s->share_process_namespace && s->host_pid && !c)
        bh_fe_invalid_bool(e, BH_FP(at, "shareProcessNamespace"), true,
                           "ShareProcessNamespace and HostPID cannot both be enabled");
    if (!c)
        return;
    if (c->has_fs_group)
        id_range(e, BH_FP(at, "fsGroup"), c->fs_group);
    if (c->has_run_as_user)
        id_range(e, BH_FP(at, "runAsUser"), c->run_as_user);
    if (c->has_run_as_group)
        id_range(e, BH_FP(at, "runAsGroup"), c->run_as_group);
    for (size_t i = 0; i < c->supplemental_groups.n; i++)
        id_range(e, BH_FPI(BH_FP(at, "supplementalGroups"), i), c->supplemental_groups.p[i]);
    if (s->has_share_process_namespace && s->share_process_namespace && s->host_pid)
        bh_fe_invalid_bool(e, BH_FP(at, "shareProcessNamespace"), true,
                           "ShareProcessNamespace and HostPID cannot both be enabled");
    sysctls(e, BH_FP(at, "sysctls"), &c->sysctls, s);
    if (c->has_fs_group_change_policy &&
        !BH_V_ONE_OF(c->fs_group_change_policy, "Always", "OnRootMismatch"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "fsGroupChangePolicy"), c->fs_group_change_policy, "Always",
                           "OnRootMismatch");
    bh_v_seccomp(e, BH_FP(at, "seccompProfile"), c->seccomp_profile);
    windows_options(e, BH_FP(at, "windowsOptions"), c->windows_options);
    bh_v_app_armor(e, BH_FP(at, "appArmorProfile"), c->app_armor_profile);
    if (c->has_supplemental_groups_policy &&
        !BH_V_ONE_OF(c->supplemental_groups_policy, "Merge", "Strict"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "supplementalGroupsPolicy"), c->supplemental_groups_policy,
                           "Merge", "Strict");
    if (c->has_se_linux_change_policy && !bh_str_eqc(c->se_linux_change_policy, "Recursive"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "seLinuxChangePolicy"), c->se_linux_change_policy,
                           "Recursive");
}

/* ---- operating systems ---- */

static void linux_pod(struct bh_field_errs *e, const struct bh_fpath *at,
                      const struct bh_core_v1_pod_spec *s)
{
    struct bh_pod_iter it = {.spec = s};

    if (s->security_context && s->security_context->windows_options)
        bh_fe_forbidden(e, BH_FP(BH_FP(at, "securityContext"), "windowsOptions"),
                        "windows options cannot be set for a linux pod");
    while (bh_pod_next(&it))
        if (it.c->security_context && it.c->security_context->windows_options)
            bh_fe_forbidden(e,
                            BH_FP(BH_FP(BH_FPI(BH_FPS(at, bh_s(bh_pod_list_name(it.list))), it.i),
                                        "securityContext"),
                                  "windowsOptions"),
                            "windows options cannot be set for a linux pod");
}

struct forbidden {
    bool set;
    const char *name;
    bool of_spec; /* stands in the spec, not in its securityContext */
};

static void forbid(struct bh_field_errs *e, const struct bh_fpath *spec, const struct bh_fpath *sc,
                   const struct forbidden *f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (f[i].set)
            bh_fe_forbidden(e, BH_FPS(f[i].of_spec ? spec : sc, bh_s(f[i].name)),
                            "cannot be set for a windows pod");
}

static void windows_container(struct bh_field_errs *e, const struct bh_fpath *at,
                              const struct bh_core_v1_security_context *c)
{
    const struct forbidden f[] = {
        {c->app_armor_profile != NULL, "appArmorProfile", false},
        {c->se_linux_options != NULL, "seLinuxOptions", false},
        {c->seccomp_profile != NULL, "seccompProfile", false},
        {c->capabilities != NULL, "capabilities", false},
        {c->has_read_only_root_filesystem, "readOnlyRootFilesystem", false},
        {c->has_privileged, "privileged", false},
        {c->has_allow_privilege_escalation, "allowPrivilegeEscalation", false},
        {c->has_proc_mount, "procMount", false},
        {c->has_run_as_user, "runAsUser", false},
        {c->has_run_as_group, "runAsGroup", false},
    };

    forbid(e, NULL, at, f, BH_COUNT(f));
}

static void windows_pod(struct bh_field_errs *e, const struct bh_fpath *at,
                        const struct bh_core_v1_pod_spec *s)
{
    static const struct bh_core_v1_pod_security_context none;
    const struct bh_core_v1_pod_security_context *c =
        s->security_context ? s->security_context : &none;
    const struct forbidden f[] = {
        {c->app_armor_profile != NULL, "appArmorProfile", false},
        {c->se_linux_options != NULL, "seLinuxOptions", false},
        {s->has_host_users, "hostUsers", true},
        {s->host_pid, "hostPID", true},
        {s->host_ipc, "hostIPC", true},
        {c->seccomp_profile != NULL, "seccompProfile", false},
        {c->has_fs_group, "fsGroup", false},
        {c->has_fs_group_change_policy, "fsGroupChangePolicy", false},
        {c->sysctls.n > 0, "sysctls", false},
        {s->has_share_process_namespace, "shareProcessNamespace", true},
        {c->has_run_as_user, "runAsUser", false},
        {c->has_run_as_group, "runAsGroup", false},
        {c->supplemental_groups.p != NULL, "supplementalGroups", false},
        {c->has_supplemental_groups_policy, "supplementalGroupsPolicy", false},
        {c->has_se_linux_change_policy, "seLinuxChangePolicy", false},
    };
    struct bh_pod_iter it = {.spec = s};

    forbid(e, at, BH_FP(at, "securityContext"), f, BH_COUNT(f));
    while (bh_pod_next(&it))
        if (it.c->security_context)
            windows_container(
                e,
                BH_FP(BH_FPI(BH_FPS(at, bh_s(bh_pod_list_name(it.list))), it.i), "securityContext"),
                it.c->security_context);
}

void bh_v_pod_os(struct bh_field_errs *e, const struct bh_fpath *at,
                 const struct bh_core_v1_pod_spec *s)
{
    if (s->os->name.n == 0)
        bh_fe_required(e, BH_FP(BH_FP(at, "os"), "name"), NULL);
    else if (bh_str_eqc(s->os->name, "linux"))
        linux_pod(e, at, s);
    else if (bh_str_eqc(s->os->name, "windows"))
        windows_pod(e, at, s);
    else
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "os"), s->os->name, "linux", "windows");
}
