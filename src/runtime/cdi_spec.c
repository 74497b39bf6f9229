/* Parsing and checking one CDI spec document. */
#include "base/buf.h"
#include "base/limits.h"
#include "data/names.h"
#include "data/yaml.h"
#include "runtime/cdi.h"

#include <string.h>

/* Known versions, in order; the first two are below the earliest one that any document may need. */
static const char *const versions[] = {"0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0",
                                       "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"};
enum { V030 = 2, V040, V050, V060, V070, V080, V100, V110 };

struct check {
    struct bh_arena *a;
    int need; /* index of the lowest version that has every feature used */
    struct bh_err *err;
};

static void need(struct check *c, int v)
{
    if (v > c->need)
        c->need = v;
}

static bool alpha(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z');
}
static bool digit(char ch)
{
    return ch >= '0' && ch <= '9';
}

static bool name_ok(struct bh_str s, bool device)
{
    if (s.n == 0 || !(alpha(s.p[0]) || (device && digit(s.p[0]))) ||
        !(alpha(s.p[s.n - 1]) || digit(s.p[s.n - 1])))
        return false;
    for (size_t i = 1; i + 1 < s.n; i++) {
        char ch = s.p[i];

        if (!alpha(ch) && !digit(ch) && ch != '-' && ch != '_' && ch != '.' &&
            !(device && ch == ':'))
            return false;
    }
    return true;
}

static bool kind_ok(struct bh_str kind)
{
    ptrdiff_t slash = bh_str_chr(kind, '/', 0);

    return slash > 0 && name_ok(bh_str_sub(kind, 0, (size_t)slash), false) &&
           name_ok(bh_str_sub(kind, (size_t)slash + 1, kind.n), false);
}

bool bh_cdi_is_qualified(struct bh_str s)
{
    ptrdiff_t eq = bh_str_chr(s, '=', 0);

    return s.n > 0 && s.p[0] != '/' && eq > 0 && kind_ok(bh_str_sub(s, 0, (size_t)eq)) &&
           name_ok(bh_str_sub(s, (size_t)eq + 1, s.n), true);
}

/* The keys of an object, each with its JSON kind: "name:s" string, n integer, b bool, a array, o
 * object. */
static int check_keys(struct check *c, const struct bh_jv *o, const char *what,
                      const char *const *keys)
{
    if (o->kind != BH_JSON_OBJ)
        return bh_err_set(c->err, BH_E_INVALID, "%s: expected an object, got %s", what,
                          bh_json_kind_name(o->kind));
    for (size_t i = 0; i < o->n_members; i++) {
        const struct bh_jv_member *m = &o->members[i];
        const char *const *k = keys;
        struct bh_str name = {NULL, 0};

        for (; *k; k++) {
            name = bh_str_sub(bh_s(*k), 0, strlen(*k) - 2);
            if (bh_str_eq(name, m->key))
                break;
        }
        if (!*k)
            return bh_err_set(c->err, BH_E_INVALID, "%s: unknown field \"%.*s\"", what,
                              BH_SF(m->key));
        char t = (*k)[strlen(*k) - 1];
        int want = t == 's'   ? BH_JSON_STR
                   : t == 'n' ? BH_JSON_NUM
                   : t == 'b' ? BH_JSON_BOOL
                   : t == 'a' ? BH_JSON_ARR
                              : BH_JSON_OBJ;
        if (m->v.kind == BH_JSON_NULL)
            continue;
        if (m->v.kind != want || (t == 'n' && !bh_jv_is_int(&m->v)))
            return bh_err_set(c->err, BH_E_INVALID, "%s: field \"%.*s\" is no valid %s", what,
                              BH_SF(m->key),
                              t == 'n' ? "integer" : bh_json_kind_name((enum bh_json_kind)want));
    }
    return 0;
}

static int strings_only(struct check *c, const struct bh_jv *arr, const char *what)
{
    for (size_t i = 0; arr && arr->kind == BH_JSON_ARR && i < arr->n_items; i++)
        if (arr->items[i].kind != BH_JSON_STR)
            return bh_err_set(c->err, BH_E_INVALID, "%s: a list element is no string", what);
    return 0;
}

static size_t count(const struct bh_jv *arr)
{
    return arr && arr->kind == BH_JSON_ARR ? arr->n_items : 0;
}

static int check_env(struct check *c, const struct bh_jv *env)
{
    int r = strings_only(c, env, "env");

    for (size_t i = 0; r == 0 && i < count(env); i++)
        if (bh_str_chr(env->items[i].s, '=', 0) <= 0)
            return bh_err_set(c->err, BH_E_INVALID, "invalid environment variable \"%.*s\"",
                              BH_SF(env->items[i].s));
    return r;
}

static int check_device_nodes(struct check *c, const struct bh_jv *list)
{
    static const char *const keys[] = {"path:s",  "hostPath:s", "type:s",        "major:n",
                                       "minor:n", "fileMode:n", "permissions:s", "uid:n",
                                       "gid:n",   NULL};
    static const char *const types[] = {"", "b", "c", "u", "p"};

    for (size_t i = 0; i < count(list); i++) {
        const struct bh_jv *d = &list->items[i];
        int r = check_keys(c, d, "deviceNodes", keys);

        if (r < 0)
            return r;
        struct bh_str path = bh_jv_get_str(d, "path"), type = bh_jv_get_str(d, "type"),
                      perm = bh_jv_get_str(d, "permissions");
        bool type_ok = false;
        if (path.n == 0)
            return bh_err_set(c->err, BH_E_INVALID, "invalid (empty) device path");
        for (size_t k = 0; k < BH_COUNT(types); k++)
            type_ok = type_ok || bh_str_eqc(type, types[k]);
        if (!type_ok)
            return bh_err_set(c->err, BH_E_INVALID, "device \"%.*s\": invalid type \"%.*s\"",
                              BH_SF(path), BH_SF(type));
        for (size_t k = 0; k < perm.n && !bh_str_eqc(perm, "none"); k++)
            if (perm.p[k] != 'r' && perm.p[k] != 'w' && perm.p[k] != 'm')
                return bh_err_set(c->err, BH_E_INVALID,
                                  "device \"%.*s\": invalid permissions \"%.*s\"", BH_SF(path),
                                  BH_SF(perm));
        if (bh_jv_get_str(d, "hostPath").n > 0)
            need(c, V050);
    }
    return 0;
}

static int check_net_devices(struct check *c, const struct bh_jv *list)
{
    static const char *const keys[] = {"hostInterfaceName:s", "name:s", NULL};

    if (count(list) > 0)
        need(c, V110);
    for (size_t i = 0; i < count(list); i++) {
        const struct bh_jv *d = &list->items[i];
        int r = check_keys(c, d, "netDevices", keys);

        if (r < 0)
            return r;
        for (size_t k = 0; keys[k]; k++) {
            const char *key = k == 0 ? "hostInterfaceName" : "name";
            struct bh_str v = bh_jv_get_str(d, key);

            if (v.n == 0)
                return bh_err_set(c->err, BH_E_INVALID, "invalid network device, empty %s", key);
            for (size_t j = 0; j < i; j++)
                if (bh_str_eq(v, bh_jv_get_str(&list->items[j], key)))
                    return bh_err_set(c->err, BH_E_INVALID,
                                      "invalid network device, duplicate %s \"%.*s\"", key,
                                      BH_SF(v));
        }
    }
    return 0;
}

static int check_hooks(struct check *c, const struct bh_jv *list)
{
    static const char *const keys[] = {"hookName:s", "path:s",    "args:a",
                                       "env:a",      "timeout:n", NULL};
    static const char *const names[] = {"prestart",       "createRuntime", "createContainer",
                                        "startContainer", "poststart",     "poststop"};

    for (size_t i = 0; i < count(list); i++) {
        const struct bh_jv *h = &list->items[i];
        int r = check_keys(c, h, "hooks", keys);

        if (r == 0)
            r = strings_only(c, bh_jv_getc(h, "args"), "hook args");
        if (r == 0)
            r = check_env(c, bh_jv_getc(h, "env"));
        if (r < 0)
            return r;
        bool ok = false;
        for (size_t k = 0; k < BH_COUNT(names); k++)
            ok = ok || bh_str_eqc(bh_jv_get_str(h, "hookName"), names[k]);
        if (!ok)
            return bh_err_set(c->err, BH_E_INVALID, "invalid hook name \"%.*s\"",
                              BH_SF(bh_jv_get_str(h, "hookName")));
        if (bh_jv_get_str(h, "path").n == 0)
            return bh_err_set(c->err, BH_E_INVALID, "invalid hook with empty path");
    }
    return 0;
}

static int check_mounts(struct check *c, const struct bh_jv *list)
{
    static const char *const keys[] = {"hostPath:s", "containerPath:s", "type:s", "options:a",
                                       NULL};

    for (size_t i = 0; i < count(list); i++) {
        const struct bh_jv *m = &list->items[i];
        int r = check_keys(c, m, "mounts", keys);

        if (r == 0)
            r = strings_only(c, bh_jv_getc(m, "options"), "mount options");
        if (r < 0)
            return r;
        if (bh_jv_get_str(m, "hostPath").n == 0)
            return bh_err_set(c->err, BH_E_INVALID, "invalid mount, empty host path");
        if (bh_jv_get_str(m, "containerPath").n == 0)
            return bh_err_set(c->err, BH_E_INVALID, "invalid mount, empty container path");
        if (bh_jv_get_str(m, "type").n > 0)
            need(c, V040);
    }
    return 0;
}

static int check_rdt(struct check *c, const struct bh_jv *rdt)
{
    static const char *const keys[] = {"closID:s",   "l3CacheSchema:s",    "memBwSchema:s",
                                       "schemata:a", "enableMonitoring:b", NULL};

    if (!rdt || rdt->kind != BH_JSON_OBJ)
        return 0;
    need(c, V070);
    int r = check_keys(c, rdt, "intelRdt", keys);
    if (r == 0)
        r = strings_only(c, bh_jv_getc(rdt, "schemata"), "intelRdt schemata");
    if (r < 0)
        return r;
    if (count(bh_jv_getc(rdt, "schemata")) > 0 || bh_jv_getc(rdt, "enableMonitoring"))
        need(c, V110);
    struct bh_str id = bh_jv_get_str(rdt, "closID");
    if (!bh_str_eqc(id, "/") && (id.n >= 4096 || bh_str_eqc(id, ".") || bh_str_eqc(id, "..") ||
                                 bh_str_chr(id, '/', 0) >= 0 || bh_str_chr(id, '\n', 0) >= 0))
        return bh_err_set(c->err, BH_E_INVALID, "invalid closID");
    return 0;
}

/* Returns 1 when the edits do something. */
static int check_edits(struct check *c, const struct bh_jv *e)
{
    static const char *const keys[] = {"env:a",    "deviceNodes:a", "netDevices:a",     "hooks:a",
                                       "mounts:a", "intelRdt:o",    "additionalGids:a", NULL};
    int r;

    if (!e || e->kind == BH_JSON_NULL)
        return 0;
    r = check_keys(c, e, "containerEdits", keys);
    if (r == 0)
        r = check_env(c, bh_jv_getc(e, "env"));
    if (r == 0)
        r = check_device_nodes(c, bh_jv_getc(e, "deviceNodes"));
    if (r == 0)
        r = check_net_devices(c, bh_jv_getc(e, "netDevices"));
    if (r == 0)
        r = check_hooks(c, bh_jv_getc(e, "hooks"));
    if (r == 0)
        r = check_mounts(c, bh_jv_getc(e, "mounts"));
    if (r == 0)
        r = check_rdt(c, bh_jv_getc(e, "intelRdt"));
    if (r < 0)
        return r;
    const struct bh_jv *gids = bh_jv_getc(e, "additionalGids"), *rdt = bh_jv_getc(e, "intelRdt");
    if (count(gids) > 0)
        need(c, V070);
    for (size_t i = 0; i < count(gids); i++) {
        int64_t v;

        if (gids->items[i].kind != BH_JSON_NUM || !bh_json_num_i64(gids->items[i].s, &v) || v < 0 ||
            v > UINT32_MAX)
            return bh_err_set(c->err, BH_E_INVALID, "additionalGids: not a group id");
    }
    return count(bh_jv_getc(e, "env")) + count(bh_jv_getc(e, "deviceNodes")) +
                           count(bh_jv_getc(e, "netDevices")) + count(bh_jv_getc(e, "hooks")) +
                           count(bh_jv_getc(e, "mounts")) + count(gids) >
                       0 ||
                   (rdt && rdt->kind == BH_JSON_OBJ)
               ? 1
               : 0;
}

static int check_annotations(struct check *c, const struct bh_jv *ann)
{
    size_t total = 0;

    if (!ann || ann->kind != BH_JSON_OBJ)
        return 0;
    if (ann->n_members > 0)
        need(c, V060);
    for (size_t i = 0; i < ann->n_members; i++) {
        const struct bh_jv_member *m = &ann->members[i];
        char buf[BH_NAMES_BUF];
        struct bh_str lower = bh_str_dup(c->a, m->key);
        char *p = bh_arena_memdup(c->a, lower.p, lower.n + 1);

        for (size_t k = 0; k < lower.n; k++)
            if (p[k] >= 'A' && p[k] <= 'Z')
                p[k] = (char)(p[k] - 'A' + 'a');
        lower.p = p;
        const char *why = bh_check_qualified_name(lower, buf);
        if (why)
            return bh_err_set(c->err, BH_E_INVALID, "annotation \"%.*s\": %s", BH_SF(m->key), why);
        if (m->v.kind != BH_JSON_STR)
            return bh_err_set(c->err, BH_E_INVALID, "annotation \"%.*s\" is no string",
                              BH_SF(m->key));
        total += m->key.n + m->v.s.n;
    }
    if (total > (256u << 10))
        return bh_err_set(c->err, BH_E_INVALID, "annotations are larger than 256 KiB");
    return 0;
}

static int check_devices(struct check *c, const struct bh_jv *list)
{
    static const char *const keys[] = {"name:s", "annotations:o", "containerEdits:o", NULL};

    if (count(list) == 0)
        return bh_err_set(c->err, BH_E_INVALID, "invalid spec, no devices");
    for (size_t i = 0; i < count(list); i++) {
        const struct bh_jv *d = &list->items[i];
        int r = check_keys(c, d, "devices", keys);

        if (r == 0)
            r = check_annotations(c, bh_jv_getc(d, "annotations"));
        if (r < 0)
            return r;
        struct bh_str name = bh_jv_get_str(d, "name");
        if (!name_ok(name, true))
            return bh_err_set(c->err, BH_E_INVALID, "invalid device name \"%.*s\"", BH_SF(name));
        if (digit(name.p[0]))
            need(c, V050);
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(name, bh_jv_get_str(&list->items[k], "name")))
                return bh_err_set(c->err, BH_E_INVALID, "invalid spec, multiple device \"%.*s\"",
                                  BH_SF(name));
        r = check_edits(c, bh_jv_getc(d, "containerEdits"));
        if (r == 0)
            return bh_err_set(c->err, BH_E_INVALID, "invalid device, empty device edits");
        if (r < 0)
            return bh_err_wrap(c->err, "device \"%.*s\"", BH_SF(name));
    }
    return 0;
}

static int check_spec(struct check *c, const struct bh_jv *v)
{
    static const char *const keys[] = {"cdiVersion:s", "kind:s",           "annotations:o",
                                       "devices:a",    "containerEdits:o", NULL};
    struct bh_str version = bh_jv_get_str(v, "cdiVersion"), kind = bh_jv_get_str(v, "kind");
    int have = -1;
    int r = check_keys(c, v, "spec", keys);

    if (r < 0)
        return r;
    struct bh_str bare =
        bh_str_starts(version, BH_S("v")) ? bh_str_sub(version, 1, version.n) : version;
    for (size_t i = 0; i < BH_COUNT(versions); i++)
        if (bh_str_eqc(bare, versions[i]))
            have = (int)i;
    if (have < 0)
        return bh_err_set(c->err, BH_E_INVALID, "invalid version \"%.*s\"", BH_SF(version));
    if (!kind_ok(kind))
        return bh_err_set(c->err, BH_E_INVALID, "invalid kind \"%.*s\"", BH_SF(kind));
    if (bh_str_chr(kind, '.', (size_t)bh_str_chr(kind, '/', 0)) >= 0)
        need(c, V060);
    r = check_annotations(c, bh_jv_getc(v, "annotations"));
    if (r == 0)
        r = check_edits(c, bh_jv_getc(v, "containerEdits"));
    if (r >= 0)
        r = check_devices(c, bh_jv_getc(v, "devices"));
    if (r < 0)
        return r;
    if (have < c->need)
        return bh_err_set(c->err, BH_E_INVALID, "the spec version must be at least v%s",
                          versions[c->need]);
    return 0;
}

int bh_cdi_parse_spec(struct bh_arena *a, struct bh_str text, bool yaml, struct bh_jv *ret,
                      struct bh_err *err)
{
    struct check c = {.a = a, .need = V030, .err = err};
    struct bh_yaml_dups ydups = {{NULL, 0}};
    struct bh_json_dups jdups = {{NULL, 0}};
    int r =
        yaml ? bh_yaml_parse(a, text, &ydups, ret, err) : bh_jv_parse(a, text, &jdups, ret, err);

    if (r < 0)
        return r;
    if (ydups.lines.n > 0)
        return bh_err_set(err, BH_E_INVALID, "%.*s", BH_SF(ydups.lines.p[0]));
    if (jdups.paths.n > 0)
        return bh_err_set(err, BH_E_INVALID, "duplicate field \"%.*s\"", BH_SF(jdups.paths.p[0]));
    return check_spec(&c, ret);
}
