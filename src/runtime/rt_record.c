#include "runtime/rt_record.h"

#include <stddef.h>
#include <string.h>

/* One table per struct says how each field stands in JSON; one pair of functions walks the tables.
 */
enum field_kind { F_STR, F_I64, F_U32, F_BOOL, F_INT, F_STRS, F_MAP, F_I64S, F_ENVS, F_SUB, F_VEC };

struct table;

struct field {
    const char *name;
    enum field_kind kind;
    size_t at;
    const struct table *sub; /* F_SUB, F_VEC */
};

struct table {
    const struct field *f;
    size_t n;
    size_t size; /* of the struct, for F_VEC */
};

/* Every F_VEC has this shape. */
struct any_vec {
    void *p;
    size_t n;
};

#define TABLE(fields, type)                                                                        \
    {                                                                                              \
        fields, sizeof(fields) / sizeof(fields[0]), sizeof(type)                                   \
    }

#define M(field, kind)                                                                             \
    {                                                                                              \
#field, kind, offsetof(struct bh_cri_mount, field), NULL                                   \
    }
static const struct field mount_fields[] = {M(container_path, F_STR), M(host_path, F_STR),
                                            M(readonly, F_BOOL),      M(recursive_readonly, F_BOOL),
                                            M(propagation, F_INT),    M(image, F_STR),
                                            M(image_sub_path, F_STR)};
static const struct table mount_table = TABLE(mount_fields, struct bh_cri_mount);

#define D(field, kind)                                                                             \
    {                                                                                              \
#field, kind, offsetof(struct bh_cri_device, field), NULL                                  \
    }
static const struct field device_fields[] = {D(container_path, F_STR), D(host_path, F_STR),
                                             D(permissions, F_STR)};
static const struct table device_table = TABLE(device_fields, struct bh_cri_device);

#define R(field, kind)                                                                             \
    {                                                                                              \
#field, kind, offsetof(struct bh_cri_resources, field), NULL                               \
    }
static const struct field resource_fields[] = {
    R(cpu_period, F_I64),    R(cpu_quota, F_I64),         R(cpu_shares, F_I64),
    R(memory_limit, F_I64),  R(memory_swap_limit, F_I64), R(pids_limit, F_I64),
    R(oom_score_adj, F_I64), R(cpuset_cpus, F_STR),       R(cpuset_mems, F_STR)};
static const struct table resource_table = TABLE(resource_fields, struct bh_cri_resources);

#define S(field, kind)                                                                             \
    {                                                                                              \
#field, kind, offsetof(struct bh_cri_security, field), NULL                                \
    }
static const struct field security_fields[] = {
    S(privileged, F_BOOL),      S(readonly_rootfs, F_BOOL),  S(no_new_privs, F_BOOL),
    S(has_run_as_user, F_BOOL), S(has_run_as_group, F_BOOL), S(run_as_user, F_I64),
    S(run_as_group, F_I64),     S(run_as_username, F_STR),   S(supplemental_groups, F_I64S),
    S(add_caps, F_STRS),        S(drop_caps, F_STRS),        S(masked_paths, F_STRS),
    S(readonly_paths, F_STRS),  S(pid_mode, F_INT),          S(target_id, F_STR),
    S(seccomp, F_INT),          S(seccomp_path, F_STR)};
static const struct table security_table = TABLE(security_fields, struct bh_cri_security);

#define C(field, kind)                                                                             \
    {                                                                                              \
#field, kind, offsetof(struct bh_cri_container_config, field), NULL                        \
    }
#define CS(field, kind, sub)                                                                       \
    {                                                                                              \
#field, kind, offsetof(struct bh_cri_container_config, field), &(sub)                      \
    }
static const struct field container_fields[] = {C(name, F_STR),
                                                C(attempt, F_U32),
                                                C(image, F_STR),
                                                C(user_image, F_STR),
                                                C(command, F_STRS),
                                                C(args, F_STRS),
                                                C(working_dir, F_STR),
                                                C(envs, F_ENVS),
                                                CS(mounts, F_VEC, mount_table),
                                                CS(devices, F_VEC, device_table),
                                                C(cdi_devices, F_STRS),
                                                C(labels, F_MAP),
                                                C(annotations, F_MAP),
                                                C(log_path, F_STR),
                                                C(stdin_open, F_BOOL),
                                                C(stdin_once, F_BOOL),
                                                C(tty, F_BOOL),
                                                CS(resources, F_SUB, resource_table),
                                                CS(security, F_SUB, security_table),
                                                C(stop_signal, F_INT)};
static const struct table container_table = TABLE(container_fields, struct bh_cri_container_config);

#define P(field, kind)                                                                             \
    {                                                                                              \
#field, kind, offsetof(struct bh_cri_sandbox_config, field), NULL                          \
    }
#define PS(field, kind, sub)                                                                       \
    {                                                                                              \
#field, kind, offsetof(struct bh_cri_sandbox_config, field), &(sub)                        \
    }
static const struct field sandbox_fields[] = {P(name, F_STR),
                                              P(ns, F_STR),
                                              P(uid, F_STR),
                                              P(attempt, F_U32),
                                              P(hostname, F_STR),
                                              P(log_directory, F_STR),
                                              P(dns_servers, F_STRS),
                                              P(dns_searches, F_STRS),
                                              P(dns_options, F_STRS),
                                              P(labels, F_MAP),
                                              P(annotations, F_MAP),
                                              P(sysctls, F_MAP),
                                              P(cgroup_parent, F_STR),
                                              PS(resources, F_SUB, resource_table),
                                              P(host_network, F_BOOL),
                                              P(host_pid, F_BOOL),
                                              P(host_ipc, F_BOOL),
                                              P(share_pid, F_BOOL),
                                              P(runtime_handler, F_STR)};
static const struct table sandbox_table = TABLE(sandbox_fields, struct bh_cri_sandbox_config);

#define SR(field, kind)                                                                            \
    {                                                                                              \
#field, kind, offsetof(struct bh_rt_sandbox_rec, field), NULL                              \
    }
#define SRS(field, kind, sub)                                                                      \
    {                                                                                              \
#field, kind, offsetof(struct bh_rt_sandbox_rec, field), &(sub)                            \
    }
static const struct field sandbox_rec_fields[] = {
    SR(id, F_STR),         SR(phase, F_INT),
    SR(created_ns, F_I64), SR(pid, F_I64),
    SR(pid_start, F_I64),  SR(boot_id, F_STR),
    SR(cgroup, F_STR),     SRS(config, F_SUB, sandbox_table)};
static const struct table sandbox_rec_table = TABLE(sandbox_rec_fields, struct bh_rt_sandbox_rec);

#define CR(field, kind)                                                                            \
    {                                                                                              \
#field, kind, offsetof(struct bh_rt_container_rec, field), NULL                            \
    }
#define CRS(field, kind, sub)                                                                      \
    {                                                                                              \
#field, kind, offsetof(struct bh_rt_container_rec, field), &(sub)                          \
    }
static const struct field container_rec_fields[] = {
    CR(id, F_STR),         CR(sandbox_id, F_STR), CR(phase, F_INT),
    CR(created_ns, F_I64), CR(started_ns, F_I64), CR(finished_ns, F_I64),
    CR(pid, F_I64),        CR(pid_start, F_I64),  CR(conmon_pid, F_I64),
    CR(boot_id, F_STR),    CR(exit_code, F_I64),  CR(reason, F_STR),
    CR(message, F_STR),    CR(image_id, F_STR),   CR(image_ref, F_STR),
    CR(log_path, F_STR),   CR(cgroup, F_STR),     CR(stop_signal, F_I64),
    CR(uid, F_I64),        CR(gid, F_I64),        CRS(config, F_SUB, container_table)};
static const struct table container_rec_table =
    TABLE(container_rec_fields, struct bh_rt_container_rec);

#define NEST_MAX 4 /* the tables nest three deep */

_Static_assert(sizeof(enum bh_rt_phase) == sizeof(int) &&
                   sizeof(enum bh_cri_propagation) == sizeof(int),
               "enums are stored as F_INT");

static struct bh_jv encode(struct bh_arena *a, const struct table *t, const char *base, int depth)
{
    struct bh_jv o = BH_JV_OBJ;

    bh_assert(depth < NEST_MAX);
    for (size_t i = 0; i < t->n; i++) {
        const struct field *f = &t->f[i];
        const char *at = base + f->at;
        struct bh_jv v = {0};

        switch (f->kind) {
        case F_STR: {
            const struct bh_str *s = (const void *)at;
            if (s->n > 0)
                v = bh_jv_str(*s);
            break;
        }
        case F_I64:
            v = bh_jv_i64(a, *(const int64_t *)(const void *)at);
            break;
        case F_U32:
            v = bh_jv_i64(a, *(const uint32_t *)(const void *)at);
            break;
        case F_INT:
            v = bh_jv_i64(a, *(const int *)(const void *)at);
            break;
        case F_BOOL:
            if (*(const bool *)at)
                v = bh_jv_bool(true);
            break;
        case F_STRS: {
            const struct bh_str_vec *s = (const void *)at;
            if (!s->p)
                break;
            v = BH_JV_ARR;
            for (size_t k = 0; k < s->n; k++)
                bh_jv_append(a, &v, bh_jv_str(s->p[k]));
            break;
        }
        case F_MAP: {
            const struct bh_str_map *m = (const void *)at;
            if (!m->p)
                break;
            v = BH_JV_OBJ;
            for (size_t k = 0; k < m->n; k++)
                bh_jv_set(a, &v, m->p[k].key, bh_jv_str(m->p[k].value));
            break;
        }
        case F_I64S: {
            const struct bh_cri_i64_vec *l = (const void *)at;
            v = BH_JV_ARR;
            for (size_t k = 0; k < l->n; k++)
                bh_jv_append(a, &v, bh_jv_i64(a, l->p[k]));
            break;
        }
        case F_ENVS: {
            const struct bh_cri_env_vec *e = (const void *)at;
            v = BH_JV_ARR;
            for (size_t k = 0; k < e->n; k++) {
                struct bh_jv pair = BH_JV_ARR;

                bh_jv_append(a, &pair, bh_jv_str(e->p[k].key));
                bh_jv_append(a, &pair, bh_jv_str(e->p[k].value));
                bh_jv_append(a, &v, pair);
            }
            break;
        }
        case F_SUB:
            v = encode(a, f->sub, at, depth + 1);
            break;
        case F_VEC: {
            const struct any_vec *vec = (const void *)at;
            v = BH_JV_ARR;
            for (size_t k = 0; k < vec->n; k++)
                bh_jv_append(a, &v,
                             encode(a, f->sub, (const char *)vec->p + k * f->sub->size, depth + 1));
            break;
        }
        }
        if (v.kind != BH_JSON_NONE)
            bh_jv_setc(a, &o, f->name, v);
    }
    return o;
}

static int wrong(const struct field *f, struct bh_err *err)
{
    return bh_err_set(err, BH_E_INVALID, "record: field \"%s\" is malformed", f->name);
}

static int decode_list(struct bh_arena *a, const struct field *f, const struct bh_jv *v, char *at,
                       struct bh_err *err)
{
    size_t n = f->kind == F_MAP ? v->n_members : v->n_items;

    if (v->kind != (f->kind == F_MAP ? BH_JSON_OBJ : BH_JSON_ARR))
        return wrong(f, err);
    if (f->kind == F_MAP) {
        struct bh_str_map *m = (void *)at;

        m->p = bh_new_n(a, struct bh_str_pair, n + 1);
        for (size_t k = 0; k < n; k++) {
            if (v->members[k].v.kind != BH_JSON_STR)
                return wrong(f, err);
            bh_str_map_put(a, m, bh_str_dup(a, v->members[k].key),
                           bh_str_dup(a, v->members[k].v.s));
        }
        return 0;
    }
    if (f->kind == F_STRS) {
        struct bh_str_vec *s = (void *)at;

        s->p = bh_new_n(a, struct bh_str, n + 1);
        for (size_t k = 0; k < n; k++) {
            if (v->items[k].kind != BH_JSON_STR)
                return wrong(f, err);
            s->p[s->n++] = bh_str_dup(a, v->items[k].s);
        }
        return 0;
    }
    if (f->kind == F_I64S) {
        struct bh_cri_i64_vec *l = (void *)at;

        l->p = bh_new_n(a, int64_t, n + 1);
        for (size_t k = 0; k < n; k++)
            if (v->items[k].kind != BH_JSON_NUM || !bh_json_num_i64(v->items[k].s, &l->p[l->n++]))
                return wrong(f, err);
        return 0;
    }
    struct bh_cri_env_vec *e = (void *)at;
    e->p = bh_new_n(a, struct bh_cri_env, n + 1);
    for (size_t k = 0; k < n; k++) {
        const struct bh_jv *key = bh_jv_at(&v->items[k], 0), *val = bh_jv_at(&v->items[k], 1);

        if (!key || !val || key->kind != BH_JSON_STR || val->kind != BH_JSON_STR)
            return wrong(f, err);
        e->p[e->n++] = (struct bh_cri_env){bh_str_dup(a, key->s), bh_str_dup(a, val->s)};
    }
    return 0;
}

static int decode(struct bh_arena *a, const struct table *t, const struct bh_jv *o, char *base,
                  int depth, struct bh_err *err)
{
    bh_assert(depth < NEST_MAX);
    if (o->kind != BH_JSON_OBJ)
        return bh_err_set(err, BH_E_INVALID, "record: expected an object");
    for (size_t i = 0; i < t->n; i++) {
        const struct field *f = &t->f[i];
        const struct bh_jv *v = bh_jv_getc(o, f->name);
        char *at = base + f->at;
        int64_t n = 0;
        int r = 0;

        if (!v)
            continue;
        if ((f->kind == F_I64 || f->kind == F_U32 || f->kind == F_INT) &&
            (v->kind != BH_JSON_NUM || !bh_json_num_i64(v->s, &n) ||
             (f->kind == F_INT && (n < INT32_MIN || n > INT32_MAX)) ||
             (f->kind == F_U32 && (n < 0 || n > UINT32_MAX))))
            return wrong(f, err);
        switch (f->kind) {
        case F_STR:
            if (v->kind != BH_JSON_STR)
                return wrong(f, err);
            *(struct bh_str *)(void *)at = bh_str_dup(a, v->s);
            break;
        case F_I64:
            *(int64_t *)(void *)at = n;
            break;
        case F_U32:
            *(uint32_t *)(void *)at = (uint32_t)n;
            break;
        case F_INT:
            *(int *)(void *)at = (int)n;
            break;
        case F_BOOL:
            if (v->kind != BH_JSON_BOOL)
                return wrong(f, err);
            *(bool *)at = v->b;
            break;
        case F_SUB:
            r = decode(a, f->sub, v, at, depth + 1, err);
            break;
        case F_VEC: {
            struct any_vec *vec = (void *)at;

            if (v->kind != BH_JSON_ARR)
                return wrong(f, err);
            vec->p = bh_arena_alloc_n(a, v->n_items + 1, f->sub->size);
            for (; r == 0 && vec->n < v->n_items; vec->n++)
                r = decode(a, f->sub, &v->items[vec->n], (char *)vec->p + vec->n * f->sub->size,
                           depth + 1, err);
            break;
        }
        default:
            r = decode_list(a, f, v, at, err);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

struct bh_str bh_rt_sandbox_encode(struct bh_arena *a, const struct bh_rt_sandbox_rec *r)
{
    struct bh_jv v = encode(a, &sandbox_rec_table, (const char *)r, 0);

    return bh_jv_text(a, &v, BH_JSON_PLAIN);
}

struct bh_str bh_rt_container_encode(struct bh_arena *a, const struct bh_rt_container_rec *r)
{
    struct bh_jv v = encode(a, &container_rec_table, (const char *)r, 0);

    return bh_jv_text(a, &v, BH_JSON_PLAIN);
}

static bool id_ok(struct bh_str s)
{
    if (s.n != 64)
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
            return false;
    return true;
}

int bh_rt_sandbox_decode(struct bh_arena *a, struct bh_str text, struct bh_rt_sandbox_rec *ret,
                         struct bh_err *err)
{
    struct bh_jv v;
    int r = bh_jv_parse(a, text, NULL, &v, err);

    memset(ret, 0, sizeof(*ret));
    if (r == 0)
        r = decode(a, &sandbox_rec_table, &v, (char *)ret, 0, err);
    if (r == 0 && (!id_ok(ret->id) || ret->phase > BH_RT_REMOVING || ret->cgroup.n < 2 ||
                   ret->cgroup.p[0] != '/'))
        r = bh_err_set(err, BH_E_INVALID, "record: incomplete");
    return r;
}

int bh_rt_container_decode(struct bh_arena *a, struct bh_str text, struct bh_rt_container_rec *ret,
                           struct bh_err *err)
{
    struct bh_jv v;
    int r = bh_jv_parse(a, text, NULL, &v, err);

    memset(ret, 0, sizeof(*ret));
    if (r == 0)
        r = decode(a, &container_rec_table, &v, (char *)ret, 0, err);
    if (r == 0 && (!id_ok(ret->id) || !id_ok(ret->sandbox_id) || ret->phase > BH_RT_REMOVING ||
                   ret->cgroup.n < 2 || ret->cgroup.p[0] != '/'))
        r = bh_err_set(err, BH_E_INVALID, "record: incomplete");
    return r;
}
