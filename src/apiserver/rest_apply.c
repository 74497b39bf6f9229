/* Server-side apply is not offered yet: such a patch is refused like any other unknown patch type.
 */
#include "apiserver/rest_apply.h"

int bh_rest_apply(struct bh_rq *rq)
{
    return bh_fail_generic(rq, BH_E_MEDIA);
}
