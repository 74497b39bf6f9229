/* Metadata files, read. */
#include "driver/metadata_read.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "data/json.h"

#define SUFFIX  "-metadata.json"
#define GROUP   "metadata.resource.k8s.io/"
#define VERSION "v1alpha1"

bool bh_metadata_version_known(struct bh_str list)
{
    while (list.p && list.n) {
        struct bh_str one = bh_str_trim(bh_str_cut(&list, ','));

        if (bh_str_eqc(one, VERSION) || bh_str_eqc(one, GROUP VERSION))
            return true;
    }
    return false;
}

static bool is_known(const struct bh_jv *v)
{
    return bh_str_eqc(bh_jv_get_str(v, "kind"), "DeviceMetadata") &&
           bh_str_eqc(bh_jv_get_str(v, "apiVersion"), GROUP VERSION);
}

static bool is_list(const struct bh_jv *v, bool or_none)
{
    return v && v->kind != BH_JSON_NULL ? v->kind == BH_JSON_ARR : or_none;
}

/* What is walked here are lists, or absent; the rest is passed on as it stands. */
static bool is_sound(const struct bh_jv *v)
{
    const struct bh_jv *requests = bh_jv_getc(v, "requests");

    if (!is_list(requests, false))
        return is_list(requests, true);
    for (size_t i = 0; i < requests->n_items; i++)
        if (requests->items[i].kind != BH_JSON_OBJ ||
            !is_list(bh_jv_getc(&requests->items[i], "devices"), true))
            return false;
    return true;
}

int bh_metadata_parse(struct bh_arena *a, struct bh_str text, struct bh_jv *ret, struct bh_err *err)
{
    BH_AUTO_BUF seen = {.max = 1024};

    for (;;) {
        struct bh_json_rd rd;
        struct bh_str raw;
        int r;

        text = bh_str_trim(text);
        if (!text.n)
            break;
        bh_json_rd_init(&rd, text, a);
        r = bh_json_skip(&rd, &raw, err);
        if (r == 0)
            r = bh_jv_parse(a, raw, NULL, ret, err);
        if (r < 0)
            return bh_err_set(err, BH_E_INVALID, "device metadata cannot be read: %s", err->msg);
        if (is_known(ret) && !is_sound(ret))
            return bh_err_set(err, BH_E_INVALID,
                              "device metadata cannot be read: requests and devices must be lists");
        if (is_known(ret))
            return 0;
        bh_buf_addf(&seen, "%s%.*s", seen.n ? ", " : "", BH_SF(bh_jv_get_str(ret, "apiVersion")));
        text = bh_str_sub(text, bh_json_pos(&rd), text.n);
    }
    return bh_err_set(err, BH_E_INVALID, "device metadata of no known version (it has: %.*s)",
                      BH_SF(bh_buf_str(&seen)));
}

static struct bh_jv *request_of(struct bh_jv *requests, struct bh_str name)
{
    for (size_t i = 0; i < requests->n_items; i++)
        if (bh_str_eq(bh_jv_get_str(&requests->items[i], "name"), name))
            return &requests->items[i];
    return NULL;
}

static struct bh_jv *list_of(struct bh_arena *a, struct bh_jv *o, const char *key)
{
    struct bh_jv *v = bh_jv_getc(o, key);

    return is_list(v, false) ? v : bh_jv_setc(a, o, key, BH_JV_ARR);
}

static void merge(struct bh_arena *a, struct bh_jv *all, const struct bh_jv *one)
{
    const struct bh_jv *more = bh_jv_getc(one, "requests");

    if (!bh_jv_getc(all, "podClaimName") && bh_jv_getc(one, "podClaimName"))
        (void)bh_jv_setc(a, all, "podClaimName", *bh_jv_getc(one, "podClaimName"));
    for (size_t i = 0; is_list(more, false) && i < more->n_items; i++) {
        struct bh_jv *requests = list_of(a, all, "requests");
        struct bh_jv *mine = request_of(requests, bh_jv_get_str(&more->items[i], "name"));
        const struct bh_jv *theirs = bh_jv_getc(&more->items[i], "devices");

        if (!mine)
            (void)bh_jv_append(a, requests, more->items[i]);
        for (size_t k = 0; mine && is_list(theirs, false) && k < theirs->n_items; k++)
            (void)bh_jv_append(a, list_of(a, mine, "devices"), theirs->items[k]);
    }
}

static int by_name(const void *x, const void *y)
{
    return bh_str_cmp(*(const struct bh_str *)x, *(const struct bh_str *)y);
}

static int list(struct bh_arena *a, const char *dir, struct bh_str *names, size_t *ret_n,
                struct bh_err *err)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    int r = 0;

    *ret_n = 0;
    if (!d)
        return bh_err_sys(err, errno, "open '%s'", dir);
    while (r == 0 && (e = readdir(d))) {
        if (!bh_str_ends(bh_s(e->d_name), BH_S(SUFFIX)))
            continue;
        if (*ret_n == BH_METADATA_FILES_MAX)
            r = bh_err_set(err, BH_E_LIMIT, "too many metadata files in '%s'", dir);
        else
            names[(*ret_n)++] = bh_str_dup(a, bh_s(e->d_name));
    }
    (void)closedir(d);
    if (*ret_n > 1)
        qsort(names, *ret_n, sizeof(*names), by_name);
    return r;
}

int bh_metadata_read(struct bh_arena *a, const char *dir, struct bh_jv *ret, struct bh_err *err)
{
    struct bh_str names[BH_METADATA_FILES_MAX];
    size_t n;
    int r = list(a, dir, names, &n, err);

    if (r == 0 && n == 0)
        return bh_err_set(err, BH_E_NOT_FOUND, "no metadata files in '%s'", dir);
    for (size_t i = 0; r == 0 && i < n; i++) {
        BH_AUTO_BUF text = {.max = BH_METADATA_BYTES_MAX};
        char path[PATH_MAX];
        struct bh_jv one;

        r = bh_path(path, sizeof(path), err, "%s/%.*s", dir, BH_SF(names[i]));
        if (r == 0)
            r = bh_fs_read(path, BH_METADATA_BYTES_MAX, &text, err);
        if (r == 0)
            r = bh_metadata_parse(a, bh_str_dup(a, bh_buf_str(&text)), &one, err);
        if (r < 0)
            return bh_err_wrap(err, "%s", path);
        if (i == 0)
            *ret = one;
        else
            merge(a, ret, &one);
    }
    return r;
}
