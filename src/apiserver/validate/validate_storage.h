/* Persistent volumes, the claims for them, and what the kinds of storage.k8s.io share with both.
 * Not for others. */
#ifndef BH_APISERVER_VALIDATE_STORAGE_H
#define BH_APISERVER_VALIDATE_STORAGE_H

#include "apiserver/validate/validate_pod.h"

#define BH_V_CLASS_ANNOTATION                                                                      \
    "volume.beta.kubernetes.io/storage-class" /* of old: the class's name */

struct bh_v_pv_opts {
    bool in_line;      /* within a VolumeAttachment */
    bool old_selector; /* invalid label values were stored before */
    bool attributes_class;
};
/* name: the volume's. */
void bh_v_pv_spec(struct bh_field_errs *e, const struct bh_fpath *at,
                  const struct bh_core_v1_persistent_volume_spec *s, struct bh_str name,
                  const struct bh_v_pv_opts *o);
void bh_v_volume_mode_kept(struct bh_field_errs *e, bool has, struct bh_str now, bool had,
                           struct bh_str old);
/* Status updates of volumes and claims do not go without a resourceVersion. */
void bh_v_version_given(struct bh_field_errs *e, const struct bh_meta_v1_object_meta *m);

void bh_v_pv_default(const struct bh_rules_env *env, void *obj);
void bh_v_pv_prepare_create(const struct bh_rules_env *env, void *obj);
void bh_v_pv_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                            const void *prev);
void bh_v_pv_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e);
void bh_v_pv_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                    const void *prev, struct bh_field_errs *e);
void bh_v_pv_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                  const void *prev, struct bh_str_vec *out);

void bh_v_pvc_prepare_create(const struct bh_rules_env *env, void *obj);
void bh_v_pvc_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                             const void *prev);
void bh_v_pvc_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e);
void bh_v_pvc_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                     const void *prev, struct bh_field_errs *e);
void bh_v_pvc_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                   const void *prev, struct bh_str_vec *out);

#endif
