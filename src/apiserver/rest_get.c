/* One object by its name. */
#include "apiserver/write.h"

/* A resourceVersion must be a number; a future one is waited for upstream and times out. */
static int check_version(struct bh_rq *rq)
{
    const struct bh_str *rv = bh_rq_query(rq, "resourceVersion");
    int64_t v;

    if (!rv || rv->n == 0)
        return 0;
    if (!bh_str_i64(*rv, 0, INT64_MAX, &v))
        return bh_fail_plain(rq,
                             "resourceVersion: Invalid value: \"%.*s\": strconv.ParseUint: parsing "
                             "\"%.*s\": invalid syntax",
                             BH_SF(*rv), BH_SF(*rv));
    if ((uint64_t)v > bh_wc_rv(rq->srv->wc)) {
        int r = bh_fail_msg(rq, BH_E_TIMEOUT,
                            "Timeout: Too large resource version: %lld, current: %llu",
                            (long long)v, (unsigned long long)bh_wc_rv(rq->srv->wc));

        rq->fail.retry_after = 1;
        rq->fail.extra_cause = (struct bh_cause){BH_S("ResourceVersionTooLarge"),
                                                 BH_S("Too large resource version"), BH_S("")};
        return r;
    }
    return 0;
}

int bh_rest_get(struct bh_rq *rq)
{
    struct bh_obj *o = bh_wc_get(rq->res->wc, bh_rq_key(rq, rq->res, rq->ri.ns, rq->ri.name));
    int r = check_version(rq);

    if (r < 0)
        return r;
    if (!o)
        return bh_fail_not_found(rq, rq->kind->group, rq->kind->resource, rq->ri.name);
    bh_rq_answer_obj(rq, 200, o);
    return 0;
}
