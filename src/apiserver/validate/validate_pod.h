/* Parts of pods that the files about them share. Not for others. */
#ifndef BH_APISERVER_VALIDATE_POD_H
#define BH_APISERVER_VALIDATE_POD_H

#include "apiserver/validate/validate_int.h"

/* An ephemeral container has the fields of a container in the same places. */
_Static_assert(sizeof(struct bh_core_v1_container) ==
                       sizeof(struct bh_core_v1_ephemeral_container_common) &&
                   offsetof(struct bh_core_v1_container, tty) ==
                       offsetof(struct bh_core_v1_ephemeral_container_common, tty) &&
                   offsetof(struct bh_core_v1_container, volume_mounts) ==
                       offsetof(struct bh_core_v1_ephemeral_container_common, volume_mounts),
               "ephemeral containers are read as containers");
static inline struct bh_core_v1_container *
bh_pod_ephemeral(struct bh_core_v1_ephemeral_container *c)
{
    return (struct bh_core_v1_container *)(void *)&c->ephemeral_container_common;
}
static inline const struct bh_core_v1_container *
bh_pod_cephemeral(const struct bh_core_v1_ephemeral_container *c)
{
    return (const struct bh_core_v1_container *)(const void *)&c->ephemeral_container_common;
}

/* All containers of a spec in upstream's order: init, ordinary, ephemeral. */
enum bh_pod_list { BH_POD_INIT, BH_POD_MAIN, BH_POD_EPHEMERAL };
struct bh_pod_iter {
    const struct bh_core_v1_pod_spec *spec;
    enum bh_pod_list list;
    size_t i; /* index in its list */
    const struct bh_core_v1_container *c;
};
/* Start zeroed with spec set; false at the end. Afterwards list, i and c tell the container. */
bool bh_pod_next(struct bh_pod_iter *it);
const char *bh_pod_list_name(enum bh_pod_list l); /* "initContainers" … */

/* Sums as the scheduler counts them (restartable init containers run beside the others): quantities
 * by name. */
struct bh_str_map bh_pod_aggregate(struct bh_arena *a, const struct bh_core_v1_pod_spec *s,
                                   bool limits);
bool bh_pod_level_resource(struct bh_str name);
bool bh_pod_overcommit_ok(struct bh_str name);
struct bh_str bh_pod_qos(const struct bh_rules_env *env, const struct bh_core_v1_pod *p);
/* The deprecated annotation of a container, and the field that it stands for (NULL: no valid
 * profile). */
#define BH_POD_APP_ARMOR "container.apparmor.security.beta.kubernetes.io/"
bool bh_pod_restartable(
    const struct bh_core_v1_container *c); /* restartPolicy Always of an init container */

/* What validation allows beside the ordinary, because it was there before. */
struct bh_pod_opts {
    const struct bh_rules_env *env;
    bool is_pod;     /* not a template */
    bool bad_values; /* invalid label values in selectors were stored before */
    /* One per volume: well-formed, so that a mount may name it. Set by bh_v_pod_spec(); NULL: all
     * are. */
    const bool *volume_ok;
};

void bh_v_pod_spec_default(const struct bh_rules_env *env, struct bh_core_v1_pod_spec *s);
void bh_v_pod_spec(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_core_v1_pod_spec *s, const struct bh_meta_v1_object_meta *m,
                   const struct bh_pod_opts *o);
void bh_v_pod_only(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_core_v1_pod_spec *s);
void bh_v_pod_meta_and_spec(struct bh_field_errs *e, const struct bh_core_v1_pod *p,
                            const struct bh_pod_opts *o);
void bh_v_pod_annotations(struct bh_field_errs *e, const struct bh_fpath *at,
                          const struct bh_meta_v1_object_meta *m,
                          const struct bh_core_v1_pod_spec *s, const struct bh_pod_opts *o);
/* The old annotations and the fields say the same. */
void bh_v_app_armor_matches(struct bh_field_errs *e, const struct bh_fpath *spec,
                            const struct bh_core_v1_pod_spec *s,
                            const struct bh_meta_v1_object_meta *m);
void bh_v_containers(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_core_v1_pod_spec *s, const struct bh_pod_opts *o);
void bh_v_init_containers(struct bh_field_errs *e, const struct bh_fpath *at,
                          const struct bh_core_v1_pod_spec *s, const struct bh_pod_opts *o);
void bh_v_ephemeral_containers(struct bh_field_errs *e, const struct bh_fpath *at,
                               const struct bh_core_v1_pod_spec *s, const struct bh_pod_opts *o);
void bh_v_requirements(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_core_v1_resource_requirements *r,
                       const struct bh_core_v1_pod_spec *s, bool pod_level);
void bh_v_container_security(struct bh_field_errs *e, const struct bh_fpath *at,
                             const struct bh_core_v1_security_context *c, bool host_users,
                             const struct bh_pod_opts *o);
void bh_v_pod_security(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_core_v1_pod_spec *s);
void bh_v_host_process(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_core_v1_pod_spec *s, const struct bh_pod_opts *o);
void bh_v_pod_os(struct bh_field_errs *e, const struct bh_fpath *at,
                 const struct bh_core_v1_pod_spec *s);
void bh_v_seccomp(struct bh_field_errs *e, const struct bh_fpath *at,
                  const struct bh_core_v1_seccomp_profile *p);
void bh_v_app_armor(struct bh_field_errs *e, const struct bh_fpath *at,
                    const struct bh_core_v1_app_armor_profile *p);
/* ok gets one flag per volume. */
void bh_v_volumes(struct bh_field_errs *e, const struct bh_fpath *at,
                  const struct bh_core_v1_pod_spec *s, const struct bh_meta_v1_object_meta *m,
                  const struct bh_pod_opts *o, bool *ok);
/* One volume by its source alone, at the path of the volume. */
void bh_v_volume_source(struct bh_field_errs *e, const struct bh_fpath *at,
                        const struct bh_core_v1_volume_source *s);
bool bh_v_iqn(struct bh_str s); /* iqn.…, eui.…, naa.…: the name of an iSCSI target or initiator */
void bh_v_access_modes(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_str_vec *v);
/* stored: faults that the claim had before it was written now, and may keep. */
enum { BH_V_OLD_SELECTOR = 1 << 0, BH_V_OLD_GROUP = 1 << 1 };
void bh_v_claim_spec(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_core_v1_persistent_volume_claim_spec *s, unsigned stored);

/* Warnings that other kinds share with pods: "PATH: text". */
void bh_v_warn_at(const struct bh_rules_env *env, struct bh_str_vec *out, const struct bh_fpath *at,
                  const char *fmt, ...) BH_PRINTF(4, 5);
const char *bh_v_deprecated_label(struct bh_str key); /* of nodes; NULL: it is not */
void bh_v_warn_node_term(const struct bh_rules_env *env, struct bh_str_vec *out,
                         const struct bh_fpath *at, const struct bh_core_v1_node_selector_term *t);
void bh_v_warn_whole_bytes(const struct bh_rules_env *env, struct bh_str_vec *out,
                           const struct bh_fpath *at, const struct bh_str_map *m,
                           struct bh_str key);
void bh_v_affinity(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_core_v1_affinity *a, const struct bh_pod_opts *o);
void bh_v_spread(struct bh_field_errs *e, const struct bh_fpath *at,
                 const struct bh_core_v1_topology_spread_constraint_vec *v,
                 const struct bh_pod_opts *o);
void bh_v_tolerations(struct bh_field_errs *e, const struct bh_fpath *at,
                      const struct bh_core_v1_toleration_vec *v, const struct bh_pod_opts *o);
void bh_v_object_field(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_core_v1_object_field_selector *f, bool volume);
void bh_v_resource_field(struct bh_field_errs *e, const struct bh_fpath *at,
                         const struct bh_core_v1_resource_field_selector *f, bool volume);
void bh_v_no_backsteps(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str path);
void bh_v_descending_path(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str path);
void bh_v_port_number(struct bh_field_errs *e, const struct bh_fpath *at, int64_t port);
/* The well-formed volume of that name, or NULL. */
const struct bh_core_v1_volume *bh_pod_volume(const struct bh_core_v1_pod_spec *s,
                                              struct bh_str name, const struct bh_pod_opts *o);

#endif
