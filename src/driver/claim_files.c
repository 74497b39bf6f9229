/* The files of a prepared claim: its CDI spec, and for each request the metadata that the container
 * sees.
 *
 *     <cdi>/<driver>-claim_<uid>.json                    kind <driver>/claim, a device for each
 * allocated device <cdi>/<driver>_metadata_<uid>_<request>.json       kind <driver>/metadata,
 * mounts the file below <data>/dra-device-metadata/<ns>_<claim>/<request>/metadata.json
 *
 * Specs are renamed into place, since the runtime reads the directory at any time. A metadata file
 * is rewritten in place, because a running container holds its inode. */
#include "driver/claim_store_int.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "api/engine.h"
#include "api/gen/resource_v1.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/log.h"
#include "data/json.h"
#include "driver/gpu_profile.h"

#define SPEC_BYTES_MAX (1u << 20)
#define CONTAINER_DIR  "/var/run/kubernetes.io/dra-device-attributes"

/* A simulated device is the null device under another name. */
#define NODE_MAJOR 1
#define NODE_MINOR 3

struct bh_str bh_claim_base(struct bh_str request)
{
    return bh_str_cut(&request, '/');
}

bool bh_claim_first_of_request(const struct bh_claim *c, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (bh_str_eq(bh_claim_base(c->devices[j].request), bh_claim_base(c->devices[i].request)))
            return false;
    return true;
}

static struct bh_str cdi_name(struct bh_arena *a, const struct bh_claim *c, size_t i)
{
    const struct bh_claim_device *d = &c->devices[i];

    return bh_str_fmt(a, "%.*s-%.*s%s%.*s", BH_SF(c->uid), BH_SF(d->device),
                      d->share_id.n > 0 ? "-" : "", BH_SF(d->share_id));
}

struct bh_str bh_claim_cdi_id(const struct bh_claim_store *s, struct bh_arena *a,
                              const struct bh_claim *c, size_t i)
{
    return bh_str_fmt(a, "%s/claim=%.*s", s->driver, BH_SF(cdi_name(a, c, i)));
}

struct bh_str bh_claim_metadata_id(const struct bh_claim_store *s, struct bh_arena *a,
                                   const struct bh_claim *c, struct bh_str base_request)
{
    return bh_str_fmt(a, "%s/metadata=%.*s_%.*s", s->driver, BH_SF(c->uid), BH_SF(base_request));
}

static const struct bh_gpu *gpu_of(const struct bh_claim_store *s, struct bh_str device,
                                   size_t *ret_index)
{
    for (size_t i = 0; i < s->o.profile->n; i++)
        if (bh_str_eq(s->o.profile->gpus[i].name, device)) {
            *ret_index = i;
            return &s->o.profile->gpus[i];
        }
    return NULL;
}

/* ---- the claim's CDI spec ---- */

static void spec_device(const struct bh_claim_store *s, struct bh_arena *a,
                        const struct bh_claim *c, size_t i, struct bh_buf *b)
{
    size_t index = 0;
    const struct bh_gpu *g = gpu_of(s, c->devices[i].device, &index);

    bh_buf_addz(b, i > 0 ? ",{\"name\":" : "{\"name\":");
    bh_json_write_str(b, cdi_name(a, c, i));
    bh_buf_addf(b, ",\"containerEdits\":{\"env\":[\"BULKHEAD_DEVICE_%zu=%.*s\"],", index,
                BH_SF(g->uuid));
    bh_buf_addf(b,
                "\"deviceNodes\":[{\"path\":\"/dev/bulkhead/"
                "%.*s\",\"type\":\"c\",\"major\":%d,\"minor\":%d,"
                "\"fileMode\":438,\"permissions\":\"rw\"}]}}",
                BH_SF(g->name), NODE_MAJOR, NODE_MINOR);
}

/* The environment of the whole claim stands at the spec's level, where it is applied once; a
 * variable for each device tells a container that uses only a part of the claim which ones it has.
 */
static void spec_build(const struct bh_claim_store *s, struct bh_arena *a, const struct bh_claim *c,
                       struct bh_buf *b)
{
    size_t index;
    bool admin = false;

    bh_buf_addf(b, "{\"cdiVersion\":\"0.5.0\",\"kind\":\"%s/claim\",\"containerEdits\":{\"env\":[",
                s->driver);
    bh_buf_addz(b, "\"BULKHEAD_VISIBLE_DEVICES=");
    for (size_t i = 0; i < c->devices_n; i++) {
        bh_buf_addf(b, "%s%.*s", i > 0 ? "," : "",
                    BH_SF(gpu_of(s, c->devices[i].device, &index)->uuid));
        admin = admin || c->devices[i].admin;
    }
    bh_buf_addz(b, admin ? "\",\"DRA_ADMIN_ACCESS=true\"]},\"devices\":[" : "\"]},\"devices\":[");
    for (size_t i = 0; i < c->devices_n; i++)
        spec_device(s, a, c, i, b);
    bh_buf_addz(b, "]}");
}

/* Writes JSON with two blanks a level, renamed into place under a name without .json until it is
 * whole. */
static int spec_write(const char *dir, const char *name, struct bh_arena *a, struct bh_str json,
                      struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = SPEC_BYTES_MAX};
    char path[PATH_MAX];
    struct bh_jv v;
    int r = bh_path(path, sizeof(path), err, "%s/%s", dir, name);

    if (r < 0)
        return r;
    r = bh_jv_parse(a, json, NULL, &v, err);
    if (r < 0)
        return r;
    bh_jv_write(&b, &v, BH_JSON_INDENT2 | BH_JSON_PLAIN);
    bh_buf_addc(&b, '\n');
    return bh_fs_write_atomic(path, bh_buf_str(&b), 0644, err);
}

/* ---- metadata ---- */

static void metadata_device(const struct bh_claim_store *s, struct bh_arena *a,
                            const struct bh_claim_device *d, bool first, struct bh_buf *b)
{
    size_t index = 0;
    const struct bh_gpu *gpu;
    struct bh_resource_v1_device dev;

    gpu = gpu_of(s, d->device, &index);
    bh_gpu_to_device(a, gpu, index, &dev);
    bh_buf_addf(b, "%s{\"driver\":\"%s\",\"pool\":", first ? "" : ",", s->driver);
    bh_json_write_str(b, d->pool);
    bh_buf_addz(b, ",\"name\":");
    bh_json_write_str(b, d->device);
    bh_buf_addz(b, ",\"attributes\":{");
    for (size_t i = 0; i < dev.attributes.n; i++) {
        bh_buf_addz(b, i > 0 ? "," : "");
        bh_json_write_str(b, dev.attributes.p[i].key);
        bh_buf_addc(b, ':');
        bh_msg_encode_json(&bh_resource_v1_device_attribute_type, &dev.attributes.p[i].value, b);
    }
    bh_buf_addz(b, "}}");
}

static void metadata_build(const struct bh_claim_store *s, struct bh_arena *a,
                           const struct bh_claim *c, size_t at, struct bh_buf *b)
{
    struct bh_str base = bh_claim_base(c->devices[at].request);
    bool first = true;

    bh_buf_addz(b, "{\"kind\":\"DeviceMetadata\",\"apiVersion\":\"metadata.resource.k8s.io/"
                   "v1alpha1\",\"metadata\":{");
    bh_buf_addz(b, "\"name\":");
    bh_json_write_str(b, c->name);
    bh_buf_addz(b, ",\"namespace\":");
    bh_json_write_str(b, c->ns);
    bh_buf_addz(b, ",\"uid\":");
    bh_json_write_str(b, c->uid);
    bh_buf_addz(b, ",\"generation\":1}");
    if (c->pod_claim.n > 0) {
        bh_buf_addz(b, ",\"podClaimName\":");
        bh_json_write_str(b, c->pod_claim);
    }
    bh_buf_addz(b, ",\"requests\":[{\"name\":");
    bh_json_write_str(b, c->devices[at].request);
    bh_buf_addz(b, ",\"devices\":[");
    for (size_t i = at; i < c->devices_n; i++) {
        if (!bh_str_eq(bh_claim_base(c->devices[i].request), base))
            continue;
        metadata_device(s, a, &c->devices[i], first, b);
        first = false;
    }
    bh_buf_addz(b, "]}]}");
}

static int metadata_dir(const struct bh_claim_store *s, struct bh_str ns, struct bh_str name,
                        char *buf, size_t n, struct bh_err *err)
{
    return bh_path(buf, n, err, "%s/dra-device-metadata/%.*s_%.*s", s->data_dir, BH_SF(ns),
                   BH_SF(name));
}

static int metadata_spec(const struct bh_claim_store *s, struct bh_arena *a,
                         const struct bh_claim *c, struct bh_str base, const char *host,
                         struct bh_err *err)
{
    bool direct = c->pod_claim.n == 0;
    BH_AUTO_BUF b = {.max = SPEC_BYTES_MAX};
    struct bh_str to = bh_str_fmt(a, "%s/%s/%.*s/%.*s/%s-metadata.json", CONTAINER_DIR,
                                  direct ? "resourceclaims" : "resourceclaimtemplates",
                                  BH_SF(direct ? c->name : c->pod_claim), BH_SF(base), s->driver);
    struct bh_str file =
        bh_str_fmt(a, "%s_metadata_%.*s_%.*s.json", s->driver, BH_SF(c->uid), BH_SF(base));

    bh_buf_addf(
        &b,
        "{\"cdiVersion\":\"0.5.0\",\"kind\":\"%s/metadata\",\"devices\":[{\"name\":\"%.*s_%.*s\",",
        s->driver, BH_SF(c->uid), BH_SF(base));
    bh_buf_addz(&b, "\"containerEdits\":{\"mounts\":[{\"hostPath\":");
    bh_json_write_str(&b, bh_s(host));
    bh_buf_addz(&b, ",\"containerPath\":");
    bh_json_write_str(&b, to);
    bh_buf_addz(&b, ",\"options\":[\"ro\",\"bind\"]}]}}]}");
    return spec_write(s->cdi_dir, file.p, a, bh_buf_str(&b), err);
}

static int metadata_write(const struct bh_claim_store *s, struct bh_arena *a,
                          const struct bh_claim *c, size_t at, struct bh_err *err)
{
    struct bh_str base = bh_claim_base(c->devices[at].request);
    BH_AUTO_BUF b = {.max = SPEC_BYTES_MAX};
    BH_AUTO_BUF text = {.max = SPEC_BYTES_MAX};
    char dir[PATH_MAX], req[PATH_MAX], path[PATH_MAX];
    struct bh_jv v;
    int r = metadata_dir(s, c->ns, c->name, dir, sizeof(dir), err);

    if (r == 0)
        r = bh_path(req, sizeof(req), err, "%s/%.*s", dir, BH_SF(base));
    if (r == 0)
        r = bh_path(path, sizeof(path), err, "%s/metadata.json", req);
    if (r == 0)
        r = bh_fs_mkdir_p(req, 0755, err);
    if (r < 0)
        return r;
    metadata_build(s, a, c, at, &b);
    r = bh_jv_parse(a, bh_buf_str(&b), NULL, &v, err);
    if (r < 0)
        return r;
    bh_jv_write(&text, &v, BH_JSON_INDENT2 | BH_JSON_PLAIN);
    bh_buf_addc(&text, '\n');
    r = bh_fs_write_plain(path, bh_buf_str(&text), 0644, err);
    return r < 0 ? r : metadata_spec(s, a, c, base, path, err);
}

static int metadata_spec_path(const struct bh_claim_store *s, const struct bh_claim *c,
                              struct bh_str base, char *buf, size_t n, struct bh_err *err)
{
    return bh_path(buf, n, err, "%s/%s_metadata_%.*s_%.*s.json", s->cdi_dir, s->driver,
                   BH_SF(c->uid), BH_SF(base));
}

bool bh_claim_has_metadata(const struct bh_claim_store *s, const struct bh_claim *c,
                           struct bh_str base_request)
{
    char path[PATH_MAX];

    return metadata_spec_path(s, c, base_request, path, sizeof(path), NULL) == 0 &&
           bh_fs_exists(path);
}

/* ---- all of a claim ---- */

int bh_claim_files_write(const struct bh_claim_store *s, const struct bh_claim *c,
                         struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF b = {.max = SPEC_BYTES_MAX};
    struct bh_err why = {0};

    if (c->devices_n == 0)
        return 0;
    /* A pod can do without its metadata file: a failure costs the file, not the claim. */
    for (size_t i = 0; i < c->devices_n; i++)
        if (bh_claim_first_of_request(c, i) && metadata_write(s, a, c, i, &why) < 0)
            bh_log(BH_WARN, "cannot write device metadata, continuing", BH_STR("claim", c->name),
                   BH_CSTR("why", why.msg));
    spec_build(s, a, c, &b);
    return spec_write(s->cdi_dir, bh_str_fmt(a, "%s-claim_%.*s.json", s->driver, BH_SF(c->uid)).p,
                      a, bh_buf_str(&b), err);
}

static int remove_file(const char *path, struct bh_err *err)
{
    if (unlink(path) < 0 && errno != ENOENT)
        return bh_err_sys(err, errno, "remove %s", path);
    return 0;
}

/* The metadata directory is named after the claim, not its UID: what belongs to a successor of the
 * same name stays. */
static bool metadata_is_ours(struct bh_arena *a, const char *dir, struct bh_str uid)
{
    bool ours = true;
    struct dirent *e;
    DIR *d = opendir(dir);

    while (d && (e = readdir(d))) {
        BH_AUTO_BUF b = {.max = SPEC_BYTES_MAX};
        char path[PATH_MAX];
        struct bh_jv v = {0};
        const struct bh_jv *u;

        if (e->d_name[0] == '.' ||
            bh_path(path, sizeof(path), NULL, "%s/%s/metadata.json", dir, e->d_name) < 0 ||
            bh_fs_read(path, SPEC_BYTES_MAX, &b, NULL) < 0 ||
            bh_jv_parse(a, bh_str_dup(a, bh_buf_str(&b)), NULL, &v, NULL) < 0)
            continue;
        u = bh_jv_path(&v, "metadata.uid");
        ours = ours && (!u || bh_str_eq(u->s, uid));
    }
    if (d)
        (void)closedir(d);
    return ours;
}

/* Calls fn for each file of the CDI directory that belongs to this driver, with the claim's UID. */
static void each_spec(const struct bh_claim_store *s,
                      void (*fn)(const struct bh_claim_store *s, const char *path,
                                 struct bh_str uid, void *arg),
                      void *arg)
{
    char head_claim[300], head_meta[300], path[PATH_MAX];
    struct dirent *e;
    DIR *d;

    if (bh_path(head_claim, sizeof(head_claim), NULL, "%s-claim_", s->driver) < 0 ||
        bh_path(head_meta, sizeof(head_meta), NULL, "%s_metadata_", s->driver) < 0)
        return;
    d = opendir(s->cdi_dir);
    while (d && (e = readdir(d))) {
        struct bh_str name = bh_s(e->d_name);
        struct bh_str uid = {NULL, 0};

        if (!bh_str_ends(name, BH_S(".json")) ||
            bh_path(path, sizeof(path), NULL, "%s/%s", s->cdi_dir, e->d_name) < 0)
            continue;
        if (bh_str_starts(name, bh_s(head_claim))) {
            uid = bh_str_sub(name, strlen(head_claim), name.n - 5);
        } else if (bh_str_starts(name, bh_s(head_meta))) {
            uid = bh_str_sub(name, strlen(head_meta), name.n - 5);
            uid = bh_str_cut(&uid, '_');
        }
        if (uid.n > 0)
            fn(s, path, uid, arg);
    }
    if (d)
        (void)closedir(d);
}

struct removal {
    struct bh_str uid;
    struct bh_err *err;
    int r;
};

static void remove_if_of(const struct bh_claim_store *s, const char *path, struct bh_str uid,
                         void *arg)
{
    struct removal *rm = arg;
    struct bh_str name = bh_s(path + strlen(s->cdi_dir) + 1 + strlen(s->driver));

    if (bh_str_starts(name, BH_S("_metadata_")) && bh_str_eq(uid, rm->uid) && rm->r == 0)
        rm->r = remove_file(path, rm->err);
}

int bh_claim_files_remove(const struct bh_claim_store *s, const struct bh_claim_ref *c,
                          struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct removal rm = {c->uid, err, 0};
    char path[PATH_MAX];
    int r = bh_path(path, sizeof(path), err, "%s/%s-claim_%.*s.json", s->cdi_dir, s->driver,
                    BH_SF(c->uid));

    if (r == 0)
        r = remove_file(path, err);
    if (r < 0)
        return r;
    each_spec(s, remove_if_of, &rm);
    if (rm.r < 0)
        return rm.r;
    r = metadata_dir(s, c->ns, c->name, path, sizeof(path), err);
    if (r < 0)
        return r;
    return metadata_is_ours(a, path, c->uid) ? bh_fs_remove_tree(path, err) : 0;
}

static void remove_if_unknown(const struct bh_claim_store *s, const char *path, struct bh_str uid,
                              void *arg)
{
    struct bh_err why = {0};

    (void)arg;
    if (bh_map_get(&s->claims, uid))
        return;
    if (remove_file(path, &why) < 0)
        bh_log(BH_WARN, "cannot remove a stale CDI spec, continuing", BH_CSTR("why", why.msg));
}

void bh_claim_files_sweep(const struct bh_claim_store *s)
{
    each_spec(s, remove_if_unknown, NULL);
}
