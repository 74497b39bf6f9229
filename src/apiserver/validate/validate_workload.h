/* Checks that the kinds with a template of pods share. Not for others. */
#ifndef BH_APISERVER_VALIDATE_WORKLOAD_H
#define BH_APISERVER_VALIDATE_WORKLOAD_H

#include "apiserver/validate/validate_pod.h"

struct bh_label_selector;

/* The template itself, that a selector selects it, and that its pods run on and on (kind: as the
 * message has it). */
void bh_v_template(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_core_v1_pod_template_spec *t, const struct bh_rules_env *env);
void bh_v_template_selected(struct bh_field_errs *e, const struct bh_fpath *at,
                            const struct bh_core_v1_pod_template_spec *t,
                            const struct bh_label_selector *s);
void bh_v_template_runs_on(struct bh_field_errs *e, const struct bh_fpath *at,
                           const struct bh_core_v1_pod_template_spec *t, const char *kind);
/* A selector that has to be there and not empty. False when it cannot be used: that is told again
 * in the words of `bad`. */
bool bh_v_required_selector(struct bh_field_errs *e, const struct bh_fpath *at,
                            const struct bh_meta_v1_label_selector *s, const char *kind,
                            const char *bad, struct bh_label_selector *ret);
void bh_v_fixed_selector(struct bh_field_errs *e, const struct bh_fpath *at,
                         const struct bh_meta_v1_label_selector *now,
                         const struct bh_meta_v1_label_selector *old);
/* "cannot be greater than OF" */
void bh_v_at_most(struct bh_field_errs *e, const struct bh_fpath *at, int32_t v, int32_t max,
                  const char *of);
/* status.collisionCount never falls. */
void bh_v_collisions(struct bh_field_errs *e, bool has, int32_t now, bool had, int32_t old);
void bh_v_label_name_warning(const struct bh_rules_env *env, struct bh_str name,
                             struct bh_str_vec *out);
/* pod_warn.c */
void bh_v_template_warn(const struct bh_rules_env *env, const struct bh_fpath *at,
                        const struct bh_core_v1_pod_template_spec *t, struct bh_str_vec *out);
struct bh_str bh_v_map_json(struct bh_arena *a, const struct bh_str_map *m);
/* For bh_msg_drop_gated(): arg is the environment. */
bool bh_v_gate_on(void *arg, struct bh_str name);

/* validate_stateful.c */
void bh_v_stateful_default(const struct bh_rules_env *env, void *obj);
void bh_v_stateful_prepare_create(const struct bh_rules_env *env, void *obj);
void bh_v_stateful_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                  const void *prev);
void bh_v_stateful_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e);
void bh_v_stateful_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                          const void *prev, struct bh_field_errs *e);
void bh_v_stateful_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                        const void *prev, struct bh_str_vec *out);

/* validate_daemon.c, validate_endpoints.c, validate_networking.c */
void bh_v_daemon_default(const struct bh_rules_env *env, void *obj);
void bh_v_pod_template_default(const struct bh_rules_env *env, void *obj);
void bh_v_ingress_class_default(const struct bh_rules_env *env, void *obj);
void bh_v_network_policy_default(const struct bh_rules_env *env, void *obj);
void bh_v_endpoints_default(const struct bh_rules_env *env, void *obj);
void bh_v_endpoints_prepare_create(const struct bh_rules_env *env, void *obj);
void bh_v_endpoints_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                   const void *prev);
void bh_v_endpoints_create(const struct bh_rules_env *env, const void *obj,
                           struct bh_field_errs *e);
void bh_v_endpoints_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                           const void *prev, struct bh_field_errs *e);
void bh_v_endpoints_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                         const void *prev, struct bh_str_vec *out);

#endif
