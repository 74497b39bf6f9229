/* List options and continue tokens. A token is base64url of
 * {"v":"meta.k8s.io/v1","rv":N,"start":"key\u0000"}. */
#include "apiserver/listopts.h"

#include "apiserver/select.h"
#include "data/json.h"

static bool truthy(struct bh_str v)
{
    return !bh_str_eqc(v, "0") && !bh_str_eq_nocase(v, BH_S("false"));
}

static int int_option(struct bh_rq *rq, const char *name, int64_t *ret, bool *has)
{
    const struct bh_str *v = bh_rq_query(rq, name);

    if (!v)
        return 0;
    if (has)
        *has = true;
    if (bh_str_i64(*v, INT64_MIN, INT64_MAX, ret))
        return 0;
    return bh_fail_msg(rq, BH_E_BAD_REQUEST, "%.*s", BH_SF(bh_int_error(rq, *v)));
}

static const struct bh_fpath *const match_at =
    &(struct bh_fpath){.name = BH_S_INIT("resourceVersionMatch"), .kind = BH_FP_NAME};

static void check_watch(const struct bh_listopts *o, struct bh_field_errs *e)
{
    static const struct bh_str supported[] = {BH_S_INIT("NotOlderThan")};
    bool newer = bh_str_eqc(o->match, "NotOlderThan");

    if (o->has_initial && !newer)
        bh_fe_forbidden(e, match_at,
                        "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    if (o->match.n > 0) {
        if (!o->has_initial)
            bh_fe_forbidden(
                e, match_at,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
        if (!newer)
            bh_fe_not_supported(e, match_at, o->match, supported, 1);
    }
    if (o->cont.n > 0)
        bh_fe_forbidden(e, match_at, "resourceVersionMatch is forbidden when continue is provided");
}

static void check_list(const struct bh_listopts *o, struct bh_field_errs *e)
{
    static const struct bh_str supported[] = {BH_S_INIT("Exact"), BH_S_INIT("NotOlderThan"),
                                              BH_S_INIT("")};
    bool exact = bh_str_eqc(o->match, "Exact");

    if (o->has_initial)
        bh_fe_forbidden(e, BH_FP(NULL, "sendInitialEvents"),
                        "sendInitialEvents is forbidden for list");
    if (o->match.n == 0)
        return;
    if (o->rv.n == 0)
        bh_fe_forbidden(e, match_at,
                        "resourceVersionMatch is forbidden unless resourceVersion is provided");
    if (o->cont.n > 0)
        bh_fe_forbidden(e, match_at, "resourceVersionMatch is forbidden when continue is provided");
    if (!exact && !bh_str_eqc(o->match, "NotOlderThan"))
        bh_fe_not_supported(e, match_at, o->match, supported, 3);
    if (exact && bh_str_eqc(o->rv, "0"))
        bh_fe_forbidden(e, match_at,
                        "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
}

static int parse_token(struct bh_rq *rq, struct bh_listopts *o)
{
    struct bh_str raw;
    struct bh_err err = {0};
    struct bh_jv v;
    int64_t rv = 0;

    if (bh_base64url_decode(rq->a, o->cont, &raw, &err) < 0)
        return bh_fail_msg(rq, BH_E_BAD_REQUEST,
                           "invalid continue token: continue key is not valid: %s", err.msg);
    if (bh_jv_parse(rq->a, raw, NULL, &v, &err) < 0)
        return bh_fail_msg(rq, BH_E_BAD_REQUEST,
                           "invalid continue token: continue key is not valid: %s", err.msg);
    if (!bh_str_eqc(bh_jv_get_str(&v, "v"), "meta.k8s.io/v1"))
        return bh_fail_msg(rq, BH_E_BAD_REQUEST,
                           "invalid continue token: continue key is not valid: server does not "
                           "recognize this encoded version %.*s",
                           BH_SF(bh_jv_get_str(&v, "v")));
    if (!bh_jv_get_i64(&v, "rv", &rv) || rv == 0)
        return bh_fail_msg(rq, BH_E_BAD_REQUEST,
                           "invalid continue token: continue key is not valid: incorrect encoded "
                           "start resourceVersion "
                           "(version meta.k8s.io/v1)");
    o->cont_start = bh_jv_get_str(&v, "start");
    if (o->cont_start.n == 0)
        return bh_fail_msg(rq, BH_E_BAD_REQUEST,
                           "invalid continue token: continue key is not valid: encoded start key "
                           "empty (version meta.k8s.io/v1)");
    if (o->rv.n > 0 && !bh_str_eqc(o->rv, "0"))
        return bh_fail_msg(rq, BH_E_BAD_REQUEST,
                           "specifying resource version is not allowed when using continue");
    o->cont_rv = rv > 0 ? (uint64_t)rv : 0;
    return 0;
}

static struct bh_str str_option(struct bh_rq *rq, const char *name)
{
    const struct bh_str *v = bh_rq_query(rq, name);

    return v ? *v : BH_S("");
}

static int parse_version(struct bh_rq *rq, struct bh_listopts *o)
{
    int64_t v = 0;

    if (o->rv.n > 0 && !bh_str_i64(o->rv, 0, INT64_MAX, &v)) {
        if (o->watch)
            return bh_fail_plain(rq, "resourceVersion: Invalid value: \"%.*s\": %.*s", BH_SF(o->rv),
                                 BH_SF(bh_uint_error(rq, o->rv)));
        return bh_fail_msg(
            rq, BH_E_BAD_REQUEST,
            "invalid resource version: resourceVersion: Invalid value: \"%.*s\": %.*s",
            BH_SF(o->rv), BH_SF(bh_uint_error(rq, o->rv)));
    }
    o->rv_n = (uint64_t)v;
    return 0;
}

/* The version is looked at last: selectors that cannot be are told first. */
static int version_and_selectors(struct bh_rq *rq, struct bh_listopts *o)
{
    struct bh_fail refused;
    struct bh_select sel;
    int r = parse_version(rq, o), s;

    if (r == 0)
        return 0;
    refused = rq->fail;
    s = bh_select_parse(rq, &sel);
    if (s < 0)
        return s;
    rq->fail = refused;
    return r;
}

int bh_listopts_parse(struct bh_rq *rq, bool watch, struct bh_listopts *o)
{
    const struct bh_str *initial = bh_rq_query(rq, "sendInitialEvents"),
                        *bookmarks = bh_rq_query(rq, "allowWatchBookmarks");
    struct bh_field_errs errs = {.a = rq->a};
    int r;

    *o = (struct bh_listopts){.watch = watch};
    r = int_option(rq, "limit", &o->limit, NULL);
    if (r == 0)
        r = int_option(rq, "timeoutSeconds", &o->timeout_s, &o->has_timeout);
    if (r < 0)
        return r;
    o->rv = str_option(rq, "resourceVersion");
    o->match = str_option(rq, "resourceVersionMatch");
    o->cont = str_option(rq, "continue");
    o->bookmarks = bookmarks && truthy(*bookmarks);
    o->has_initial = initial != NULL;
    o->initial = initial && truthy(*initial);
    if (watch)
        check_watch(o, &errs);
    else
        check_list(o, &errs);
    if (errs.n > 0)
        return bh_fail_invalid(rq, BH_S("meta.k8s.io"), BH_S("ListOptions"), BH_S(""), &errs);
    r = version_and_selectors(rq, o);
    if (r == 0 && !watch && o->cont.n > 0)
        r = parse_token(rq, o);
    return r;
}

struct bh_str bh_continue_token(struct bh_rq *rq, uint64_t rv, struct bh_str last)
{
    BH_AUTO_BUF b = {0};
    BH_AUTO_BUF start = {0};

    bh_buf_adds(&start, last);
    bh_buf_addc(&start, '\0');
    bh_buf_addf(&b, "{\"v\":\"meta.k8s.io/v1\",\"rv\":%llu,\"start\":", (unsigned long long)rv);
    bh_json_write_str(&b, bh_buf_str(&start));
    bh_buf_addc(&b, '}');
    return bh_base64url(rq->a, bh_buf_str(&b));
}
