#include "runtime/image_store.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/limits.h"
#include "runtime/layer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- names ---- */

static bool is_hex(struct bh_str s, size_t n)
{
    if (s.n != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
            return false;
    return true;
}

static bool path_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

static bool valid_path(struct bh_str s)
{
    if (s.n == 0 || s.n > 255)
        return false;
    while (s.p) {
        struct bh_str part = bh_str_cut(&s, '/');

        if (part.n == 0 || !path_char(part.p[0]) || part.p[0] == '.' || part.p[0] == '-' ||
            part.p[0] == '_')
            return false;
        for (size_t i = 0; i < part.n; i++)
            if (!path_char(part.p[i]))
                return false;
    }
    return true;
}

static bool valid_tag(struct bh_str s)
{
    if (s.n == 0 || s.n > 128 || s.p[0] == '.' || s.p[0] == '-')
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!path_char(s.p[i]) && !(s.p[i] >= 'A' && s.p[i] <= 'Z'))
            return false;
    return true;
}

int bh_image_full_name(struct bh_arena *a, struct bh_str name, struct bh_str *ret,
                       struct bh_err *err)
{
    struct bh_str rest = name, digest = {NULL, 0}, tag = {NULL, 0}, host = {NULL, 0};
    ptrdiff_t at = bh_str_chr(rest, '@', 0);

    if (at >= 0) {
        digest = bh_str_sub(rest, (size_t)at + 1, rest.n);
        rest = bh_str_sub(rest, 0, (size_t)at);
        if (!bh_str_starts(digest, BH_S("sha256:")) || !is_hex(bh_str_sub(digest, 7, digest.n), 64))
            goto bad;
    }
    for (size_t i = rest.n; i > 0 && rest.p[i - 1] != '/'; i--)
        if (rest.p[i - 1] == ':') {
            tag = bh_str_sub(rest, i, rest.n);
            rest = bh_str_sub(rest, 0, i - 1);
            if (!valid_tag(tag))
                goto bad;
            break;
        }
    ptrdiff_t slash = bh_str_chr(rest, '/', 0);
    if (slash > 0) {
        struct bh_str first = bh_str_sub(rest, 0, (size_t)slash);

        if (bh_str_chr(first, '.', 0) >= 0 || bh_str_chr(first, ':', 0) >= 0 ||
            bh_str_eqc(first, "localhost")) {
            if (!path_char(first.p[0]) || first.p[0] == '.' || first.p[0] == '-')
                goto bad;
            for (size_t i = 0; i < first.n; i++)
                if (!path_char(first.p[i]) && first.p[i] != ':' &&
                    !(first.p[i] >= 'A' && first.p[i] <= 'Z'))
                    goto bad;
            host = first;
            rest = bh_str_sub(rest, (size_t)slash + 1, rest.n);
        }
    }
    if (!valid_path(rest))
        goto bad;
    bool lib = host.n == 0 && bh_str_chr(rest, '/', 0) < 0;
    if (host.n == 0)
        host = BH_S("docker.io");
    if (digest.n > 0)
        *ret = bh_str_fmt(a, "%.*s/%s%.*s@%.*s", BH_SF(host), lib ? "library/" : "", BH_SF(rest),
                          BH_SF(digest));
    else
        *ret = bh_str_fmt(a, "%.*s/%s%.*s:%.*s", BH_SF(host), lib ? "library/" : "", BH_SF(rest),
                          BH_SF(tag.n > 0 ? tag : BH_S("latest")));
    return 0;
bad:
    return bh_err_set(err, BH_E_INVALID,
                      "couldn't parse image name \"%.*s\": invalid reference format", BH_SF(name));
}

/* ---- records ---- */

static struct bh_str_vec strings_of(struct bh_arena *a, const struct bh_jv *arr)
{
    struct bh_str_vec v = {NULL, 0};

    if (!arr || arr->kind != BH_JSON_ARR)
        return v;
    v.p = bh_new_n(a, struct bh_str, arr->n_items);
    for (size_t i = 0; i < arr->n_items; i++)
        if (arr->items[i].kind == BH_JSON_STR)
            v.p[v.n++] = arr->items[i].s;
    return v;
}

static struct bh_jv strings_to(struct bh_arena *a, const struct bh_str_vec *v)
{
    struct bh_jv arr = BH_JV_ARR;

    for (size_t i = 0; i < v->n; i++)
        bh_jv_append(a, &arr, bh_jv_str(v->p[i]));
    return arr;
}

void bh_image_read_config(struct bh_arena *a, struct bh_image *img)
{
    const struct bh_jv *c = bh_jv_getc(&img->config, "config");
    int64_t uid;

    img->entrypoint = strings_of(a, bh_jv_getc(c, "Entrypoint"));
    img->cmd = strings_of(a, bh_jv_getc(c, "Cmd"));
    img->env = strings_of(a, bh_jv_getc(c, "Env"));
    img->working_dir = bh_jv_get_str(c, "WorkingDir");
    img->user = bh_jv_get_str(c, "User");
    img->stop_signal = bh_jv_get_str(c, "StopSignal");
    struct bh_str rest = img->user, user = bh_str_cut(&rest, ':');
    if (bh_str_i64(user, 0, UINT32_MAX, &uid)) {
        img->cri.has_uid = true;
        img->cri.uid = uid;
    } else {
        img->cri.username = user;
    }
}

static int parse_record(struct bh_arena *a, struct bh_str text, struct bh_image **ret,
                        struct bh_err *err)
{
    struct bh_image *img = bh_new(a, struct bh_image);
    struct bh_jv v;
    int r = bh_jv_parse(a, text, NULL, &v, err);

    if (r < 0)
        return r;
    img->cri.id = bh_jv_get_str(&v, "id");
    img->cri.repo_tags = strings_of(a, bh_jv_getc(&v, "tags"));
    img->cri.repo_digests = strings_of(a, bh_jv_getc(&v, "digests"));
    const struct bh_jv *cfg = bh_jv_getc(&v, "config"), *layers = bh_jv_getc(&v, "layers");
    if (!bh_str_starts(img->cri.id, BH_S("sha256:")) ||
        !is_hex(bh_str_sub(img->cri.id, 7, img->cri.id.n), 64) || !cfg ||
        cfg->kind != BH_JSON_OBJ || !layers || layers->kind != BH_JSON_ARR)
        return bh_err_set(err, BH_E_INVALID, "image record is incomplete");
    img->config = *cfg;
    (void)bh_jv_get_i64(&v, "imported", &img->imported_ns);
    img->gone = bh_jv_get_bool(&v, "gone");
    img->layers = bh_new_n(a, struct bh_image_layer, layers->n_items);
    for (size_t i = 0; i < layers->n_items; i++) {
        struct bh_image_layer *l = &img->layers[i];

        l->diff_id = bh_jv_get_str(&layers->items[i], "diffID");
        (void)bh_jv_get_i64(&layers->items[i], "bytes", &l->bytes);
        if (!bh_str_starts(l->diff_id, BH_S("sha256:")) ||
            !is_hex(bh_str_sub(l->diff_id, 7, l->diff_id.n), 64))
            return bh_err_set(err, BH_E_INVALID, "image record has a bad layer");
        img->cri.size += l->bytes;
    }
    img->n_layers = layers->n_items;
    img->cri.size += (int64_t)text.n;
    bh_image_read_config(a, img);
    *ret = img;
    return 0;
}

static int record_path(char *buf, size_t n, const char *dir, struct bh_str id, struct bh_err *err)
{
    struct bh_str hex = bh_str_sub(id, 7, id.n);

    bh_assert(is_hex(hex, 64));
    return bh_path(buf, n, err, "%s/records/%.*s.json", dir, BH_SF(hex));
}

int bh_image_save(struct bh_arena *a, const char *dir, const struct bh_image *img,
                  struct bh_err *err)
{
    struct bh_jv v = BH_JV_OBJ, layers = BH_JV_ARR;
    char path[PATH_MAX];
    int r = record_path(path, sizeof(path), dir, img->cri.id, err);

    if (r < 0)
        return r;
    bh_jv_setc(a, &v, "id", bh_jv_str(img->cri.id));
    bh_jv_setc(a, &v, "tags", strings_to(a, &img->cri.repo_tags));
    bh_jv_setc(a, &v, "digests", strings_to(a, &img->cri.repo_digests));
    bh_jv_setc(a, &v, "imported", bh_jv_i64(a, img->imported_ns));
    for (size_t i = 0; i < img->n_layers; i++) {
        struct bh_jv l = BH_JV_OBJ;

        bh_jv_setc(a, &l, "diffID", bh_jv_str(img->layers[i].diff_id));
        bh_jv_setc(a, &l, "bytes", bh_jv_i64(a, img->layers[i].bytes));
        bh_jv_append(a, &layers, l);
    }
    bh_jv_setc(a, &v, "layers", layers);
    if (img->gone)
        bh_jv_setc(a, &v, "gone", bh_jv_bool(true));
    bh_jv_setc(a, &v, "config", img->config);
    return bh_fs_write_atomic(path, bh_jv_text(a, &v, BH_JSON_PLAIN), 0644, err);
}

static int make_dirs(const char *dir, struct bh_err *err)
{
    static const char *const subs[] = {"records", "layers", "tmp"};
    char path[PATH_MAX];

    for (size_t i = 0; i < BH_COUNT(subs); i++) {
        int r = bh_path(path, sizeof(path), err, "%s/%s", dir, subs[i]);

        if (r == 0)
            r = bh_fs_mkdir_p(path, 0700, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int bh_image_list_all(struct bh_arena *a, const char *dir, struct bh_image_list *ret,
                      size_t *ret_bad, struct bh_err *err)
{
    char path[PATH_MAX];
    size_t cap = 0;
    int r = make_dirs(dir, err);

    memset(ret, 0, sizeof(*ret));
    if (ret_bad)
        *ret_bad = 0;
    if (r == 0)
        r = bh_path(path, sizeof(path), err, "%s/records", dir);
    if (r < 0)
        return r;
    DIR *d = opendir(path);
    if (!d)
        return bh_err_sys(err, errno, "open '%s'", path);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        BH_AUTO_BUF b = {.max = BH_IMAGE_CONFIG_MAX * 2};
        struct bh_image *img = NULL;

        if (!bh_str_ends(bh_s(e->d_name), BH_S(".json")) ||
            bh_path(path, sizeof(path), NULL, "%s/records/%s", dir, e->d_name) < 0)
            continue;
        if (bh_fs_read(path, b.max, &b, NULL) < 0 ||
            parse_record(a, bh_str_dup(a, bh_buf_str(&b)), &img, NULL) < 0) {
            if (ret_bad)
                (*ret_bad)++;
            continue;
        }
        if (ret->n == cap)
            bh_arena_grow(a, &ret->p, &cap, ret->n + 1, sizeof(*ret->p));
        ret->p[ret->n++] = img;
    }
    closedir(d);
    return 0;
}

static bool has(const struct bh_str_vec *v, struct bh_str s)
{
    for (size_t i = 0; i < v->n; i++)
        if (bh_str_eq(v->p[i], s))
            return true;
    return false;
}

int bh_image_resolve(struct bh_arena *a, const char *dir, struct bh_str name, struct bh_image **ret,
                     struct bh_err *err)
{
    struct bh_image_list all;
    struct bh_str full = {NULL, 0},
                  hex = bh_str_starts(name, BH_S("sha256:")) ? bh_str_sub(name, 7, name.n) : name;
    int r = bh_image_list_all(a, dir, &all, NULL, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < all.n && is_hex(hex, 64); i++)
        if (!all.p[i]->gone &&
            bh_str_eq(bh_str_sub(all.p[i]->cri.id, 7, all.p[i]->cri.id.n), hex)) {
            *ret = all.p[i];
            return 0;
        }
    r = bh_image_full_name(a, name, &full, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < all.n; i++)
        if (has(&all.p[i]->cri.repo_tags, full) || has(&all.p[i]->cri.repo_digests, full)) {
            *ret = all.p[i];
            return 0;
        }
    return bh_err_set(err, BH_E_NOT_FOUND, "image \"%.*s\" not found", BH_SF(name));
}

int bh_image_lock(const char *dir, int *ret_fd, struct bh_err *err)
{
    char path[PATH_MAX];
    int r = make_dirs(dir, err);

    if (r == 0)
        r = bh_path(path, sizeof(path), err, "%s/lock", dir);
    for (int waited = 0; r == 0; waited++) {
        struct timespec ts = {0, 50 * 1000 * 1000};

        r = bh_fs_lock(path, ret_fd, err);
        if (r != -BH_E_BUSY || waited > 12000)
            return r;
        nanosleep(&ts, NULL);
        r = 0;
    }
    return r;
}

int bh_image_take_names(struct bh_arena *a, const char *dir, const struct bh_image *owner,
                        struct bh_err *err)
{
    struct bh_image_list all;
    int r = bh_image_list_all(a, dir, &all, NULL, err);

    for (size_t i = 0; r == 0 && i < all.n; i++) {
        struct bh_str_vec *t = &all.p[i]->cri.repo_tags;
        size_t keep = 0;

        if (bh_str_eq(all.p[i]->cri.id, owner->cri.id))
            continue;
        for (size_t k = 0; k < t->n; k++)
            if (!has(&owner->cri.repo_tags, t->p[k]))
                t->p[keep++] = t->p[k];
        if (keep == t->n)
            continue;
        t->n = keep;
        r = bh_image_save(a, dir, all.p[i], err);
    }
    return r;
}

/* Removes the layers that no record names. */
static int sweep_layers(struct bh_arena *a, const char *dir, struct bh_err *err)
{
    struct bh_image_list all;
    char path[PATH_MAX];
    size_t bad = 0;
    int r = bh_image_list_all(a, dir, &all, &bad, err);

    /* An unreadable record may need any layer. */
    if (r < 0 || bad > 0)
        return r;
    r = bh_path(path, sizeof(path), err, "%s/layers", dir);
    DIR *d = r < 0 ? NULL : opendir(path);
    if (!d)
        return r < 0 ? r : bh_err_sys(err, errno, "open '%s'", path);
    for (struct dirent *e; r == 0 && (e = readdir(d)) != NULL;) {
        bool used = e->d_name[0] == '.';

        for (size_t i = 0; !used && i < all.n; i++)
            for (size_t k = 0; !used && k < all.p[i]->n_layers; k++)
                used = bh_str_eqc(bh_image_layer_dir(a, all.p[i]->layers[k].diff_id), e->d_name);
        if (used)
            continue;
        if ((r = bh_path(path, sizeof(path), err, "%s/layers/.%s", dir, e->d_name)) == 0)
            (void)unlink(path); /* its size; unpacking the layer again writes it anew */
        if (r == 0 && (r = bh_path(path, sizeof(path), err, "%s/layers/%s", dir, e->d_name)) == 0)
            r = bh_fs_remove_tree(path, err);
    }
    closedir(d);
    return r;
}

int bh_image_remove(const char *dir, struct bh_str name,
                    bool (*used)(void *arg, struct bh_str image_id), void *arg, struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_FD lock = -1;
    struct bh_image_list all;
    struct bh_image *img;
    char path[PATH_MAX];
    int r = bh_image_lock(dir, &lock, err);

    if (r < 0)
        return r;
    r = bh_image_resolve(a, dir, name, &img, err);
    if (r == 0) {
        img->gone = true;
        img->cri.repo_tags.n = img->cri.repo_digests.n = 0;
        r = bh_image_save(a, dir, img, err);
    } else if (r == -BH_E_NOT_FOUND) {
        r = 0;
    }
    if (r == 0)
        r = bh_image_list_all(a, dir, &all, NULL, err);
    for (size_t i = 0; r == 0 && i < all.n; i++) {
        if (!all.p[i]->gone || (used && used(arg, all.p[i]->cri.id)))
            continue;
        r = record_path(path, sizeof(path), dir, all.p[i]->cri.id, err);
        if (r == 0 && unlink(path) < 0 && errno != ENOENT)
            r = bh_err_sys(err, errno, "remove '%s'", path);
    }
    return r < 0 ? r : sweep_layers(a, dir, err);
}

struct bh_str bh_image_layer_dir(struct bh_arena *a, struct bh_str diff_id)
{
    return bh_str_dup(a, bh_str_sub(diff_id, 7, 7 + 32));
}

struct bh_str bh_image_lowerdirs(struct bh_arena *a, const struct bh_image *img)
{
    BH_AUTO_BUF b = {.max = 1 << 20};

    for (size_t i = img->n_layers; i > 0; i--) {
        if (b.n > 0)
            bh_buf_addc(&b, ':');
        bh_buf_adds(&b, bh_image_layer_dir(a, img->layers[i - 1].diff_id));
    }
    return bh_str_dup(a, bh_buf_str(&b));
}

int bh_image_read_file(struct bh_arena *a, const char *dir, const struct bh_image *img,
                       const char *path, struct bh_str *ret, struct bh_err *err)
{
    char layer[PATH_MAX];

    for (size_t i = img->n_layers; i > 0; i--) {
        struct bh_str name = bh_image_layer_dir(a, img->layers[i - 1].diff_id);
        struct stat st;
        int r = bh_path(layer, sizeof(layer), err, "%s/layers/%.*s", dir, BH_SF(name));

        if (r < 0)
            return r;
        BH_AUTO_FD root = open(layer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        BH_AUTO_FD fd = root < 0 ? -1 : bh_open_in_root(root, path, O_RDONLY | O_NONBLOCK);
        if (fd < 0)
            continue;
        if (fstat(fd, &st) < 0 || S_ISCHR(st.st_mode))
            break;
        if (!S_ISREG(st.st_mode) || st.st_size > BH_IMAGE_CONFIG_MAX)
            return bh_err_set(err, BH_E_INVALID, "'%s' of the image is no usable file", path);
        char *p = bh_arena_alloc(a, (size_t)st.st_size + 1);
        ssize_t n = pread(fd, p, (size_t)st.st_size, 0);
        if (n < 0)
            return bh_err_sys(err, errno, "read '%s' of the image", path);
        *ret = (struct bh_str){p, (size_t)n};
        return 0;
    }
    return bh_err_set(err, BH_E_NOT_FOUND, "the image has no '%s'", path);
}
