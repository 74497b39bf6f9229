/* Refusals in upstream's words. */
#include "apiserver/rq.h"

#include <stdio.h>
#include <string.h>

static int set(struct bh_rq *rq, enum bh_code code, struct bh_str message)
{
    memset(&rq->fail, 0, sizeof(rq->fail));
    rq->fail.http = bh_err_http(code);
    rq->fail.reason = bh_s(bh_err_reason(code));
    rq->fail.message = message;
    return -(int)code;
}

struct bh_str bh_quoted(struct bh_rq *rq, struct bh_str s)
{
    BH_AUTO_BUF q = {0};

    bh_go_quote(&q, s);
    return bh_str_dup(rq->a, bh_buf_str(&q));
}

struct bh_str bh_qualified(struct bh_rq *rq, struct bh_str group, struct bh_str resource)
{
    if (group.n == 0)
        return resource;
    return bh_str_fmt(rq->a, "%.*s.%.*s", BH_SF(resource), BH_SF(group));
}

int bh_fail_msg(struct bh_rq *rq, enum bh_code code, const char *fmt, ...)
{
    struct bh_str m;
    va_list ap;

    va_start(ap, fmt);
    m = bh_str_vfmt(rq->a, fmt, ap);
    va_end(ap);
    return set(rq, code, m);
}

int bh_fail_plain(struct bh_rq *rq, const char *fmt, ...)
{
    struct bh_str m;
    va_list ap;
    int r;

    va_start(ap, fmt);
    m = bh_str_vfmt(rq->a, fmt, ap);
    va_end(ap);
    r = set(rq, BH_E_INTERNAL, m);
    rq->fail.reason = BH_S("");
    return r;
}

int bh_fail_err(struct bh_rq *rq, const struct bh_err *err)
{
    return set(rq, err->code ? err->code : BH_E_INTERNAL, bh_str_dup(rq->a, bh_s(err->msg)));
}

static struct bh_str number_error(struct bh_rq *rq, const char *func, struct bh_str s,
                                  struct bh_str number)
{
    BH_AUTO_BUF q = {0};
    bool digits = number.n > 0;

    for (size_t i = 0; i < number.n; i++)
        digits &= number.p[i] >= '0' && number.p[i] <= '9';
    bh_go_quote(&q, s);
    return bh_str_fmt(rq->a, "strconv.%s: parsing %.*s: %s", func, BH_SF(bh_buf_str(&q)),
                      digits ? "value out of range" : "invalid syntax");
}

struct bh_str bh_uint_error(struct bh_rq *rq, struct bh_str s)
{
    return number_error(rq, "ParseUint", s, s);
}

struct bh_str bh_int_error(struct bh_rq *rq, struct bh_str s)
{
    bool sign = s.n > 0 && (s.p[0] == '-' || s.p[0] == '+');

    return number_error(rq, "ParseInt", s, bh_str_sub(s, sign ? 1 : 0, s.n));
}

int bh_fail_text(struct bh_rq *rq, int http, struct bh_str text)
{
    memset(&rq->fail, 0, sizeof(rq->fail));
    rq->fail.http = http;
    rq->fail.text = text;
    return -(int)(http == 404 ? BH_E_NOT_FOUND : http == 400 ? BH_E_BAD_REQUEST : BH_E_INTERNAL);
}

int bh_fail_generic(struct bh_rq *rq, enum bh_code code)
{
    const char *text = "the server rejected our request for an unknown reason";
    int r;

    if (code == BH_E_NOT_FOUND)
        text = "the server could not find the requested resource";
    else if (code == BH_E_METHOD)
        text = "the server does not allow this method on the requested resource";
    else if (code == BH_E_MEDIA)
        text = "415: Unsupported Media Type";
    else if (code == BH_E_INVALID)
        text = "the server rejected our request due to an error in our request";
    r = set(rq, code, bh_s(text));
    rq->fail.details = true;
    return r;
}

int bh_fail_not_found(struct bh_rq *rq, struct bh_str group, struct bh_str resource,
                      struct bh_str name)
{
    int r = set(rq, BH_E_NOT_FOUND,
                bh_str_fmt(rq->a, "%.*s %.*s not found", BH_SF(bh_qualified(rq, group, resource)),
                           BH_SF(bh_quoted(rq, name))));

    rq->fail.name = name;
    rq->fail.group = group;
    rq->fail.kind = resource;
    return r;
}

static int named(struct bh_rq *rq, enum bh_code code, const struct bh_kind *k, struct bh_str name,
                 struct bh_str message)
{
    int r = set(rq, code, message);

    rq->fail.name = name;
    rq->fail.group = k->group;
    rq->fail.kind = k->resource;
    return r;
}

int bh_fail_named(struct bh_rq *rq, enum bh_code code, const struct bh_kind *k, struct bh_str name,
                  const char *fmt, ...)
{
    struct bh_str m;
    va_list ap;

    va_start(ap, fmt);
    m = bh_str_vfmt(rq->a, fmt, ap);
    va_end(ap);
    return named(rq, code, k, name, m);
}

int bh_fail_conflict(struct bh_rq *rq, const struct bh_kind *k, struct bh_str name, const char *fmt,
                     ...)
{
    struct bh_str m;
    va_list ap;

    va_start(ap, fmt);
    m = bh_str_vfmt(rq->a, fmt, ap);
    va_end(ap);
    return named(rq, BH_E_CONFLICT, k, name,
                 bh_str_fmt(rq->a, "Operation cannot be fulfilled on %.*s %.*s: %.*s",
                            BH_SF(bh_qualified(rq, k->group, k->resource)),
                            BH_SF(bh_quoted(rq, name)), BH_SF(m)));
}

int bh_fail_forbidden(struct bh_rq *rq, const struct bh_kind *k, struct bh_str name,
                      const char *fmt, ...)
{
    struct bh_str m, who = bh_qualified(rq, k->group, k->resource);
    va_list ap;

    va_start(ap, fmt);
    m = bh_str_vfmt(rq->a, fmt, ap);
    va_end(ap);
    if (name.n > 0)
        who = bh_str_fmt(rq->a, "%.*s %.*s", BH_SF(who), BH_SF(bh_quoted(rq, name)));
    return named(rq, BH_E_FORBIDDEN, k, name,
                 bh_str_fmt(rq->a, "%.*s is forbidden: %.*s", BH_SF(who), BH_SF(m)));
}

int bh_fail_invalid(struct bh_rq *rq, struct bh_str group, struct bh_str kind, struct bh_str name,
                    const struct bh_field_errs *errs)
{
    BH_AUTO_BUF b = {0};
    int r;

    bh_ferrs_message(errs, &b);
    r = set(rq, BH_E_INVALID,
            bh_str_fmt(rq->a, "%.*s %.*s is invalid: %.*s", BH_SF(bh_qualified(rq, group, kind)),
                       BH_SF(bh_quoted(rq, name)), BH_SF(bh_buf_str(&b))));
    rq->fail.name = name;
    rq->fail.group = group;
    rq->fail.kind = kind;
    rq->fail.causes = *errs;
    return r;
}
