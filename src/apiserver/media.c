/* Media types: what the client accepts, and what it sent. */
#include "apiserver/rq.h"

#include <string.h>

const char *bh_form_type(enum bh_form f)
{
    switch (f) {
    case BH_FORM_YAML:
        return "application/yaml";
    case BH_FORM_PB:
        return "application/vnd.kubernetes.protobuf";
    default:
        return "application/json";
    }
}

struct clause {
    struct bh_str type; /* "application/json" */
    struct bh_str as, v, g, stream, pretty;
    int q; /* thousandths */
    size_t at;
};

static int quality(struct bh_str v)
{
    int q = 0, scale = 1000;

    if (v.n == 0 || v.p[0] < '0' || v.p[0] > '1')
        return 1000;
    q = (v.p[0] - '0') * 1000;
    for (size_t i = 2; i < v.n && i < 5 && v.p[i] >= '0' && v.p[i] <= '9'; i++) {
        scale /= 10;
        q += (v.p[i] - '0') * scale;
    }
    return q > 1000 ? 1000 : q;
}

static struct bh_str unquote(struct bh_str s)
{
    if (s.n >= 2 && s.p[0] == '"' && s.p[s.n - 1] == '"')
        return bh_str_sub(s, 1, s.n - 1);
    return s;
}

static void parse_clause(struct bh_str text, struct clause *c)
{
    c->type = bh_str_trim(bh_str_cut(&text, ';'));
    c->q = 1000;
    while (text.p) {
        struct bh_str param = bh_str_trim(bh_str_cut(&text, ';'));
        struct bh_str key = bh_str_trim(bh_str_cut(&param, '='));
        struct bh_str value = unquote(bh_str_trim(param));

        if (bh_str_eqc(key, "as"))
            c->as = value;
        else if (bh_str_eqc(key, "v"))
            c->v = value;
        else if (bh_str_eqc(key, "g"))
            c->g = value;
        else if (bh_str_eqc(key, "stream"))
            c->stream = value;
        else if (bh_str_eqc(key, "pretty"))
            c->pretty = value;
        else if (bh_str_eqc(key, "q"))
            c->q = quality(value);
    }
}

static bool form_of(struct bh_str type, bool watch, enum bh_form *ret)
{
    (void)watch;
    if (bh_str_eqc(type, "*/*") || bh_str_eqc(type, "application/json"))
        *ret = BH_FORM_JSON;
    else if (bh_str_eqc(type, "application/yaml"))
        *ret = BH_FORM_YAML;
    else if (bh_str_eqc(type, "application/vnd.kubernetes.protobuf"))
        *ret = BH_FORM_PB;
    else
        return false;
    return true;
}

static int not_acceptable(struct bh_rq *rq, bool watch)
{
    int r = bh_fail_msg(
        rq, BH_E_NOT_ACCEPTABLE,
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf%s",
        watch ? ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
              : "");

    rq->fail.details = true;
    return r;
}

static int not_offered(struct bh_rq *rq, bool watch)
{
    return bh_fail_msg(
        rq, BH_E_NOT_ACCEPTABLE, "only the following media types are accepted: %s",
        watch ? "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
              : "application/json, application/yaml, application/vnd.kubernetes.protobuf");
}

int bh_media_no_shape(struct bh_rq *rq)
{
    rq->as = BH_AS_OBJECT;
    rq->form = BH_FORM_JSON;
    return not_offered(rq, false);
}

/* Whether what the path names can be shown as a table: of subresources those that upstream has
 * columns for. */
static bool has_tables(const struct bh_rq *rq)
{
    static const char *const without[] = {"binding", "ephemeralcontainers", "eviction", "resize"};
    struct bh_str sub = rq->ri.sub;

    if (!rq->ri.resource)
        return false;
    for (size_t i = 0; i < BH_COUNT(without); i++)
        if (bh_str_eqc(sub, without[i]))
            return false;
    if (bh_str_eqc(sub, "status"))
        return !bh_str_eqc(rq->ri.group, "resource.k8s.io") &&
               !bh_str_eqc(rq->ri.group, "scheduling.k8s.io");
    return true;
}

/* /apis and /apis/GROUP, which are handled apart from the rest upstream. */
static bool lists_groups(const struct bh_rq *rq)
{
    struct bh_str rest = rq->ri.path;
    size_t words = 0;

    while (rest.p)
        words += bh_str_cut(&rest, '/').n > 0;
    return !rq->ri.resource && bh_str_eqc(rq->ri.prefix, "apis") && words <= 2;
}

/* Whether the shape asked for can be given; fills rq->as. */
static bool shape_of(struct bh_rq *rq, const struct clause *c)
{
    rq->as = BH_AS_OBJECT;
    rq->as_version = BH_S("v1");
    if (c->as.n == 0)
        return c->g.n == 0 && c->v.n == 0;
    if (!bh_str_eqc(c->g, "meta.k8s.io") ||
        !(bh_str_eqc(c->v, "v1") || bh_str_eqc(c->v, "v1beta1")))
        return false;
    rq->as_version = c->v;
    if (bh_str_eqc(c->as, "Table") && !has_tables(rq))
        return false;
    if (bh_str_eqc(c->as, "Table"))
        rq->as = BH_AS_TABLE;
    else if (bh_str_eqc(c->as, "PartialObjectMetadata"))
        rq->as = BH_AS_PARTIAL;
    else if (bh_str_eqc(c->as, "PartialObjectMetadataList"))
        rq->as = BH_AS_PARTIAL_LIST;
    else
        return false;
    return true;
}

int bh_media_negotiate(struct bh_rq *rq, bool watch)
{
    struct clause c[32], best;
    struct bh_str rest = rq->accept;
    size_t n = 0;
    bool known = false;

    rq->form = BH_FORM_JSON;
    rq->as = BH_AS_OBJECT;
    if (rest.n == 0)
        return 0;
    while (rest.p && n < BH_COUNT(c)) {
        memset(&c[n], 0, sizeof(c[n]));
        parse_clause(bh_str_cut(&rest, ','), &c[n]);
        c[n].at = n;
        n++;
    }
    /* By quality, then as they stand. */
    for (size_t i = 0; i < n; i++) {
        size_t pick = n;

        for (size_t j = 0; j < n; j++)
            if (c[j].at != SIZE_MAX && (pick == n || c[j].q > c[pick].q))
                pick = j;
        best = c[pick];
        c[pick].at = SIZE_MAX;
        if (!form_of(best.type, watch, &rq->form))
            continue;
        known = true;
        if (!shape_of(rq, &best))
            continue;
        if (watch && rq->form == BH_FORM_YAML)
            return not_offered(rq, true);
        rq->pretty =
            best.pretty.n > 0 && !bh_str_eqc(best.pretty, "0") && !bh_str_eqc(best.pretty, "false");
        return 0;
    }
    rq->as = BH_AS_OBJECT;
    rq->form = BH_FORM_JSON;
    return known || lists_groups(rq) ? not_offered(rq, watch)
                                     : not_acceptable(rq, watch || bh_str_eqc(rq->ri.verb, "list"));
}

int bh_media_of_body(struct bh_rq *rq, enum bh_form *ret)
{
    struct bh_str rest = rq->content_type;
    struct bh_str type = bh_str_trim(bh_str_cut(&rest, ';'));
    bool broken = false;

    while (rest.p) {
        struct bh_str param = bh_str_trim(bh_str_cut(&rest, ';'));

        if (param.n == 0 ? rest.p != NULL : param.p[0] == '=' || bh_str_chr(param, '=', 0) < 0)
            broken = true;
    }
    *ret = BH_FORM_JSON;
    if (rq->content_type.n == 0 || (bh_str_eq_nocase(type, BH_S("application/json")) && !broken))
        return 0;
    *ret = BH_FORM_YAML;
    if (bh_str_eq_nocase(type, BH_S("application/yaml")) && !broken)
        return 0;
    *ret = BH_FORM_PB;
    if (bh_str_eq_nocase(type, BH_S("application/vnd.kubernetes.protobuf")) && !broken)
        return 0;
    return bh_fail_msg(
        rq, BH_E_MEDIA,
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf");
}
