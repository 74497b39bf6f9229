/* From method and path to what is asked: upstream's RequestInfo, with its verbs and its special
 * words. */
#include "apiserver/rq.h"

#include "data/selector.h"

#include <string.h>

/* Trims the slashes at both ends and splits; too many parts are cut off (nothing that long is
 * served). */
static size_t split(struct bh_str path, struct bh_str *parts, size_t max)
{
    size_t n = 0;

    while (path.n > 0 && path.p[0] == '/')
        path = bh_str_sub(path, 1, path.n);
    while (path.n > 0 && path.p[path.n - 1] == '/')
        path.n--;
    while (path.p && path.n > 0 && n < max)
        parts[n++] = bh_str_cut(&path, '/');
    if (path.p && path.n == 0 && n > 0 && n < max && path.p[-1] == '/')
        parts[n++] = (struct bh_str){"", 0};
    return n;
}

static struct bh_str lower(struct bh_rq *rq, struct bh_str s)
{
    char *p = bh_arena_memdup(rq->life, s.p, s.n);

    for (size_t i = 0; i < s.n; i++)
        if (p[i] >= 'A' && p[i] <= 'Z')
            p[i] = (char)(p[i] - 'A' + 'a');
    return (struct bh_str){p, s.n};
}

static struct bh_str verb_of_method(struct bh_str m)
{
    static const struct {
        const char *method, *verb;
    } table[] = {{"POST", "create"}, {"GET", "get"},     {"HEAD", "get"},
                 {"PUT", "update"},  {"PATCH", "patch"}, {"DELETE", "delete"}};

    for (size_t i = 0; i < BH_COUNT(table); i++)
        if (bh_str_eqc(m, table[i].method))
            return bh_s(table[i].verb);
    return BH_S("");
}

/* Any value but "0" and "false" is true, an empty one too. */
static bool truthy(const struct bh_str *v)
{
    return v && !bh_str_eqc(*v, "0") && !bh_str_eq_nocase(*v, BH_S("false"));
}

static bool is_namespace_sub(struct bh_str s)
{
    return bh_str_eqc(s, "status") || bh_str_eqc(s, "finalize");
}

/* The name that fieldSelector=metadata.name=x gives to a list or watch. */
static struct bh_str name_of_selector(struct bh_rq *rq)
{
    const struct bh_str *text = bh_rq_query(rq, "fieldSelector");
    struct bh_field_selector sel = {0};

    if (!text || bh_field_selector_parse(rq->a, *text, &sel, NULL) < 0)
        return BH_S("");
    for (size_t i = 0; i < sel.n; i++)
        if (!sel.reqs[i].ne && bh_str_eqc(sel.reqs[i].field, "metadata.name"))
            return sel.reqs[i].value;
    return BH_S("");
}

static void verb_of_collection(struct bh_rq *rq, struct bh_ri *ri)
{
    if (bh_str_eqc(ri->verb, "get"))
        ri->verb = truthy(bh_rq_query(rq, "watch")) ? BH_S("watch") : BH_S("list");
    else if (bh_str_eqc(ri->verb, "delete"))
        ri->verb = BH_S("deletecollection");
}

int bh_ri_parse(struct bh_rq *rq, struct bh_str raw_path)
{
    struct bh_ri *ri = &rq->ri;
    struct bh_str p[16];
    size_t n, at = 0;

    memset(ri, 0, sizeof(*ri));
    if (bh_url_decode(rq->life, raw_path, false, &ri->path, NULL) < 0)
        return bh_fail_text(rq, 400, BH_S("400 Bad Request"));
    n = split(ri->path, p, BH_COUNT(p));
    ri->verb = lower(rq, rq->method);
    if (n > 0)
        ri->prefix = p[0];
    if (n < 3 || !(bh_str_eqc(p[0], "api") || bh_str_eqc(p[0], "apis")))
        return 0;
    at = 1;
    if (bh_str_eqc(p[0], "apis")) {
        if (n < 4)
            return 0;
        ri->group = p[at++];
    }
    ri->version = p[at++];
    ri->resource = true;
    if (bh_str_eqc(p[at], "watch") || bh_str_eqc(p[at], "proxy")) {
        if (at + 1 >= n)
            return bh_fail_text(
                rq, 500,
                bh_str_fmt(rq->a,
                           "Internal Server Error: \"%.*s\": failed to create RequestInfo: unable "
                           "to determine kind and namespace from url, %.*s\n",
                           BH_SF(ri->path), BH_SF(ri->path)));
        ri->old_watch = bh_str_eqc(p[at], "watch");
        ri->verb = p[at++];
    } else {
        ri->verb = verb_of_method(rq->method);
    }
    if (bh_str_eqc(p[at], "namespaces") && n - at > 1) {
        ri->ns = p[at + 1];
        ri->in_ns = n - at > 2 && !is_namespace_sub(p[at + 2]);
        if (ri->in_ns)
            at += 2;
    }
    for (; at < n && ri->parts_n < BH_COUNT(ri->parts); at++)
        ri->parts[ri->parts_n++] = p[at];
    ri->res = ri->parts[0];
    if (ri->parts_n > 1)
        ri->name = ri->parts[1];
    if (ri->parts_n > 2)
        ri->sub = ri->parts[2];
    if (ri->name.n == 0 && !ri->old_watch)
        verb_of_collection(rq, ri);
    if (ri->name.n == 0 && (bh_str_eqc(ri->verb, "list") || bh_str_eqc(ri->verb, "watch")))
        ri->name = name_of_selector(rq);
    return 0;
}
