/* The set of controllers: which run, in what order they start, and how they end. */
#include "controllers/controllers.h"

#include "base/arena.h"
#include "base/log.h"
#include "controllers/controllers_int.h"

static const struct ctl_controller *const all[] = {
    &ctl_resource_claim,
    &ctl_device_taint_eviction,
    &ctl_node_lifecycle,
    &ctl_taint_eviction,
    &ctl_pod_gc,
    &ctl_podgroup_protection,
    &ctl_disruption,
    &ctl_volume_binder,
    &ctl_pvc_protection,
    &ctl_pv_protection,
    &ctl_vac_protection,
    &ctl_ephemeral_volume,
    &ctl_namespace,
    &ctl_garbage_collector,
    &ctl_resource_pool_status,
};

struct bh_controllers {
    struct ctl ctl;
    struct bh_controllers_opts opts;
    void *self[BH_COUNT(all)];
};

/* Whether upstream's list ("*", "name", "-name", comma separated) asks for the controller. */
static bool wanted(const char *list, const char *name)
{
    struct bh_str rest = bh_s(list ? list : "*");
    bool star = false;

    while (rest.p && rest.n) {
        struct bh_str w = bh_str_trim(bh_str_cut(&rest, ','));

        if (bh_str_eqc(w, name))
            return true;
        if (w.n && w.p[0] == '-' && bh_str_eqc(bh_str_sub(w, 1, w.n), name))
            return false;
        star = star || bh_str_eqc(w, "*");
    }
    return star;
}

int bh_controllers_check(const char *list, struct bh_err *err)
{
    struct bh_str rest = bh_s(list ? list : "*");

    while (rest.p && rest.n) {
        struct bh_str w = bh_str_trim(bh_str_cut(&rest, ','));
        struct bh_str name = w.n && w.p[0] == '-' ? bh_str_sub(w, 1, w.n) : w;
        bool known = bh_str_eqc(w, "*");

        for (size_t i = 0; i < BH_COUNT(all); i++)
            known = known || bh_str_eqc(name, all[i]->name);
        if (!known)
            return bh_err_set(err, BH_E_BAD_REQUEST,
                              "\"%.*s\" is not in the list of known controllers", BH_SF(name));
    }
    return 0;
}

struct bh_controllers *
bh_controllers_new(struct bh_client *c, const struct bh_controllers_opts *opts, struct bh_err *err)
{
    struct bh_controllers *s;

    if (bh_controllers_check(opts->controllers, err) < 0)
        return NULL;
    s = bh_calloc(1, sizeof(*s));
    s->opts = *opts;
    s->ctl = (struct ctl){.client = c,
                          .loop = bh_client_loop(c),
                          .informers = ctl_informers_new(c),
                          .recorder = bh_recorder_new(c, "controllermanager", ""),
                          .opts = &s->opts};
    for (size_t i = 0; i < BH_COUNT(all); i++)
        if (wanted(opts->controllers, all[i]->name))
            s->self[i] = all[i]->start(&s->ctl);
    return s;
}

struct bh_controllers *bh_controllers_free(struct bh_controllers *s)
{
    if (!s)
        return NULL;
    /* Informers first: no handler may run on a controller that has ended. */
    (void)ctl_informers_free(s->ctl.informers);
    for (size_t i = 0; i < BH_COUNT(all); i++)
        if (s->self[i])
            all[i]->stop(s->self[i]);
    (void)bh_recorder_free(s->ctl.recorder);
    bh_free(s);
    return NULL;
}
