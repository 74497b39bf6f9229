/* Importing image archives: an OCI image layout or what `docker save` writes, in one tar file.
 *
 * The archive is unpacked beside the store, every blob that is used is checked against its digest,
 * every layer against its diff id, and only then does the image appear.
 */
#include "base/buf.h"
#include "base/fs.h"
#include "base/limits.h"
#include "base/log.h"
#include "data/codec.h"
#include "runtime/image_store.h"
#include "runtime/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH "amd64"
#elif defined(__aarch64__)
#define ARCH "arm64"
#else
#define ARCH "unknown"
#endif

#define INDEX_DEPTH_MAX 4 /* an index may name an index; nobody needs more */

struct import {
    struct bh_arena *a;
    const char *dir;  /* of the store */
    const char *file; /* for names and messages */
    char tmp[PATH_MAX];
    struct bh_str name; /* wanted by the caller */
    struct bh_image_list *out;
    size_t cap;
    struct bh_err *err;
};

static int read_in(struct import *im, const char *rel, struct bh_str *ret)
{
    char path[PATH_MAX];
    BH_AUTO_BUF b = {.max = BH_IMAGE_CONFIG_MAX};
    int r = bh_path(path, sizeof(path), im->err, "%s/in/%s", im->tmp, rel);

    if (r == 0)
        r = bh_fs_read(path, b.max, &b, im->err);
    if (r == 0)
        *ret = bh_str_dup(im->a, bh_buf_str(&b));
    return r;
}

static int digest_file(const char *path, char ret[72], struct bh_err *err)
{
    BH_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    BH_AUTO_FREE char *chunk = bh_malloc(256 << 10);
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned n_sum = 0;
    ssize_t n = -1;

    bh_assert(md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1);
    while (fd >= 0 && (n = read(fd, chunk, 256 << 10)) > 0)
        EVP_DigestUpdate(md, chunk, (size_t)n);
    int eno = errno;
    EVP_DigestFinal_ex(md, sum, &n_sum);
    EVP_MD_CTX_free(md);
    if (n < 0)
        return bh_err_sys(err, eno, "read '%s'", path);
    memcpy(ret, "sha256:", 7);
    for (unsigned i = 0; i < n_sum; i++)
        snprintf(ret + 7 + (size_t)i * 2, 3, "%02x", sum[i]);
    return 0;
}

/* The path of a blob, relative to the unpacked archive. Digests come from the archive: they must
 * not be paths. */
static int blob_rel(struct import *im, struct bh_str digest, char *buf, size_t n)
{
    struct bh_str hex = bh_str_sub(digest, 7, digest.n);

    if (!bh_str_starts(digest, BH_S("sha256:")) || hex.n != 64)
        return bh_err_set(im->err, BH_E_UNSUPPORTED, "digest '%.*s' is not a sha256 digest",
                          BH_SF(digest));
    for (size_t i = 0; i < hex.n; i++)
        if (!((hex.p[i] >= '0' && hex.p[i] <= '9') || (hex.p[i] >= 'a' && hex.p[i] <= 'f')))
            return bh_err_set(im->err, BH_E_INVALID, "malformed digest '%.*s'", BH_SF(digest));
    return bh_path(buf, n, im->err, "blobs/sha256/%.*s", BH_SF(hex));
}

static int check_digest(struct import *im, const char *rel, struct bh_str want)
{
    char path[PATH_MAX], have[72];
    int r = bh_path(path, sizeof(path), im->err, "%s/in/%s", im->tmp, rel);

    if (r == 0)
        r = digest_file(path, have, im->err);
    if (r < 0)
        return r;
    if (!bh_str_eqc(want, have))
        return bh_err_set(im->err, BH_E_INVALID, "blob %.*s has the digest %s", BH_SF(want), have);
    return 0;
}

static int read_blob(struct import *im, struct bh_str digest, struct bh_jv *ret,
                     struct bh_str *ret_text)
{
    char rel[160];
    struct bh_str text;
    int r = blob_rel(im, digest, rel, sizeof(rel));

    if (r == 0)
        r = check_digest(im, rel, digest);
    if (r == 0)
        r = read_in(im, rel, &text);
    if (r == 0)
        r = bh_jv_parse(im->a, text, NULL, ret, im->err);
    if (r == 0 && ret_text)
        *ret_text = text;
    return r < 0 ? bh_err_wrap(im->err, "blob %.*s", BH_SF(digest)) : 0;
}

/* Unpacks one layer into the store unless it is there already. */
static int add_layer(struct import *im, const char *rel, struct bh_str diff_id,
                     struct bh_image_layer *ret)
{
    char src[PATH_MAX], tmp[PATH_MAX], dst[PATH_MAX], size[PATH_MAX];
    struct bh_layer_stat st = {0};
    struct bh_str name;
    char check[160];
    int r = blob_rel(im, diff_id, check, sizeof(check));

    if (r < 0)
        return r;
    name = bh_image_layer_dir(im->a, diff_id);
    r = bh_path(src, sizeof(src), im->err, "%s/in/%s", im->tmp, rel);
    if (r == 0)
        r = bh_path(tmp, sizeof(tmp), im->err, "%s/%.*s", im->tmp, BH_SF(name));
    if (r == 0)
        r = bh_path(dst, sizeof(dst), im->err, "%s/layers/%.*s", im->dir, BH_SF(name));
    if (r == 0)
        r = bh_path(size, sizeof(size), im->err, "%s/layers/.%.*s", im->dir, BH_SF(name));
    if (r < 0)
        return r;
    ret->diff_id = diff_id;
    BH_AUTO_BUF b = {.max = 64};
    if (bh_fs_exists(dst) && bh_fs_read(size, 64, &b, NULL) == 0 &&
        bh_str_i64(bh_buf_str(&b), 0, INT64_MAX, &ret->bytes))
        return 0;
    r = bh_fs_remove_tree(dst, im->err);
    if (r == 0)
        r = bh_fs_mkdir_p(tmp, 0755, im->err);
    if (r == 0)
        r = bh_layer_unpack(src, tmp, &st, im->err);
    if (r < 0)
        return r;
    if (!bh_str_eqc(diff_id, st.diff_id))
        return bh_err_set(im->err, BH_E_INVALID, "layer '%s' has the diff id %s, not %.*s", rel,
                          st.diff_id, BH_SF(diff_id));
    BH_AUTO_FD fd = open(tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || syncfs(fd) < 0)
        return bh_err_sys(im->err, errno, "sync '%s'", tmp);
    if (rename(tmp, dst) < 0)
        return bh_err_sys(im->err, errno, "rename '%s'", tmp);
    ret->bytes = st.bytes;
    struct bh_str num = bh_str_fmt(im->a, "%lld", (long long)st.bytes);
    return bh_fs_write_atomic(size, num, 0644, im->err);
}

static bool vec_has(const struct bh_str_vec *v, struct bh_str s)
{
    for (size_t i = 0; i < v->n; i++)
        if (bh_str_eq(v->p[i], s))
            return true;
    return false;
}

static void vec_add(struct bh_arena *a, struct bh_str_vec *v, struct bh_str s)
{
    struct bh_str *p;

    if (vec_has(v, s))
        return;
    p = bh_new_n(a, struct bh_str, v->n + 1);
    if (v->n > 0)
        memcpy(p, v->p, v->n * sizeof(*p));
    p[v->n] = s;
    v->p = p;
    v->n++;
}

/* Adds names and writes the record. An image imported again keeps the names it has. */
static int finish_image(struct import *im, struct bh_image *img, const struct bh_str_vec *names,
                        struct bh_str digest)
{
    struct bh_image *old;
    struct timespec now;
    int r;

    if (bh_image_resolve(im->a, im->dir, img->cri.id, &old, NULL) == 0) {
        img->cri.repo_tags = old->cri.repo_tags;
        img->cri.repo_digests = old->cri.repo_digests;
    }
    for (size_t i = 0; i < names->n; i++) {
        struct bh_str full;

        r = bh_image_full_name(im->a, names->p[i], &full, im->err);
        if (r < 0)
            return r;
        vec_add(im->a, &img->cri.repo_tags, full);
        if (digest.n > 0 && bh_str_chr(full, '@', 0) < 0) {
            size_t cut = full.n;

            while (cut > 0 && full.p[cut - 1] != ':')
                cut--;
            vec_add(
                im->a, &img->cri.repo_digests,
                bh_str_fmt(im->a, "%.*s@%.*s", BH_SF(bh_str_sub(full, 0, cut - 1)), BH_SF(digest)));
        }
    }
    clock_gettime(CLOCK_REALTIME, &now);
    img->imported_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    bh_image_read_config(im->a, img);
    for (size_t i = 0; i < img->n_layers; i++)
        img->cri.size += img->layers[i].bytes;
    r = bh_image_save(im->a, im->dir, img, im->err);
    if (r == 0)
        r = bh_image_take_names(im->a, im->dir, img, im->err);
    if (r < 0)
        return r;
    if (im->out->n == im->cap)
        bh_arena_grow(im->a, &im->out->p, &im->cap, im->out->n + 1, sizeof(*im->out->p));
    im->out->p[im->out->n++] = img;
    return 0;
}

/* Reads the diff ids of the configuration and unpacks the layers, of which rel(i) gives the files.
 */
static int take_layers(struct import *im, struct bh_image *img, const char **rels, size_t n)
{
    const struct bh_jv *ids = bh_jv_path(&img->config, "rootfs.diff_ids");
    size_t have = ids && ids->kind == BH_JSON_ARR ? ids->n_items : 0;

    if (have != n)
        return bh_err_set(im->err, BH_E_INVALID, "image has %zu layers and %zu diff ids", n, have);
    if (n > BH_IMAGE_LAYERS_MAX)
        return bh_err_set(im->err, BH_E_LIMIT, "image has %zu layers, at most %d are supported", n,
                          BH_IMAGE_LAYERS_MAX);
    if (n == 0)
        return bh_err_set(im->err, BH_E_INVALID, "image has no layer");
    img->layers = bh_new_n(im->a, struct bh_image_layer, n);
    img->n_layers = n;
    for (size_t i = 0; i < n; i++) {
        int r = ids->items[i].kind == BH_JSON_STR
                    ? add_layer(im, rels[i], ids->items[i].s, &img->layers[i])
                    : bh_err_set(im->err, BH_E_INVALID, "diff id is no string");

        if (r < 0)
            return r;
    }
    return 0;
}

static int import_oci_manifest(struct import *im, struct bh_str digest,
                               const struct bh_str_vec *names)
{
    struct bh_image *img = bh_new(im->a, struct bh_image);
    struct bh_jv m;
    int r = read_blob(im, digest, &m, NULL);

    if (r < 0)
        return r;
    const struct bh_jv *layers = bh_jv_getc(&m, "layers");
    struct bh_str cfg = bh_jv_get_str(bh_jv_getc(&m, "config"), "digest");
    size_t n = layers && layers->kind == BH_JSON_ARR ? layers->n_items : 0;
    const char **rels = bh_new_n(im->a, const char *, n + 1);

    img->cri.id = cfg;
    r = read_blob(im, cfg, &img->config, NULL);
    for (size_t i = 0; r == 0 && i < n; i++) {
        struct bh_str d = bh_jv_get_str(&layers->items[i], "digest");
        char rel[160];

        r = blob_rel(im, d, rel, sizeof(rel));
        if (r == 0)
            r = check_digest(im, rel, d);
        rels[i] = bh_arena_memdup(im->a, rel, r == 0 ? strlen(rel) + 1 : 0);
    }
    if (r == 0)
        r = take_layers(im, img, rels, n);
    return r < 0 ? r : finish_image(im, img, names, digest);
}

/* The name of an image in an OCI layout: full names as containerd writes them, else the reference,
 * which some tools make a bare tag; the file's name then stands for the repository. */
static struct bh_str oci_name(struct import *im, const struct bh_jv *desc)
{
    const struct bh_jv *ann = bh_jv_getc(desc, "annotations");
    struct bh_str s = bh_jv_get_str(ann, "io.containerd.image.name");
    const char *base = strrchr(im->file, '/');

    if (s.n > 0)
        return s;
    s = bh_jv_get_str(ann, "org.opencontainers.image.ref.name");
    if (s.n == 0 || bh_str_chr(s, ':', 0) >= 0 || bh_str_chr(s, '/', 0) >= 0)
        return s;
    if (!bh_str_eqc(s, "latest"))
        return s;
    struct bh_str rest = bh_s(base ? base + 1 : im->file);
    return bh_str_fmt(im->a, "%.*s:%.*s", BH_SF(bh_str_cut(&rest, '.')), BH_SF(s));
}

static const struct bh_jv *pick_platform(const struct bh_jv *list)
{
    for (size_t i = 0; list && list->kind == BH_JSON_ARR && i < list->n_items; i++) {
        const struct bh_jv *p = bh_jv_getc(&list->items[i], "platform");

        if (!p || (bh_str_eqc(bh_jv_get_str(p, "os"), "linux") &&
                   bh_str_eqc(bh_jv_get_str(p, "architecture"), ARCH)))
            return &list->items[i];
    }
    return NULL;
}

static int import_descriptor(struct import *im, const struct bh_jv *desc,
                             const struct bh_str_vec *names)
{
    for (int depth = 0; depth < INDEX_DEPTH_MAX; depth++) {
        struct bh_str type = bh_jv_get_str(desc, "mediaType"),
                      digest = bh_jv_get_str(desc, "digest");
        struct bh_jv *index;
        int r;

        if (!bh_str_eqc(type, "application/vnd.oci.image.index.v1+json") &&
            !bh_str_eqc(type, "application/vnd.docker.distribution.manifest.list.v2+json"))
            return import_oci_manifest(im, digest, names);
        index = bh_new(im->a, struct bh_jv);
        r = read_blob(im, digest, index, NULL);
        if (r < 0)
            return r;
        desc = pick_platform(bh_jv_getc(index, "manifests"));
        if (!desc)
            return bh_err_set(im->err, BH_E_INVALID, "image is not made for linux/" ARCH);
    }
    return bh_err_set(im->err, BH_E_LIMIT, "image index is nested too deeply");
}

static int import_oci(struct import *im, struct bh_str text)
{
    struct bh_jv index;
    int r = bh_jv_parse(im->a, text, NULL, &index, im->err);
    const struct bh_jv *list = r == 0 ? bh_jv_getc(&index, "manifests") : NULL;

    if (r < 0)
        return bh_err_wrap(im->err, "index.json");
    if (!list || list->kind != BH_JSON_ARR || list->n_items == 0)
        return bh_err_set(im->err, BH_E_INVALID, "the archive holds no image");
    if (im->name.n > 0 && list->n_items > 1)
        return bh_err_set(im->err, BH_E_INVALID,
                          "a name was given, but the archive holds %zu images", list->n_items);
    for (size_t i = 0; r == 0 && i < list->n_items; i++) {
        struct bh_str name = im->name.n > 0 ? im->name : oci_name(im, &list->items[i]);
        struct bh_str_vec names = {&name, name.n > 0 ? 1 : 0};

        r = import_descriptor(im, &list->items[i], &names);
    }
    return r;
}

/* A name out of manifest.json, as the extractor cleaned it. */
static int docker_rel(struct import *im, struct bh_str s, char *buf, size_t n)
{
    struct bh_str rest = s;

    if (s.n == 0 || s.p[0] == '/')
        return bh_err_set(im->err, BH_E_INVALID, "manifest.json names the file '%.*s'", BH_SF(s));
    while (rest.p)
        if (bh_str_eqc(bh_str_cut(&rest, '/'), ".."))
            return bh_err_set(im->err, BH_E_INVALID, "manifest.json names the file '%.*s'",
                              BH_SF(s));
    return bh_path(buf, n, im->err, "%.*s", BH_SF(s));
}

static int import_docker_image(struct import *im, const struct bh_jv *m)
{
    struct bh_image *img = bh_new(im->a, struct bh_image);
    const struct bh_jv *layers = bh_jv_getc(m, "Layers"), *tags = bh_jv_getc(m, "RepoTags");
    size_t n = layers && layers->kind == BH_JSON_ARR ? layers->n_items : 0;
    const char **rels = bh_new_n(im->a, const char *, n + 1);
    struct bh_str_vec names = {NULL, 0};
    struct bh_str text;
    char rel[PATH_MAX];
    int r = docker_rel(im, bh_jv_get_str(m, "Config"), rel, sizeof(rel));

    if (r == 0)
        r = read_in(im, rel, &text);
    if (r == 0)
        r = bh_jv_parse(im->a, text, NULL, &img->config, im->err);
    if (r < 0)
        return bh_err_wrap(im->err, "image configuration");
    img->cri.id = bh_str_fmt(im->a, "sha256:%.*s", BH_SF(bh_sha256_hex(im->a, text)));
    for (size_t i = 0; r == 0 && i < n; i++) {
        if (layers->items[i].kind != BH_JSON_STR)
            return bh_err_set(im->err, BH_E_INVALID, "manifest.json: a layer is no string");
        r = docker_rel(im, layers->items[i].s, rel, sizeof(rel));
        rels[i] = bh_arena_memdup(im->a, rel, strlen(rel) + 1);
    }
    if (r == 0)
        r = take_layers(im, img, rels, n);
    if (r < 0)
        return r;
    for (size_t i = 0; tags && tags->kind == BH_JSON_ARR && i < tags->n_items; i++)
        if (tags->items[i].kind == BH_JSON_STR)
            vec_add(im->a, &names, tags->items[i].s);
    if (im->name.n > 0)
        names = (struct bh_str_vec){&im->name, 1};
    return finish_image(im, img, &names, (struct bh_str){NULL, 0});
}

static int import_docker(struct import *im, struct bh_str text)
{
    struct bh_jv list;
    int r = bh_jv_parse(im->a, text, NULL, &list, im->err);

    if (r < 0)
        return bh_err_wrap(im->err, "manifest.json");
    if (list.kind != BH_JSON_ARR || list.n_items == 0)
        return bh_err_set(im->err, BH_E_INVALID, "the archive holds no image");
    if (im->name.n > 0 && list.n_items > 1)
        return bh_err_set(im->err, BH_E_INVALID,
                          "a name was given, but the archive holds %zu images", list.n_items);
    for (size_t i = 0; r == 0 && i < list.n_items; i++)
        r = import_docker_image(im, &list.items[i]);
    return r;
}

static int import_unpacked(struct import *im)
{
    struct bh_str text;
    int r = read_in(im, "manifest.json", &text);

    /* Newer docker writes both forms; its own holds the tags. */
    if (r == 0)
        return import_docker(im, text);
    if (r != -BH_E_NOT_FOUND)
        return r;
    r = read_in(im, "index.json", &text);
    if (r == -BH_E_NOT_FOUND)
        return bh_err_set(im->err, BH_E_INVALID,
                          "neither an OCI image layout nor a docker archive");
    return r < 0 ? r : import_oci(im, text);
}

int bh_image_import(struct bh_arena *a, const char *dir, const char *file, struct bh_str name,
                    struct bh_image_list *ret, struct bh_err *err)
{
    struct import im = {.a = a, .dir = dir, .file = file, .name = name, .out = ret, .err = err};
    char in[PATH_MAX];
    BH_AUTO_FD lock = -1;
    int r = bh_image_lock(dir, &lock, err);

    memset(ret, 0, sizeof(*ret));
    if (r == 0)
        r = bh_path(im.tmp, sizeof(im.tmp), err, "%s/tmp/import", dir);
    if (r == 0)
        r = bh_fs_remove_tree(im.tmp, err); /* what a killed import left: we hold the lock */
    if (r == 0)
        r = bh_path(in, sizeof(in), err, "%s/in", im.tmp);
    if (r == 0)
        r = bh_fs_mkdir_p(in, 0700, err);
    if (r < 0)
        return r;
    r = bh_archive_extract(file, in, err);
    if (r == 0)
        r = import_unpacked(&im);
    if (r < 0)
        (void)bh_err_wrap(err, "import '%s'", file);
    /* What cannot be removed now is removed by the next import. */
    if (bh_fs_remove_tree(im.tmp, NULL) < 0)
        bh_log(BH_DEBUG, "remains of an import left", BH_CSTR("path", im.tmp));
    return r;
}
