/* Container Device Interface 1.1.0: reading spec files and merging devices into an OCI
 * configuration.
 *
 * Directories come in rising priority. Files are read strictly; a bad one is recorded and skipped.
 * The same device in two files: the directory of higher priority wins; within one directory both
 * are void. Blocking (reads files): worker pool. A loaded set belongs to its arena and does not
 * change; loading is cheap enough to be done for each container, so a spec written a moment before
 * is always found. Thread: any.
 */
#ifndef BH_RUNTIME_CDI_H
#define BH_RUNTIME_CDI_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "data/json.h"

struct bh_cdi;

/* Missing directories are fine. Files that are refused stand in bh_cdi_errors(). */
BH_MUST int bh_cdi_load(struct bh_arena *a, const char *const *dirs, struct bh_cdi **ret,
                        struct bh_err *err);
/* "path: why", one for each bad file and conflict. */
struct bh_str_vec bh_cdi_errors(const struct bh_cdi *c);
bool bh_cdi_has(const struct bh_cdi *c, struct bh_str qualified);

/* Applies the devices, in the order asked, to the OCI configuration *spec. Names given twice count
 * once. Nothing is touched when one is unknown: -BH_E_NOT_FOUND "unresolvable CDI devices a/b=c,
 * …". */
BH_MUST int bh_cdi_inject(struct bh_arena *a, const struct bh_cdi *c,
                          const struct bh_str_vec *names, struct bh_jv *spec, struct bh_err *err);

/* Adds plain devices of the host by the same rules as CDI's device nodes. */
struct bh_cri_device;
BH_MUST int bh_cdi_add_devices(struct bh_arena *a, const struct bh_cri_device *d, size_t n,
                               struct bh_jv *spec, struct bh_err *err);

/* Adds the names that annotations "cdi.k8s.io/…" hold to *names; malformed ones are -BH_E_INVALID.
 */
BH_MUST int bh_cdi_from_annotations(struct bh_arena *a, const struct bh_str_map *ann,
                                    struct bh_str_vec *names, struct bh_err *err);

/* One spec document, parsed strictly and checked. Pure. */
BH_MUST int bh_cdi_parse_spec(struct bh_arena *a, struct bh_str text, bool yaml, struct bh_jv *ret,
                              struct bh_err *err);
/* vendor/class=name */
bool bh_cdi_is_qualified(struct bh_str s);

#define BH_CDI_FILE_MAX                                                                            \
    (4 << 20)                 /* bytes of one spec file; a node with 16 GPUs stays under 1 MiB */
#define BH_CDI_FILES_MAX 4096 /* files of one directory */

#endif
