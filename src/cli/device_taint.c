/* `bulkhead device taint` and `untaint`: a DeviceTaintRule for one device and one key. */
#include <stdio.h>

#include "api/engine.h"
#include "api/gen/resource_v1.h"
#include "api/gen/resource_v1beta2.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "cli/device_cmd.h"
#include "client/client.h"
#include "data/codec.h"
#include "data/names.h"
#include "net/loop.h"

struct taint {
    struct bh_str key, value, effect;
};

static bool effect_ok(struct bh_str e)
{
    return bh_str_eqc(e, "NoExecute") || bh_str_eqc(e, "NoSchedule") || bh_str_eqc(e, "None");
}

/* KEY[=VALUE][:EFFECT]. A key may hold a slash, neither ':' nor '='. */
static int taint_parse(const char *text, bool effect_needed, struct taint *ret, struct bh_err *err)
{
    struct bh_str s = bh_s(text);
    struct bh_str head = bh_str_cut(&s, ':');
    char buf[BH_NAMES_BUF];
    const char *why;

    ret->effect = s;
    ret->key = bh_str_cut(&head, '=');
    ret->value = head;
    why = bh_check_qualified_name(ret->key, buf);
    if (why)
        return bh_err_set(err, BH_E_BAD_REQUEST, "taint key '%.*s': %s", BH_SF(ret->key), why);
    why = ret->value.n > 0 ? bh_check_label_value(ret->value, buf) : NULL;
    if (why)
        return bh_err_set(err, BH_E_BAD_REQUEST, "taint value '%.*s': %s", BH_SF(ret->value), why);
    if (!s.p && !effect_needed)
        return 0;
    if (!effect_ok(ret->effect))
        return bh_err_set(
            err, BH_E_BAD_REQUEST,
            "'%s': the effect must be NoExecute, NoSchedule or None, as in %.*s:NoExecute", text,
            BH_SF(ret->key));
    return 0;
}

/* One rule for one device, key and effect, so that the same command twice makes one rule. */
static struct bh_str rule_name(struct bh_arena *a, const struct device_ref *d,
                               const struct taint *t)
{
    struct bh_str id = bh_str_fmt(a, "%.*s|%.*s|%.*s|%.*s|%.*s", BH_SF(d->driver), BH_SF(d->pool),
                                  BH_SF(d->name), BH_SF(t->key), BH_SF(t->effect));

    return bh_str_fmt(a, "%.*s-%.*s", BH_SF(bh_str_sub(d->name, 0, 60)),
                      BH_SF(bh_str_sub(bh_sha256_hex(a, id), 0, 16)));
}

static int open_and_find(struct device_api *api, const struct device_opts *o, const char *verb,
                         struct device_ref *d, struct bh_err *err)
{
    int r;

    if (o->args_n != 2)
        return bh_err_set(err, BH_E_BAD_REQUEST, "%s takes a device and a taint", verb);
    r = device_api_open(api, o, err);
    if (r < 0)
        return r;
    r = device_api_read(api, err);
    if (r == 0)
        r = device_find(api, o, o->args[0], d, err);
    if (r < 0)
        device_api_close(api);
    return r;
}

static const struct bh_str no_ns;

static const char *dry_text(const struct device_opts *o)
{
    return o->dry_run == DRY_SERVER ? " (server dry run)" : " (dry run)";
}

/* The rule as the server would store it, without the server. */
static int rule_guess(struct device_api *api, struct bh_resource_v1beta2_device_taint_rule *rule,
                      struct bh_err *err)
{
    rule->spec.taint.time_added = (struct bh_time){bh_loop_wall_ns(api->loop) / 1000000000, 0};
    api->got = bh_obj_unref(api->got);
    api->got = bh_obj_from_struct(&bh_resource_v1beta2_device_taint_rule_kind, rule, err);
    return api->got ? 0 : -BH_E_INVALID;
}

static int rule_create(struct device_api *api, const struct device_opts *o,
                       struct bh_resource_v1beta2_device_taint_rule *rule, struct bh_err *err)
{
    const struct bh_kind *kind = &bh_resource_v1beta2_device_taint_rule_kind;
    struct bh_client_req req = {.verb = BH_VERB_CREATE, .kind = kind};
    BH_AUTO_BUF body = {.max = BH_BODY_BYTES_MAX};

    if (o->dry_run == DRY_CLIENT)
        return rule_guess(api, rule, err);
    bh_kind_encode_json(kind, rule, &body);
    req.body = bh_buf_str(&body);
    req.query = o->dry_run == DRY_SERVER ? BH_S("dryRun=All") : no_ns;
    (void)bh_client_call(api->client, &req, device_api_done, api);
    return device_api_wait(api, err);
}

int device_taint(const struct device_opts *o, struct bh_err *err)
{
    struct device_api api;
    struct device_ref d = {0};
    struct taint t = {0};
    struct bh_resource_v1beta2_device_taint_selector sel = {0};
    struct bh_resource_v1beta2_device_taint_rule rule = {0};
    int r = o->args_n == 2 ? taint_parse(o->args[1], true, &t, err) : 0;

    if (r == 0)
        r = open_and_find(&api, o, "taint", &d, err);
    if (r < 0)
        return r;
    sel = (struct bh_resource_v1beta2_device_taint_selector){d.driver, true,   d.pool,
                                                             true,     d.name, true};
    rule.metadata.name = rule_name(api.a, &d, &t);
    rule.spec.device_selector = &sel;
    rule.spec.taint.key = t.key;
    rule.spec.taint.value = t.value;
    rule.spec.taint.effect = t.effect;
    r = rule_create(&api, o, &rule, err);
    if (r == -BH_E_EXISTS)
        r = bh_err_set(err, BH_E_EXISTS, "device %.*s/%.*s already has the taint %.*s:%.*s",
                       BH_SF(d.pool), BH_SF(d.name), BH_SF(t.key), BH_SF(t.effect));
    else if (r == -BH_E_NOT_FOUND)
        r = bh_err_set(err, BH_E_NOT_FOUND, "the cluster does not serve DeviceTaintRules");
    if (r == 0)
        printf("device %.*s/%.*s %stainted (devicetaintrule/%.*s)%s\n", BH_SF(d.pool),
               BH_SF(d.name), o->dry_run ? "would be " : "", BH_SF(rule.metadata.name),
               o->dry_run ? dry_text(o) : "");
    if (r == 0 && o->dry_run)
        r = device_preview(&api, api.got, err);
    device_api_close(&api);
    return r;
}

/* A rule for exactly this device; rules for more than it are not ours to delete. */
static bool rule_matches(const struct bh_resource_v1beta2_device_taint_rule *r,
                         const struct device_ref *d, const struct taint *t)
{
    const struct bh_resource_v1beta2_device_taint_selector *s = r->spec.device_selector;

    return s && s->has_driver && s->has_pool && s->has_device && bh_str_eq(s->driver, d->driver) &&
           bh_str_eq(s->pool, d->pool) && bh_str_eq(s->device, d->name) &&
           bh_str_eq(r->spec.taint.key, t->key) &&
           (t->effect.n == 0 || bh_str_eq(r->spec.taint.effect, t->effect));
}

static int nothing_removed(const struct device_ref *d, const struct taint *t, struct bh_err *err)
{
    for (size_t i = 0; i < d->dev->taints.n; i++)
        if (bh_str_eq(d->dev->taints.p[i].key, t->key))
            return bh_err_set(err, BH_E_NOT_FOUND,
                              "the taint %.*s of %.*s/%.*s comes from its driver; for a simulated "
                              "fault use `bulkhead device "
                              "clear %.*s`",
                              BH_SF(t->key), BH_SF(d->pool), BH_SF(d->name), BH_SF(d->name));
    return bh_err_set(err, BH_E_NOT_FOUND,
                      "device %.*s/%.*s has no rule of its own with the taint %.*s", BH_SF(d->pool),
                      BH_SF(d->name), BH_SF(t->key));
}

static int rule_delete(struct device_api *api, const struct device_opts *o,
                       const struct bh_obj *rule, struct bh_err *err)
{
    struct bh_client_req req = {.verb = BH_VERB_DELETE, .kind = rule->kind, .name = rule->name};

    req.body =
        bh_str_fmt(api->a,
                   "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\","
                   "\"preconditions\":{\"uid\":\"%.*s\"}%s}",
                   BH_SF(rule->uid), o->dry_run == DRY_SERVER ? ",\"dryRun\":[\"All\"]" : "");
    (void)bh_client_call(api->client, &req, device_api_done, api);
    return device_api_wait(api, err);
}

int device_untaint(const struct device_opts *o, struct bh_err *err)
{
    struct device_api api;
    struct device_ref d = {0};
    struct taint t = {0};
    size_t n = 0;
    int r = o->args_n == 2 ? taint_parse(o->args[1], false, &t, err) : 0;

    if (r == 0)
        r = open_and_find(&api, o, "untaint", &d, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < api.rules.n && r == 0; i++) {
        const struct bh_obj *rule = api.rules.p[i];

        if (!rule_matches(bh_obj_struct(rule), &d, &t))
            continue;
        r = o->dry_run == DRY_CLIENT ? 0 : rule_delete(&api, o, rule, err);
        n += r == 0;
        if (r == 0 && o->dry_run)
            printf("devicetaintrule/%.*s would be deleted\n", BH_SF(rule->name));
    }
    if (r == 0 && n == 0)
        r = nothing_removed(&d, &t, err);
    if (r == 0)
        printf("device %.*s/%.*s: taint %.*s %sremoved%s\n", BH_SF(d.pool), BH_SF(d.name),
               BH_SF(t.key), o->dry_run ? "would be " : "", o->dry_run ? dry_text(o) : "");
    device_api_close(&api);
    return r;
}
