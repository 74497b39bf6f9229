/* Volumes of pods, and the spec of volume claims. */
#include "apiserver/validate/validate_pod.h"

#include "apiserver/validate/validate_dra.h"
#include "base/buf.h"

#define TOKEN_SECONDS_MIN 600
#define TOKEN_SECONDS_MAX ((int64_t)1 << 32)
#define MODE_DETAIL       "must be a number between 0 and 0777 (octal), both inclusive"

static void required(struct bh_field_errs *e, const struct bh_fpath *at, const char *name,
                     struct bh_str v)
{
    if (v.n == 0)
        bh_fe_required(e, BH_FPS(at, bh_s(name)), NULL);
}

static void mode(struct bh_field_errs *e, const struct bh_fpath *at, bool has, int32_t m)
{
    if (has && (m > 0777 || m < 0))
        bh_fe_invalid_i64(e, at, m, MODE_DETAIL);
}

static void partition(struct bh_field_errs *e, const struct bh_fpath *at, int32_t p)
{
    if (p < 0 || p > 255)
        bh_fe_invalid_i64(e, BH_FP(at, "partition"), p, "must be between 1 and 255, inclusive");
}

static void lun(struct bh_field_errs *e, const struct bh_fpath *at, int32_t v)
{
    if (v < 0 || v > 255)
        bh_fe_invalid_i64(e, BH_FP(at, "lun"), v, "must be between 0 and 255, inclusive");
}

/* Below the volume, and not a name that the kubelet uses itself (two dots first). */
static void local_path(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str path)
{
    bh_v_descending_path(e, at, path);
    if (bh_str_starts(path, BH_S("..")) && !bh_str_starts(path, BH_S("../")))
        bh_fe_invalid(e, at, path, "must not start with '..'");
}

static void key_to_path(struct bh_field_errs *e, const struct bh_fpath *at,
                        const struct bh_core_v1_key_to_path *k)
{
    required(e, at, "key", k->key);
    required(e, at, "path", k->path);
    local_path(e, BH_FP(at, "path"), k->path);
    mode(e, BH_FP(at, "mode"), k->has_mode, k->mode);
}

static void items(struct bh_field_errs *e, const struct bh_fpath *at,
                  const struct bh_core_v1_key_to_path_vec *v)
{
    for (size_t i = 0; i < v->n; i++)
        key_to_path(e, BH_FPI(BH_FP(at, "items"), i), &v->p[i]);
}

static void downward_file(struct bh_field_errs *e, const struct bh_fpath *at,
                          const struct bh_core_v1_downward_api_volume_file *f)
{
    required(e, at, "path", f->path);
    local_path(e, BH_FP(at, "path"), f->path);
    if (f->field_ref) {
        bh_v_object_field(e, BH_FP(at, "fieldRef"), f->field_ref, true);
        if (f->resource_field_ref)
            bh_fe_invalid(e, at, BH_S("resource"),
                          "fieldRef and resourceFieldRef can not be specified simultaneously");
    } else if (f->resource_field_ref) {
        bh_v_resource_field(e, BH_FP(at, "resourceFieldRef"), f->resource_field_ref, true);
    } else {
        bh_fe_required(e, at, "one of fieldRef and resourceFieldRef is required");
    }
    mode(e, BH_FP(at, "mode"), f->has_mode, f->mode);
}

/* ---- projected ---- */

struct paths_seen {
    struct bh_str_map m;
};

static void one_path(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str path,
                     struct bh_str shown, struct paths_seen *seen)
{
    if (path.n == 0)
        return;
    if (bh_str_map_get(&seen->m, path))
        bh_fe_invalid(e, at, shown, "conflicting duplicate paths");
    else
        bh_str_map_put(e->a, &seen->m, path, BH_S(""));
}

static void projected_keys(struct bh_field_errs *e, const struct bh_fpath *volume,
                           const struct bh_fpath *at, struct bh_str name,
                           const struct bh_core_v1_key_to_path_vec *v, struct paths_seen *seen)
{
    required(e, at, "name", name);
    for (size_t i = 0; i < v->n; i++) {
        key_to_path(e, BH_FPI(BH_FP(at, "items"), i), &v->p[i]);
        one_path(e, volume, v->p[i].path, name, seen);
    }
}

/* The path of a token stands at the volume, as upstream has it. */
static void projected_token(struct bh_field_errs *e, const struct bh_fpath *volume,
                            const struct bh_fpath *at,
                            const struct bh_core_v1_service_account_token_projection *t)
{
    const struct bh_fpath *seconds = BH_FP(at, "expirationSeconds");
    int64_t s = t->has_expiration_seconds ? t->expiration_seconds : 0;

    if (s < TOKEN_SECONDS_MIN)
        bh_fe_invalid_i64(e, seconds, s, "may not specify a duration less than 10 minutes");
    if (s > TOKEN_SECONDS_MAX)
        bh_fe_invalid_i64(e, seconds, s, "may not specify a duration larger than 2^32 seconds");
    if (t->path.n == 0)
        bh_fe_required(e, BH_FP(volume, "path"), NULL);
    else
        local_path(e, BH_FP(volume, "path"), t->path);
}

static void trust_bundle(struct bh_field_errs *e, const struct bh_fpath *volume,
                         const struct bh_fpath *at,
                         const struct bh_core_v1_cluster_trust_bundle_projection *t,
                         struct paths_seen *seen)
{
    if (t->has_name && t->has_signer_name)
        bh_fe_invalid_text(e, at,
                           bh_v_go_json(e->a, &bh_core_v1_cluster_trust_bundle_projection_type, t),
                           "only one of name and signerName may be used");
    else if (t->has_name && t->name.n == 0)
        bh_fe_required(e, BH_FP(at, "name"), "must be a valid object name");
    else if (t->has_signer_name && t->signer_name.n == 0)
        bh_fe_required(e, BH_FP(at, "signerName"), "must be a valid signer name");
    else if (!t->has_name && !t->has_signer_name)
        bh_fe_required(e, at, "either name or signerName must be specified");
    if (t->has_name && t->label_selector)
        bh_fe_invalid_text(e, BH_FP(at, "labelSelector"),
                           bh_v_json(e->a, &bh_meta_v1_label_selector_type, t->label_selector),
                           "labelSelector must be unset if name is specified");
    else
        bh_v_label_selector(e, BH_FP(at, "labelSelector"), t->label_selector, false);
    required(e, at, "path", t->path);
    local_path(e, BH_FP(at, "path"), t->path);
    one_path(e, volume, t->path, t->path, seen);
}

static void projection(struct bh_field_errs *e, const struct bh_fpath *volume,
                       const struct bh_fpath *at, const struct bh_core_v1_volume_projection *p,
                       struct paths_seen *seen)
{
    unsigned n = 0;

    if (p->secret) {
        n++;
        projected_keys(e, volume, BH_FP(at, "secret"), p->secret->local_object_reference.name,
                       &p->secret->items, seen);
    }
    if (p->config_map) {
        n++;
        projected_keys(e, volume, BH_FP(at, "configMap"),
                       p->config_map->local_object_reference.name, &p->config_map->items, seen);
    }
    if (p->downward_api) {
        n++;
        for (size_t i = 0; i < p->downward_api->items.n; i++) {
            downward_file(e, BH_FP(at, "downwardAPI"), &p->downward_api->items.p[i]);
            one_path(e, volume, p->downward_api->items.p[i].path, p->downward_api->items.p[i].path,
                     seen);
        }
    }
    if (p->service_account_token) {
        n++;
        projected_token(e, volume, BH_FP(at, "serviceAccountToken"), p->service_account_token);
    }
    if (p->cluster_trust_bundle) {
        n++;
        trust_bundle(e, volume, BH_FP(at, "clusterTrustBundle"), p->cluster_trust_bundle, seen);
    }
    if (n > 1)
        bh_fe_forbidden(e, at, "may not specify more than 1 volume type per source");
}

/* ---- claims ---- */

void bh_v_access_modes(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_str_vec *v)
{
    bool one_pod = false, other = false;

    for (size_t i = 0; i < v->n; i++) {
        bool known = BH_V_ONE_OF(v->p[i], "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce",
                                 "ReadWriteOncePod");

        if (!known)
            BH_V_NOT_SUPPORTED(e, at, v->p[i], "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce",
                               "ReadWriteOncePod");
        if (bh_str_eqc(v->p[i], "ReadWriteOncePod"))
            one_pod = true;
        else
            other = other || known;
    }
    if (one_pod && other)
        bh_fe_forbidden(e, at, "may not use ReadWriteOncePod with other access modes");
}

static void data_source(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str name,
                        struct bh_str kind, struct bh_str group, bool any_group)
{
    required(e, at, "name", name);
    required(e, at, "kind", kind);
    if (group.n == 0 && !bh_str_eqc(kind, "PersistentVolumeClaim"))
        bh_fe_invalid(e, at, kind,
                      "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
    if (group.n && !any_group)
        bh_v_check(e, BH_FP(at, "apiGroup"), bh_check_dns1123_subdomain, group);
}

static void data_sources(struct bh_field_errs *e, const struct bh_fpath *at,
                         const struct bh_core_v1_persistent_volume_claim_spec *s, bool any_group)
{
    const struct bh_core_v1_typed_local_object_reference *d = s->data_source;
    const struct bh_core_v1_typed_object_reference *r = s->data_source_ref;
    const struct bh_fpath *rat = BH_FP(at, "dataSourceRef");

    if (d)
        data_source(e, BH_FP(at, "dataSource"), d->name, d->kind,
                    d->has_api_group ? d->api_group : BH_S(""), any_group);
    if (r)
        data_source(e, rat, r->name, r->kind, r->has_api_group ? r->api_group : BH_S(""),
                    any_group);
    if (r && r->has_namespace && r->namespace.n) {
        bh_v_check(e, BH_FP(rat, "namespace"), bh_check_dns1123_label, r->namespace);
        if (d)
            bh_fe_invalid_text(e, at, BH_S("{}"),
                               "may not be specified when dataSourceRef.namespace is specified");
    } else if (d && r &&
               !(bh_str_eq(d->name, r->name) && bh_str_eq(d->kind, r->kind) &&
                 bh_str_eq(d->has_api_group ? d->api_group : BH_S(""),
                           r->has_api_group ? r->api_group : BH_S("")))) {
        bh_fe_invalid_text(e, at, BH_S("{}"), "must match dataSourceRef");
    }
}

void bh_v_claim_spec(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_core_v1_persistent_volume_claim_spec *s, unsigned stored)
{
    const struct bh_fpath *storage_at = BH_FPK(BH_FP(at, "resources"), BH_S("storage"));
    const struct bh_str *storage = bh_str_map_get(&s->resources.requests, BH_S("storage"));

    if (s->access_modes.n == 0)
        bh_fe_required(e, BH_FP(at, "accessModes"), "at least 1 access mode is required");
    bh_v_label_selector(e, BH_FP(at, "selector"), s->selector, stored & BH_V_OLD_SELECTOR);
    bh_v_access_modes(e, BH_FP(at, "accessModes"), &s->access_modes);
    if (!storage)
        bh_fe_required(e, storage_at, NULL);
    else if (bh_quantity_sign(bh_v_qty(*storage)) <= 0)
        bh_fe_invalid(e, storage_at, *storage, "must be greater than zero");
    if (s->has_storage_class_name && s->storage_class_name.n)
        bh_v_check(e, BH_FP(at, "storageClassName"), bh_check_dns1123_subdomain,
                   s->storage_class_name);
    if (s->has_volume_mode && !BH_V_ONE_OF(s->volume_mode, "Block", "Filesystem"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "volumeMode"), s->volume_mode, "Block", "Filesystem");
    data_sources(e, at, s, stored & BH_V_OLD_GROUP);
    if (s->has_volume_attributes_class_name && s->volume_attributes_class_name.n)
        bh_v_check(e, BH_FP(at, "volumeAttributesClassName"), bh_check_dns1123_subdomain,
                   s->volume_attributes_class_name);
}

static void ephemeral(struct bh_field_errs *e, const struct bh_fpath *at,
                      const struct bh_core_v1_ephemeral_volume_source *s)
{
    const struct bh_fpath *t = BH_FP(at, "volumeClaimTemplate");

    if (!s->volume_claim_template) {
        bh_fe_required(e, t, NULL);
        return;
    }
    bh_v_template_meta(e, BH_FP(t, "metadata"), &s->volume_claim_template->metadata);
    bh_v_claim_spec(e, BH_FP(t, "spec"), &s->volume_claim_template->spec, 0);
}

/* ---- sources of one kind each ---- */

static void host_path(struct bh_field_errs *e, const struct bh_fpath *at,
                      const struct bh_core_v1_host_path_volume_source *s)
{
    if (s->path.n == 0) {
        bh_fe_required(e, BH_FP(at, "path"), NULL);
        return;
    }
    bh_v_no_backsteps(e, BH_FP(at, "path"), s->path);
    if (s->has_type && !BH_V_ONE_OF(s->type, "", "BlockDevice", "CharDevice", "Directory",
                                    "DirectoryOrCreate", "File", "FileOrCreate", "Socket"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "type"), s->type, "", "BlockDevice", "CharDevice",
                           "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket");
}

static bool alnum_from(struct bh_str s, size_t from, size_t n)
{
    if (s.n != from + n)
        return false;
    for (size_t i = from; i < s.n; i++)
        if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'z') ||
              (s.p[i] >= 'A' && s.p[i] <= 'Z')))
            return false;
    return true;
}

/* iqn.YYYY-MM.domain:name, eui.16, naa.32 */
static bool iqn_ok(struct bh_str s)
{
    ptrdiff_t colon;

    if (bh_str_starts(s, BH_S("eui")))
        return alnum_from(s, 4, 16);
    if (bh_str_starts(s, BH_S("naa")))
        return alnum_from(s, 4, 32);
    colon = bh_str_chr(s, ':', 0);
    if (s.n < 14 || colon < 13 || (size_t)colon + 1 == s.n || s.p[3] != '.' || s.p[8] != '-' ||
        s.p[11] != '.')
        return false;
    for (size_t i = 4; i < 11; i++)
        if (i != 8 && (s.p[i] < '0' || s.p[i] > '9'))
            return false;
    for (size_t i = (size_t)colon + 1; i < s.n; i++)
        if (bh_str_chr(BH_S(",;*&$| \t\n"), s.p[i], 0) >= 0)
            return false;
    return true;
}

static bool iqn_kind(struct bh_str s)
{
    return bh_str_starts(s, BH_S("iqn")) || bh_str_starts(s, BH_S("eui")) ||
           bh_str_starts(s, BH_S("naa"));
}

bool bh_v_iqn(struct bh_str s)
{
    return iqn_kind(s) && iqn_ok(s);
}

static void iscsi(struct bh_field_errs *e, const struct bh_fpath *at,
                  const struct bh_core_v1_iscsi_volume_source *s)
{
    required(e, at, "targetPortal", s->target_portal);
    if (s->iqn.n == 0)
        bh_fe_required(e, BH_FP(at, "iqn"), NULL);
    else if (!iqn_kind(s->iqn))
        bh_fe_invalid(e, BH_FP(at, "iqn"), s->iqn,
                      "must be valid format starting with iqn, eui, or naa");
    else if (!iqn_ok(s->iqn))
        bh_fe_invalid(e, BH_FP(at, "iqn"), s->iqn, "must be valid format");
    lun(e, at, s->lun);
    if ((s->chap_auth_discovery || s->chap_auth_session) && !s->secret_ref)
        bh_fe_required(e, BH_FP(at, "secretRef"), NULL);
    if (!s->has_initiator_name)
        return;
    if (!iqn_kind(s->initiator_name))
        bh_fe_invalid(e, BH_FP(at, "initiatorname"), s->initiator_name,
                      "must be valid format starting with iqn, eui, or naa");
    else if (!iqn_ok(s->initiator_name))
        bh_fe_invalid(e, BH_FP(at, "initiatorname"), s->initiator_name, "must be valid format");
}

static void fc(struct bh_field_errs *e, const struct bh_fpath *at,
               const struct bh_core_v1_fc_volume_source *s)
{
    const struct bh_fpath *wwns = BH_FP(at, "targetWWNs");

    if (s->target_wwns.n == 0 && s->wwids.n == 0)
        bh_fe_required(e, wwns, "must specify either targetWWNs or wwids, but not both");
    if (s->target_wwns.n && s->wwids.n)
        bh_fe_invalid_text(e, wwns, bh_v_json_strs(e->a, &s->target_wwns),
                           "targetWWNs and wwids can not be specified simultaneously");
    if (s->target_wwns.n && !s->has_lun)
        bh_fe_required(e, BH_FP(at, "lun"), "lun is required if targetWWNs is specified");
    else if (s->target_wwns.n)
        lun(e, at, s->lun);
}

static void flex(struct bh_field_errs *e, const struct bh_fpath *at,
                 const struct bh_core_v1_flex_volume_source *s)
{
    required(e, at, "driver", s->driver);
    for (size_t i = 0; i < s->options.n; i++) {
        struct bh_str rest = s->options.p[i].key, space = bh_str_cut(&rest, '/');
        struct bh_str dotted = bh_str_fmt(e->a, ".%.*s", BH_SF(bh_v_lower(e->a, space)));

        if (bh_str_ends(dotted, BH_S(".kubernetes.io")) || bh_str_ends(dotted, BH_S(".k8s.io")))
            bh_fe_invalid(e, BH_FPK(BH_FP(at, "options"), s->options.p[i].key), s->options.p[i].key,
                          "kubernetes.io and k8s.io namespaces are reserved");
    }
}

static void azure_disk(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_core_v1_azure_disk_volume_source *s)
{
    required(e, at, "diskName", s->disk_name);
    required(e, at, "diskURI", s->disk_uri);
    if (s->has_caching_mode && !BH_V_ONE_OF(s->caching_mode, "None", "ReadOnly", "ReadWrite"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "cachingMode"), s->caching_mode, "None", "ReadOnly",
                           "ReadWrite");
    if (!s->has_kind)
        return;
    if (!BH_V_ONE_OF(s->kind, "Dedicated", "Managed", "Shared"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "kind"), s->kind, "Dedicated", "Managed", "Shared");
    if (bh_str_eqc(s->kind, "Managed") && !bh_str_starts(s->disk_uri, BH_S("/subscriptions/")))
        BH_V_NOT_SUPPORTED(
            e, BH_FP(at, "diskURI"), s->disk_uri,
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/"
            "{disk-id}");
    if (!bh_str_eqc(s->kind, "Managed") && !bh_str_starts(s->disk_uri, BH_S("https://")))
        BH_V_NOT_SUPPORTED(
            e, BH_FP(at, "diskURI"), s->disk_uri,
            "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd");
}

static void csi(struct bh_field_errs *e, const struct bh_fpath *at,
                const struct bh_core_v1_csi_volume_source *s)
{
    bh_v_driver_name(e, BH_FP(at, "driver"), s->driver);
    if (!s->node_publish_secret_ref)
        return;
    if (s->node_publish_secret_ref->name.n == 0)
        bh_fe_required(e, BH_FP(BH_FP(at, "nodePublishSecretRef"), "name"), NULL);
    else
        bh_v_check(e, BH_FP(at, "name"), bh_check_dns1123_subdomain,
                   s->node_publish_secret_ref->name);
}

static void image(struct bh_field_errs *e, const struct bh_fpath *at,
                  const struct bh_core_v1_image_volume_source *s, const struct bh_pod_opts *o)
{
    const struct bh_fpath *pull = BH_FP(at, "pullPolicy");

    if (o->is_pod)
        required(e, at, "reference", s->reference);
    if (s->pull_policy.n == 0)
        bh_fe_required(e, pull, NULL);
    else if (!BH_V_ONE_OF(s->pull_policy, "Always", "IfNotPresent", "Never"))
        BH_V_NOT_SUPPORTED(e, pull, s->pull_policy, "Always", "IfNotPresent", "Never");
}

static void git_repo(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_core_v1_git_repo_volume_source *s)
{
    required(e, at, "repository", s->repository);
    bh_v_descending_path(e, BH_FP(at, "directory"), s->directory);
}

static void nfs(struct bh_field_errs *e, const struct bh_fpath *at,
                const struct bh_core_v1_nfs_volume_source *s)
{
    required(e, at, "server", s->server);
    required(e, at, "path", s->path);
    if (s->path.n == 0 || s->path.p[0] != '/')
        bh_fe_invalid(e, BH_FP(at, "path"), s->path, "must be an absolute path");
}

static void flocker(struct bh_field_errs *e, const struct bh_fpath *at,
                    const struct bh_core_v1_flocker_volume_source *s)
{
    if (s->dataset_name.n == 0 && s->dataset_uuid.n == 0)
        bh_fe_required(e, at, "one of datasetName and datasetUUID is required");
    if (s->dataset_name.n && s->dataset_uuid.n)
        bh_fe_invalid(e, at, BH_S("resource"),
                      "datasetName and datasetUUID can not be specified simultaneously");
    if (bh_str_chr(s->dataset_name, '/', 0) >= 0)
        bh_fe_invalid(e, BH_FP(at, "datasetName"), s->dataset_name, "must not contain '/'");
}

static void quobyte(struct bh_field_errs *e, const struct bh_fpath *at,
                    const struct bh_core_v1_quobyte_volume_source *s)
{
    struct bh_str rest = s->registry;

    if (s->registry.n == 0)
        bh_fe_required(e, BH_FP(at, "registry"),
                       "must be a host:port pair or multiple pairs separated by commas");
    else if (s->tenant.n >= 65)
        bh_fe_required(e, BH_FP(at, "tenant"),
                       "must be a UUID and may not exceed a length of 64 characters");
    else
        do {
            struct bh_str pair = bh_str_cut(&rest, ',');

            if (bh_v_count(pair, ':') != 1)
                bh_fe_invalid(e, BH_FP(at, "registry"), s->registry,
                              "must be a host:port pair or multiple pairs separated by commas");
        } while (rest.p);
    required(e, at, "volume", s->volume);
}

static void storage_os(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_core_v1_storage_os_volume_source *s)
{
    if (s->volume_name.n == 0)
        bh_fe_required(e, BH_FP(at, "volumeName"), NULL);
    else
        bh_v_check(e, BH_FP(at, "volumeName"), bh_check_dns1123_label, s->volume_name);
    if (s->volume_namespace.n)
        bh_v_check(e, BH_FP(at, "volumeNamespace"), bh_check_dns1123_label, s->volume_namespace);
    if (s->secret_ref && s->secret_ref->name.n == 0)
        bh_fe_required(e, BH_FP(BH_FP(at, "secretRef"), "name"), NULL);
}

static void projected(struct bh_field_errs *e, const struct bh_fpath *at,
                      const struct bh_core_v1_projected_volume_source *s)
{
    struct paths_seen seen = {0};

    mode(e, BH_FP(at, "defaultMode"), s->has_default_mode, s->default_mode);
    for (size_t i = 0; i < s->sources.n; i++)
        projection(e, at, BH_FPI(BH_FP(at, "sources"), i), &s->sources.p[i], &seen);
}

/* ---- one volume ---- */

/* True for the first source; every further one is refused by name and not looked at. */
static bool first(struct bh_field_errs *e, const struct bh_fpath *at, const char *name, unsigned *n)
{
    if ((*n)++ == 0)
        return true;
    bh_fe_forbidden(e, BH_FPS(at, bh_s(name)), "may not specify more than 1 volume type");
    return false;
}

/* The order of the sources, and the names they go by in errors, are upstream's. */
static void old_sources(struct bh_field_errs *e, const struct bh_fpath *at,
                        const struct bh_core_v1_volume *v, unsigned *n)
{
    const struct bh_core_v1_volume_source *s = &v->volume_source;

    if (s->glusterfs && first(e, at, "glusterfs", n)) {
        required(e, BH_FP(at, "glusterfs"), "endpoints", s->glusterfs->endpoints);
        required(e, BH_FP(at, "glusterfs"), "path", s->glusterfs->path);
    }
    if (s->flocker && first(e, at, "flocker", n))
        flocker(e, BH_FP(at, "flocker"), s->flocker);
    if (s->persistent_volume_claim && first(e, at, "persistentVolumeClaim", n))
        required(e, BH_FP(at, "persistentVolumeClaim"), "claimName",
                 s->persistent_volume_claim->claim_name);
    if (s->rbd && first(e, at, "rbd", n)) {
        if (s->rbd->monitors.n == 0)
            bh_fe_required(e, BH_FP(BH_FP(at, "rbd"), "monitors"), NULL);
        required(e, BH_FP(at, "rbd"), "image", s->rbd->image);
    }
    if (s->cinder && first(e, at, "cinder", n)) {
        required(e, BH_FP(at, "cinder"), "volumeID", s->cinder->volume_id);
        if (s->cinder->secret_ref)
            required(e, BH_FP(BH_FP(at, "cinder"), "secretRef"), "name",
                     s->cinder->secret_ref->name);
    }
    if (s->cephfs && first(e, at, "cephFS", n) && s->cephfs->monitors.n == 0)
        bh_fe_required(e, BH_FP(BH_FP(at, "cephfs"), "monitors"), NULL);
    if (s->quobyte && first(e, at, "quobyte", n))
        quobyte(e, BH_FP(at, "quobyte"), s->quobyte);
}

static void disk_sources(struct bh_field_errs *e, const struct bh_fpath *at,
                         const struct bh_core_v1_volume *v, unsigned *n)
{
    const struct bh_core_v1_volume_source *s = &v->volume_source;

    if (s->azure_file && first(e, at, "azureFile", n)) {
        required(e, BH_FP(at, "azureFile"), "secretName", s->azure_file->secret_name);
        required(e, BH_FP(at, "azureFile"), "shareName", s->azure_file->share_name);
    }
    if (s->vsphere_volume && first(e, at, "vsphereVolume", n))
        required(e, BH_FP(at, "vsphereVolume"), "volumePath", s->vsphere_volume->volume_path);
    if (s->photon_persistent_disk && first(e, at, "photonPersistentDisk", n))
        required(e, BH_FP(at, "photonPersistentDisk"), "pdID", s->photon_persistent_disk->pd_id);
    if (s->portworx_volume && first(e, at, "portworxVolume", n))
        required(e, BH_FP(at, "portworxVolume"), "volumeID", s->portworx_volume->volume_id);
    if (s->azure_disk && first(e, at, "azureDisk", n))
        azure_disk(e, BH_FP(at, "azureDisk"), s->azure_disk);
    if (s->storageos && first(e, at, "storageos", n))
        storage_os(e, BH_FP(at, "storageos"), s->storageos);
    if (s->projected && first(e, at, "projected", n))
        projected(e, BH_FP(at, "projected"), s->projected);
    if (s->scale_io && first(e, at, "scaleIO", n)) {
        required(e, BH_FP(at, "scaleIO"), "gateway", s->scale_io->gateway);
        required(e, BH_FP(at, "scaleIO"), "system", s->scale_io->system);
        required(e, BH_FP(at, "scaleIO"), "volumeName", s->scale_io->volume_name);
    }
}

static void source(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_core_v1_volume *v, const struct bh_meta_v1_object_meta *m,
                   const struct bh_pod_opts *o)
{
    const struct bh_core_v1_volume_source *s = &v->volume_source;
    const struct bh_fpath *name = BH_FP(at, "name");
    unsigned n = 0;

    if (s->empty_dir) {
        n++;
        if (s->empty_dir->has_size_limit &&
            bh_quantity_sign(bh_v_qty(s->empty_dir->size_limit)) < 0)
            bh_fe_forbidden(e, BH_FP(BH_FP(at, "emptyDir"), "sizeLimit"),
                            "SizeLimit field must be a valid resource quantity");
    }
    if (s->host_path && first(e, at, "hostPath", &n))
        host_path(e, BH_FP(at, "hostPath"), s->host_path);
    if (s->git_repo && first(e, at, "gitRepo", &n))
        git_repo(e, BH_FP(at, "gitRepo"), s->git_repo);
    if (s->gce_persistent_disk && first(e, at, "gcePersistentDisk", &n)) {
        required(e, BH_FP(at, "persistentDisk"), "pdName", s->gce_persistent_disk->pd_name);
        partition(e, BH_FP(at, "persistentDisk"), s->gce_persistent_disk->partition);
    }
    if (s->aws_elastic_block_store && first(e, at, "awsElasticBlockStore", &n)) {
        required(e, BH_FP(at, "awsElasticBlockStore"), "volumeID",
                 s->aws_elastic_block_store->volume_id);
        partition(e, BH_FP(at, "awsElasticBlockStore"), s->aws_elastic_block_store->partition);
    }
    if (s->secret && first(e, at, "secret", &n)) {
        required(e, BH_FP(at, "secret"), "secretName", s->secret->secret_name);
        mode(e, BH_FP(BH_FP(at, "secret"), "defaultMode"), s->secret->has_default_mode,
             s->secret->default_mode);
        items(e, BH_FP(at, "secret"), &s->secret->items);
    }
    if (s->nfs && first(e, at, "nfs", &n))
        nfs(e, BH_FP(at, "nfs"), s->nfs);
    if (s->iscsi && first(e, at, "iscsi", &n))
        iscsi(e, BH_FP(at, "iscsi"), s->iscsi);
    if (s->iscsi && s->iscsi->has_initiator_name && v->name.n + 1 + s->iscsi->target_portal.n > 64)
        bh_fe_invalid(
            e, name, v->name,
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if "
            "iscsi.initiatorName is specified.");
    old_sources(e, at, v, &n);
    if (s->downward_api && first(e, at, "downwarAPI", &n)) {
        const struct bh_fpath *d = BH_FP(at, "downwardAPI");

        mode(e, BH_FP(d, "defaultMode"), s->downward_api->has_default_mode,
             s->downward_api->default_mode);
        for (size_t i = 0; i < s->downward_api->items.n; i++)
            downward_file(e, d, &s->downward_api->items.p[i]);
    }
    if (s->fc && first(e, at, "fc", &n))
        fc(e, BH_FP(at, "fc"), s->fc);
    if (s->flex_volume && first(e, at, "flexVolume", &n))
        flex(e, BH_FP(at, "flexVolume"), s->flex_volume);
    if (s->config_map && first(e, at, "configMap", &n)) {
        required(e, BH_FP(at, "configMap"), "name", s->config_map->local_object_reference.name);
        mode(e, BH_FP(BH_FP(at, "configMap"), "defaultMode"), s->config_map->has_default_mode,
             s->config_map->default_mode);
        items(e, BH_FP(at, "configMap"), &s->config_map->items);
    }
    disk_sources(e, at, v, &n);
    if (s->csi && first(e, at, "csi", &n))
        csi(e, BH_FP(at, "csi"), s->csi);
    if (s->ephemeral && first(e, at, "ephemeral", &n)) {
        ephemeral(e, BH_FP(at, "ephemeral"), s->ephemeral);
        if (m && m->name.n && v->name.n) {
            struct bh_str pvc = bh_str_fmt(e->a, "%.*s-%.*s", BH_SF(m->name), BH_SF(v->name));
            struct bh_str_vec all = bh_names_all(e->a, bh_check_dns1123_subdomain, pvc);

            for (size_t i = 0; i < all.n; i++)
                bh_fe_invalid(e, name, v->name, "PVC name \"%.*s\": %.*s", BH_SF(pvc),
                              BH_SF(all.p[i]));
        }
    }
    if (s->image && first(e, at, "image", &n))
        image(e, BH_FP(at, "image"), s->image, o);
    if (n == 0)
        bh_fe_required(e, at, "must specify a volume type");
}

void bh_v_volume_source(struct bh_field_errs *e, const struct bh_fpath *at,
                        const struct bh_core_v1_volume_source *s)
{
    const struct bh_core_v1_volume v = {.volume_source = *s};
    const struct bh_pod_opts o = {0};

    source(e, at, &v, NULL, &o);
}

/* Does a generic ephemeral volume of this pod make the claim itself? */
static bool makes_claim(const struct bh_core_v1_pod_spec *s, const struct bh_meta_v1_object_meta *m,
                        struct bh_str claim)
{
    for (size_t i = 0; m && m->name.n && i < s->volumes.n; i++) {
        struct bh_str rest = claim;

        if (!s->volumes.p[i].volume_source.ephemeral || !bh_str_starts(claim, m->name))
            continue;
        rest = bh_str_sub(claim, m->name.n, SIZE_MAX);
        if (rest.n && rest.p[0] == '-' &&
            bh_str_eq(bh_str_sub(rest, 1, SIZE_MAX), s->volumes.p[i].name))
            return true;
    }
    return false;
}

void bh_v_volumes(struct bh_field_errs *e, const struct bh_fpath *at,
                  const struct bh_core_v1_pod_spec *s, const struct bh_meta_v1_object_meta *m,
                  const struct bh_pod_opts *o, bool *ok)
{
    for (size_t i = 0; i < s->volumes.n; i++) {
        const struct bh_core_v1_volume *v = &s->volumes.p[i];
        const struct bh_fpath *ix = BH_FPI(at, i), *name = BH_FP(ix, "name");
        size_t before = e->n + e->dropped;

        source(e, ix, v, m, o);
        if (v->name.n == 0)
            bh_fe_required(e, name, NULL);
        else
            bh_v_check(e, name, bh_check_dns1123_label, v->name);
        for (size_t k = 0; k < i; k++)
            if (ok[k] && bh_str_eq(s->volumes.p[k].name, v->name)) {
                bh_fe_duplicate(e, name, v->name);
                break;
            }
        ok[i] = e->n + e->dropped == before;
        if (v->volume_source.persistent_volume_claim &&
            makes_claim(s, m, v->volume_source.persistent_volume_claim->claim_name))
            bh_fe_invalid(e, BH_FP(BH_FP(ix, "persistentVolumeClaim"), "claimName"),
                          v->volume_source.persistent_volume_claim->claim_name,
                          "must not reference a PVC that gets created for an ephemeral volume");
    }
}
