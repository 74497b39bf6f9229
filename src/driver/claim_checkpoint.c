/* The checkpoint of prepared claims.
 *
 *     {"version":1,"checksum":"<crc32c of data, 8 hex digits>","data":"{\"claims\":[…]}"}
 *
 * data is a string, so that the checksum covers exact bytes. One claim:
 * {"uid","namespace","name","podClaim","done",
 * "devices":[{"request","pool","device","shareID","admin"}]}. */
#include "driver/claim_store_int.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/log.h"
#include "data/codec.h"
#include "data/json.h"

#define FILE_NAME      "prepared.json"
#define FILE_BYTES_MAX (64u << 20)

struct bh_claim *bh_claim_free(struct bh_claim *c)
{
    if (c)
        (void)bh_arena_free(c->arena);
    return NULL;
}

static struct bh_claim *claim_decode(const struct bh_jv *v)
{
    struct bh_arena *a = bh_arena_new(0);
    struct bh_claim *c = bh_new(a, struct bh_claim);
    const struct bh_jv *list = bh_jv_getc(v, "devices");

    c->arena = a;
    c->uid = bh_str_dup(a, bh_jv_get_str(v, "uid"));
    c->ns = bh_str_dup(a, bh_jv_get_str(v, "namespace"));
    c->name = bh_str_dup(a, bh_jv_get_str(v, "name"));
    c->pod_claim = bh_str_dup(a, bh_jv_get_str(v, "podClaim"));
    c->done = bh_jv_get_bool(v, "done");
    if (c->uid.n == 0 || !list || list->kind != BH_JSON_ARR || list->n_items > BH_CLAIM_DEVICES_MAX)
        return bh_claim_free(c);
    c->devices_n = list->n_items;
    c->devices = bh_new_n(a, struct bh_claim_device, c->devices_n);
    for (size_t i = 0; i < c->devices_n; i++) {
        struct bh_claim_device *d = &c->devices[i];

        d->request = bh_str_dup(a, bh_jv_get_str(&list->items[i], "request"));
        d->pool = bh_str_dup(a, bh_jv_get_str(&list->items[i], "pool"));
        d->device = bh_str_dup(a, bh_jv_get_str(&list->items[i], "device"));
        d->share_id = bh_str_dup(a, bh_jv_get_str(&list->items[i], "shareID"));
        d->admin = bh_jv_get_bool(&list->items[i], "admin");
        if (d->device.n == 0)
            return bh_claim_free(c);
    }
    return c;
}

static void claims_clear(struct bh_claim_store *s)
{
    void *c;

    for (size_t it = 0; bh_map_next(&s->claims, &it, NULL, &c);)
        (void)bh_claim_free(c);
    bh_map_done(&s->claims);
}

/* False when the bytes are not a checkpoint of ours. */
static bool decode(struct bh_claim_store *s, struct bh_str bytes)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_jv doc = {0}, data = {0};
    const struct bh_jv *list;
    struct bh_str text;
    int64_t version;

    if (bh_jv_parse(a, bytes, NULL, &doc, NULL) < 0 || !bh_jv_get_i64(&doc, "version", &version) ||
        version != 1)
        return false;
    text = bh_jv_get_str(&doc, "data");
    if (!bh_str_eq(bh_jv_get_str(&doc, "checksum"), bh_str_fmt(a, "%08x", bh_crc32c(0, text))))
        return false;
    if (bh_jv_parse(a, text, NULL, &data, NULL) < 0)
        return false;
    list = bh_jv_getc(&data, "claims");
    if (!list || list->kind != BH_JSON_ARR || list->n_items > BH_CLAIMS_MAX)
        return false;
    for (size_t i = 0; i < list->n_items; i++) {
        struct bh_claim *c = claim_decode(&list->items[i]);

        if (!c)
            return false;
        (void)bh_claim_free(bh_map_put(&s->claims, c->uid, c));
    }
    return true;
}

int bh_claim_checkpoint_load(struct bh_claim_store *s, bool *ret_fresh, struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = FILE_BYTES_MAX};
    char path[PATH_MAX];
    int r = bh_path(path, sizeof(path), err, "%s/%s", s->data_dir, FILE_NAME);

    if (r < 0)
        return r;
    r = bh_fs_read(path, FILE_BYTES_MAX, &b, err);
    *ret_fresh = r == -BH_E_NOT_FOUND;
    if (*ret_fresh)
        return 0;
    if (r == 0 && decode(s, bh_buf_str(&b)))
        return 0;
    if (r < 0 && r != -BH_E_LIMIT)
        return r;
    claims_clear(s);
    *ret_fresh = true;
    return bh_fs_quarantine(path, "the checkpoint of prepared claims", err);
}

static void claim_encode(struct bh_buf *b, const struct bh_claim *c)
{
    bh_buf_addz(b, "{\"uid\":");
    bh_json_write_str(b, c->uid);
    bh_buf_addz(b, ",\"namespace\":");
    bh_json_write_str(b, c->ns);
    bh_buf_addz(b, ",\"name\":");
    bh_json_write_str(b, c->name);
    if (c->pod_claim.n > 0) {
        bh_buf_addz(b, ",\"podClaim\":");
        bh_json_write_str(b, c->pod_claim);
    }
    bh_buf_addf(b, ",\"done\":%s,\"devices\":[", c->done ? "true" : "false");
    for (size_t i = 0; i < c->devices_n; i++) {
        const struct bh_claim_device *d = &c->devices[i];

        bh_buf_addz(b, i > 0 ? ",{\"request\":" : "{\"request\":");
        bh_json_write_str(b, d->request);
        bh_buf_addz(b, ",\"pool\":");
        bh_json_write_str(b, d->pool);
        bh_buf_addz(b, ",\"device\":");
        bh_json_write_str(b, d->device);
        if (d->share_id.n > 0) {
            bh_buf_addz(b, ",\"shareID\":");
            bh_json_write_str(b, d->share_id);
        }
        bh_buf_addz(b, d->admin ? ",\"admin\":true}" : "}");
    }
    bh_buf_addz(b, "]}");
}

int bh_claim_checkpoint_store(struct bh_claim_store *s, struct bh_err *err)
{
    BH_AUTO_BUF data = {.max = FILE_BYTES_MAX / 2};
    BH_AUTO_BUF file = {.max = FILE_BYTES_MAX};
    char path[PATH_MAX];
    void *c;
    bool first = true;
    int r = bh_path(path, sizeof(path), err, "%s/%s", s->data_dir, FILE_NAME);

    if (r < 0)
        return r;
    bh_buf_addz(&data, "{\"claims\":[");
    for (size_t it = 0; bh_map_next(&s->claims, &it, NULL, &c); first = false) {
        bh_buf_addz(&data, first ? "" : ",");
        claim_encode(&data, c);
    }
    bh_buf_addz(&data, "]}");
    bh_buf_addf(&file,
                "{\"version\":1,\"checksum\":\"%08x\",\"data\":", bh_crc32c(0, bh_buf_str(&data)));
    bh_json_write_str(&file, bh_buf_str(&data));
    bh_buf_addz(&file, "}\n");
    if (data.overflow || file.overflow)
        return bh_err_set(err, BH_E_LIMIT, "the checkpoint of prepared claims is too large");
    return bh_fs_write_atomic(path, bh_buf_str(&file), 0600, err);
}
