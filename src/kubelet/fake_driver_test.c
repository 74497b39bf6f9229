/* The badly behaved driver. */
#include "kubelet/fake_driver_test.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/fs.h"
#include "base/test.h"
#include "net/dra.pb-c.h"
#include "net/drahealth.pb-c.h"
#include "net/grpc.h"
#include "net/loop.h"
#include "net/pb.h"
#include "net/pluginregistration.pb-c.h"

static void h_get_info(void *arg, struct bh_grpc_call *call)
{
    struct fake_driver *d = arg;
    struct bh_arena *a = bh_grpc_call_arena(call);
    Bh__Reg__PluginInfo info = BH__REG__PLUGIN_INFO__INIT;
    struct bh_str v[4];
    size_t n = 0;

    d->infos++;
    while (n < 4 && d->versions[n]) {
        v[n] = bh_s(d->versions[n]);
        n++;
    }
    info.type = bh_pb_str(a, bh_s(d->type));
    info.name = bh_pb_str(a, bh_s(d->name));
    info.endpoint = bh_pb_str(a, bh_s(d->endpoint ? d->endpoint : d->dra));
    info.supported_versions = bh_pb_strs(a, v, n);
    info.n_supported_versions = n;
    bh_grpc_call_reply(call, bh_pb_pack(a, &info));
}

static void h_notify(void *arg, struct bh_grpc_call *call)
{
    struct fake_driver *d = arg;
    const Bh__Reg__RegistrationStatus *st =
        bh_pb_unpack(bh_grpc_call_arena(call), &bh__reg__registration_status__descriptor,
                     bh_grpc_call_request(call));

    if (st && st->plugin_registered) {
        d->notifies++;
    } else {
        d->refusals++;
        (void)snprintf(d->refusal, sizeof(d->refusal), "%s", st && st->error ? st->error : "");
    }
    if (d->refuse_notify)
        bh_grpc_call_finish(call, BH_GRPC_INTERNAL, "I do not want to know");
    else
        bh_grpc_call_reply(call, (struct bh_str){NULL, 0});
}

static void die_soon(void *arg)
{
    fake_driver_stop_service(arg);
}

/* True when the mode has dealt with the call. */
static bool misbehave(struct fake_driver *d, struct bh_grpc_call *call)
{
    switch (d->mode) {
    case FAKE_HANG:
        d->held = call;
        return true;
    case FAKE_RUBBISH:
        bh_grpc_call_reply(call, BH_S("\xff\xff\xff\xff rubbish"));
        return true;
    case FAKE_RPC_ERROR:
        bh_grpc_call_finish(call, BH_GRPC_INTERNAL, "out of order");
        return true;
    case FAKE_DIE:
        d->held = call;
        bh_loop_defer(d->l, die_soon, d);
        return true;
    default:
        return false;
    }
}

static void device_fill(struct bh_arena *a, Bh__Dra__Device *dev, const char *request,
                        const char *name, const char *uid)
{
    struct bh_str r = bh_s(request);
    struct bh_str cdi = bh_str_fmt(a, "fake.example.com/claim=%s-%s", uid, name);

    bh__dra__device__init(dev);
    dev->request_names = bh_pb_strs(a, &r, request[0] ? 1 : 0);
    dev->n_request_names = request[0] ? 1 : 0;
    dev->pool_name = bh_pb_str(a, BH_S("n1"));
    dev->device_name = bh_pb_str(a, bh_s(name));
    dev->cdi_device_ids = bh_pb_strs(a, &cdi, 1);
    dev->n_cdi_device_ids = 1;
}

/* Each claim gets gpu-0 for request "a" and gpu-1 for request "b". */
static void h_prepare(void *arg, struct bh_grpc_call *call)
{
    struct fake_driver *d = arg;
    struct bh_arena *a = bh_grpc_call_arena(call);
    const Bh__Dra__NodePrepareResourcesRequest *req = bh_pb_unpack(
        a, &bh__dra__node_prepare_resources_request__descriptor, bh_grpc_call_request(call));
    Bh__Dra__NodePrepareResourcesResponse res = BH__DRA__NODE_PREPARE_RESOURCES_RESPONSE__INIT;

    d->prepares++;
    if (d->watch_file) {
        bh_buf_clear(&d->watch_content);
        (void)!bh_fs_read(d->watch_file, 1 << 20, &d->watch_content, NULL);
    }
    if (misbehave(d, call))
        return;
    res.claims = bh_new_n(a, Bh__Dra__PrepareEntry *, req->n_claims + 1);
    for (size_t i = d->mode == FAKE_SKIP ? 1 : 0; i < req->n_claims; i++) {
        Bh__Dra__PrepareEntry *e = bh_new(a, Bh__Dra__PrepareEntry);
        Bh__Dra__NodePrepareResourceResponse *v = bh_new(a, Bh__Dra__NodePrepareResourceResponse);

        bh__dra__prepare_entry__init(e);
        bh__dra__node_prepare_resource_response__init(v);
        e->key = d->mode == FAKE_UNKNOWN_UID ? bh_pb_str(a, BH_S("nobody")) : req->claims[i]->uid;
        e->value = v;
        if (d->mode == FAKE_CLAIM_ERROR) {
            v->error = bh_pb_str(a, BH_S("no such device"));
        } else {
            v->devices = bh_new_n(a, Bh__Dra__Device *, 2);
            v->n_devices = 2;
            v->devices[0] = bh_new(a, Bh__Dra__Device);
            v->devices[1] = bh_new(a, Bh__Dra__Device);
            device_fill(a, v->devices[0], "a", "gpu-0", req->claims[i]->uid);
            device_fill(a, v->devices[1], "b", "gpu-1", req->claims[i]->uid);
        }
        res.claims[res.n_claims++] = e;
    }
    bh_grpc_call_reply(call, bh_pb_pack(a, &res));
}

static void h_unprepare(void *arg, struct bh_grpc_call *call)
{
    struct fake_driver *d = arg;
    struct bh_arena *a = bh_grpc_call_arena(call);
    const Bh__Dra__NodeUnprepareResourcesRequest *req = bh_pb_unpack(
        a, &bh__dra__node_unprepare_resources_request__descriptor, bh_grpc_call_request(call));
    Bh__Dra__NodeUnprepareResourcesResponse res = BH__DRA__NODE_UNPREPARE_RESOURCES_RESPONSE__INIT;

    d->unprepares++;
    if (misbehave(d, call))
        return;
    res.claims = bh_new_n(a, Bh__Dra__UnprepareEntry *, req->n_claims + 1);
    for (size_t i = 0; i < req->n_claims; i++) {
        Bh__Dra__UnprepareEntry *e = bh_new(a, Bh__Dra__UnprepareEntry);

        bh__dra__unprepare_entry__init(e);
        e->key = req->claims[i]->uid;
        e->value = bh_new(a, Bh__Dra__NodeUnprepareResourceResponse);
        bh__dra__node_unprepare_resource_response__init(e->value);
        res.claims[res.n_claims++] = e;
    }
    bh_grpc_call_reply(call, bh_pb_pack(a, &res));
}

static void health_gone(void *arg)
{
    struct fake_driver *d = arg;
    struct bh_grpc_call *c = d->health;

    d->health = NULL;
    bh_grpc_call_finish(c, BH_GRPC_CANCELLED, "gone");
}

static void h_health(void *arg, struct bh_grpc_call *call)
{
    struct fake_driver *d = arg;

    if (d->health)
        health_gone(d);
    d->health = call;
    bh_grpc_call_on_cancel(call, health_gone, d);
}

void fake_driver_health(struct fake_driver *d, const char *device, bool healthy,
                        const char *message)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    Bh__Drahealth__NodeWatchResourcesResponse res =
        BH__DRAHEALTH__NODE_WATCH_RESOURCES_RESPONSE__INIT;
    Bh__Drahealth__DeviceHealth h = BH__DRAHEALTH__DEVICE_HEALTH__INIT;
    Bh__Drahealth__DeviceHealth *hs[] = {&h};
    Bh__Drahealth__DeviceIdentifier id = BH__DRAHEALTH__DEVICE_IDENTIFIER__INIT;

    id.pool_name = bh_pb_str(a, BH_S("n1"));
    id.device_name = bh_pb_str(a, bh_s(device));
    h.device = &id;
    h.has_health = true;
    h.health =
        healthy ? BH__DRAHEALTH__HEALTH_STATUS__HEALTHY : BH__DRAHEALTH__HEALTH_STATUS__UNHEALTHY;
    h.message = bh_pb_str(a, bh_s(message));
    res.devices = hs;
    res.n_devices = 1;
    BH_EQ(bh_grpc_call_send(d->health, bh_pb_pack(a, &res)), 0);
}

void fake_driver_init(struct fake_driver *d, struct bh_loop *l, const char *dir)
{
    memset(d, 0, sizeof(*d));
    d->l = l;
    d->name = "fake.example.com";
    d->type = "DRAPlugin";
    d->versions[0] = "v1.DRAPlugin";
    d->versions[1] = "v1alpha1.DRAResourceHealth";
    (void)snprintf(d->dra, sizeof(d->dra), "%s/fake-dra.sock", dir);
    (void)snprintf(d->reg, sizeof(d->reg), "%s/plugins_registry/fake-reg.sock", dir);
}

void fake_driver_start_service(struct fake_driver *d)
{
    d->srv = bh_grpc_server_new(d->l);
    bh_grpc_server_method(d->srv, "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources",
                          h_prepare, d);
    bh_grpc_server_method(
        d->srv, "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources", h_unprepare, d);
    bh_grpc_server_method(d->srv, "/v1alpha1.DRAResourceHealth/NodeWatchResources", h_health, d);
    BH_EQ(bh_grpc_server_listen_unix(d->srv, d->dra, 0600, NULL), 0);
}

void fake_driver_start(struct fake_driver *d)
{
    fake_driver_start_service(d);
    d->srv_reg = bh_grpc_server_new(d->l);
    bh_grpc_server_method(d->srv_reg, "/pluginregistration.Registration/GetInfo", h_get_info, d);
    bh_grpc_server_method(d->srv_reg, "/pluginregistration.Registration/NotifyRegistrationStatus",
                          h_notify, d);
    BH_EQ(bh_grpc_server_listen_unix(d->srv_reg, d->reg, 0600, NULL), 0);
}

void fake_driver_stop_service(struct fake_driver *d)
{
    if (d->held)
        bh_grpc_call_finish(d->held, BH_GRPC_UNAVAILABLE, "dying");
    d->held = NULL;
    if (d->health)
        health_gone(d);
    d->srv = bh_grpc_server_free(d->srv);
}

void fake_driver_stop(struct fake_driver *d)
{
    fake_driver_stop_service(d);
    d->srv_reg = bh_grpc_server_free(d->srv_reg);
    bh_buf_done(&d->watch_content);
}
