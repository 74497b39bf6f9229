/* Prepare and unprepare as steps that a crash may part anywhere. */
#include "driver/claim_store.h"

#include "base/arena.h"
#include "base/fs.h"
#include "base/log.h"
#include "data/names.h"
#include "driver/claim_store_int.h"
#include "driver/gpu_profile.h"

#define UID_MAX_BYTES 64

static void step(const struct bh_claim_store *s, const char *name)
{
    if (s->o.step)
        s->o.step(s->o.arg, name);
}

struct bh_claim_store *bh_claim_store_free(struct bh_claim_store *s)
{
    void *c;

    if (!s)
        return NULL;
    for (size_t it = 0; bh_map_next(&s->claims, &it, NULL, &c);)
        (void)bh_claim_free(c);
    bh_map_done(&s->claims);
    bh_free(s->data_dir);
    bh_free(s->cdi_dir);
    bh_free(s->driver);
    bh_free(s);
    return NULL;
}

struct bh_claim_store *bh_claim_store_open(const struct bh_claim_store_opts *o, struct bh_err *err)
{
    struct bh_claim_store *s = bh_calloc(1, sizeof(*s));
    bool fresh = false;
    int r;

    s->o = *o;
    s->data_dir = bh_strdup_c(bh_s(o->data_dir));
    s->cdi_dir = bh_strdup_c(bh_s(o->cdi_dir));
    s->driver = bh_strdup_c(bh_s(o->driver));
    r = bh_fs_mkdir_p(s->data_dir, 0750, err);
    if (r == 0)
        r = bh_fs_mkdir_p(s->cdi_dir, 0755, err);
    if (r == 0)
        r = bh_claim_checkpoint_load(s, &fresh, err);
    if (r < 0)
        return bh_claim_store_free(s);
    /* Without a checkpoint nobody can say what is stale: the specs may belong to pods that run. */
    if (!fresh)
        bh_claim_files_sweep(s);
    return s;
}

size_t bh_claim_store_count(const struct bh_claim_store *s)
{
    return s->claims.n;
}

size_t bh_claim_store_list(const struct bh_claim_store *s, struct bh_arena *a,
                           struct bh_claim_ref **ret)
{
    struct bh_claim_ref *out = bh_new_n(a, struct bh_claim_ref, s->claims.n + 1);
    size_t n = 0;
    void *v;

    for (size_t it = 0; bh_map_next(&s->claims, &it, NULL, &v);) {
        const struct bh_claim *c = v;

        out[n++] = (struct bh_claim_ref){bh_str_dup(a, c->uid), bh_str_dup(a, c->ns),
                                         bh_str_dup(a, c->name)};
    }
    *ret = out;
    return n;
}

/* These become parts of file names. */
static int ref_check(const struct bh_claim_ref *c, struct bh_err *err)
{
    char buf[BH_NAMES_BUF];

    if (c->uid.n == 0 || c->uid.n > UID_MAX_BYTES || bh_check_dns1123_subdomain(c->uid, buf))
        return bh_err_set(err, BH_E_INVALID, "the claim's UID is malformed");
    if (bh_check_dns1123_label(c->ns, buf) || bh_check_dns1123_subdomain(c->name, buf))
        return bh_err_set(err, BH_E_INVALID, "the claim's namespace or name is malformed");
    return 0;
}

static int results_check(const struct bh_claim_store *s, const struct bh_claim_result *r, size_t n,
                         struct bh_err *err)
{
    char buf[BH_NAMES_BUF];

    if (n > BH_CLAIM_DEVICES_MAX)
        return bh_err_set(err, BH_E_LIMIT, "more than %d allocated devices", BH_CLAIM_DEVICES_MAX);
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;

        while (k < s->o.profile->n && !bh_str_eq(s->o.profile->gpus[k].name, r[i].device))
            k++;
        if (k == s->o.profile->n)
            return bh_err_set(err, BH_E_NOT_FOUND, "no device '%.*s' on this node",
                              BH_SF(r[i].device));
        if (bh_check_dns1123_label(bh_claim_base(r[i].request), buf))
            return bh_err_set(err, BH_E_INVALID, "request name '%.*s' is malformed",
                              BH_SF(r[i].request));
        if (r[i].share_id.n > 0 &&
            (r[i].share_id.n > UID_MAX_BYTES || bh_check_dns1123_label(r[i].share_id, buf)))
            return bh_err_set(err, BH_E_INVALID, "the share ID of device '%.*s' is malformed",
                              BH_SF(r[i].device));
    }
    return 0;
}

/* Two claims on one device must not happen; if the cluster says so it is wrong, and the later one
 * has to wait. */
static int overlap_check(const struct bh_claim_store *s, struct bh_str uid,
                         const struct bh_claim_result *r, size_t n, struct bh_err *err)
{
    void *v;

    for (size_t it = 0; bh_map_next(&s->claims, &it, NULL, &v);) {
        const struct bh_claim *c = v;

        if (bh_str_eq(c->uid, uid))
            continue;
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < c->devices_n; k++)
                if (!r[i].admin && !c->devices[k].admin && r[i].share_id.n == 0 &&
                    c->devices[k].share_id.n == 0 && bh_str_eq(r[i].device, c->devices[k].device))
                    return bh_err_set(err, BH_E_CONFLICT,
                                      "device %.*s is already prepared for claim %.*s/%.*s (%.*s)",
                                      BH_SF(r[i].device), BH_SF(c->ns), BH_SF(c->name),
                                      BH_SF(c->uid));
    }
    return 0;
}

static struct bh_claim *claim_new(const struct bh_claim_ref *ref, struct bh_str pod_claim,
                                  const struct bh_claim_result *r, size_t n)
{
    struct bh_arena *a = bh_arena_new(0);
    struct bh_claim *c = bh_new(a, struct bh_claim);

    c->arena = a;
    c->uid = bh_str_dup(a, ref->uid);
    c->ns = bh_str_dup(a, ref->ns);
    c->name = bh_str_dup(a, ref->name);
    c->pod_claim = bh_str_dup(a, pod_claim);
    c->devices = bh_new_n(a, struct bh_claim_device, n);
    c->devices_n = n;
    for (size_t i = 0; i < n; i++)
        c->devices[i] = (struct bh_claim_device){
            bh_str_dup(a, r[i].request), bh_str_dup(a, r[i].pool), bh_str_dup(a, r[i].device),
            bh_str_dup(a, r[i].share_id), r[i].admin};
    return c;
}

static void answer(const struct bh_claim_store *s, const struct bh_claim *c, struct bh_arena *a,
                   struct bh_claim_prepared **ret)
{
    struct bh_claim_prepared *p = bh_new_n(a, struct bh_claim_prepared, c->devices_n);

    for (size_t i = 0; i < c->devices_n; i++) {
        struct bh_str base = bh_claim_base(c->devices[i].request);

        p[i].request = bh_str_dup(a, base);
        p[i].pool = bh_str_dup(a, c->devices[i].pool);
        p[i].device = bh_str_dup(a, c->devices[i].device);
        p[i].share_id = bh_str_dup(a, c->devices[i].share_id);
        p[i].cdi_ids.p = bh_new_n(a, struct bh_str, 2);
        p[i].cdi_ids.p[p[i].cdi_ids.n++] = bh_claim_cdi_id(s, a, c, i);
        if (bh_claim_first_of_request(c, i) && bh_claim_has_metadata(s, c, base))
            p[i].cdi_ids.p[p[i].cdi_ids.n++] = bh_claim_metadata_id(s, a, c, base);
    }
    *ret = p;
}

static bool same_devices(const struct bh_claim *c, const struct bh_claim_result *r, size_t n)
{
    if (c->devices_n != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!bh_str_eq(c->devices[i].device, r[i].device) ||
            !bh_str_eq(c->devices[i].request, r[i].request) ||
            !bh_str_eq(c->devices[i].share_id, r[i].share_id))
            return false;
    return true;
}

int bh_claim_prepare(struct bh_claim_store *s, const struct bh_claim_ref *ref,
                     struct bh_str pod_claim, const struct bh_claim_result *results, size_t n,
                     struct bh_arena *a, struct bh_claim_prepared **ret, struct bh_err *err)
{
    char buf[BH_NAMES_BUF];
    struct bh_claim *c;
    int r = ref_check(ref, err);

    if (r == 0)
        r = results_check(s, results, n, err);
    if (r == 0 && pod_claim.n > 0 && bh_check_dns1123_label(pod_claim, buf))
        r = bh_err_set(err, BH_E_INVALID, "the pod's name of the claim is malformed");
    if (r == 0)
        r = overlap_check(s, ref->uid, results, n, err);
    if (r < 0)
        return r;
    c = bh_map_get(&s->claims, ref->uid);
    if (!c && s->claims.n >= BH_CLAIMS_MAX)
        return bh_err_set(err, BH_E_LIMIT, "there are already %d prepared claims", BH_CLAIMS_MAX);
    if (!c ||
        !same_devices(c, results,
                      n)) { /* an allocation never changes under one UID, but disks get restored */
        c = claim_new(ref, pod_claim, results, n);
        (void)bh_claim_free(bh_map_put(&s->claims, c->uid, c));
    }
    if (!c->done) {
        r = bh_claim_checkpoint_store(s, err);
        if (r < 0)
            return r;
        step(s, "started");
    }
    r = bh_claim_files_write(s, c, err);
    if (r < 0)
        return r;
    step(s, "files");
    if (!c->done) {
        c->done = true;
        r = bh_claim_checkpoint_store(s, err);
        if (r < 0) {
            c->done = false;
            return r;
        }
        step(s, "done");
    }
    answer(s, c, a, ret);
    return 0;
}

int bh_claim_unprepare(struct bh_claim_store *s, const struct bh_claim_ref *ref, struct bh_err *err)
{
    struct bh_claim *c;
    int r = ref_check(ref, err);

    if (r < 0)
        return r;
    c = bh_map_get(&s->claims, ref->uid);
    /* A crash from here on leaves an entry without files; prepare writes them again, unprepare
     * removes none. */
    r = bh_claim_files_remove(s, ref, err);
    if (r < 0)
        return r;
    step(s, "removed");
    if (!c)
        return 0;
    (void)bh_map_del(&s->claims, ref->uid);
    r = bh_claim_checkpoint_store(s, err);
    if (r < 0) {
        (void)bh_map_put(&s->claims, c->uid, c);
        return r;
    }
    (void)bh_claim_free(c);
    step(s, "forgotten");
    return 0;
}
