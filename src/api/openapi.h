/* OpenAPI documents, made from the descriptors.
 *
 * Appended to out as compact JSON. They depend on nothing but the schema, so callers make each once
 * and keep the text. Thread: any.
 */
#ifndef BH_API_OPENAPI_H
#define BH_API_OPENAPI_H

#include "api/types.h"
#include "base/buf.h"

/* GET /openapi/v3/api/v1, /openapi/v3/apis/GROUP/VERSION. False when no kind has that group and
 * version. */
bool bh_openapi_v3(struct bh_str group, struct bh_str version, struct bh_buf *out);
/* GET /openapi/v2: all of them in one swagger 2.0 document. version: of the server, for
 * info.version. */
void bh_openapi_v2(struct bh_str version, struct bh_buf *out);

#endif
