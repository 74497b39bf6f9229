/* Decoding bodies, and upstream's words for what is wrong with them. */
#include "apiserver/body.h"

#include "data/json.h"
#include "data/yaml.h"

#include <string.h>

#define QUOTE_BYTES 30
#define SCHEME      "pkg/api/legacyscheme/scheme.go:30"

/* At most 30 bytes of the body: as text when it begins like an object, else in hexadecimal. */
static struct bh_str quote_body(struct bh_rq *rq)
{
    struct bh_str head = bh_str_sub(rq->body, 0, QUOTE_BYTES);
    struct bh_str shown = bh_str_trim(rq->body).n > 0 && bh_str_trim(rq->body).p[0] == '{'
                              ? head
                              : bh_hex(rq->a, head);

    if (rq->body.n == 0)
        return BH_S("<empty>");
    if (rq->body.n > QUOTE_BYTES)
        return bh_str_fmt(rq->a, "%.*s ...", BH_SF(shown));
    return shown;
}

static int unrecognized(struct bh_rq *rq, const struct bh_kind *k, const struct bh_err *err)
{
    return bh_fail_msg(rq, BH_E_BAD_REQUEST,
                       "the object provided is unrecognized (must be of type %.*s): %s (%.*s)",
                       BH_SF(k->kind), err->msg, BH_SF(quote_body(rq)));
}

static int cannot_handle(struct bh_rq *rq, const struct bh_kind *k, struct bh_str kind,
                         struct bh_str version, const char *why)
{
    return bh_fail_msg(rq, BH_E_BAD_REQUEST, "%.*s in version %.*s cannot be handled as a %.*s: %s",
                       BH_SF(kind), BH_SF(bh_quoted(rq, version)), BH_SF(k->kind), why);
}

static struct bh_str version_of(struct bh_str api_version)
{
    ptrdiff_t at = bh_str_chr(api_version, '/', 0);

    return at < 0 ? api_version : bh_str_sub(api_version, (size_t)at + 1, api_version.n);
}

/* The package of the internal type: "core.ConfigMap", "apps.Deployment". */
struct bh_str bh_internal_package(const struct bh_kind *k)
{
    ptrdiff_t dot = bh_str_chr(k->group, '.', 0);

    if (k->group.n == 0)
        return BH_S("core");
    return dot < 0 ? k->group : bh_str_sub(k->group, 0, (size_t)dot);
}

static bool kind_known(struct bh_str api_version, struct bh_str kind)
{
    if (bh_kind_by_api_version(api_version, kind) || bh_str_eqc(kind, "List"))
        return true;
    return bh_str_ends(kind, BH_S("List")) &&
           bh_kind_by_api_version(api_version, bh_str_sub(kind, 0, kind.n - 4));
}

struct bh_str bh_body_kind_error(struct bh_rq *rq, const struct bh_kind *k,
                                 struct bh_str api_version, struct bh_str kind)
{
    if (kind.n == 0)
        kind = k->kind;
    if (api_version.n == 0)
        api_version = k->api_version;
    if (bh_str_eq(kind, k->kind) && bh_str_eq(api_version, k->api_version))
        return BH_S("");
    if (!kind_known(api_version, kind))
        return bh_str_fmt(rq->a,
                          "no kind %.*s is registered for version %.*s in scheme \"" SCHEME "\"",
                          BH_SF(bh_quoted(rq, kind)), BH_SF(bh_quoted(rq, api_version)));
    return bh_str_fmt(rq->a, "converting (%.*s.%.*s) to (%.*s.%.*s): unknown conversion",
                      BH_SF(version_of(api_version)), BH_SF(kind), BH_SF(bh_internal_package(k)),
                      BH_SF(k->kind));
}

/* A version that is half empty means k's. -BH_E_BAD_REQUEST when it is none at all. */
static int complete_version(struct bh_rq *rq, const struct bh_kind *k, struct bh_str *api_version)
{
    struct bh_str v = *api_version;
    ptrdiff_t at = bh_str_chr(v, '/', 0);
    struct bh_err err = {0};

    if (at < 0)
        return 0;
    if (bh_str_chr(v, '/', (size_t)at + 1) >= 0) {
        (void)bh_err_set(&err, BH_E_BAD_REQUEST, "unexpected GroupVersion string: %.*s", BH_SF(v));
        return unrecognized(rq, k, &err);
    }
    if ((size_t)at + 1 == v.n && (at == 0 || bh_str_eq(bh_str_sub(v, 0, (size_t)at), k->group)))
        *api_version = k->api_version;
    return 0;
}

static int check_kind(struct bh_rq *rq, const struct bh_kind *k, struct bh_str api_version,
                      struct bh_str kind)
{
    struct bh_str why = bh_body_kind_error(rq, k, api_version, kind);

    if (why.n == 0)
        return 0;
    if (api_version.n == 0)
        api_version = k->api_version;
    if ((kind.n == 0 || bh_str_eq(kind, k->kind)) && kind_known(api_version, k->kind))
        return bh_fail_msg(
            rq, BH_E_BAD_REQUEST,
            "the API version in the data (%.*s) does not match the expected API version (%.*s)",
            BH_SF(api_version), BH_SF(k->api_version));
    return cannot_handle(rq, k, kind.n > 0 ? kind : k->kind, version_of(api_version), why.p);
}

int bh_body_strict(struct bh_rq *rq, const struct bh_kind *k, const struct bh_strict *strict)
{
    if (strict->texts.n == 0 || bh_str_eqc(rq->field_validation, "Ignore"))
        return 0;
    if (bh_str_eqc(rq->field_validation, "Strict"))
        return cannot_handle(
            rq, k, k->kind, k->version,
            bh_str_fmt(rq->a, "strict decoding error: %.*s", BH_SF(bh_strict_join(strict, rq->a)))
                .p);
    for (size_t i = 0; i < strict->texts.n; i++)
        bh_rq_warn(rq, strict->texts.p[i]);
    return 0;
}

/* A body that says to be something else is read as that first: what is wrong with it by its own
 * kind is told before that it does not belong here. */
static int read_as_said(struct bh_rq *rq, const struct bh_kind *k, struct bh_str api_version,
                        struct bh_str kind, struct bh_str json)
{
    const struct bh_kind *own = bh_kind_by_api_version(api_version.n ? api_version : k->api_version,
                                                       kind.n ? kind : k->kind);
    struct bh_strict strict = {0};
    struct bh_err err = {0};
    void *obj;

    if (!own || own == k)
        return 0;
    if (bh_kind_decode_json(own, json, rq->a, &obj, &strict, &err) < 0)
        return cannot_handle(rq, k, own->kind, own->version, err.msg);
    if (!bh_str_eq(own->kind, k->kind) || strict.texts.n == 0)
        return 0;
    if (!bh_str_eqc(rq->field_validation, "Strict"))
        return bh_body_strict(rq, k, &strict);
    return cannot_handle(
        rq, k, own->kind, own->version,
        bh_str_fmt(rq->a, "strict decoding error: %.*s", BH_SF(bh_strict_join(&strict, rq->a))).p);
}

int bh_body_decode_json(struct bh_rq *rq, const struct bh_kind *k, struct bh_str json, void **ret)
{
    struct bh_strict strict = {0};
    struct bh_err err = {0};

    if (bh_kind_decode_json(k, json, rq->a, ret, &strict, &err) < 0)
        return cannot_handle(rq, k, k->kind, k->version, err.msg);
    return bh_body_strict(rq, k, &strict);
}

int bh_body_yaml_to_json(struct bh_rq *rq, struct bh_str yaml, struct bh_strict *dups,
                         struct bh_str *ret, struct bh_err *err)
{
    struct bh_yaml_dups d = {0};
    struct bh_jv v;
    int r = bh_yaml_parse(rq->a, yaml, &d, &v, err);

    if (r < 0)
        return r;
    dups->texts = d.lines;
    *ret = bh_jv_text(rq->a, &v, 0);
    return 0;
}

static int decode_pb(struct bh_rq *rq, const struct bh_kind *k, void **ret)
{
    struct bh_pb_unknown u = {0};
    struct bh_err err = {0};
    int r;

    if (bh_pb_open(rq->body, &u, &err) < 0)
        return unrecognized(rq, k, &err);
    r = check_kind(rq, k, u.api_version, u.kind);
    if (r < 0)
        return r;
    if (bh_kind_decode_pb(k, u.raw, rq->a, ret, &err) < 0)
        return cannot_handle(rq, k, k->kind, k->version, err.msg);
    return 0;
}

/* As an error, upstream tells all doubles of a YAML body in one text. */
static void join_lines(struct bh_rq *rq, struct bh_strict *dups)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addz(&b, "yaml: unmarshal errors:");
    for (size_t i = 0; i < dups->texts.n; i++)
        bh_buf_addf(&b, "\n  %.*s", BH_SF(dups->texts.p[i]));
    dups->texts.p[0] = bh_str_dup(rq->a, bh_buf_str(&b));
    dups->texts.n = 1;
}

/* A struct of another kind than the one that belongs here: its text is what is refused. */
static void body_of_msg(struct bh_rq *rq)
{
    BH_AUTO_BUF b = {0};

    bh_kind_encode_json(rq->msg_kind, rq->msg, &b);
    rq->body = bh_str_dup(rq->a, bh_buf_str(&b));
    rq->content_type = BH_S("application/json");
}

int bh_body_decode(struct bh_rq *rq, const struct bh_kind *k, void **ret)
{
    struct bh_strict dups = {0}, strict = {0};
    struct bh_str json = rq->body, api_version, kind;
    struct bh_err err = {0};
    enum bh_form form;
    int r;

    if (rq->msg && rq->msg_kind == k) {
        *ret = rq->msg;
        return 0;
    }
    if (rq->msg)
        body_of_msg(rq);
    r = bh_media_of_body(rq, &form);
    if (r < 0)
        return r;
    if (form == BH_FORM_PB)
        return decode_pb(rq, k, ret);
    if (form == BH_FORM_YAML && bh_body_yaml_to_json(rq, rq->body, &dups, &json, &err) < 0)
        return unrecognized(rq, k, &err);
    if (bh_json_peek_kind(json, rq->a, &api_version, &kind, &err) < 0)
        return unrecognized(rq, k, &err);
    r = complete_version(rq, k, &api_version);
    if (r == 0)
        r = read_as_said(rq, k, api_version, kind, json);
    if (r == 0)
        r = check_kind(rq, k, api_version, kind);
    if (r < 0)
        return r;
    if (bh_kind_decode_json(k, json, rq->a, ret, &strict, &err) < 0)
        return cannot_handle(rq, k, k->kind, k->version, err.msg);
    if (dups.texts.n > 0 && bh_str_eqc(rq->field_validation, "Strict"))
        join_lines(rq, &dups);
    if (dups.texts.n > 0) {
        /* Duplicates of a YAML body are told by line, before the unknown fields. */
        struct bh_str *all = bh_new_n(rq->a, struct bh_str, dups.texts.n + strict.texts.n);

        memcpy(all, dups.texts.p, dups.texts.n * sizeof(*all));
        if (strict.texts.n > 0)
            memcpy(all + dups.texts.n, strict.texts.p, strict.texts.n * sizeof(*all));
        strict.texts = (struct bh_str_vec){all, dups.texts.n + strict.texts.n};
    }
    return bh_body_strict(rq, k, &strict);
}
