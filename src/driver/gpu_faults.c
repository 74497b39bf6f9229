/* The fault file: read, changed under a lock, written atomically. */
#include "driver/gpu_faults.h"

#include <limits.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "data/json.h"
#include "driver/gpu_xid.h"

#define FILE_BYTES_MAX (4u << 20)

static int file_read(struct bh_arena *a, const char *data_dir, const char *name, struct bh_jv *ret,
                     struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = FILE_BYTES_MAX};
    char path[PATH_MAX];
    int r = bh_path(path, sizeof(path), err, "%s/%s", data_dir, name);

    if (r < 0)
        return r;
    r = bh_fs_read(path, FILE_BYTES_MAX, &b, err);
    if (r < 0)
        return r;
    r = bh_jv_parse(a, bh_str_dup(a, bh_buf_str(&b)), NULL, ret, err);
    if (r < 0)
        return bh_err_set(err, BH_E_INVALID, "%s is not valid JSON", path);
    return 0;
}

static int fault_decode(struct bh_arena *a, const struct bh_jv *v, struct bh_fault *ret)
{
    struct bh_str t = bh_jv_get_str(v, "time");
    int64_t xid;

    ret->device = bh_str_dup(a, bh_jv_get_str(v, "device"));
    if (ret->device.n == 0 || !bh_jv_get_i64(v, "xid", &xid) || xid < BH_XID_MIN ||
        xid > BH_XID_MAX)
        return -BH_E_INVALID;
    ret->xid = (int)xid;
    return bh_time_parse(t, &ret->time, NULL) < 0 ? -BH_E_INVALID : 0;
}

int bh_faults_load(struct bh_arena *a, const char *data_dir, struct bh_faults *ret,
                   struct bh_err *err)
{
    struct bh_faults f = {0};
    struct bh_jv doc = {0};
    const struct bh_jv *list;
    int r = file_read(a, data_dir, BH_FAULTS_FILE, &doc, err);

    if (r == -BH_E_NOT_FOUND) {
        *ret = f;
        return 0;
    }
    if (r < 0)
        return r;
    list = bh_jv_getc(&doc, "faults");
    if (!list || list->kind != BH_JSON_ARR || list->n_items > BH_FAULTS_MAX)
        return bh_err_set(err, BH_E_INVALID, "%s/%s holds no list of faults", data_dir,
                          BH_FAULTS_FILE);
    for (size_t i = 0; i < list->n_items; i++) {
        bh_arena_grow(a, &f.p, &f.cap, f.n + 1, sizeof(*f.p));
        if (fault_decode(a, &list->items[i], &f.p[f.n++]) < 0)
            return bh_err_set(err, BH_E_INVALID, "%s/%s: faults[%zu] is malformed", data_dir,
                              BH_FAULTS_FILE, i);
    }
    *ret = f;
    return 0;
}

static int faults_store(const char *data_dir, const struct bh_faults *f, struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = FILE_BYTES_MAX};
    char path[PATH_MAX], t[BH_TIME_BUF];
    int r = bh_path(path, sizeof(path), err, "%s/%s", data_dir, BH_FAULTS_FILE);

    if (r < 0)
        return r;
    bh_buf_addz(&b, "{\"version\":1,\"faults\":[");
    for (size_t i = 0; i < f->n; i++) {
        bh_buf_addz(&b, i > 0 ? "," : "");
        bh_buf_addz(&b, "{\"device\":");
        bh_json_write_str(&b, f->p[i].device);
        bh_buf_addf(&b, ",\"xid\":%d,\"time\":\"%.*s\"}", f->p[i].xid,
                    BH_SF(bh_time_fmt_nano(f->p[i].time, t)));
    }
    bh_buf_addz(&b, "]}\n");
    return bh_fs_write_atomic(path, bh_buf_str(&b), 0644, err);
}

/* The driver has written which devices it has; without that file any name is accepted. */
static int device_check(struct bh_arena *a, const char *data_dir, struct bh_str device,
                        struct bh_err *err)
{
    struct bh_jv doc = {0};
    const struct bh_jv *list;
    int r = file_read(a, data_dir, BH_DEVICES_FILE, &doc, err);

    if (r == -BH_E_NOT_FOUND)
        return bh_err_set(err, BH_E_NOT_FOUND, "no GPU driver has run with the data directory %s",
                          data_dir);
    if (r < 0)
        return r;
    list = bh_jv_getc(&doc, "devices");
    if (!list || list->kind != BH_JSON_ARR || list->n_items == 0)
        return bh_err_set(err, BH_E_INVALID, "%s/%s holds no list of devices", data_dir,
                          BH_DEVICES_FILE);
    for (size_t i = 0; i < list->n_items; i++)
        if (bh_str_eq(list->items[i].s, device))
            return 0;
    return bh_err_set(err, BH_E_NOT_FOUND, "no device '%.*s'; there are %zu, from %.*s to %.*s",
                      BH_SF(device), list->n_items, BH_SF(list->items[0].s),
                      BH_SF(list->items[list->n_items - 1].s));
}

/* Two commands at once wait for each other; a lock held for long means that something is wrong. */
static int lock_take(const char *data_dir, int *ret_fd, struct bh_err *err)
{
    char path[PATH_MAX];
    int r = bh_path(path, sizeof(path), err, "%s/faults.lock", data_dir);

    return r < 0 ? r : bh_fs_lock(path, ret_fd, err);
}

int bh_faults_set(const char *data_dir, struct bh_str device, int xid, struct bh_time now,
                  struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_FD lock = -1;
    struct bh_faults f = {0};
    int r = device_check(a, data_dir, device, err);

    if (r < 0)
        return r;
    if (xid < BH_XID_MIN || xid > BH_XID_MAX)
        return bh_err_set(err, BH_E_INVALID, "an XID is a number from %d to %d", BH_XID_MIN,
                          BH_XID_MAX);
    r = lock_take(data_dir, &lock, err);
    if (r == 0)
        r = bh_faults_load(a, data_dir, &f, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < f.n; i++)
        if (f.p[i].xid == xid && bh_str_eq(f.p[i].device, device))
            return 0;
    if (f.n >= BH_FAULTS_MAX)
        return bh_err_set(err, BH_E_LIMIT, "there are already %d faults", BH_FAULTS_MAX);
    bh_arena_grow(a, &f.p, &f.cap, f.n + 1, sizeof(*f.p));
    f.p[f.n++] = (struct bh_fault){device, xid, now};
    return faults_store(data_dir, &f, err);
}

int bh_faults_clear(const char *data_dir, struct bh_str device, int xid, size_t *ret_n,
                    struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_FD lock = -1;
    struct bh_faults f = {0};
    size_t keep = 0;
    int r = device_check(a, data_dir, device, err);

    if (r == 0)
        r = lock_take(data_dir, &lock, err);
    if (r == 0)
        r = bh_faults_load(a, data_dir, &f, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < f.n; i++)
        if (!bh_str_eq(f.p[i].device, device) || (xid != 0 && f.p[i].xid != xid))
            f.p[keep++] = f.p[i];
    *ret_n = f.n - keep;
    f.n = keep;
    return *ret_n > 0 ? faults_store(data_dir, &f, err) : 0;
}

int bh_devices_store(const char *data_dir, const struct bh_str *names, size_t n, struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = FILE_BYTES_MAX};
    char path[PATH_MAX];
    int r = bh_path(path, sizeof(path), err, "%s/%s", data_dir, BH_DEVICES_FILE);

    if (r < 0)
        return r;
    bh_buf_addz(&b, "{\"version\":1,\"devices\":[");
    for (size_t i = 0; i < n; i++) {
        bh_buf_addz(&b, i > 0 ? "," : "");
        bh_json_write_str(&b, names[i]);
    }
    bh_buf_addz(&b, "]}\n");
    return bh_fs_write_atomic(path, bh_buf_str(&b), 0644, err);
}
