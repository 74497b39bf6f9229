/* Reading the metadata files of claims as a container sees them: what devices a request got, from
 * whichever drivers (dra.md, section 9.4). Thread: any.
 */
#ifndef BH_DRIVER_METADATA_READ_H
#define BH_DRIVER_METADATA_READ_H

#include "base/err.h"
#include "base/str.h"

struct bh_arena;
struct bh_jv;

#define BH_METADATA_BYTES_MAX (1u << 20)
#define BH_METADATA_FILES_MAX 64 /* drivers of one request */

/* Whether one of these versions (v1alpha1, comma separated; with or without the group) can be
 * written: a driver that was told versions, and none that it knows, does not start. */
bool bh_metadata_version_known(struct bh_str list);
/* A file is a stream of objects, one for each version that its driver knows, the preferred one
 * first: the first of a known version. -BH_E_INVALID: what cannot be parsed, or no known version.
 */
BH_MUST int bh_metadata_parse(struct bh_arena *a, struct bh_str text, struct bh_jv *ret,
                              struct bh_err *err);
/* All files (…-metadata.json) of a request's directory, in order of their names: the devices that
 * the drivers gave to a request come together. */
BH_MUST int bh_metadata_read(struct bh_arena *a, const char *dir, struct bh_jv *ret,
                             struct bh_err *err);

#endif
