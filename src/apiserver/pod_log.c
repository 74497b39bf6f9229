/* The log of a container comes from the node agent's port over HTTPS: address and port stand in the
 * Node's status. The answer is passed through in pieces as it arrives, so that following works. */
#include "apiserver/pod_log.h"

#include "api/gen/core_v1.h"
#include "apiserver/kubelet_conn.h"
#include "apiserver/write.h"

#include <string.h>

static const struct bh_core_v1_container *find_container(const struct bh_core_v1_pod *p,
                                                         struct bh_str name)
{
    const struct bh_core_v1_container_vec *lists[] = {&p->spec.containers,
                                                      &p->spec.init_containers};

    for (size_t l = 0; l < BH_COUNT(lists); l++)
        for (size_t i = 0; i < lists[l]->n; i++)
            if (bh_str_eq(lists[l]->p[i].name, name))
                return &lists[l]->p[i];
    return NULL;
}

static struct bh_str names(struct bh_rq *rq, const struct bh_core_v1_pod *p)
{
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < p->spec.init_containers.n; i++)
        bh_buf_addf(&b, "%s%.*s", b.n > 0 ? " " : "", BH_SF(p->spec.init_containers.p[i].name));
    for (size_t i = 0; i < p->spec.containers.n; i++)
        bh_buf_addf(&b, "%s%.*s", b.n > 0 ? " " : "", BH_SF(p->spec.containers.p[i].name));
    return bh_str_dup(rq->a, bh_buf_str(&b));
}

/* A query is read as upstream reads it: there, and neither "false" nor "0", whatever the case. */
static bool is_true(struct bh_str v)
{
    return !bh_str_eqc(v, "0") && !bh_str_eq_nocase(v, BH_S("false"));
}

/* The options that the agent understands; true and false in one spelling, the rest as sent. */
static struct bh_str log_query(struct bh_rq *rq)
{
    static const struct {
        const char *name;
        bool boolean;
    } passed[] = {{"follow", true},        {"previous", true},
                  {"sinceSeconds", false}, {"sinceTime", false},
                  {"timestamps", true},    {"tailLines", false},
                  {"limitBytes", false},   {"insecureSkipTLSVerifyBackend", true}};
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < BH_COUNT(passed); i++) {
        const struct bh_str *v = bh_rq_query(rq, passed[i].name);

        if (!v)
            continue;
        bh_buf_addf(&b, "%s%s=", b.n > 0 ? "&" : "", passed[i].name);
        if (passed[i].boolean)
            bh_buf_addz(&b, is_true(*v) ? "true" : "false");
        else
            bh_url_escape_query(&b, *v);
    }
    return bh_str_dup(rq->a, bh_buf_str(&b));
}

static int whole(struct bh_rq *rq, const char *name, bool *ret_given, int64_t *ret)
{
    const struct bh_str *v = bh_rq_query(rq, name);

    *ret_given = v != NULL;
    if (!v || bh_str_i64(*v, INT64_MIN, INT64_MAX, ret))
        return 0;
    return bh_fail_msg(rq, BH_E_BAD_REQUEST, "%.*s", BH_SF(bh_int_error(rq, *v)));
}

/* Reads and checks the options that limit what is answered. */
static int check_options(struct bh_rq *rq)
{
    const struct bh_str *since = bh_rq_query(rq, "sinceTime");
    struct bh_field_errs errs = {.a = rq->a};
    int64_t tail = 0, limit = 0, seconds = 0;
    bool has_tail, has_limit, has_seconds;
    struct bh_err err = {0};
    struct bh_time t;
    int r = whole(rq, "sinceSeconds", &has_seconds, &seconds);

    if (r == 0 && since && bh_time_parse(*since, &t, &err) < 0)
        r = bh_fail_msg(rq, BH_E_BAD_REQUEST, "%s", err.msg);
    if (r == 0)
        r = whole(rq, "tailLines", &has_tail, &tail);
    if (r == 0)
        r = whole(rq, "limitBytes", &has_limit, &limit);
    if (r < 0)
        return r;
    if (bh_rq_query(rq, "stream")) /* behind a feature gate that is off */
        bh_fe_forbidden(&errs, BH_FP(NULL, "stream"), "may not be specified");
    if (has_tail && tail < 0)
        bh_fe_invalid_i64(&errs, BH_FP(NULL, "tailLines"), tail,
                          "must be greater than or equal to 0");
    if (has_limit && limit < 1)
        bh_fe_invalid_i64(&errs, BH_FP(NULL, "limitBytes"), limit, "must be greater than 0");
    if (has_seconds && since)
        bh_fe_forbidden(&errs, BH_FP(NULL, "[]"),
                        "at most one of `sinceTime` or `sinceSeconds` may be specified");
    else if (has_seconds && seconds < 1)
        bh_fe_invalid_i64(&errs, BH_FP(NULL, "sinceSeconds"), seconds, "must be greater than 0");
    if (errs.n > 0)
        return bh_fail_invalid(rq, BH_S(""), BH_S("PodLogOptions"), rq->ri.name, &errs);
    return 0;
}

int bh_pod_log(struct bh_rq *rq)
{
    const struct bh_str *asked = bh_rq_query(rq, "container");
    const struct bh_core_v1_pod *p;
    struct bh_str container = asked ? *asked : BH_S("");
    struct bh_obj *o = bh_wc_get(rq->res->wc, bh_rq_key(rq, rq->res, rq->ri.ns, rq->ri.name));
    int r = check_options(rq);

    if (r < 0)
        return r;
    if (!o)
        return bh_fail_not_found(rq, BH_S(""), BH_S("pods"), rq->ri.name);
    p = bh_obj_struct(o);
    if (container.n == 0) {
        if (p->spec.containers.n + p->spec.init_containers.n != 1)
            return bh_fail_msg(
                rq, BH_E_BAD_REQUEST,
                "a container name must be specified for pod %.*s, choose one of: [%.*s]",
                BH_SF(o->name), BH_SF(names(rq, p)));
        container = p->spec.containers.n > 0 ? p->spec.containers.p[0].name
                                             : p->spec.init_containers.p[0].name;
    } else if (!find_container(p, container)) {
        return bh_fail_msg(rq, BH_E_BAD_REQUEST, "container %.*s is not valid for pod %.*s",
                           BH_SF(container), BH_SF(o->name));
    }
    if (p->spec.node_name.n == 0) {
        struct bh_api_response res = {.status = 204};

        bh_rq_answer(rq, &res);
        return 0;
    }
    return bh_kubelet_stream(rq, p->spec.node_name,
                             bh_str_fmt(rq->a, "/containerLogs/%.*s/%.*s/%.*s?%.*s", BH_SF(o->ns),
                                        BH_SF(o->name), BH_SF(container), BH_SF(log_query(rq))));
}
