/* Health of simulated devices over time. */
#include "driver/gpu_health.h"

#include <limits.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "data/json.h"
#include "driver/gpu_xid.h"

#define FILE_BYTES_MAX (4u << 20)
#define ONSETS_ALL_MAX ((size_t)BH_HEALTH_ENTRIES_MAX)

static bool is(const char *device, struct bh_str name)
{
    return bh_str_eqc(name, device);
}

void bh_health_done(struct bh_health *h)
{
    for (size_t i = 0; i < h->n; i++)
        bh_free(h->entries[i].device);
    for (size_t i = 0; i < h->onsets_n; i++)
        bh_free(h->onsets[i].device);
    bh_free(h->entries);
    bh_free(h->onsets);
    *h = (struct bh_health){0};
}

static void entry_add(struct bh_health *h, struct bh_str device, int xid, struct bh_time since,
                      struct bh_time cleared, int effect)
{
    if (h->n == BH_HEALTH_ENTRIES_MAX)
        return;
    if (h->n == h->cap) {
        h->cap = h->cap ? h->cap * 2 : 16;
        h->entries = bh_realloc(h->entries, h->cap * sizeof(*h->entries));
    }
    h->entries[h->n++] = (struct bh_health_entry){bh_strdup_c(device), xid, since, cleared, effect};
}

static void onset_del(struct bh_health *h, size_t i)
{
    bh_free(h->onsets[i].device);
    h->onsets_n--;
    memmove(&h->onsets[i], &h->onsets[i + 1], (h->onsets_n - i) * sizeof(*h->onsets));
}

/* The oldest of the device goes when it has too many, the oldest of all when there are too many. */
static void onset_add(struct bh_health *h, struct bh_str device, struct bh_time at)
{
    size_t first = SIZE_MAX, n = 0;

    for (size_t i = h->onsets_n; i > 0; i--)
        if (is(h->onsets[i - 1].device, device)) {
            first = i - 1;
            n++;
        }
    if (n >= BH_HEALTH_ONSETS_MAX)
        onset_del(h, first);
    else if (h->onsets_n >= ONSETS_ALL_MAX)
        onset_del(h, 0);
    if (h->onsets_n == h->onsets_cap) {
        h->onsets_cap = h->onsets_cap ? h->onsets_cap * 2 : 16;
        h->onsets = bh_realloc(h->onsets, h->onsets_cap * sizeof(*h->onsets));
    }
    h->onsets[h->onsets_n++] = (struct bh_health_onset){bh_strdup_c(device), at};
}

/* ---- time ---- */

static bool faults_have(const struct bh_faults *f, const struct bh_health_entry *e)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->p[i].xid == e->xid && is(e->device, f->p[i].device))
            return true;
    return false;
}

static struct bh_health_entry *entry_find(struct bh_health *h, const struct bh_fault *f)
{
    for (size_t i = 0; i < h->n; i++)
        if (h->entries[i].xid == f->xid && is(h->entries[i].device, f->device))
            return &h->entries[i];
    return NULL;
}

bool bh_health_update(struct bh_health *h, const struct bh_faults *f, struct bh_time now)
{
    bool changed = false;

    for (size_t i = 0; i < h->n; i++)
        if (bh_time_is_zero(h->entries[i].cleared) && !faults_have(f, &h->entries[i])) {
            h->entries[i].cleared = now;
            changed = true;
        }
    for (size_t i = 0; i < f->n; i++) {
        struct bh_health_entry *e = entry_find(h, &f->p[i]);

        if (e && bh_time_is_zero(e->cleared))
            continue;
        if (e)
            e->cleared = (struct bh_time){0, 0};
        else
            entry_add(h, f->p[i].device, f->p[i].xid, f->p[i].time, (struct bh_time){0, 0}, -1);
        onset_add(h, f->p[i].device, now);
        changed = true;
    }
    return changed;
}

/* Whether the device failed so often before the fault went that it is watched longer. */
static bool flaps(const struct bh_health *h, const struct bh_health_policy *p,
                  const struct bh_health_entry *e)
{
    int n = 0;

    for (size_t i = 0; p->flap_faults && i < h->onsets_n; i++) {
        int64_t ago = bh_time_diff_ns(e->cleared, h->onsets[i].at);

        n += strcmp(h->onsets[i].device, e->device) == 0 && ago >= 0 && ago <= p->flap_within_ns;
    }
    return p->flap_faults && n >= p->flap_faults;
}

/* When a device whose fault went counts as healthy. */
static struct bh_time entry_until(const struct bh_health *h, const struct bh_health_policy *p,
                                  const struct bh_health_entry *e, bool *ret_flapping)
{
    int64_t hold;

    (void)bh_health_policy_effect(p, e->xid, &hold);
    *ret_flapping = flaps(h, p, e) && p->flap_healthy_for_ns > hold;
    return bh_time_add_ns(e->cleared, *ret_flapping ? p->flap_healthy_for_ns : hold);
}

static bool effects_settle(struct bh_health *h, const struct bh_health_policy *p,
                           struct bh_time now)
{
    bool changed = false;
    int64_t hold;

    for (size_t i = 0; i < h->n; i++) {
        struct bh_health_entry *e = &h->entries[i];
        int effect = (int)bh_health_policy_effect(p, e->xid, &hold);

        if (effect == e->effect)
            continue;
        if (e->effect >= 0)
            e->since = now;
        e->effect = effect;
        changed = true;
    }
    return changed;
}

bool bh_health_expire(struct bh_health *h, const struct bh_health_policy *p, struct bh_time now)
{
    size_t keep = 0, before = h->n, old = h->onsets_n;
    bool flapping, changed = effects_settle(h, p, now);

    for (size_t i = 0; i < h->n; i++) {
        struct bh_health_entry e = h->entries[i];

        if (!bh_time_is_zero(e.cleared) && bh_time_cmp(entry_until(h, p, &e, &flapping), now) <= 0)
            bh_free(e.device);
        else
            h->entries[keep++] = e;
    }
    h->n = keep;
    /* Onsets matter as long as a fault that goes now could count them. */
    for (size_t i = h->onsets_n; i > 0; i--) {
        struct bh_health_verdict v[BH_HEALTH_TAINTS_MAX];

        if (bh_time_diff_ns(now, h->onsets[i - 1].at) > p->flap_within_ns &&
            bh_health_judge(h, p, bh_s(h->onsets[i - 1].device), v, 0) == 0)
            onset_del(h, i - 1);
    }
    return changed || h->n != before || h->onsets_n != old;
}

int64_t bh_health_wait_ns(const struct bh_health *h, const struct bh_health_policy *p,
                          struct bh_time now)
{
    int64_t least = INT64_MAX;
    bool flapping;

    for (size_t i = 0; i < h->n; i++) {
        const struct bh_health_entry *e = &h->entries[i];
        int64_t ns;

        if (bh_time_is_zero(e->cleared))
            continue;
        ns = bh_time_diff_ns(entry_until(h, p, e, &flapping), now);
        ns = ns < 0 ? 0 : ns;
        least = ns < least ? ns : least;
    }
    return least;
}

/* Above 0: a counts more than b. */
static int severity_cmp(const struct bh_health_verdict *a, const struct bh_health_verdict *b)
{
    int more = (int)a->effect - (int)b->effect;

    if (more == 0)
        more = (int)bh_time_is_zero(a->until) - (int)bh_time_is_zero(b->until);
    return more ? more : bh_time_cmp(a->since, b->since);
}

static size_t verdict_add(struct bh_health_verdict *v, size_t n,
                          const struct bh_health_verdict *one)
{
    size_t at = 0;

    while (at < n && v[at].xid != one->xid)
        at++;
    if (at < n && severity_cmp(one, &v[at]) <= 0)
        return n; /* known, and as bad */
    if (at == n && n < BH_HEALTH_TAINTS_MAX)
        n++;
    else if (at == n && severity_cmp(one, &v[--at]) <= 0)
        return n; /* too many, and all worse */
    for (; at > 0 && severity_cmp(one, &v[at - 1]) > 0; at--)
        v[at] = v[at - 1];
    v[at] = *one;
    return n;
}

size_t bh_health_judge(const struct bh_health *h, const struct bh_health_policy *p,
                       struct bh_str device, struct bh_health_verdict *v, size_t n)
{
    for (size_t i = 0; i < h->n; i++) {
        const struct bh_health_entry *e = &h->entries[i];
        struct bh_health_verdict one = {.xid = e->xid, .since = e->since};
        int64_t hold;

        if (!is(e->device, device))
            continue;
        one.effect = bh_health_policy_effect(p, e->xid, &hold);
        if (one.effect == BH_HEALTH_IGNORE)
            continue;
        if (!bh_time_is_zero(e->cleared))
            one.until = entry_until(h, p, e, &one.flapping);
        n = verdict_add(v, n, &one);
    }
    return n;
}

/* ---- the file ---- */

static void time_write(struct bh_buf *b, const char *key, struct bh_time t)
{
    char buf[BH_TIME_BUF];

    bh_buf_addf(b, ",\"%s\":\"%.*s\"", key, BH_SF(bh_time_fmt_nano(t, buf)));
}

int bh_health_store(const struct bh_health *h, const char *data_dir, struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = FILE_BYTES_MAX};
    char path[PATH_MAX];
    int r = bh_path(path, sizeof(path), err, "%s/%s", data_dir, BH_HEALTH_FILE);

    if (r < 0)
        return r;
    bh_buf_addz(&b, "{\"version\":1,\"entries\":[");
    for (size_t i = 0; i < h->n; i++) {
        bh_buf_addz(&b, i ? ",{\"device\":" : "{\"device\":");
        bh_json_write_str(&b, bh_s(h->entries[i].device));
        bh_buf_addf(&b, ",\"xid\":%d", h->entries[i].xid);
        time_write(&b, "since", h->entries[i].since);
        if (!bh_time_is_zero(h->entries[i].cleared))
            time_write(&b, "cleared", h->entries[i].cleared);
        if (h->entries[i].effect >= 0)
            bh_buf_addf(&b, ",\"effect\":\"%s\"",
                        bh_health_effect_name((enum bh_health_effect)h->entries[i].effect));
        bh_buf_addc(&b, '}');
    }
    bh_buf_addz(&b, "],\"onsets\":[");
    for (size_t i = 0; i < h->onsets_n; i++) {
        bh_buf_addz(&b, i ? ",{\"device\":" : "{\"device\":");
        bh_json_write_str(&b, bh_s(h->onsets[i].device));
        time_write(&b, "at", h->onsets[i].at);
        bh_buf_addc(&b, '}');
    }
    bh_buf_addz(&b, "]}\n");
    return bh_fs_write_atomic(path, bh_buf_str(&b), 0644, err);
}

static bool time_get(const struct bh_jv *v, const char *key, bool needed, struct bh_time *ret)
{
    struct bh_str s = bh_jv_get_str(v, key);

    *ret = (struct bh_time){0, 0};
    return s.n == 0 ? !needed : bh_time_parse(s, ret, NULL) == 0;
}

static bool entry_decode(struct bh_health *h, const struct bh_jv *v)
{
    struct bh_str device = bh_jv_get_str(v, "device"), effect = bh_jv_get_str(v, "effect");
    struct bh_time since, cleared;
    int64_t xid;
    int was = -1;

    if (device.n == 0 || !bh_jv_get_i64(v, "xid", &xid) || xid < BH_XID_MIN || xid > BH_XID_MAX ||
        !time_get(v, "since", true, &since) || !time_get(v, "cleared", false, &cleared))
        return false;
    for (int i = 0; i <= BH_HEALTH_NO_EXECUTE; i++)
        if (bh_str_eqc(effect, bh_health_effect_name((enum bh_health_effect)i)))
            was = i;
    entry_add(h, device, (int)xid, since, cleared, was);
    return true;
}

static bool decode(struct bh_health *h, const struct bh_jv *doc)
{
    const struct bh_jv *e = bh_jv_getc(doc, "entries"), *o = bh_jv_getc(doc, "onsets");

    if (!e || e->kind != BH_JSON_ARR || !o || o->kind != BH_JSON_ARR)
        return false;
    for (size_t i = 0; i < e->n_items; i++)
        if (!entry_decode(h, &e->items[i]))
            return false;
    for (size_t i = 0; i < o->n_items; i++) {
        struct bh_str device = bh_jv_get_str(&o->items[i], "device");
        struct bh_time at;

        if (device.n == 0 || !time_get(&o->items[i], "at", true, &at))
            return false;
        onset_add(h, device, at);
    }
    return true;
}

int bh_health_load(struct bh_health *h, const char *data_dir, struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF b = {.max = FILE_BYTES_MAX};
    struct bh_jv doc = {0};
    char path[PATH_MAX];
    int r = bh_path(path, sizeof(path), err, "%s/%s", data_dir, BH_HEALTH_FILE);

    *h = (struct bh_health){0};
    if (r == 0)
        r = bh_fs_read(path, FILE_BYTES_MAX, &b, err);
    if (r == -BH_E_NOT_FOUND)
        return 0;
    if (r < 0)
        return r;
    if (bh_jv_parse(a, bh_str_dup(a, bh_buf_str(&b)), NULL, &doc, NULL) == 0 && decode(h, &doc))
        return 0;
    bh_health_done(h);
    return bh_err_set(err, BH_E_INVALID, "%s is malformed", path);
}
