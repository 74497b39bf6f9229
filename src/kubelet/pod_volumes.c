/* Volumes on the host: root/pods/UID/volumes/kubernetes.io~TYPE/NAME, as upstream lays them out.
 *
 * Config maps and secrets are written the atomic way: the files stand in a directory of their own,
 * "..data" is a link to it, and each name is a link through "..data"; an update makes a new
 * directory and moves the one link.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/log.h"
#include "kubelet/kubelet_int.h"

#define MODE_DEFAULT   0644
#define PATH_MAX_BYTES 4096

static const char *type_dir(const struct bh_core_v1_volume_source *v)
{
    return v->empty_dir      ? "kubernetes.io~empty-dir"
           : v->config_map   ? "kubernetes.io~configmap"
           : v->secret       ? "kubernetes.io~secret"
           : v->projected    ? "kubernetes.io~projected"
           : v->downward_api ? "kubernetes.io~downward-api"
                             : NULL;
}

/* Where the volume behind a claim lies on this host; NULL for kinds that are not supported. */
static const char *pv_path(struct bh_arena *a, const struct bh_core_v1_persistent_volume *pv)
{
    const struct bh_core_v1_persistent_volume_source *s = &pv->spec.persistent_volume_source;

    if (pv->spec.has_volume_mode && bh_str_eqc(pv->spec.volume_mode, "Block"))
        return NULL;
    if (s->host_path)
        return bh_str_dup(a, s->host_path->path).p;
    return s->local ? bh_str_dup(a, s->local->path).p : NULL;
}

bool pod_volume_read_only(const struct bh_obj *o, struct bh_str volume)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(o);

    for (size_t i = 0; i < pod->spec.volumes.n; i++) {
        const struct bh_core_v1_volume_source *v = &pod->spec.volumes.p[i].volume_source;

        if (bh_str_eq(pod->spec.volumes.p[i].name, volume))
            return v->persistent_volume_claim && v->persistent_volume_claim->read_only;
    }
    return false;
}

const char *pod_volume_path(struct bh_arena *a, const char *root, const struct bh_obj *o,
                            const struct pod_refs *refs, struct bh_str volume)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(o);

    for (size_t i = 0; i < pod->spec.volumes.n; i++) {
        const struct bh_core_v1_volume *v = &pod->spec.volumes.p[i];

        if (!bh_str_eq(v->name, volume))
            continue;
        if (v->volume_source.host_path)
            return bh_str_dup(a, v->volume_source.host_path->path).p;
        if (v->volume_source.persistent_volume_claim || v->volume_source.ephemeral) {
            const struct bh_core_v1_persistent_volume *pv = pod_refs_volume(refs, v);

            return pv ? pv_path(a, pv) : NULL;
        }
        if (!type_dir(&v->volume_source))
            return NULL;
        return bh_str_fmt(a, "%s/pods/%.*s/volumes/%s/%.*s", root, BH_SF(o->uid),
                          type_dir(&v->volume_source), BH_SF(volume))
            .p;
    }
    return NULL;
}

/* ---- files of config maps and secrets ---- */

struct file {
    struct bh_str path; /* relative */
    struct bh_str data;
    unsigned mode;
};

struct files {
    struct bh_arena *a;
    struct file *p;
    size_t n, cap;
    unsigned mode; /* of the volume */
};

static void add_file(struct files *f, struct bh_str path, struct bh_str data, bool has_mode,
                     int32_t mode)
{
    bh_arena_grow(f->a, &f->p, &f->cap, f->n + 1, sizeof(*f->p));
    f->p[f->n++] = (struct file){path, data, has_mode ? (unsigned)mode : f->mode};
}

/* Either all keys under their own names, or the chosen ones under chosen paths. maps: data, then
 * binary data. */
static int add_map(struct files *f, const struct bh_str_map *const maps[2],
                   const struct bh_core_v1_key_to_path_vec *items, bool optional, const char *what,
                   struct bh_str name, struct bh_err *err)
{
    for (size_t i = 0; i < items->n; i++) {
        const struct bh_core_v1_key_to_path *it = &items->p[i];
        const struct bh_str *v = bh_str_map_get(maps[0], it->key);

        if (!v && maps[1])
            v = bh_str_map_get(maps[1], it->key);
        if (!v && optional)
            continue;
        if (!v)
            return bh_err_set(err, BH_E_INVALID,
                              "%s references non-existent key: %.*s (in \"%.*s\")", what,
                              BH_SF(it->key), BH_SF(name));
        add_file(f, it->path, *v, it->has_mode, it->mode);
    }
    for (int m = 0; items->n == 0 && m < 2; m++)
        for (size_t i = 0; maps[m] && i < maps[m]->n; i++)
            add_file(f, maps[m]->p[i].key, maps[m]->p[i].value, false, 0);
    return 0;
}

static int add_config_map(struct files *f, const struct pod_refs *refs, struct bh_str name,
                          const struct bh_core_v1_key_to_path_vec *items, bool optional,
                          struct bh_err *err)
{
    const struct bh_core_v1_config_map *cm = pod_refs_config_map(refs, name);
    const struct bh_str_map *maps[2] = {NULL, NULL};

    if (!cm)
        return optional
                   ? 0
                   : bh_err_set(err, BH_E_NOT_FOUND, "configmap \"%.*s\" not found", BH_SF(name));
    maps[0] = &cm->data;
    maps[1] = &cm->binary_data;
    return add_map(f, maps, items, optional, "configmap", name, err);
}

static int add_secret(struct files *f, const struct pod_refs *refs, struct bh_str name,
                      const struct bh_core_v1_key_to_path_vec *items, bool optional,
                      struct bh_err *err)
{
    const struct bh_core_v1_secret *s = pod_refs_secret(refs, name);
    const struct bh_str_map *maps[2] = {NULL, NULL};

    if (!s)
        return optional ? 0
                        : bh_err_set(err, BH_E_NOT_FOUND, "secret \"%.*s\" not found", BH_SF(name));
    maps[0] = &s->data;
    return add_map(f, maps, items, optional, "secret", name, err);
}

/* metadata.* as a volume file; labels and annotations whole are key="value" lines. */
static int add_downward(struct files *f, const struct bh_obj *o,
                        const struct bh_core_v1_downward_api_volume_file_vec *items,
                        struct bh_err *err)
{
    for (size_t i = 0; i < items->n; i++) {
        const struct bh_core_v1_downward_api_volume_file *it = &items->p[i];
        struct bh_str value = {"", 0};

        if (!it->field_ref ||
            !pod_field_value(f->a, NULL, (struct bh_obj *)(uintptr_t)o, it->field_ref->field_path,
                             (struct bh_str){0}, &value))
            return bh_err_set(err, BH_E_UNSUPPORTED, "downward API item \"%.*s\" is not supported",
                              BH_SF(it->path));
        add_file(f, it->path, value, it->has_mode, it->mode);
    }
    return 0;
}

static int collect(struct files *f, const struct bh_obj *o,
                   const struct bh_core_v1_volume_source *v, const struct pod_refs *refs,
                   struct bh_err *err)
{
    int r = 0;

    f->mode = MODE_DEFAULT;
    if (v->config_map) {
        f->mode =
            v->config_map->has_default_mode ? (unsigned)v->config_map->default_mode : MODE_DEFAULT;
        return add_config_map(f, refs, v->config_map->local_object_reference.name,
                              &v->config_map->items, v->config_map->optional, err);
    }
    if (v->secret) {
        f->mode = v->secret->has_default_mode ? (unsigned)v->secret->default_mode : MODE_DEFAULT;
        return add_secret(f, refs, v->secret->secret_name, &v->secret->items, v->secret->optional,
                          err);
    }
    if (v->downward_api) {
        f->mode = v->downward_api->has_default_mode ? (unsigned)v->downward_api->default_mode
                                                    : MODE_DEFAULT;
        return add_downward(f, o, &v->downward_api->items, err);
    }
    f->mode = v->projected->has_default_mode ? (unsigned)v->projected->default_mode : MODE_DEFAULT;
    for (size_t i = 0; r >= 0 && i < v->projected->sources.n; i++) {
        const struct bh_core_v1_volume_projection *p = &v->projected->sources.p[i];

        if (p->config_map)
            r = add_config_map(f, refs, p->config_map->local_object_reference.name,
                               &p->config_map->items, p->config_map->optional, err);
        else if (p->secret)
            r = add_secret(f, refs, p->secret->local_object_reference.name, &p->secret->items,
                           p->secret->optional, err);
        else if (p->downward_api)
            r = add_downward(f, o, &p->downward_api->items, err);
        else
            r = bh_err_set(err, BH_E_UNSUPPORTED, "this projected volume source is not supported");
    }
    return r;
}

static bool same_content(const char *dir, const struct files *f)
{
    BH_AUTO_BUF b = {.max = (size_t)8 << 20};
    char path[PATH_MAX_BYTES];

    for (size_t i = 0; i < f->n; i++) {
        bh_buf_clear(&b);
        if (bh_path(path, sizeof(path), NULL, "%s/..data/%.*s", dir, BH_SF(f->p[i].path)) < 0 ||
            bh_fs_read(path, b.max, &b, NULL) < 0 || !bh_str_eq(bh_buf_str(&b), f->p[i].data))
            return false;
    }
    snprintf(path, sizeof(path), "%s/..data", dir);
    DIR *d = opendir(path);
    size_t have = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        have += e->d_name[0] != '.';
    if (d)
        closedir(d);
    /* Paths with directories count once by their first element: a rewrite too many does no harm. */
    return d && have == f->n;
}

static int write_files(const char *dir, const struct files *f, struct bh_err *err)
{
    char fresh[PATH_MAX_BYTES], path[PATH_MAX_BYTES], link[PATH_MAX_BYTES], old[PATH_MAX_BYTES];
    ssize_t old_n;
    int r;

    if (same_content(dir, f))
        return 0;
    r = bh_path(fresh, sizeof(fresh), err, "%s/..data_XXXXXX", dir);
    if (r < 0)
        return r;
    if (!mkdtemp(fresh))
        return bh_err_sys(err, errno, "make '%s'", fresh);
    (void)chmod(fresh, 0755);
    for (size_t i = 0; r >= 0 && i < f->n; i++) {
        ptrdiff_t slash = bh_str_chr(f->p[i].path, '/', 0);

        r = bh_path(path, sizeof(path), err, "%s/%.*s", fresh, BH_SF(f->p[i].path));
        if (r >= 0 && slash > 0) {
            char *last = strrchr(path, '/');

            *last = '\0';
            r = bh_fs_mkdir_p(path, 0755, err);
            *last = '/';
        }
        if (r >= 0)
            r = bh_fs_write_plain(path, f->p[i].data, f->p[i].mode, err);
        if (r >= 0)
            (void)chmod(path, f->p[i].mode);
    }
    snprintf(link, sizeof(link), "%s/..data", dir);
    old_n = readlink(link, old, sizeof(old) - 1);
    snprintf(path, sizeof(path), "%s/..data_tmp", dir);
    (void)unlink(path);
    if (r >= 0 && (symlink(strrchr(fresh, '/') + 1, path) < 0 || rename(path, link) < 0))
        r = bh_err_sys(err, errno, "link '%s'", link);
    for (size_t i = 0; r >= 0 && i < f->n; i++) {
        struct bh_str rest = f->p[i].path, first = bh_str_cut(&rest, '/');

        snprintf(path, sizeof(path), "%s/%.*s", dir, BH_SF(first));
        snprintf(link, sizeof(link), "..data/%.*s", BH_SF(first));
        if (symlink(link, path) < 0 && errno != EEXIST)
            r = bh_err_sys(err, errno, "link '%s'", path);
    }
    if (r >= 0 && old_n > 0) {
        old[old_n] = '\0';
        if (!strchr(old, '/') && strncmp(old, "..data_", 7) == 0)
            r = bh_path(path, sizeof(path), err, "%s/%s", dir, old);
        if (r >= 0 && !strchr(old, '/') && strncmp(old, "..data_", 7) == 0)
            r = bh_fs_remove_tree(path, err);
    }
    return r;
}

/* ---- setting up ---- */

static int setup_empty_dir(const char *path, const struct bh_core_v1_empty_dir_volume_source *v,
                           int64_t fs_group, struct bh_err *err)
{
    char opts[64] = "mode=0777";
    struct stat here, up;
    char parent[PATH_MAX_BYTES];

    if (bh_str_eqc(v->medium, "Memory")) {
        snprintf(parent, sizeof(parent), "%s/..", path);
        /* Mounted already when it is a device of its own. */
        if (stat(path, &here) == 0 && stat(parent, &up) == 0 && here.st_dev == up.st_dev &&
            mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, opts) < 0)
            return bh_err_sys(err, errno, "mount tmpfs on '%s'", path);
    } else if (v->medium.n) {
        return bh_err_set(err, BH_E_UNSUPPORTED, "emptyDir medium \"%.*s\" is not supported",
                          BH_SF(v->medium));
    }
    if (chmod(path, fs_group >= 0 ? 02777 : 0777) < 0)
        return bh_err_sys(err, errno, "chmod '%s'", path);
    if (fs_group >= 0 && chown(path, (uid_t)-1, (gid_t)fs_group) < 0)
        return bh_err_sys(err, errno, "chown '%s'", path);
    return 0;
}

static int check_host_path(const struct bh_core_v1_host_path_volume_source *h, const char *path,
                           struct bh_err *err)
{
    struct stat st;
    bool is_dir, exists = stat(path, &st) == 0;

    if (bh_str_eqc(h->type, "DirectoryOrCreate") && !exists)
        return bh_fs_mkdir_p(path, 0755, err);
    if (bh_str_eqc(h->type, "FileOrCreate") && !exists)
        return bh_fs_write_plain(path, (struct bh_str){0}, 0644, err);
    if (!h->type.n)
        return exists
                   ? 0
                   : bh_fs_mkdir_p(path, 0755,
                                   err); /* what container runtimes do with a missing bind source */
    if (!exists)
        return bh_err_set(err, BH_E_INVALID, "hostPath type check failed: %s is not a %s", path,
                          bh_str_starts(h->type, BH_S("Dir")) ? "directory" : "file");
    is_dir = S_ISDIR(st.st_mode);
    if ((bh_str_starts(h->type, BH_S("Directory")) && !is_dir) ||
        (bh_str_starts(h->type, BH_S("File")) && !S_ISREG(st.st_mode)) ||
        (bh_str_eqc(h->type, "Socket") && !S_ISSOCK(st.st_mode)) ||
        (bh_str_eqc(h->type, "CharDevice") && !S_ISCHR(st.st_mode)) ||
        (bh_str_eqc(h->type, "BlockDevice") && !S_ISBLK(st.st_mode)))
        return bh_err_set(err, BH_E_INVALID, "hostPath type check failed: %s is not a %.*s", path,
                          BH_SF(h->type));
    return 0;
}

/* A local volume has to be there: who made it knows what it is. */
static int setup_pv(const struct bh_core_v1_persistent_volume *pv, const char *path,
                    struct bh_err *err)
{
    if (pv->spec.persistent_volume_source.host_path)
        return check_host_path(pv->spec.persistent_volume_source.host_path, path, err);
    return bh_fs_exists(path) ? 0
                              : bh_err_set(err, BH_E_NOT_FOUND, "path \"%s\" does not exist", path);
}

static int setup_one(struct bh_arena *a, const char *root, const struct bh_obj *o,
                     const struct bh_core_v1_volume *v, const struct pod_refs *refs,
                     struct bh_err *err)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(o);
    const struct bh_core_v1_pod_security_context *sc = pod->spec.security_context;
    const char *path = pod_volume_path(a, root, o, refs, v->name);
    const struct bh_core_v1_persistent_volume *pv = pod_refs_volume(refs, v);
    struct files f = {.a = a};
    int r;

    if (!path && pv)
        return bh_err_set(err, BH_E_UNSUPPORTED,
                          "persistent volume \"%.*s\": only file systems on hostPath and local "
                          "volumes are supported",
                          BH_SF(pv->metadata.name));
    if (!path)
        return bh_err_set(err, BH_E_UNSUPPORTED, "the type of this volume is not supported");
    if (pv)
        return setup_pv(pv, path, err);
    if (v->volume_source.host_path)
        return check_host_path(v->volume_source.host_path, path, err);
    r = bh_fs_mkdir_p(path, 0755, err);
    if (r < 0)
        return r;
    if (v->volume_source.empty_dir)
        return setup_empty_dir(path, v->volume_source.empty_dir,
                               sc && sc->has_fs_group ? sc->fs_group : -1, err);
    r = collect(&f, o, &v->volume_source, refs, err);
    return r < 0 ? r : write_files(path, &f, err);
}

int pod_volumes_setup(const char *root, const struct bh_obj *o, const struct pod_refs *refs,
                      struct bh_err *err)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(o);
    BH_AUTO_ARENA a = bh_arena_new(0);
    int r = 0;

    for (size_t i = 0; r >= 0 && i < pod->spec.volumes.n; i++) {
        r = setup_one(a, root, o, &pod->spec.volumes.p[i], refs, err);
        if (r < 0)
            (void)bh_err_wrap(err, "MountVolume.SetUp failed for volume \"%.*s\"",
                              BH_SF(pod->spec.volumes.p[i].name));
    }
    return r;
}

/* Volumes that are mounts of their own (emptyDir in memory) are two levels down. */
static void unmount_below(const char *dir, int depth)
{
    char path[PATH_MAX_BYTES];
    DIR *d = opendir(dir);

    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.' || bh_path(path, sizeof(path), NULL, "%s/%s", dir, e->d_name) < 0)
            continue;
        if (depth == 0)
            (void)umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW); /* EINVAL: not a mount */
        else
            unmount_below(path, depth - 1);
    }
    if (d)
        closedir(d);
}

int pod_volumes_teardown(const char *root, struct bh_str uid, struct bh_err *err)
{
    char path[PATH_MAX_BYTES];
    int r = bh_path(path, sizeof(path), err, "%s/pods/%.*s/volumes", root, BH_SF(uid));

    if (r < 0)
        return r;
    if (!uid.n || bh_str_chr(uid, '/', 0) >= 0)
        return bh_err_set(err, BH_E_INTERNAL, "not a uid: \"%.*s\"", BH_SF(uid));
    unmount_below(path, 1);
    r = bh_path(path, sizeof(path), err, "%s/pods/%.*s", root, BH_SF(uid));
    return r < 0 ? r : bh_fs_remove_tree(path, err);
}
