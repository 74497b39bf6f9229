/* /healthz, /livez, /readyz, their single checks, and everything that is not served. */
#include "apiserver/server_int.h"

#include <string.h>

static const char *check_ping(struct bh_apiserver *srv)
{
    (void)srv;
    return NULL;
}

/* A store that refuses writes is not ready; reading goes on. */
static const char *check_store(struct bh_apiserver *srv)
{
    return bh_pipeline_trouble(srv->pipe);
}

static const struct {
    const char *name;
    const char *(*fn)(struct bh_apiserver *srv);
    bool ready_only;
} checks[] = {
    {"ping", check_ping, false},         {"log", check_ping, false},
    {"etcd", check_store, false},        {"etcd-readiness", check_store, true},
    {"informer-sync", check_ping, true},
};

static bool excluded(const struct bh_rq *rq, const char *name)
{
    for (size_t i = 0; i < rq->q.n; i++)
        if (bh_str_eqc(rq->q.p[i].key, "exclude") && bh_str_eqc(rq->q.p[i].value, name))
            return true;
    return false;
}

static int all_checks(struct bh_rq *rq, struct bh_str what)
{
    bool ready = bh_str_eqc(what, "readyz"), verbose = bh_rq_query(rq, "verbose") != NULL,
         bad = false;
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < BH_COUNT(checks); i++) {
        const char *why;

        if (checks[i].ready_only && !ready)
            continue;
        if (excluded(rq, checks[i].name)) {
            bh_buf_addf(&b, "[+]%s excluded: ok\n", checks[i].name);
            continue;
        }
        why = checks[i].fn(rq->srv);
        if (why)
            bh_buf_addf(&b, "[-]%s failed: reason withheld\n", checks[i].name);
        else
            bh_buf_addf(&b, "[+]%s ok\n", checks[i].name);
        bad |= why != NULL;
    }
    bh_buf_addf(&b, "%.*s check %s\n", BH_SF(what), bad ? "failed" : "passed");
    if (!bad && !verbose) {
        bh_buf_clear(&b);
        bh_buf_addz(&b, "ok");
    }
    bh_rq_answer_raw(rq, bad ? 500 : 200, BH_S("text/plain; charset=utf-8"),
                     bh_str_dup(rq->a, bh_buf_str(&b)));
    return 0;
}

int bh_health_serve(struct bh_rq *rq)
{
    struct bh_str path = rq->ri.path, what, name;

    if (path.n > 0 && path.p[0] == '/')
        path = bh_str_sub(path, 1, path.n);
    what = bh_str_cut(&path, '/');
    if (!(bh_str_eqc(what, "healthz") || bh_str_eqc(what, "livez") || bh_str_eqc(what, "readyz")))
        return bh_fail_text(rq, 404, BH_S("404 page not found\n"));
    if (!path.p)
        return all_checks(rq, what);
    name = path;
    for (size_t i = 0; i < BH_COUNT(checks); i++) {
        const char *why;

        if (!bh_str_eqc(name, checks[i].name) ||
            (checks[i].ready_only && !bh_str_eqc(what, "readyz")))
            continue;
        why = checks[i].fn(rq->srv);
        bh_rq_answer_raw(rq, why ? 500 : 200, BH_S("text/plain; charset=utf-8"),
                         why ? bh_str_fmt(rq->a, "internal server error: %s", why) : BH_S("ok"));
        return 0;
    }
    return bh_fail_text(rq, 404, BH_S("404 page not found\n"));
}
