/* The swagger 2.0 document in protobuf, as clients ask for it when they check a `kind: List`.
 *
 * The message is openapi.v2.Document of the gnostic project, media type
 * application/com.github.proto-openapi.spec.v2.v1.0+protobuf. Thread: any.
 */
#ifndef BH_API_OPENAPI_V2_PB_H
#define BH_API_OPENAPI_V2_PB_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* Appends the form of a swagger 2.0 document (what bh_openapi_v2() made) to out. Members that the
 * message has no field for are left out. -BH_E_BAD_REQUEST when json is no JSON, -BH_E_LIMIT when
 * schemas nest deeper than 64; out is then half written. */
BH_MUST int bh_openapi_v2_pb(struct bh_str json, struct bh_buf *out, struct bh_err *err);

#endif
