#include "runtime/cdi.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/map.h"
#include "runtime/runtime.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

struct spec_file {
    struct bh_str path;
    int prio;
    struct bh_jv doc;
};

struct device {
    struct bh_str name; /* qualified */
    struct spec_file *file;
    const struct bh_jv *edits;
    bool conflict; /* void: in two files of one priority */
};

struct bh_cdi {
    struct bh_arena *a;
    struct device **dev;
    size_t n, cap;
    struct bh_str *errors;
    size_t n_errors, cap_errors;
    struct bh_map by_name;
};

static void note(struct bh_cdi *c, struct bh_str path, const char *why)
{
    if (c->n_errors == c->cap_errors)
        bh_arena_grow(c->a, &c->errors, &c->cap_errors, c->n_errors + 1, sizeof(*c->errors));
    c->errors[c->n_errors++] = bh_str_fmt(c->a, "%.*s: %s", BH_SF(path), why);
}

static void add_device(struct bh_cdi *c, struct spec_file *f, const struct bh_jv *dev)
{
    struct bh_str name = bh_str_fmt(c->a, "%.*s=%.*s", BH_SF(bh_jv_get_str(&f->doc, "kind")),
                                    BH_SF(bh_jv_get_str(dev, "name")));
    struct device *d = bh_map_get(&c->by_name, name);

    if (!d) {
        d = bh_new(c->a, struct device);
        d->name = name;
        if (c->n == c->cap)
            bh_arena_grow(c->a, &c->dev, &c->cap, c->n + 1, sizeof(*c->dev));
        c->dev[c->n++] = d;
        (void)bh_map_put(&c->by_name, name, d);
    } else if (d->file->prio == f->prio) {
        struct bh_str why = bh_str_fmt(c->a, "conflicting device \"%.*s\"", BH_SF(name));

        note(c, f->path, why.p);
        note(c, d->file->path, why.p);
        d->conflict = true;
        return;
    }
    d->file = f;
    d->edits = bh_jv_getc(dev, "containerEdits");
    d->conflict = false;
}

static void load_file(struct bh_cdi *c, const char *path, int prio, bool yaml)
{
    struct spec_file *f = bh_new(c->a, struct spec_file);
    BH_AUTO_BUF b = {.max = BH_CDI_FILE_MAX};
    struct bh_err e = {0};
    int r;

    f->path = bh_str_dup(c->a, bh_s(path));
    f->prio = prio;
    r = bh_fs_read(path, b.max, &b, &e);
    if (r == 0)
        r = bh_cdi_parse_spec(c->a, bh_str_dup(c->a, bh_buf_str(&b)), yaml, &f->doc, &e);
    if (r < 0) {
        note(c, f->path, e.msg);
        return;
    }
    const struct bh_jv *devs = bh_jv_getc(&f->doc, "devices");
    for (size_t i = 0; i < devs->n_items; i++)
        add_device(c, f, &devs->items[i]);
}

static int by_text(const void *a, const void *b)
{
    return bh_str_cmp(*(const struct bh_str *)a, *(const struct bh_str *)b);
}

static int load_dir(struct bh_cdi *c, const char *dir, int prio, struct bh_err *err)
{
    DIR *d = opendir(dir);
    struct bh_str *names = NULL;
    size_t n = 0, cap = 0;
    struct stat st;

    if (!d)
        return errno == ENOENT ? 0 : bh_err_sys(err, errno, "open '%s'", dir);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        struct bh_str s = bh_s(e->d_name);

        if (!bh_str_ends(s, BH_S(".json")) && !bh_str_ends(s, BH_S(".yaml")))
            continue;
        if (n == BH_CDI_FILES_MAX) {
            closedir(d);
            return bh_err_set(err, BH_E_LIMIT, "'%s' holds more than %d CDI files", dir,
                              BH_CDI_FILES_MAX);
        }
        if (n == cap)
            bh_arena_grow(c->a, &names, &cap, n + 1, sizeof(*names));
        names[n++] = bh_str_dup(c->a, s);
    }
    closedir(d);
    if (n > 0)
        qsort(names, n, sizeof(*names), by_text);
    for (size_t i = 0; i < n; i++) {
        char path[PATH_MAX];
        int r = bh_path(path, sizeof(path), err, "%s/%.*s", dir, BH_SF(names[i]));

        if (r < 0)
            return r;
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
            load_file(c, path, prio, bh_str_ends(names[i], BH_S(".yaml")));
    }
    return 0;
}

static void drop_map(void *arg)
{
    bh_map_done(&((struct bh_cdi *)arg)->by_name);
}

int bh_cdi_load(struct bh_arena *a, const char *const *dirs, struct bh_cdi **ret,
                struct bh_err *err)
{
    struct bh_cdi *c = bh_new(a, struct bh_cdi);

    c->a = a;
    bh_arena_on_reset(a, drop_map, c);
    for (int i = 0; dirs && dirs[i]; i++) {
        int r = load_dir(c, dirs[i], i, err);

        if (r < 0)
            return r;
    }
    *ret = c;
    return 0;
}

struct bh_str_vec bh_cdi_errors(const struct bh_cdi *c)
{
    return (struct bh_str_vec){c->errors, c->n_errors};
}

static const struct device *find(const struct bh_cdi *c, struct bh_str name)
{
    const struct device *d = bh_map_get(&c->by_name, name);

    return d && !d->conflict ? d : NULL;
}

bool bh_cdi_has(const struct bh_cdi *c, struct bh_str qualified)
{
    return find(c, qualified) != NULL;
}

/* ---- merging ---- */

struct merge {
    struct bh_arena *a;
    struct bh_jv *spec;
    struct bh_err *err;
};

/* The member of o, made as an empty array or object when it is not there. */
static struct bh_jv *sub(struct bh_arena *a, struct bh_jv *o, const char *key, struct bh_jv empty)
{
    struct bh_jv *v = bh_jv_getc(o, key);

    return v && v->kind == empty.kind ? v : bh_jv_setc(a, o, key, empty);
}

static size_t count(const struct bh_jv *arr)
{
    return arr && arr->kind == BH_JSON_ARR ? arr->n_items : 0;
}

static void merge_env(struct merge *m, const struct bh_jv *env)
{
    for (size_t i = 0; i < count(env); i++) {
        struct bh_jv *have = sub(m->a, sub(m->a, m->spec, "process", BH_JV_OBJ), "env", BH_JV_ARR);
        struct bh_str kv = env->items[i].s,
                      key = bh_str_sub(kv, 0, (size_t)bh_str_chr(kv, '=', 0) + 1);
        bool done = false;

        for (size_t k = 0; k < have->n_items && !done; k++)
            if (have->items[k].kind == BH_JSON_STR && bh_str_starts(have->items[k].s, key)) {
                have->items[k].s = kv;
                done = true;
            }
        if (!done)
            bh_jv_append(m->a, have, bh_jv_str(kv));
    }
}

static int host_device(struct merge *m, const char *path, bool full, struct bh_str *type,
                       int64_t *major_n, int64_t *minor_n, int64_t *mode)
{
    struct stat st;
    const char *t = NULL;

    if (lstat(path, &st) < 0)
        return full ? 0 : bh_err_sys(m->err, errno, "failed to stat CDI host device \"%s\"", path);
    if (full) {
        if (*mode < 0)
            *mode = st.st_mode & 07777;
        return 0;
    }
    t = S_ISCHR(st.st_mode) ? "c" : S_ISBLK(st.st_mode) ? "b" : S_ISFIFO(st.st_mode) ? "p" : NULL;
    if (!t)
        return bh_err_set(m->err, BH_E_INVALID,
                          "failed to stat CDI host device \"%s\": not a device node", path);
    if (type->n > 0 && !bh_str_eqc(*type, t) && !(bh_str_eqc(*type, "u") && *t == 'c'))
        return bh_err_set(m->err, BH_E_INVALID,
                          "CDI device (\"%s\"), host type mismatch (%.*s, %s)", path, BH_SF(*type),
                          t);
    *type = bh_s(t);
    if (*t != 'p') {
        *major_n = major(st.st_rdev);
        *minor_n = minor(st.st_rdev);
    }
    if (*mode < 0)
        *mode = st.st_mode & 07777;
    return 0;
}

static void remove_by(struct bh_jv *arr, const char *key, struct bh_str value)
{
    for (size_t i = arr->n_items; i > 0; i--)
        if (bh_str_eq(bh_jv_get_str(&arr->items[i - 1], key), value))
            bh_jv_remove(arr, i - 1);
}

static int merge_device_node(struct merge *m, const struct bh_jv *d)
{
    struct bh_jv *lin = sub(m->a, m->spec, "linux", BH_JV_OBJ), dev = BH_JV_OBJ;
    struct bh_str path = bh_jv_get_str(d, "path"), host = bh_jv_get_str(d, "hostPath"),
                  type = bh_jv_get_str(d, "type"), perm = bh_jv_get_str(d, "permissions");
    int64_t maj = 0, min = 0, mode = -1, id;
    static const char *const ids[] = {"uid", "gid"};

    (void)bh_jv_get_i64(d, "major", &maj);
    (void)bh_jv_get_i64(d, "minor", &min);
    (void)bh_jv_get_i64(d, "fileMode", &mode);
    bool full = type.n > 0 && (maj != 0 || bh_str_eqc(type, "p"));
    struct bh_str at = bh_str_dup(m->a, host.n > 0 ? host : path);
    int r = host_device(m, at.p, full, &type, &maj, &min, &mode);
    if (r < 0)
        return r;
    bh_jv_setc(m->a, &dev, "path", bh_jv_str(path));
    bh_jv_setc(m->a, &dev, "type", bh_jv_str(type));
    if (!bh_str_eqc(type, "p")) {
        bh_jv_setc(m->a, &dev, "major", bh_jv_i64(m->a, maj));
        bh_jv_setc(m->a, &dev, "minor", bh_jv_i64(m->a, min));
    }
    if (mode >= 0)
        bh_jv_setc(m->a, &dev, "fileMode", bh_jv_i64(m->a, mode));
    for (size_t i = 0; i < BH_COUNT(ids); i++) {
        if (bh_jv_get_i64(d, ids[i], &id))
            bh_jv_setc(m->a, &dev, ids[i], bh_jv_i64(m->a, id));
        else if (bh_jv_get_i64(bh_jv_path(m->spec, "process.user"), ids[i], &id) && id > 0)
            bh_jv_setc(m->a, &dev, ids[i], bh_jv_i64(m->a, id));
    }
    struct bh_jv *list = sub(m->a, lin, "devices", BH_JV_ARR);
    remove_by(list, "path", path);
    bh_jv_append(m->a, list, dev);
    if (bh_str_eqc(type, "b") || bh_str_eqc(type, "c") || bh_str_eqc(type, "u")) {
        struct bh_jv *rules =
                         sub(m->a, sub(m->a, lin, "resources", BH_JV_OBJ), "devices", BH_JV_ARR),
                     rule = BH_JV_OBJ;

        bh_jv_setc(m->a, &rule, "allow", bh_jv_bool(true));
        bh_jv_setc(m->a, &rule, "type", bh_jv_str(bh_str_eqc(type, "b") ? BH_S("b") : BH_S("c")));
        bh_jv_setc(m->a, &rule, "major", bh_jv_i64(m->a, maj));
        bh_jv_setc(m->a, &rule, "minor", bh_jv_i64(m->a, min));
        bh_jv_setc(m->a, &rule, "access",
                   bh_jv_str(perm.n == 0                ? BH_S("rwm")
                             : bh_str_eqc(perm, "none") ? BH_S("")
                                                        : perm));
        bh_jv_append(m->a, rules, rule);
    }
    return 0;
}

static bool in_user_ns(const struct merge *m)
{
    const struct bh_jv *ns = bh_jv_path(m->spec, "linux.namespaces");

    for (size_t i = 0; i < count(ns); i++)
        if (bh_str_eqc(bh_jv_get_str(&ns->items[i], "type"), "user"))
            return true;
    return false;
}

static void merge_mount(struct merge *m, const struct bh_jv *src)
{
    struct bh_jv *list = sub(m->a, m->spec, "mounts", BH_JV_ARR), mnt = BH_JV_OBJ, opts = BH_JV_ARR;
    const struct bh_jv *given = bh_jv_getc(src, "options");
    struct bh_str type = bh_jv_get_str(src, "type"), dst = bh_jv_get_str(src, "containerPath");
    bool bind = bh_str_eqc(type, "bind"), rbind = false, mapped = false;

    for (size_t i = 0; i < count(given); i++) {
        struct bh_str o = given->items[i].s;

        bind = bind || bh_str_eqc(o, "bind");
        rbind = rbind || bh_str_eqc(o, "rbind");
        mapped = mapped || bh_str_eqc(o, "idmap") || bh_str_eqc(o, "ridmap");
        bh_jv_append(m->a, &opts, bh_jv_str(o));
    }
    if ((bind || rbind) && !mapped && in_user_ns(m))
        bh_jv_append(m->a, &opts, bh_jv_str(rbind ? BH_S("ridmap") : BH_S("idmap")));
    remove_by(list, "destination", dst);
    bh_jv_setc(m->a, &mnt, "destination", bh_jv_str(dst));
    if (type.n > 0)
        bh_jv_setc(m->a, &mnt, "type", bh_jv_str(type));
    bh_jv_setc(m->a, &mnt, "source", bh_jv_str(bh_jv_get_str(src, "hostPath")));
    bh_jv_setc(m->a, &mnt, "options", opts);
    bh_jv_append(m->a, list, mnt);
}

/* Components of a path, as if cleaned. */
static size_t depth_of(struct bh_str path)
{
    size_t n = 0;

    while (path.p) {
        struct bh_str part = bh_str_cut(&path, '/');

        if (bh_str_eqc(part, "..")) {
            n -= n > 0;
            continue;
        }
        n += part.n > 0 && !bh_str_eqc(part, ".");
    }
    return n;
}

/* Parents before what is mounted below them; a stable insertion sort, lists are short. */
static void sort_mounts(struct merge *m)
{
    struct bh_jv *list = bh_jv_getc(m->spec, "mounts");

    for (size_t i = 1; i < count(list); i++) {
        struct bh_jv v = list->items[i];
        size_t d = depth_of(bh_jv_get_str(&v, "destination")), k = i;

        for (; k > 0 && depth_of(bh_jv_get_str(&list->items[k - 1], "destination")) > d; k--)
            list->items[k] = list->items[k - 1];
        list->items[k] = v;
    }
}

static void merge_hook(struct merge *m, const struct bh_jv *h)
{
    static const char *const keep[] = {"path", "args", "env", "timeout"};
    struct bh_str name = bh_str_dup(m->a, bh_jv_get_str(h, "hookName"));
    struct bh_jv *list = sub(m->a, sub(m->a, m->spec, "hooks", BH_JV_OBJ), name.p, BH_JV_ARR),
                 hook = BH_JV_OBJ;

    for (size_t i = 0; i < BH_COUNT(keep); i++) {
        const struct bh_jv *v = bh_jv_getc(h, keep[i]);

        if (v && v->kind != BH_JSON_NULL)
            bh_jv_setc(m->a, &hook, keep[i], *v);
    }
    bh_jv_append(m->a, list, hook);
}

static void merge_gids(struct merge *m, const struct bh_jv *gids)
{
    for (size_t i = 0; i < count(gids); i++) {
        struct bh_jv *user = sub(m->a, sub(m->a, m->spec, "process", BH_JV_OBJ), "user", BH_JV_OBJ);
        struct bh_jv *list = sub(m->a, user, "additionalGids", BH_JV_ARR);
        bool there = bh_str_eqc(gids->items[i].s, "0");

        for (size_t k = 0; k < list->n_items; k++)
            there = there || bh_jv_eq(&list->items[k], &gids->items[i]);
        if (!there)
            bh_jv_append(m->a, list, gids->items[i]);
    }
}

/* The order of the kinds is the specification's; within a kind, edits come in the order they were
 * collected. */
static int merge_all(struct merge *m, const struct bh_jv **edits, size_t n)
{
    for (size_t i = 0; i < n; i++)
        merge_env(m, bh_jv_getc(edits[i], "env"));
    for (size_t i = 0; i < n; i++) {
        const struct bh_jv *list = bh_jv_getc(edits[i], "deviceNodes");

        for (size_t k = 0; k < count(list); k++) {
            int r = merge_device_node(m, &list->items[k]);

            if (r < 0)
                return r;
        }
    }
    for (size_t i = 0; i < n; i++) {
        const struct bh_jv *list = bh_jv_getc(edits[i], "netDevices");

        for (size_t k = 0; k < count(list); k++) {
            struct bh_jv *all = sub(m->a, sub(m->a, m->spec, "linux", BH_JV_OBJ), "netDevices",
                                    BH_JV_OBJ),
                         d = BH_JV_OBJ;

            bh_jv_setc(m->a, &d, "name", bh_jv_str(bh_jv_get_str(&list->items[k], "name")));
            bh_jv_set(m->a, all, bh_jv_get_str(&list->items[k], "hostInterfaceName"), d);
        }
    }
    bool mounts = false;
    for (size_t i = 0; i < n; i++) {
        const struct bh_jv *list = bh_jv_getc(edits[i], "mounts");

        for (size_t k = 0; k < count(list); k++)
            merge_mount(m, &list->items[k]);
        mounts = mounts || count(list) > 0;
    }
    if (mounts)
        sort_mounts(m);
    for (size_t i = 0; i < n; i++) {
        const struct bh_jv *list = bh_jv_getc(edits[i], "hooks"),
                           *rdt = bh_jv_getc(edits[i], "intelRdt");

        for (size_t k = 0; k < count(list); k++)
            merge_hook(m, &list->items[k]);
        if (rdt && rdt->kind == BH_JSON_OBJ)
            bh_jv_setc(m->a, sub(m->a, m->spec, "linux", BH_JV_OBJ), "intelRdt", *rdt);
        merge_gids(m, bh_jv_getc(edits[i], "additionalGids"));
    }
    return 0;
}

int bh_cdi_inject(struct bh_arena *a, const struct bh_cdi *c, const struct bh_str_vec *names,
                  struct bh_jv *spec, struct bh_err *err)
{
    const struct bh_jv **edits = bh_new_n(a, const struct bh_jv *, 2 * names->n + 1);
    struct spec_file **seen = bh_new_n(a, struct spec_file *, names->n + 1);
    size_t n = 0, n_seen = 0;
    BH_AUTO_BUF missing = {.max = 400};

    for (size_t i = 0; i < names->n; i++) {
        const struct device *d = find(c, names->p[i]);
        bool again = false;

        for (size_t k = 0; k < i; k++)
            again = again || bh_str_eq(names->p[i], names->p[k]);
        if (again)
            continue;
        if (!d) {
            bh_buf_addf(&missing, "%s%.*s", missing.n > 0 ? ", " : "", BH_SF(names->p[i]));
            continue;
        }
        size_t s = 0;
        while (s < n_seen && seen[s] != d->file)
            s++;
        if (s == n_seen) {
            const struct bh_jv *common = bh_jv_getc(&d->file->doc, "containerEdits");

            seen[n_seen++] = d->file;
            if (common)
                edits[n++] = common;
        }
        edits[n++] = d->edits;
    }
    if (missing.n > 0)
        return bh_err_set(err, BH_E_NOT_FOUND, "unresolvable CDI devices %s",
                          bh_buf_cstr(&missing));
    /* Work on a copy, so that a missing host device leaves the configuration as it was. */
    struct bh_jv work = bh_jv_copy(a, spec);
    struct merge m = {a, &work, err};
    int r = merge_all(&m, edits, n);
    if (r == 0)
        *spec = work;
    return r;
}

int bh_cdi_add_devices(struct bh_arena *a, const struct bh_cri_device *d, size_t n,
                       struct bh_jv *spec, struct bh_err *err)
{
    struct merge m = {a, spec, err};

    for (size_t i = 0; i < n; i++) {
        struct bh_jv node = BH_JV_OBJ;

        bh_jv_setc(a, &node, "path", bh_jv_str(d[i].container_path));
        bh_jv_setc(a, &node, "hostPath", bh_jv_str(d[i].host_path));
        bh_jv_setc(a, &node, "permissions", bh_jv_str(d[i].permissions));
        int r = merge_device_node(&m, &node);
        if (r < 0)
            return r;
    }
    return 0;
}

int bh_cdi_from_annotations(struct bh_arena *a, const struct bh_str_map *ann,
                            struct bh_str_vec *names, struct bh_err *err)
{
    size_t cap = names->n;

    for (size_t i = 0; i < ann->n; i++) {
        struct bh_str rest = ann->p[i].value;

        if (!bh_str_starts(ann->p[i].key, BH_S("cdi.k8s.io/")))
            continue;
        while (rest.p) {
            struct bh_str name = bh_str_cut(&rest, ',');
            struct bh_str *p;

            if (!bh_cdi_is_qualified(name))
                return bh_err_set(err, BH_E_INVALID, "invalid CDI device name \"%.*s\"",
                                  BH_SF(name));
            p = bh_new_n(a, struct bh_str, cap + 1);
            if (names->n > 0)
                memcpy(p, names->p, names->n * sizeof(*p));
            p[names->n] = name;
            names->p = p;
            names->n++;
            cap = names->n;
        }
    }
    return 0;
}
