/* Lists: the blocks of the cache are sent as they are, between a head and a tail. */
#include "apiserver/rest_list.h"
#include "api/gen/meta_v1.h"
#include "apiserver/body.h"
#include "apiserver/convert.h"
#include "apiserver/listopts.h"
#include "apiserver/select.h"
#include "apiserver/tables.h"
#include "apiserver/write.h"

#include <string.h>

/* {"kind":"Pod","apiVersion":"v1", — what an item of a list leaves out. */
static struct bh_str item_prefix(struct bh_rq *rq, const struct bh_kind *k)
{
    return bh_str_fmt(rq->a, "{\"kind\":\"%.*s\",\"apiVersion\":\"%.*s\",", BH_SF(k->kind),
                      BH_SF(k->api_version));
}

static void list_meta(const struct bh_list_page *p, struct bh_buf *b)
{
    bh_buf_addf(b, "\"metadata\":{\"resourceVersion\":\"%llu\"", (unsigned long long)p->rv);
    if (p->cont.n > 0)
        bh_buf_addf(b, ",\"continue\":\"%.*s\"", BH_SF(p->cont));
    if (p->has_remaining)
        bh_buf_addf(b, ",\"remainingItemCount\":%lld", (long long)p->remaining);
    bh_buf_addz(b, "}");
}

static void answer_json_parts(struct bh_rq *rq, const struct bh_list_page *p)
{
    const struct bh_kind *k = rq->kind;
    struct bh_api_part *parts = bh_new_n(rq->a, struct bh_api_part, 2 * p->n + 2);
    struct bh_str prefix = item_prefix(rq, k);
    struct bh_api_response res = {
        .status = 200, .content_type = BH_S("application/json"), .parts = parts};
    BH_AUTO_BUF head = {0};
    size_t n = 0;

    bh_buf_addf(&head, "{\"kind\":\"%.*s\",\"apiVersion\":\"%.*s\",", BH_SF(k->list_kind),
                BH_SF(k->api_version));
    list_meta(p, &head);
    bh_buf_addz(&head, p->null_items ? ",\"items\":null}\n" : ",\"items\":[");
    parts[n++] = (struct bh_api_part){bh_str_dup(rq->a, bh_buf_str(&head)), NULL};
    for (size_t i = 0; i < p->n; i++) {
        const struct bh_obj *o = p->items[i];
        bool bare = bh_str_starts(o->json, prefix);

        if (bare) {
            parts[n++] = (struct bh_api_part){i > 0 ? BH_S(",{") : BH_S("{"), NULL};
            parts[n++] = (struct bh_api_part){bh_str_sub(o->json, prefix.n, o->json.n), o};
        } else {
            parts[n++] = (struct bh_api_part){i > 0 ? BH_S(",") : BH_S(""), NULL};
            parts[n++] = (struct bh_api_part){o->json, o};
        }
    }
    if (!p->null_items)
        parts[n++] = (struct bh_api_part){BH_S("]}\n"), NULL};
    res.parts_n = n;
    bh_rq_answer(rq, &res);
}

/* Joined text, for YAML, indented JSON and shapes made from it. */
static void answer_json_text(struct bh_rq *rq, const struct bh_list_page *p)
{
    const struct bh_kind *k = rq->kind;
    struct bh_str prefix = item_prefix(rq, k);
    bool partial = rq->as == BH_AS_PARTIAL_LIST;
    BH_AUTO_BUF b = {0};

    if (partial)
        bh_buf_addf(&b,
                    "{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/%.*s\",",
                    BH_SF(rq->as_version));
    else
        bh_buf_addf(&b, "{\"kind\":\"%.*s\",\"apiVersion\":\"%.*s\",", BH_SF(k->list_kind),
                    BH_SF(k->api_version));
    list_meta(p, &b);
    if (p->null_items) {
        bh_buf_addz(&b, ",\"items\":null}");
        bh_rq_answer_json(rq, 200, bh_str_dup(rq->a, bh_buf_str(&b)));
        return;
    }
    bh_buf_addz(&b, ",\"items\":[");
    for (size_t i = 0; i < p->n; i++) {
        const struct bh_obj *o = p->items[i];

        if (i > 0)
            bh_buf_addc(&b, ',');
        if (partial) {
            bh_partial_json(o, rq->as_version, &b);
        } else if (bh_str_starts(o->json, prefix)) {
            bh_buf_addc(&b, '{');
            bh_buf_adds(&b, bh_str_sub(o->json, prefix.n, o->json.n));
        } else {
            bh_buf_adds(&b, o->json);
        }
    }
    bh_buf_addz(&b, "]}");
    bh_rq_answer_json(rq, 200, bh_str_dup(rq->a, bh_buf_str(&b)));
}

static void answer_pb(struct bh_rq *rq, const struct bh_list_page *p)
{
    const struct bh_kind *k = rq->kind;
    struct bh_str text = {NULL, 0};
    char *list = bh_arena_alloc(rq->a, k->list_type->size);
    struct bh_meta_v1_list_meta *m = (void *)(list + k->list_meta_off);
    struct bh_vec *items = (void *)(list + k->list_items_off);
    struct bh_api_part part;
    struct bh_api_response res = {.status = 200,
                                  .content_type = BH_S("application/vnd.kubernetes.protobuf"),
                                  .parts = &part,
                                  .parts_n = 1};
    BH_AUTO_BUF b = {0};

    (void)text;
    m->resource_version = bh_str_fmt(rq->a, "%llu", (unsigned long long)p->rv);
    m->continue_ = p->cont;
    m->has_remaining_item_count = p->has_remaining;
    m->remaining_item_count = p->remaining;
    items->n = p->n;
    items->p = bh_arena_alloc_n(rq->a, p->n + 1, k->type->size);
    for (size_t i = 0; i < p->n; i++)
        memcpy((char *)items->p + i * k->type->size, bh_obj_struct(p->items[i]), k->type->size);
    bh_kind_encode_list_pb(k, list, &b);
    part = (struct bh_api_part){bh_buf_str(&b), NULL};
    bh_rq_answer(rq, &res);
}

static void unref_items(void *arg)
{
    struct bh_list_page *p = arg;

    for (size_t i = 0; i < p->n; i++)
        (void)bh_obj_unref(p->items[i]);
}

/* Items of a page that are stored in another version become new objects, which the request's arena
 * releases. */
static int convert_items(struct bh_rq *rq, struct bh_list_page *p)
{
    struct bh_list_page *own = bh_new(rq->a, struct bh_list_page);
    struct bh_err err = {0};

    own->items = bh_new_n(rq->a, struct bh_obj *, p->n + 1);
    bh_arena_on_reset(rq->a, unref_items, own);
    for (size_t i = 0; i < p->n; i++) {
        own->items[i] = bh_convert_obj(p->items[i], rq->kind, &err);
        if (!own->items[i])
            return bh_fail_err(rq, &err);
        own->n++;
    }
    p->items = own->items;
    return 0;
}

int bh_list_answer(struct bh_rq *rq, struct bh_list_page *p)
{
    int r = 0;

    if (rq->kind != rq->res->hub)
        r = convert_items(rq, p);
    if (r < 0)
        return r;
    if (rq->objects) {
        struct bh_api_response res = {.status = 200,
                                      .items = p->items,
                                      .items_n = p->n,
                                      .list_rv = p->rv,
                                      .list_continue = p->cont};

        bh_rq_answer(rq, &res);
        return 0;
    }
    if (rq->as == BH_AS_PARTIAL)
        return bh_fail_msg(
            rq, BH_E_NOT_ACCEPTABLE,
            "you requested PartialObjectMetadata, but the requested object is a list (*%.*s.%.*s)",
            BH_SF(bh_internal_package(rq->res->hub)), BH_SF(rq->res->hub->list_kind));
    if (rq->as == BH_AS_TABLE) {
        struct bh_table_opts o = {.version = rq->as_version,
                                  .rv = p->rv,
                                  .now = rq->now,
                                  .cont = p->cont,
                                  .has_remaining = p->has_remaining,
                                  .remaining = p->remaining,
                                  .list = true};
        BH_AUTO_BUF b = {0};

        r = bh_table_options(rq, &o);
        if (r == 0)
            r = bh_table_json(rq, rq->kind, p->items, p->n, &o, &b);
        if (r < 0)
            return r;
        bh_rq_answer_json(rq, 200, bh_str_dup(rq->a, bh_buf_str(&b)));
        return 0;
    }
    if (rq->as == BH_AS_PARTIAL_LIST || rq->form == BH_FORM_YAML || rq->pretty)
        answer_json_text(rq, p);
    else if (rq->form == BH_FORM_PB)
        answer_pb(rq, p);
    else
        answer_json_parts(rq, p);
    return 0;
}

static struct bh_str rel_key(struct bh_rq *rq, const struct bh_obj *o)
{
    return o->ns.n > 0 ? bh_str_fmt(rq->a, "%.*s/%.*s", BH_SF(o->ns), BH_SF(o->name)) : o->name;
}

/* The key prefix that ns and the selector leave: one object, one namespace, or all. */
static struct bh_str scan_prefix(struct bh_rq *rq, const struct bh_select *s, bool *ret_one)
{
    struct bh_str ns = rq->ri.ns.n > 0 ? rq->ri.ns : s->ns;

    *ret_one = false;
    if (!rq->res->hub->namespaced)
        ns = BH_S("");
    if (s->name.n > 0 && (ns.n > 0 || !rq->res->hub->namespaced)) {
        *ret_one = true;
        return bh_rq_key(rq, rq->res, ns, s->name);
    }
    return bh_wc_key(rq->res->wc, rq->a, ns, BH_S(""));
}

static int too_new(struct bh_rq *rq, uint64_t want, uint64_t have)
{
    int r =
        bh_fail_msg(rq, BH_E_TIMEOUT, "Timeout: Too large resource version: %llu, current: %llu",
                    (unsigned long long)want, (unsigned long long)have);

    rq->fail.retry_after = 1;
    rq->fail.extra_cause = (struct bh_cause){BH_S("ResourceVersionTooLarge"),
                                             BH_S("Too large resource version"), BH_S("")};
    return r;
}

static int expired(struct bh_rq *rq, const struct bh_listopts *o)
{
    if (o->cont.n > 0)
        return bh_fail_msg(rq, BH_E_GONE,
                           "The provided continue parameter is too old to display a consistent "
                           "list result. You can "
                           "start a new list without the continue parameter, or use the continue "
                           "token in this response "
                           "to retrieve the remainder of the results. Continuing with the provided "
                           "token results in an "
                           "inconsistent list - objects that were created, modified, or deleted "
                           "between the time the "
                           "first chunk was returned and now may show up in the list.");
    return bh_fail_msg(rq, BH_E_GONE, "The resourceVersion for the provided list is too old.");
}

int bh_list_select(struct bh_rq *rq, const struct bh_listopts *o, const struct bh_select *s,
                   struct bh_list_page *p)
{
    uint64_t now = bh_wc_rv(rq->srv->wc), at = 0;
    struct bh_str prefix, from = BH_S("");
    struct bh_wc_list all;
    BH_AUTO_ARENA scratch = bh_arena_new(0);
    size_t i, cap = 0;
    bool one;

    memset(p, 0, sizeof(*p));
    prefix = scan_prefix(rq, s, &one);
    if (o->cont_rv > 0)
        at = o->cont_rv;
    else if (bh_str_eqc(o->match, "Exact") || (o->match.n == 0 && o->rv_n > 0 && o->limit > 0))
        at = o->rv_n;
    if ((at ? at : o->rv_n) > now)
        return too_new(rq, at ? at : o->rv_n, now);
    if (o->cont_start.n > 0)
        from = bh_str_fmt(rq->a, "%.*s%.*s", BH_SF(rq->res->wc->prefix), BH_SF(o->cont_start));
    if (o->cont_start.n > 0 && o->cont_start.p[o->cont_start.n - 1] == '\0')
        from.n = rq->res->wc->prefix.n + o->cont_start.n;
    if (bh_wc_list(rq->res->wc, rq->a, prefix, from, at, &all, NULL) < 0)
        return expired(rq, o);
    p->rv = at ? at : now;
    for (i = 0; i < all.n; i++) {
        struct bh_obj *ob = all.p[i];

        if (one && !bh_str_eq(ob->name, s->name))
            continue;
        if (!bh_select_match(s, rq->kind, ob, scratch))
            continue;
        if (o->limit > 0 && (int64_t)p->n == o->limit &&
            !(bh_str_eqc(o->rv, "0") && o->match.n == 0)) {
            p->cont = bh_continue_token(rq, p->rv, rel_key(rq, p->items[p->n - 1]));
            if (!s->any) {
                p->has_remaining = true;
                p->remaining = (int64_t)(all.n - i);
            }
            break;
        }
        bh_arena_grow(rq->a, &p->items, &cap, p->n + 1, sizeof(*p->items));
        p->items[p->n++] = ob;
    }
    /* Only lists of metadata were seen to say null; full lists say [] in that place. */
    p->null_items =
        p->n == 0 && (one || all.n > 0) && rq->kind->group.n == 0 && rq->as == BH_AS_PARTIAL_LIST;
    return 0;
}

int bh_rest_list(struct bh_rq *rq)
{
    struct bh_listopts o;
    struct bh_select s;
    struct bh_list_page p;
    int r = bh_listopts_parse(rq, false, &o);

    if (r == 0)
        r = bh_select_parse(rq, &s);
    if (r == 0)
        r = bh_list_select(rq, &o, &s, &p);
    if (r == 0)
        r = bh_list_answer(rq, &p);
    return r;
}
