/* The options of writes in the query: dryRun, fieldManager, fieldValidation, force. */
#include "apiserver/rq.h"

#include <string.h>

#define MANAGER_BYTES_MAX 128

static void check_manager(struct bh_rq *rq, struct bh_field_errs *errs)
{
    struct bh_str m = rq->field_manager;
    const struct bh_fpath *at = BH_FP(NULL, "fieldManager");
    size_t runes = 0;

    if (m.n > MANAGER_BYTES_MAX)
        bh_fe_too_long(errs, at, MANAGER_BYTES_MAX);
    for (size_t i = 0; i < m.n; i++) {
        unsigned char c = (unsigned char)m.p[i];

        if (c < 0x20 || c == 0x7f) {
            bh_fe_invalid(errs, at, m, "invalid character U+%04X (at position %zu)", c, i);
            return;
        }
        runes += (c & 0xc0) != 0x80;
    }
    (void)runes;
}

static void check_dry_run(struct bh_rq *rq, struct bh_field_errs *errs)
{
    BH_AUTO_BUF list = {0};
    bool bad = false, any = false;

    for (size_t i = 0; i < rq->q.n; i++) {
        if (!bh_str_eqc(rq->q.p[i].key, "dryRun"))
            continue;
        bh_buf_addz(&list, any ? "," : "[");
        bh_go_quote(&list, rq->q.p[i].value);
        any = true;
        bad |= !bh_str_eqc(rq->q.p[i].value, "All");
    }
    bh_buf_addz(&list, "]");
    rq->dry_run = any && !bad;
    if (bad)
        bh_fe_add(errs, BH_FE_NOT_SUPPORTED, BH_FP(NULL, "dryRun"),
                  bh_str_fmt(rq->a, "Unsupported value: %.*s: supported values: \"All\"",
                             BH_SF(bh_buf_str(&list))));
}

static void check_validation(struct bh_rq *rq, struct bh_field_errs *errs)
{
    static const struct bh_str supported[] = {BH_S_INIT(""), BH_S_INIT("Ignore"),
                                              BH_S_INIT("Strict"), BH_S_INIT("Warn")};

    for (size_t i = 0; i < BH_COUNT(supported); i++)
        if (bh_str_eq(rq->field_validation, supported[i]))
            return;
    bh_fe_not_supported(errs, BH_FP(NULL, "fieldValidation"), rq->field_validation, supported,
                        BH_COUNT(supported));
}

/* Go's conversion of a query value to *bool: everything but "0" and "false" is true. */
static bool truthy(struct bh_str v)
{
    return !bh_str_eqc(v, "0") && !bh_str_eq_nocase(v, BH_S("false"));
}

int bh_options_write(struct bh_rq *rq, const char *options_kind)
{
    const struct bh_str *manager = bh_rq_query(rq, "fieldManager"),
                        *val = bh_rq_query(rq, "fieldValidation"),
                        *force = bh_rq_query(rq, "force");
    struct bh_field_errs errs = {.a = rq->a};
    bool patch = strcmp(options_kind, "PatchOptions") == 0;
    bool apply = patch && bh_str_starts(rq->content_type, BH_S("application/apply-patch"));

    if (manager)
        rq->field_manager = *manager;
    rq->field_validation = val ? *val : BH_S("");
    if (patch && force) {
        rq->has_force = true;
        rq->force = truthy(*force);
        if (!apply)
            bh_fe_forbidden(&errs, BH_FP(NULL, "force"),
                            "may not be specified for non-apply patch");
    }
    if (apply && rq->field_manager.n == 0)
        bh_fe_required(&errs, BH_FP(NULL, "fieldManager"), "is required for apply patch");
    check_manager(rq, &errs);
    check_dry_run(rq, &errs);
    check_validation(rq, &errs);
    if (errs.n > 0)
        return bh_fail_invalid(rq, BH_S("meta.k8s.io"), bh_s(options_kind), BH_S(""), &errs);
    if (rq->field_validation.n == 0)
        rq->field_validation = BH_S("Warn");
    return 0;
}
