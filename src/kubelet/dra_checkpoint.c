/* <root>/dra_manager_state in upstream's form, so that agents can be exchanged on a drained node:
 *
 *     {"Data":"<JSON>","Checksum":<CRC-32/IEEE of the unescaped Data>}
 *
 * Data is
 * {"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","ClaimInfoStateList":[…]}.
 * Writes happen on the worker pool, one at a time; requests that come meanwhile share the next one.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/limits.h"
#include "base/log.h"
#include "data/json.h"
#include "kubelet/dra_int.h"

#define FILE_NAME      "dra_manager_state"
#define FILE_BYTES_MAX (64u << 20)
#define API_VERSION    "checkpoint.dra.kubelet.k8s.io/v1"

static uint32_t crc32_ieee(struct bh_str s)
{
    static const uint32_t nibble[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                        0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    uint32_t c = 0xffffffff;

    for (size_t i = 0; i < s.n; i++) {
        c ^= (unsigned char)s.p[i];
        c = c >> 4 ^ nibble[c & 15];
        c = c >> 4 ^ nibble[c & 15];
    }
    return ~c;
}

/* ---- reading ---- */

static struct bh_str_vec strs_of(struct bh_arena *a, const struct bh_jv *v)
{
    struct bh_str_vec r = {0};

    if (!v || v->kind != BH_JSON_ARR)
        return r;
    r.p = bh_new_n(a, struct bh_str, v->n_items + 1);
    for (size_t i = 0; i < v->n_items; i++)
        if (v->items[i].kind == BH_JSON_STR)
            r.p[r.n++] = v->items[i].s;
    return r;
}

static void state_decode(struct dra_claim *c, struct bh_arena *a, struct bh_str driver,
                         const struct bh_jv *v)
{
    const struct bh_jv *list = bh_jv_getc(v, "Devices");
    size_t n = list && list->kind == BH_JSON_ARR ? list->n_items : 0;
    struct bh_dra_device *d = bh_new_n(a, struct bh_dra_device, n + 1);

    for (size_t i = 0; i < n; i++) {
        const struct bh_jv *e = &list->items[i];

        d[i].pool = bh_jv_get_str(e, "PoolName");
        d[i].device = bh_jv_get_str(e, "DeviceName");
        d[i].share_id = bh_jv_get_str(e, "ShareID");
        d[i].requests = strs_of(a, bh_jv_getc(e, "RequestNames"));
        d[i].cdi_ids = strs_of(a, bh_jv_getc(e, "CDIDeviceIDs"));
    }
    dra_state_set(dra_state_get(c, driver, true), d, n);
}

static bool claim_decode(struct bh_dra_manager *m, struct bh_arena *a, const struct bh_jv *v)
{
    struct bh_str ns = bh_jv_get_str(v, "Namespace"), name = bh_jv_get_str(v, "ClaimName");
    struct bh_str uid = bh_jv_get_str(v, "ClaimUID");
    const struct bh_jv *pods = bh_jv_getc(v, "PodUIDs"), *drivers = bh_jv_getc(v, "DriverState");
    struct dra_claim *c;

    if (ns.n == 0 || name.n == 0 || uid.n == 0 || dra_claim_get(m, ns, name))
        return false;
    c = dra_claim_new(m, ns, name, uid);
    for (size_t i = 0; pods && pods->kind == BH_JSON_OBJ && i < pods->n_members; i++)
        dra_claim_add_pod(c, pods->members[i].key);
    for (size_t i = 0; drivers && drivers->kind == BH_JSON_OBJ && i < drivers->n_members; i++)
        state_decode(c, a, drivers->members[i].key, &drivers->members[i].v);
    return true;
}

/* False when the bytes are no checkpoint; part of it may be in the cache then. */
static bool decode(struct bh_dra_manager *m, struct bh_str bytes)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_jv doc = {0}, data = {0};
    const struct bh_jv *list;
    struct bh_str text;
    int64_t sum;

    if (bh_jv_parse(a, bytes, NULL, &doc, NULL) < 0 || !bh_jv_get_i64(&doc, "Checksum", &sum))
        return false;
    text = bh_jv_get_str(&doc, "Data");
    if (sum != (int64_t)crc32_ieee(text) || bh_jv_parse(a, text, NULL, &data, NULL) < 0)
        return false;
    if (!bh_str_eqc(bh_jv_get_str(&data, "apiVersion"), API_VERSION))
        return false;
    list = bh_jv_getc(&data, "ClaimInfoStateList");
    if (!list || list->kind == BH_JSON_NULL)
        return true;
    if (list->kind != BH_JSON_ARR || list->n_items > BH_DRA_CLAIMS_MAX)
        return false;
    for (size_t i = 0; i < list->n_items; i++)
        if (!claim_decode(m, a, &list->items[i]))
            return false;
    return true;
}

static void forget_all(struct bh_dra_manager *m)
{
    void *c;

    for (size_t it = 0; bh_map_next(&m->claims, &it, NULL, &c); it = 0)
        dra_claim_free(m, c);
}

/* ---- writing ---- */

static void strs_encode(struct bh_buf *b, struct bh_str_vec v)
{
    if (v.n == 0) {
        bh_buf_addz(b, "null");
        return;
    }
    for (size_t i = 0; i < v.n; i++) {
        bh_buf_addc(b, i > 0 ? ',' : '[');
        bh_json_write_str(b, v.p[i]);
    }
    bh_buf_addc(b, ']');
}

static void device_encode(struct bh_buf *b, const struct bh_dra_device *d)
{
    bh_buf_addz(b, "{\"PoolName\":");
    bh_json_write_str(b, d->pool);
    bh_buf_addz(b, ",\"DeviceName\":");
    bh_json_write_str(b, d->device);
    bh_buf_addz(b, ",\"ShareID\":");
    if (d->share_id.n > 0)
        bh_json_write_str(b, d->share_id);
    else
        bh_buf_addz(b, "null");
    bh_buf_addz(b, ",\"RequestNames\":");
    strs_encode(b, d->requests);
    bh_buf_addz(b, ",\"CDIDeviceIDs\":");
    strs_encode(b, d->cdi_ids);
    bh_buf_addc(b, '}');
}

static void claim_encode(struct bh_buf *b, const struct dra_claim *c)
{
    const char *sep = "";

    bh_buf_addz(b, "{\"ClaimUID\":");
    bh_json_write_str(b, bh_s(c->uid));
    bh_buf_addz(b, ",\"ClaimName\":");
    bh_json_write_str(b, c->name);
    bh_buf_addz(b, ",\"Namespace\":");
    bh_json_write_str(b, c->ns);
    bh_buf_addz(b, ",\"PodUIDs\":{");
    bh_list_for(it, &c->pods)
    {
        bh_buf_addz(b, sep);
        bh_json_write_str(b, bh_s(bh_container(it, struct dra_pod_ref, link)->uid));
        bh_buf_addz(b, ":{}");
        sep = ",";
    }
    bh_buf_addz(b, "},\"DriverState\":{");
    sep = "";
    bh_list_for(it, &c->states)
    {
        const struct dra_state *s = bh_container(it, struct dra_state, link);

        bh_buf_addz(b, sep);
        bh_json_write_str(b, s->driver);
        bh_buf_addz(b, s->devices_n > 0 ? ":{\"Devices\":[" : ":{\"Devices\":null");
        for (size_t i = 0; i < s->devices_n; i++) {
            bh_buf_addz(b, i > 0 ? "," : "");
            device_encode(b, &s->devices[i]);
        }
        bh_buf_addz(b, s->devices_n > 0 ? "]}" : "}");
        sep = ",";
    }
    bh_buf_addz(b, "}}");
}

static void encode(const struct bh_dra_manager *m, struct bh_buf *out)
{
    BH_AUTO_BUF data = {.max = FILE_BYTES_MAX / 2};
    void *c;
    bool first = true;

    bh_buf_addz(&data, "{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"" API_VERSION
                       "\",\"ClaimInfoStateList\":");
    if (m->claims.n == 0)
        bh_buf_addz(&data, "null");
    for (size_t it = 0; bh_map_next(&m->claims, &it, NULL, &c); first = false) {
        bh_buf_addc(&data, first ? '[' : ',');
        claim_encode(&data, c);
    }
    bh_buf_addz(&data, m->claims.n > 0 ? "]}" : "}");
    bh_buf_addz(out, "{\"Data\":");
    bh_json_write_str(out, bh_buf_str(&data));
    bh_buf_addf(out, ",\"Checksum\":%u}", crc32_ieee(bh_buf_str(&data)));
    out->overflow = out->overflow || data.overflow;
}

struct file_job {
    struct bh_dra_manager *m;
    char path[PATH_MAX];
    struct bh_buf bytes;
    struct bh_err err;
};

static void write_start(struct bh_dra_manager *m);

static void write_work(void *arg) /* worker pool */
{
    struct file_job *j = arg;

    if (j->err.code == BH_OK)
        (void)!bh_fs_write_atomic(j->path, bh_buf_str(&j->bytes), 0600, &j->err);
}

static void write_done(void *arg)
{
    struct file_job *j = arg;
    struct bh_dra_manager *m = j->m;

    m->writing = false;
    if (j->err.code != BH_OK)
        bh_log(BH_ERROR, "cannot write the checkpoint of claims", BH_CSTR("why", j->err.msg));
    while (!m->closed && !bh_list_empty(&m->writes_now)) {
        struct dra_write *w = bh_container(m->writes_now.next, struct dra_write, link);
        struct dra_write copy = *w;

        bh_list_del(&w->link);
        bh_free(w);
        if (copy.fn)
            copy.fn(copy.arg, j->err.code != BH_OK ? &j->err : NULL);
    }
    if (!m->closed && !bh_list_empty(&m->writes_next))
        write_start(m);
    bh_buf_done(&j->bytes);
    bh_free(j);
    dra_manager_unref(m);
}

static void write_start(struct bh_dra_manager *m)
{
    struct file_job *j = bh_calloc(1, sizeof(*j));

    m->writing = true;
    m->refs++;
    while (!bh_list_empty(&m->writes_next)) {
        struct bh_link *l = m->writes_next.next;

        bh_list_del(l);
        bh_list_add_tail(&m->writes_now, l);
    }
    j->m = m;
    j->bytes.max = FILE_BYTES_MAX;
    encode(m, &j->bytes);
    (void)!bh_path(j->path, sizeof(j->path), &j->err, "%s/%s", m->root, FILE_NAME);
    if (j->bytes.overflow)
        (void)bh_err_set(&j->err, BH_E_LIMIT, "the checkpoint of claims is too large");
    bh_loop_work(m->loop, write_work, write_done, j);
}

void dra_checkpoint_write(struct bh_dra_manager *m, void (*fn)(void *arg, const struct bh_err *err),
                          void *arg)
{
    struct dra_write *w = bh_calloc(1, sizeof(*w));

    w->fn = fn;
    w->arg = arg;
    bh_list_add_tail(&m->writes_next, &w->link);
    if (!m->writing)
        write_start(m);
}

int dra_checkpoint_load(struct bh_dra_manager *m, struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = FILE_BYTES_MAX};
    BH_AUTO_BUF fresh = {.max = 4096};
    char path[PATH_MAX];
    int r = bh_path(path, sizeof(path), err, "%s/%s", m->root, FILE_NAME);

    if (r < 0)
        return r;
    r = bh_fs_read(path, FILE_BYTES_MAX, &b, err);
    if (r == 0 && decode(m, bh_buf_str(&b)))
        return 0;
    if (r < 0 && r != -BH_E_NOT_FOUND && r != -BH_E_LIMIT)
        return r;
    if (r != -BH_E_NOT_FOUND) {
        forget_all(m);
        r = bh_fs_quarantine(path, "the checkpoint of claims", err);
        if (r < 0)
            return r;
    }
    encode(m, &fresh);
    return bh_fs_write_atomic(path, bh_buf_str(&fresh), 0600, err);
}
