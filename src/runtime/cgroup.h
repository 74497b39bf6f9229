/* Control groups, version 1 (one hierarchy per controller) and version 2, found at start from the
 * mounts.
 *
 * Paths are relative to the root of each hierarchy and begin with "/". Everything is best effort
 * where a controller is absent. Blocking, short. Thread: any; a struct bh_cg is read-only after
 * detection.
 */
#ifndef BH_RUNTIME_CGROUP_H
#define BH_RUNTIME_CGROUP_H

#include "base/err.h"
#include "runtime/runtime.h"

#include <sys/types.h>

#define BH_CG_HIER_MAX 16

struct bh_cg {
    bool v2; /* pure version 2; a hybrid host counts as version 1 */
    size_t n;
    struct {
        char mount[128];
        char controllers[64]; /* comma separated, as mounted; "" for version 2 */
    } h[BH_CG_HIER_MAX];
};

/* From the text of /proc/self/mountinfo. -BH_E_UNSUPPORTED when there are no control groups. */
BH_MUST int bh_cg_parse(struct bh_cg *cg, struct bh_str mountinfo, struct bh_err *err);
BH_MUST int bh_cg_detect(struct bh_cg *cg, struct bh_err *err);
/* Mount point of the hierarchy with the controller, or NULL. */
const char *bh_cg_mount(const struct bh_cg *cg, const char *controller);

/* Makes the group in every hierarchy and applies the limits that are not 0. */
BH_MUST int bh_cg_make(const struct bh_cg *cg, const char *path, const struct bh_cri_resources *r,
                       struct bh_err *err);
BH_MUST int bh_cg_apply(const struct bh_cg *cg, const char *path, const struct bh_cri_resources *r,
                        struct bh_err *err);
/* Moves a process into the group where the hierarchy lets it; made when missing. Best effort. */
void bh_cg_join(const struct bh_cg *cg, const char *path, pid_t pid);
/* SIGKILLs every process of the group and of those below until none is left or timeout_ms passed.
 */
void bh_cg_kill(const struct bh_cg *cg, const char *path, int timeout_ms);
bool bh_cg_populated(const struct bh_cg *cg, const char *path);
/* Removes the group and those below it in every hierarchy; busy ones are left. */
void bh_cg_remove(const struct bh_cg *cg, const char *path);
/* Removes the group itself where it is empty; used for parents. */
void bh_cg_remove_one(const struct bh_cg *cg, const char *path);
/* How often the kernel's OOM killer struck in the group itself; 0 when unknown. */
int64_t bh_cg_oom_kills(const struct bh_cg *cg, const char *path);
void bh_cg_stats(const struct bh_cg *cg, const char *path, struct bh_cri_stats *ret);
/* cpu.shares 2..262144 to cpu.weight 1..10000, as the OCI runtimes do it. */
int64_t bh_cg_weight(int64_t shares);

#endif
