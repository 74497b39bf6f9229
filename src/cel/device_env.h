/* Device selectors: the CEL environment that DeviceClass and ResourceClaim expressions run in
 * (dra.md section 5).
 *
 * One variable, `device`, with driver, attributes, capacity and allowMultipleAllocations. The
 * selector works on a view of a device that is prepared once and then matched against any number of
 * selectors: keys are split into domain and id, versions and quantities are parsed.
 */
#ifndef BH_CEL_DEVICE_ENV_H
#define BH_CEL_DEVICE_ENV_H

#include "base/err.h"
#include "base/str.h"

struct bh_arena;
struct bh_cel_program;
struct bh_cel_device;

/* Upstream's limit of the estimated cost, checked where selectors are written. */
#define BH_CEL_SELECTOR_COST_MAX 1000000u

/* ---- what the caller knows about a device
 * ------------------------------------------------------------------------ */

enum bh_cel_attr_kind {
    BH_CEL_ATTR_INT,
    BH_CEL_ATTR_BOOL,
    BH_CEL_ATTR_STRING,
    BH_CEL_ATTR_VERSION
};

struct bh_cel_attr {
    struct bh_str name; /* "id" or "domain/id" */
    enum bh_cel_attr_kind kind;
    bool is_list;
    /* One value, or n of them when is_list. */
    union {
        int64_t i;
        bool b;
        struct bh_str s;
        const int64_t *ints;
        const bool *bools;
        const struct bh_str *strs;
    };
    size_t n;
};

struct bh_cel_capacity {
    struct bh_str name;  /* "id" or "domain/id" */
    struct bh_str value; /* quantity text */
};

struct bh_cel_device_in {
    struct bh_str driver;
    const struct bh_cel_attr *attrs;
    size_t attrs_n;
    const struct bh_cel_capacity *caps;
    size_t caps_n;
    bool allow_multiple;
    bool lists; /* list attributes are on (DRAListTypeAttributes) */
};

/* Prepares a view in the arena; the strings of in must outlive it. A version or quantity that does
 * not parse, or a list attribute while list attributes are off, is remembered and makes every match
 * fail, as upstream does. Thread: any. */
struct bh_cel_device *bh_cel_device_new(struct bh_arena *a, const struct bh_cel_device_in *in);
/* The same of a device in a ResourceSlice, list attributes included; d must outlive the view. */
struct bh_resource_v1_device;
struct bh_cel_device *bh_cel_device_from_api(struct bh_arena *a, struct bh_str driver,
                                             const struct bh_resource_v1_device *d);

/* ---- selectors
 * -----------------------------------------------------------------------------------------------------
 */

struct bh_cel_selector; /* immutable, shareable between threads */

/* Compiles a selector expression. On -BH_E_INVALID *ret_text (may be NULL) is upstream's whole
 * text, in the arena: "compilation failed: ERROR: <input>:1:8: ..." with its caret lines, or "must
 * evaluate to bool or the unknown type, not int". The estimated cost is not judged here. */
BH_MUST int bh_cel_selector_new(struct bh_str expr, struct bh_arena *a,
                                struct bh_cel_selector **ret, struct bh_str *ret_text,
                                struct bh_err *err);
struct bh_cel_selector *
bh_cel_selector_free(struct bh_cel_selector *s); /* accepts NULL, returns NULL */
uint64_t bh_cel_selector_cost_max(const struct bh_cel_selector *s);
const struct bh_cel_program *bh_cel_selector_program(const struct bh_cel_selector *s);
struct bh_str bh_cel_selector_text(const struct bh_cel_selector *s);

/* What API validation says of a selector: length, compilation, result type and estimated cost.
 * Returns 0, or -BH_E_INVALID with the detail for the field error in *ret_text (in the arena);
 * *ret_forbidden tells that the error is of type Forbidden (the cost), not Invalid; *ret_too_long
 * that the length is. */
BH_MUST int bh_cel_selector_validate(struct bh_str expr, struct bh_arena *a,
                                     struct bh_str *ret_text, bool *ret_forbidden,
                                     bool *ret_too_long);

/* Whether the device matches. Returns 1 or 0, -BH_E_INVALID when the expression errs (upstream's
 * text in err: fatal for the allocation of the claim), -BH_E_LIMIT when it costs too much. Memory
 * from a, which the caller resets. */
BH_MUST int bh_cel_selector_match(const struct bh_cel_selector *s, const struct bh_cel_device *d,
                                  struct bh_arena *a, struct bh_err *err);

/* ---- why a device does not match
 * ------------------------------------------------------------------------------------------------
 */

/* A selector prepared for that, from the text of one that compiles: its parts joined by &&. */
struct bh_cel_why;
struct bh_cel_why *bh_cel_why_new(struct bh_str expr);
struct bh_cel_why *bh_cel_why_free(struct bh_cel_why *w); /* accepts NULL, returns NULL */
struct bh_cel_why_part {
    size_t at;            /* where it stands in the expression, in bytes */
    struct bh_str text;   /* `device.attributes["d"].model == "H200"` */
    struct bh_str values; /* `device.attributes["d"].model is "H100"`; empty: it looks nowhere */
};
/* The first part that is false for the device; false when none is. values in the arena, text lives
 * with w. */
bool bh_cel_why_find(const struct bh_cel_why *w, const struct bh_cel_device *d, struct bh_arena *a,
                     struct bh_cel_why_part *ret);

/* The environment itself, for commands and tests: shared, read-only, made at first use. Slot 0 is
 * device. */
const struct bh_cel_env *bh_cel_device_env(void);
/* One of the caller's own, to declare more in; bh_cel_env_free() it. */
struct bh_cel_env *bh_cel_device_env_new(void);
struct bh_cel_value;
void bh_cel_device_value(const struct bh_cel_device *d, struct bh_arena *a,
                         struct bh_cel_value *ret);

#endif
