/* Owner references are kept once: doubles are dropped and told, as upstream does before fields are
 * owned. */
#include "api/gen/meta_v1.h"
#include "apiserver/write.h"

#include <string.h>

static bool same_owner(const struct bh_meta_v1_owner_reference *x,
                       const struct bh_meta_v1_owner_reference *y)
{
    return bh_msg_equal(&bh_meta_v1_owner_reference_type, x, y);
}

void bh_dedup_owners(struct bh_rq *rq, struct bh_meta_v1_object_meta *m)
{
    struct bh_meta_v1_owner_reference *v = m->owner_references.p;
    BH_AUTO_BUF uids = {0};
    size_t n = 0;
    bool doubles = false;

    for (size_t i = 0; i < m->owner_references.n; i++) {
        bool whole = false;

        for (size_t j = 0; j < n; j++) {
            whole |= same_owner(&v[j], &v[i]);
        }
        if (whole) {
            bh_buf_addf(&uids, "%s%.*s", uids.n > 0 ? ", " : "", BH_SF(v[i].uid));
            doubles = true;
        }
        if (!whole)
            v[n++] = v[i];
    }
    m->owner_references.n = n;
    if (doubles)
        bh_rq_warn(rq, bh_str_fmt(rq->a,
                                  ".metadata.ownerReferences contains duplicate entries; API "
                                  "server dedups owner references in 1.20+, and may reject such "
                                  "requests as early as 1.24; please fix your requests; duplicate "
                                  "UID(s) observed: %.*s",
                                  BH_SF(bh_buf_str(&uids))));
}
