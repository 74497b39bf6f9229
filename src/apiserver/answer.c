/* Answers: one object, a Status, ready bytes, in the media type that was asked for. */
#include "api/gen/meta_v1.h"
#include "apiserver/body.h"
#include "apiserver/convert.h"
#include "apiserver/rq.h"
#include "apiserver/scale.h"
#include "apiserver/server_int.h"
#include "apiserver/tables.h"
#include "data/json.h"
#include "data/yaml.h"

#include <stdio.h>
#include <string.h>

void bh_rq_warn(struct bh_rq *rq, struct bh_str text)
{
    for (size_t i = 0; i < rq->warnings.n; i++)
        if (bh_str_eq(rq->warnings.p[i], text))
            return;
    bh_arena_grow(rq->a, &rq->warnings.p, &rq->warnings_cap, rq->warnings.n + 1,
                  sizeof(struct bh_str));
    rq->warnings.p[rq->warnings.n++] = bh_str_dup(rq->a, text);
}

/* `299 - "text"`, quotes and backslashes escaped. Control characters would end the header: they
 * become blanks. */
static struct bh_str warning_value(struct bh_rq *rq, struct bh_str text)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addz(&b, "299 - \"");
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];

        if (c == '"' || c == '\\')
            bh_buf_addc(&b, '\\');
        bh_buf_addc(&b, c < 0x20 || c == 0x7f ? ' ' : (char)c);
    }
    bh_buf_addc(&b, '"');
    return bh_str_dup(rq->a, bh_buf_str(&b));
}

const struct bh_api_header *bh_rq_headers(struct bh_rq *rq, const struct bh_api_header *more,
                                          size_t more_n, size_t *ret_n)
{
    struct bh_api_header *h = bh_new_n(rq->a, struct bh_api_header, rq->warnings.n + more_n + 1);
    size_t n = 0;

    for (size_t i = 0; i < rq->warnings.n; i++)
        h[n++] = (struct bh_api_header){BH_S("Warning"), warning_value(rq, rq->warnings.p[i])};
    for (size_t i = 0; i < more_n; i++)
        h[n++] = more[i];
    *ret_n = n;
    return h;
}

void bh_rq_answer(struct bh_rq *rq, struct bh_api_response *res)
{
    size_t bytes = 0;

    for (size_t i = 0; i < res->parts_n; i++)
        bytes += res->parts[i].bytes.n;
    bh_metrics_count(rq, res->status, bytes);
    if (!rq->canceled) {
        res->headers = bh_rq_headers(rq, res->headers, res->headers_n, &res->headers_n);
        rq->sink.answer(rq->sink.arg, res);
    }
    bh_rq_finish(rq);
}

void bh_rq_answer_raw(struct bh_rq *rq, int http, struct bh_str content_type, struct bh_str body)
{
    struct bh_api_part part = {body, NULL};
    struct bh_api_response res = {
        .status = http, .content_type = content_type, .parts = &part, .parts_n = 1};

    if (http >= 400) {
        res.code = http == 404 ? BH_E_NOT_FOUND : BH_E_INTERNAL;
        res.message = body;
    }
    bh_rq_answer(rq, &res);
}

/* JSON to what was asked for; the result is in the arena. */
struct bh_str bh_form_of_json(struct bh_rq *rq, struct bh_str json)
{
    BH_AUTO_BUF b = {0};
    struct bh_jv v;

    if (rq->form == BH_FORM_YAML && bh_jv_parse(rq->a, json, NULL, &v, NULL) == 0) {
        bh_yaml_write(&b, &v);
        return bh_str_dup(rq->a, bh_buf_str(&b));
    }
    if (rq->pretty && bh_jv_parse(rq->a, json, NULL, &v, NULL) == 0) {
        bh_jv_write(&b, &v, BH_JSON_INDENT2);
        bh_buf_addc(&b, '\n');
        return bh_str_dup(rq->a, bh_buf_str(&b));
    }
    bh_buf_adds(&b, json);
    bh_buf_addc(&b, '\n');
    return bh_str_dup(rq->a, bh_buf_str(&b));
}

/* Documents that are made as JSON, for a client that asked for protobuf: through the struct of
 * their kind. */
static bool answer_as_pb(struct bh_rq *rq, int http, struct bh_str json)
{
    struct bh_str api_version, kind;
    const struct bh_kind *k;
    BH_AUTO_BUF b = {0};
    void *msg = NULL;

    if (bh_json_peek_kind(json, rq->a, &api_version, &kind, NULL) < 0)
        return false;
    k = bh_kind_by_api_version(api_version.n > 0 ? api_version : BH_S("v1"), kind);
    if (!k || bh_kind_decode_json(k, json, rq->a, &msg, NULL, NULL) < 0)
        return false;
    bh_kind_encode_pb(k, msg, &b);
    bh_rq_answer_raw(rq, http, bh_s(bh_form_type(BH_FORM_PB)), bh_str_dup(rq->a, bh_buf_str(&b)));
    return true;
}

void bh_rq_answer_json(struct bh_rq *rq, int http, struct bh_str json)
{
    if (rq->form == BH_FORM_PB) {
        if (answer_as_pb(rq, http, json))
            return;
        rq->form = BH_FORM_JSON;
    }
    bh_rq_answer_raw(rq, http, bh_s(bh_form_type(rq->form)), bh_form_of_json(rq, json));
}

static struct bh_str encode_msg(struct bh_rq *rq, const struct bh_kind *k, const void *msg)
{
    BH_AUTO_BUF b = {0};

    if (rq->form == BH_FORM_PB) {
        bh_kind_encode_pb(k, msg, &b);
        return bh_str_dup(rq->a, bh_buf_str(&b));
    }
    bh_kind_encode_json(k, msg, &b);
    return bh_form_of_json(rq, bh_buf_str(&b));
}

void bh_rq_answer_msg(struct bh_rq *rq, int http, const struct bh_kind *k, const void *msg)
{
    struct bh_api_part part = {encode_msg(rq, k, msg), NULL};
    struct bh_api_response res = {
        .status = http, .content_type = bh_s(bh_form_type(rq->form)), .parts = &part, .parts_n = 1};

    bh_rq_answer(rq, &res);
}

static enum bh_code code_of(int http, struct bh_str reason)
{
    for (int c = BH_E_INTERNAL; c < BH_E__MAX; c++)
        if (reason.n > 0 && bh_str_eqc(reason, bh_err_reason((enum bh_code)c)))
            return (enum bh_code)c;
    for (int c = BH_E_INTERNAL; c < BH_E__MAX; c++)
        if (bh_err_http((enum bh_code)c) == http)
            return (enum bh_code)c;
    return BH_E_INTERNAL;
}

struct bh_str bh_status_json(struct bh_rq *rq, const struct bh_fail *f, bool *ret_details)
{
    struct bh_meta_v1_status st = {.status = BH_S("Failure"),
                                   .message = f->message,
                                   .reason = f->reason,
                                   .code = (int32_t)f->http};
    struct bh_meta_v1_status_details d = {.name = f->name,
                                          .group = f->group,
                                          .kind = f->kind,
                                          .uid = f->uid,
                                          .retry_after_seconds = f->retry_after};
    BH_AUTO_BUF b = {0};

    if (f->causes.n > 0) {
        d.causes.p = bh_new_n(rq->a, struct bh_meta_v1_status_cause, f->causes.n);
        for (size_t i = 0; i < f->causes.n; i++) {
            const struct bh_field_err *e = &f->causes.p[i];

            d.causes.p[i] =
                (struct bh_meta_v1_status_cause){bh_s(bh_ferr_reason(e->type)), e->body, e->field};
        }
        d.causes.n = f->causes.n;
    }
    if (f->more_causes_n > 0) {
        d.causes.p = bh_new_n(rq->a, struct bh_meta_v1_status_cause, f->more_causes_n);
        d.causes.n = f->more_causes_n;
        for (size_t i = 0; i < d.causes.n; i++)
            d.causes.p[i] = (struct bh_meta_v1_status_cause){
                f->more_causes[i].reason, f->more_causes[i].message, f->more_causes[i].field};
    }
    if (f->extra_cause.reason.n > 0 || f->extra_cause.message.n > 0) {
        d.causes.p = bh_new(rq->a, struct bh_meta_v1_status_cause);
        d.causes.p[0] = (struct bh_meta_v1_status_cause){
            f->extra_cause.reason, f->extra_cause.message, f->extra_cause.field};
        d.causes.n = 1;
    }
    if (f->details || d.name.n + d.group.n + d.kind.n + d.uid.n + d.causes.n > 0 ||
        d.retry_after_seconds > 0)
        st.details = &d;
    if (ret_details)
        *ret_details = st.details != NULL;
    if (rq->form == BH_FORM_PB)
        bh_kind_encode_pb(&bh_meta_v1_status_kind, &st, &b);
    else
        bh_kind_encode_json(&bh_meta_v1_status_kind, &st, &b);
    return bh_str_dup(rq->a, bh_buf_str(&b));
}

void bh_rq_send_fail(struct bh_rq *rq)
{
    const struct bh_fail *f = &rq->fail;
    struct bh_api_part part = {f->text, NULL};
    struct bh_api_header retry = {BH_S("Retry-After"), bh_str_fmt(rq->a, "%d", f->retry_after)};
    struct bh_api_response res = {.status = f->http,
                                  .parts = &part,
                                  .parts_n = 1,
                                  .code = code_of(f->http, f->reason),
                                  .reason = f->reason,
                                  .message = f->text.p ? f->text : f->message};

    if (rq->as != BH_AS_OBJECT && rq->form == BH_FORM_YAML)
        rq->form = BH_FORM_JSON; /* no such form of a Status: upstream then takes its first */
    if (f->retry_after > 0) {
        res.headers = &retry;
        res.headers_n = 1;
    }
    if (f->text.p) {
        res.content_type = BH_S("text/plain; charset=utf-8");
    } else {
        struct bh_str st = bh_status_json(rq, f, NULL);

        part.bytes = rq->form == BH_FORM_PB ? st : bh_form_of_json(rq, st);
        res.content_type = bh_s(bh_form_type(rq->form));
    }
    bh_rq_answer(rq, &res);
}

void bh_rq_answer_success(struct bh_rq *rq, struct bh_str name, struct bh_str uid)
{
    struct bh_meta_v1_status_details d = {
        .name = name, .group = rq->kind->group, .kind = rq->kind->resource, .uid = uid};
    struct bh_meta_v1_status st = {.status = BH_S("Success"), .details = &d};

    bh_rq_answer_msg(rq, 200, &bh_meta_v1_status_kind, &st);
}

struct bh_str bh_meta_raw(const struct bh_obj *o)
{
    struct bh_json_rd r;
    struct bh_str key, raw = BH_S("{}");

    bh_json_rd_init(&r, o->json, NULL);
    if (bh_json_enter(&r, NULL) < 0)
        return raw;
    while (bh_json_next_key(&r, &key, NULL) > 0) {
        struct bh_str v;

        if (bh_json_skip(&r, &v, NULL) < 0)
            break;
        if (bh_str_eqc(key, "metadata"))
            return v;
    }
    return raw;
}

void bh_partial_json(const struct bh_obj *o, struct bh_str version, struct bh_buf *out)
{
    bh_buf_addf(
        out,
        "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/%.*s\",\"metadata\":",
        BH_SF(version));
    bh_buf_adds(out, bh_meta_raw(o));
    bh_buf_addc(out, '}');
}

static void answer_shape(struct bh_rq *rq, int http, struct bh_obj *obj)
{
    BH_AUTO_BUF b = {0};

    if (rq->as == BH_AS_TABLE) {
        struct bh_obj *one[1] = {obj};
        struct bh_table_opts o = {.version = rq->as_version, .rv = obj->rv, .now = rq->now};

        if (bh_table_options(rq, &o) < 0 || bh_table_json(rq, obj->kind, one, 1, &o, &b) < 0) {
            bh_rq_send_fail(rq);
            return;
        }
    } else {
        bh_partial_json(obj, rq->as_version, &b);
    }
    bh_rq_answer_json(rq, http, bh_str_dup(rq->a, bh_buf_str(&b)));
}

void bh_rq_answer_obj(struct bh_rq *rq, int http, struct bh_obj *stored)
{
    struct bh_err err = {0};
    BH_AUTO_OBJ *obj =
        bh_scale_asked(rq) ? bh_scale_of(rq, stored, &err) : bh_convert_obj(stored, rq->kind, &err);
    struct bh_api_part parts[2] = {{{NULL, 0}, NULL}, {BH_S("\n"), NULL}};
    struct bh_api_response res = {.status = http, .parts = parts, .parts_n = 2};

    if (!obj) {
        (void)bh_fail_err(rq, &err);
        bh_rq_send_fail(rq);
        return;
    }
    if (rq->objects) {
        res.obj = obj;
        res.parts_n = 0;
    } else if (rq->as == BH_AS_PARTIAL_LIST) {
        (void)bh_fail_msg(
            rq, BH_E_NOT_ACCEPTABLE,
            "you requested PartialObjectMetadataList, but the requested object is not a list "
            "(*%.*s.%.*s)",
            BH_SF(bh_internal_package(rq->res->hub)), BH_SF(rq->res->hub->kind));
        bh_rq_send_fail(rq);
        return;
    } else if (rq->as != BH_AS_OBJECT) {
        answer_shape(rq, http, obj);
        return;
    } else if (rq->form == BH_FORM_JSON && !rq->pretty) {
        parts[0].bytes = obj->json;
        parts[0].obj = obj;
    } else {
        parts[0].bytes = rq->form == BH_FORM_PB ? encode_msg(rq, obj->kind, bh_obj_struct(obj))
                                                : bh_form_of_json(rq, obj->json);
        res.parts_n = 1;
    }
    res.content_type = bh_s(bh_form_type(rq->form));
    bh_rq_answer(rq, &res);
}
