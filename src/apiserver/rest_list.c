/* Lists: the blocks of the cache are sent as they are, between a head and a tail. */
#include "apiserver/rest_list.h"
#include "api/gen/meta_v1.h"
#include "apiserver/body.h"
#include "apiserver/convert.h"
#include "apiserver/history.h"
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

/* The version as of which the list is asked for; 0: now. */
static uint64_t exact_version(const struct bh_listopts *o)
{
    if (o->cont_rv > 0)
        return o->cont_rv;
    if (bh_str_eqc(o->match, "Exact") || (o->match.n == 0 && o->rv_n > 0 && o->limit > 0))
        return o->rv_n;
    return 0;
}

/* The key that the list goes on from. */
static struct bh_str scan_from(struct bh_rq *rq, const struct bh_listopts *o)
{
    struct bh_str from = BH_S("");

    if (o->cont_start.n > 0)
        from = bh_str_fmt(rq->a, "%.*s%.*s", BH_SF(rq->res->wc->prefix), BH_SF(o->cont_start));
    if (o->cont_start.n > 0 && o->cont_start.p[o->cont_start.n - 1] == '\0')
        from.n = rq->res->wc->prefix.n + o->cont_start.n;
    return from;
}

/* The page out of all that was there. */
static void take_page(struct bh_rq *rq, const struct bh_listopts *o, const struct bh_select *s,
                      const struct bh_wc_list *there, struct bh_list_page *p)
{
    const struct bh_wc_list all = *there;
    BH_AUTO_ARENA scratch = bh_arena_new(0);
    size_t i, cap = 0;
    bool one;

    (void)scan_prefix(rq, s, &one);
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
    p->null_items = p->n == 0 && rq->as == BH_AS_PARTIAL_LIST; /* full lists say [] */
}

int bh_list_select(struct bh_rq *rq, const struct bh_listopts *o, const struct bh_select *s,
                   struct bh_list_page *p)
{
    uint64_t now = bh_wc_rv(rq->srv->wc), at = exact_version(o);
    struct bh_wc_list all;
    struct bh_str prefix;
    bool one;

    memset(p, 0, sizeof(*p));
    prefix = scan_prefix(rq, s, &one);
    if ((at ? at : o->rv_n) > now)
        return too_new(rq, at ? at : o->rv_n, now);
    if (bh_wc_list(rq->res->wc, rq->a, prefix, scan_from(rq, o), at, &all, NULL) < 0)
        return expired(rq, o);
    p->rv = at ? at : now;
    take_page(rq, o, s, &all, p);
    return 0;
}

/* ---- older than the window: from the store ---- */

struct old_list {
    struct bh_rq *rq;
    struct bh_listopts o;
    struct bh_select s;
    struct bh_str prefix, from;
    struct bh_history h;
    struct bh_map seen; /* keys in past */
    struct bh_wc_past *past;
    size_t n, cap;
};

static void old_free(struct old_list *l)
{
    bh_history_stop(&l->h);
    for (size_t i = 0; i < l->n; i++)
        (void)bh_obj_unref(l->past[i].obj);
    l->n = 0;
    bh_map_done(&l->seen);
}

static void old_stop(struct bh_rq *rq)
{
    old_free(rq->watch);
    bh_rq_finish(rq);
}

/* The first event of a key tells what was there before all of them. */
static void old_event(void *arg, const struct bh_wc_event *ev)
{
    struct old_list *l = arg;
    struct bh_str key = bh_wc_key(l->rq->res->wc, l->rq->a, ev->obj->ns, ev->obj->name);

    if (!bh_str_starts(key, l->prefix) || bh_str_cmp(key, l->from) < 0 || bh_map_get(&l->seen, key))
        return;
    (void)bh_map_put(&l->seen, key, l);
    bh_arena_grow(l->rq->a, &l->past, &l->cap, l->n + 1, sizeof(*l->past));
    l->past[l->n++] = (struct bh_wc_past){key, ev->prev ? bh_obj_ref(ev->prev) : NULL};
}

static void old_done(void *arg, const struct bh_err *err)
{
    struct old_list *l = arg;
    struct bh_rq *rq = l->rq;
    struct bh_list_page p = {.rv = exact_version(&l->o)};
    struct old_list held;
    struct bh_wc_list all;
    int r;

    rq->stop = NULL;
    if (err) {
        r = err->code == BH_E_GONE ? expired(rq, &l->o) : bh_fail_err(rq, err);
    } else {
        bh_wc_past_sort(l->past, l->n);
        bh_wc_list_past(rq->res->wc, rq->a, l->prefix, l->from, l->past, l->n, &all);
        take_page(rq, &l->o, &l->s, &all, &p);
        r = 0;
    }
    /* The answer takes what it needs; the rest, which lives in the request, goes first. */
    for (size_t i = 0; i < p.n; i++)
        (void)bh_obj_ref(p.items[i]);
    held = *l;
    l = NULL;
    if (r == 0) {
        struct bh_obj **items = p.n > 0 ? bh_memdup(p.items, p.n * sizeof(*items)) : NULL;
        size_t n = p.n;

        bh_map_done(&held.seen);
        for (size_t i = 0; i < held.n; i++)
            (void)bh_obj_unref(held.past[i].obj);
        r = bh_list_answer(rq, &p);
        for (size_t i = 0; i < n; i++)
            (void)bh_obj_unref(items[i]);
        bh_free(items);
    } else {
        old_free(&held);
    }
    if (r < 0)
        bh_rq_send_fail(rq);
}

static void old_start(struct bh_rq *rq, const struct bh_listopts *o, const struct bh_select *s)
{
    struct old_list *l = bh_new(rq->a, struct old_list);
    bool one;

    l->rq = rq;
    l->o = *o;
    l->s = *s;
    l->prefix = scan_prefix(rq, s, &one);
    l->from = scan_from(rq, o);
    l->h.event = old_event;
    l->h.done = old_done;
    l->h.arg = l;
    rq->watch = l;
    rq->stop = old_stop;
    bh_history_start(&l->h, rq->srv, rq->res->wc, exact_version(o));
}

int bh_rest_list(struct bh_rq *rq)
{
    struct bh_listopts o;
    struct bh_select s;
    struct bh_list_page p;
    int r = bh_listopts_parse(rq, false, &o);

    if (r == 0)
        r = bh_select_parse(rq, &s);
    if (r == 0 && bh_wc_left_window(rq->res->wc, exact_version(&o)) && exact_version(&o) > 1 &&
        exact_version(&o) >= bh_store_compacted(rq->srv->store)) {
        old_start(rq, &o, &s);
        return 0;
    }
    if (r == 0)
        r = bh_list_select(rq, &o, &s, &p);
    if (r == 0)
        r = bh_list_answer(rq, &p);
    return r;
}
