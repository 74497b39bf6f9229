/* YAML to a JSON tree and back.
 *
 * Reading follows what the API accepts as YAML: the scalar rules of YAML 1.1 (yes/on/y are
 * booleans, 012 is ten), merge keys, keys turned into strings, the first document only. Errors are
 * -BH_E_BAD_REQUEST in upstream's words ("yaml: line 3: …"). Limits: nesting BH_JSON_DEPTH_MAX,
 * aliases as upstream (excessive aliasing), input size the caller's. Thread: any.
 */
#ifndef BH_DATA_YAML_H
#define BH_DATA_YAML_H

#include "data/json.h"

/* Duplicate keys: a list of texts `line 3: key "a" already set in map`, in document order. */
struct bh_yaml_dups {
    struct bh_str_vec lines;
};

/* Parses the first document; empty input gives null. Members are sorted by key, as upstream's
 * conversion does. Of duplicate keys the last wins; they are told
 * in *dups when it is not NULL. */
BH_MUST int bh_yaml_parse(struct bh_arena *a, struct bh_str in, struct bh_yaml_dups *dups,
                          struct bh_jv *ret, struct bh_err *err);
/* All documents of a stream, as for manifest files; empty documents are left out. At most
 * BH_YAML_DOCS_MAX. */
#define BH_YAML_DOCS_MAX 10000
BH_MUST int bh_yaml_parse_all(struct bh_arena *a, struct bh_str in, struct bh_jv **ret_docs,
                              size_t *ret_n, struct bh_err *err);

/* Block style, keys sorted, strings quoted where YAML 1.1 would read something else: as kubectl's
 * -o yaml. */
void bh_yaml_write(struct bh_buf *out, const struct bh_jv *v);

#endif
