/* Shared by the files of this folder: small checks in upstream's words. Not for others. */
#ifndef BH_APISERVER_VALIDATE_INT_H
#define BH_APISERVER_VALIDATE_INT_H

#include "api/engine.h"
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "apiserver/validate/validate.h"
#include "data/names.h"
#include "data/quantity.h"

/* One Invalid per fault that the check finds in s. */
void bh_v_check(struct bh_field_errs *e, const struct bh_fpath *at, bh_name_check check,
                struct bh_str s);
/* The same for kinds whose rules are declared upstream, not written: lengths are in bytes there. */
void bh_v_check_declared(struct bh_field_errs *e, const struct bh_fpath *at, bh_name_check check,
                         struct bh_str s);
struct bh_str_vec bh_v_declared_faults(struct bh_arena *a, bh_name_check check, struct bh_str s);
/* The same for a text that stands for s in the check (lower-cased, prefixed …). */
void bh_v_check_as(struct bh_field_errs *e, const struct bh_fpath *at, bh_name_check check,
                   struct bh_str tested, struct bh_str shown);
bool bh_v_fits(bh_name_check check, struct bh_str s);

void bh_v_label_name(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s);
void bh_v_labels(struct bh_field_errs *e, const struct bh_fpath *at, const struct bh_str_map *m);
void bh_v_annotations(struct bh_field_errs *e, const struct bh_fpath *at,
                      const struct bh_str_map *m);
void bh_v_finalizer(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s);

/* Metadata of a new object. check: of the name. kube adds what core's validation says of
 * finalizers; long_name words a name's length in bytes, and leaves generateName alone (newer
 * kinds). */
enum { BH_VM_KUBE = 1 << 0, BH_VM_LONG_NAME = 1 << 1 };
void bh_v_meta(struct bh_field_errs *e, const struct bh_fpath *at,
               const struct bh_meta_v1_object_meta *m, bool namespaced, bh_name_check check,
               unsigned flags);
void bh_v_meta_update(struct bh_field_errs *e, const struct bh_fpath *at,
                      const struct bh_meta_v1_object_meta *m,
                      const struct bh_meta_v1_object_meta *old, unsigned flags);
/* Metadata of a template: labels and annotations count, all others are judged as they stand. */
void bh_v_template_meta(struct bh_field_errs *e, const struct bh_fpath *at,
                        const struct bh_meta_v1_object_meta *m);

void bh_v_label_selector(struct bh_field_errs *e, const struct bh_fpath *at,
                         const struct bh_meta_v1_label_selector *s, bool allow_bad_values);
void bh_v_node_selector_term(struct bh_field_errs *e, const struct bh_fpath *at,
                             const struct bh_core_v1_node_selector_term *t, bool allow_bad_values);
void bh_v_node_selector(struct bh_field_errs *e, const struct bh_fpath *at,
                        const struct bh_core_v1_node_selector *s, bool allow_bad_values);
void bh_v_conditions(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_meta_v1_condition_vec *conditions);
void bh_v_nonnegative(struct bh_field_errs *e, const struct bh_fpath *at, int64_t v);
/* Invalid "field is immutable" with the new value as upstream prints it. */
void bh_v_immutable_str(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str now,
                        struct bh_str old);
void bh_v_immutable_msg(struct bh_field_errs *e, const struct bh_fpath *at, const struct bh_type *t,
                        const void *now, const void *old);
#define BH_V_IMMUTABLE "field is immutable"

/* Go's JSON of the internal struct behind a message: every field, with Go's names. */
struct bh_str bh_v_go_json(struct bh_arena *a, const struct bh_type *t, const void *obj);
struct bh_str bh_v_go_json_list(struct bh_arena *a, const struct bh_type *t, const void *vec);
/* An ordinary JSON text of a message. */
struct bh_str bh_v_json(struct bh_arena *a, const struct bh_type *t, const void *obj);
struct bh_str bh_v_json_strs(struct bh_arena *a, const struct bh_str_vec *v);

/* ["A","B"] as supported values. */
#define BH_V_NOT_SUPPORTED(e, at, bad, ...)                                                        \
    do {                                                                                           \
        static const char *const v_sup[] = {__VA_ARGS__};                                          \
        bh_v_not_supported((e), (at), (bad), v_sup, BH_COUNT(v_sup));                              \
    } while (0)
void bh_v_not_supported(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str bad,
                        const char *const *supported, size_t n);
#define BH_V_ONE_OF(s, ...)                                                                        \
    bh_v_one_of((s), (const char *const[]){__VA_ARGS__},                                           \
                BH_COUNT(((const char *const[]){__VA_ARGS__})))
bool bh_v_one_of(struct bh_str s, const char *const *words, size_t n);

bool bh_v_has(const struct bh_str_vec *v, struct bh_str s);
struct bh_str bh_v_lower(struct bh_arena *a, struct bh_str s);
size_t bh_v_count(struct bh_str s, char c);
/* Quantities that are stored are well-formed; a malformed one reads as zero. */
struct bh_quantity bh_v_qty(struct bh_str s);

/* Resource names (core helpers). */
bool bh_v_is_native_resource(struct bh_str name);
bool bh_v_is_extended_resource(struct bh_arena *a, struct bh_str name);
bool bh_v_is_hugepages(struct bh_str name);

/* What a write to /status may change of the metadata. */
void bh_v_reset_meta_for_status(struct bh_meta_v1_object_meta *m,
                                const struct bh_meta_v1_object_meta *old);
void bh_v_warn(const struct bh_rules_env *env, struct bh_str_vec *out, const char *fmt, ...)
    BH_PRINTF(3, 4);

/* Name checks that are no plain format. */
#define bh_v_node_name bh_check_dns1123_subdomain
#define bh_v_any_name  bh_check_path_segment /* what upstream does not check */

/* The tables of the files. */
extern const struct bh_rules bh_rules_resource[];
extern const size_t bh_rules_resource_n;
extern const struct bh_default_rule bh_defaults_resource[];
extern const size_t bh_defaults_resource_n;
extern const struct bh_rules bh_rules_core[];
extern const size_t bh_rules_core_n;
extern const struct bh_rules bh_rules_cluster[];
extern const size_t bh_rules_cluster_n;
extern const struct bh_rules bh_rules_storage[];
extern const size_t bh_rules_storage_n;
extern const struct bh_default_rule bh_defaults_storage[];
extern const size_t bh_defaults_storage_n;
extern const struct bh_rules bh_rules_service[];
extern const size_t bh_rules_service_n;
void bh_v_service_default(const struct bh_rules_env *env, void *obj);
extern const struct bh_rules bh_rules_networking[];
extern const size_t bh_rules_networking_n;
extern const struct bh_rules bh_rules_daemon[];
extern const size_t bh_rules_daemon_n;
extern const struct bh_rules bh_rules_workload[];
extern const size_t bh_rules_workload_n;
extern const struct bh_default_rule bh_defaults_workload[];
extern const size_t bh_defaults_workload_n;
extern const struct bh_default_rule bh_defaults_core[];
extern const size_t bh_defaults_core_n;

/* A quantity of a resource: not negative, whole where the resource is counted. */
void bh_v_resource_value(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str name,
                         struct bh_str value);

/* Pods, and what templates share with them. */
void bh_v_pod_default(const struct bh_rules_env *env, void *obj);
void bh_v_pod_prepare_create(const struct bh_rules_env *env, void *obj);
void bh_v_pod_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                             const void *old);
void bh_v_pod_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *errs);
void bh_v_pod_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                     const void *old, struct bh_field_errs *errs);
void bh_v_pod_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                   const void *old, struct bh_str_vec *out);

/* A count or a percentage, and what counts percentages as parts of a whole. */
void bh_v_int_or_percent(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_intstr v);
void bh_v_at_most_100_percent(struct bh_field_errs *e, const struct bh_fpath *at,
                              struct bh_intstr v);
/* Of 30% the 30; 0 of what is neither. */
int bh_v_int_or_percent_value(struct bh_intstr v);
struct bh_str bh_v_intstr_json(struct bh_arena *a, struct bh_intstr v);
/* A stored selector that would be refused today. */
bool bh_v_bad_label_selector(struct bh_arena *a, const struct bh_meta_v1_label_selector *s);

/* Workloads, pod groups, disruption budgets. */
void bh_v_workload_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e);
void bh_v_workload_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                          const void *prev, struct bh_field_errs *e);
void bh_v_pod_group_prepare_create(const struct bh_rules_env *env, void *obj);
void bh_v_pod_group_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                   const void *prev);
void bh_v_pod_group_create(const struct bh_rules_env *env, const void *obj,
                           struct bh_field_errs *e);
void bh_v_pod_group_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                           const void *prev, struct bh_field_errs *e);
void bh_v_budget_prepare_create(const struct bh_rules_env *env, void *obj);
void bh_v_budget_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                const void *prev);
void bh_v_budget_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e);
void bh_v_budget_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                        const void *prev, struct bh_field_errs *e);

#endif
