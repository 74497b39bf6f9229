/* Parsing, checking and matching selectors. */
#include "apiserver/select.h"

#include "apiserver/server_int.h"

static bool is_selectable(const struct bh_kind *k, struct bh_str field)
{
    if (bh_str_eqc(field, "metadata.name") ||
        (k->namespaced && bh_str_eqc(field, "metadata.namespace")))
        return true;
    /* Upstream's generic conversion takes metadata.namespace for cluster-scoped kinds too. */
    if (bh_str_eqc(field, "metadata.namespace"))
        return true;
    for (uint32_t i = 0; i < k->n_selectable; i++)
        if (bh_str_eq(k->selectable[i], field))
            return true;
    return false;
}

static int unknown_field(struct bh_rq *rq, struct bh_str field)
{
    const struct bh_kind *k = rq->kind;

    if (bh_str_eqc(k->kind, "ResourceSlice"))
        return bh_fail_msg(rq, BH_E_BAD_REQUEST,
                           "field label not supported for %.*s, Kind=%.*s: %.*s",
                           BH_SF(k->api_version), BH_SF(k->kind), BH_SF(field));
    if (k->n_selectable > 0)
        return bh_fail_msg(rq, BH_E_BAD_REQUEST, "field label not supported: %.*s", BH_SF(field));
    return bh_fail_msg(
        rq, BH_E_BAD_REQUEST,
        "\"%.*s\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        BH_SF(field));
}

static void drop_blank(struct bh_field_selector *f)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n; i++)
        if (f->reqs[i].field.n > 0)
            f->reqs[n++] = f->reqs[i];
    f->n = n;
}

int bh_select_parse(struct bh_rq *rq, struct bh_select *s)
{
    const struct bh_str *l = bh_rq_query(rq, "labelSelector"),
                        *f = bh_rq_query(rq, "fieldSelector");
    const struct bh_kind *hub = rq->res->hub;
    struct bh_err err = {0};

    *s = (struct bh_select){0};
    if (l && bh_label_selector_parse(rq->a, *l, &s->labels, &err) < 0)
        return bh_fail_msg(rq, BH_E_BAD_REQUEST, "%s", err.msg);
    if (f && bh_field_selector_parse(rq->a, *f, &s->fields, &err) < 0)
        return bh_fail_msg(rq, BH_E_BAD_REQUEST, "%s", err.msg);
    for (size_t i = 0; i < s->fields.n; i++) {
        const struct bh_field_req *rqm = &s->fields.reqs[i];

        if (rqm->field.n == 0 && rqm->value.n == 0)
            continue; /* a bare "=" says nothing */
        if (!is_selectable(rq->kind, rqm->field))
            return unknown_field(rq, rqm->field);
        if (rqm->ne)
            continue;
        if (bh_str_eqc(rqm->field, "metadata.name"))
            s->name = rqm->value;
        else if (bh_str_eqc(rqm->field, "metadata.namespace"))
            s->ns = rqm->value;
        else if (hub->n_indexed > 0 && bh_str_eq(rqm->field, hub->indexed[0]))
            s->index_value = rqm->value.p ? rqm->value : BH_S("");
    }
    drop_blank(&s->fields);
    s->any = !bh_label_selector_empty(&s->labels) || s->fields.n > 0;
    return 0;
}

struct field_arg {
    const struct bh_obj *o;
    const struct bh_kind *asked;
    struct bh_arena *scratch;
};

/* Selectors speak of the version asked for; the forms of an event have names of their own for the
 * same fields. */
static struct bh_str stored_name(const struct field_arg *f, struct bh_str field)
{
    const struct bh_kind *k = f->asked;

    if (k->group.n == f->o->kind->group.n)
        return field;
    for (uint32_t i = 0; i < k->n_selectable; i++)
        if (bh_str_eq(k->selectable[i], field)) {
            if (bh_str_starts(field, BH_S("regarding.")))
                return bh_str_fmt(f->scratch, "involvedObject.%.*s",
                                  BH_SF(bh_str_sub(field, 10, field.n)));
            if (bh_str_eqc(field, "reportingController"))
                return BH_S("reportingComponent");
        }
    return field;
}

static struct bh_str field_value(void *arg, struct bh_str field)
{
    struct field_arg *f = arg;

    return bh_wc_field(f->o, stored_name(f, field), f->scratch);
}

bool bh_select_match(const struct bh_select *s, const struct bh_kind *asked, const struct bh_obj *o,
                     struct bh_arena *scratch)
{
    struct field_arg f = {o, asked, scratch};

    if (!s->any)
        return true;
    return bh_label_selector_match(&s->labels, &o->labels) &&
           bh_field_selector_match(&s->fields, field_value, &f);
}
