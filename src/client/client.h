/* One interface to the API: in process, or over HTTPS. Components cannot tell which they hold.
 *
 * All calls are asynchronous and all callbacks run on the client's loop, never inside the call
 * itself. In process, the objects handed out are the watch cache's own; over the network they are
 * decoded once and shared the same way.
 */
#ifndef BH_CLIENT_CLIENT_H
#define BH_CLIENT_CLIENT_H

#include "api/obj.h"
#include "base/err.h"

struct bh_loop;
struct bh_client;
struct bh_kind;
struct bh_apiserver;

/* In process: requests enter the server's handler chain after authentication, as this user. */
struct bh_client *bh_client_new_inproc(struct bh_loop *l, struct bh_apiserver *srv,
                                       struct bh_str user, const struct bh_str *groups,
                                       size_t groups_n, const char *user_agent);
/* Over HTTPS with a kubeconfig file (server, certificate-authority[-data],
 * client-certificate[-data] and key, token). */
struct bh_client *bh_client_new_kubeconfig(struct bh_loop *l, const char *path,
                                           const char *user_agent, struct bh_err *err);
struct bh_client *
bh_client_free(struct bh_client *c); /* cancels what is under way: no callback runs afterwards */
struct bh_loop *bh_client_loop(const struct bh_client *c);

enum bh_client_verb {
    BH_VERB_GET,
    BH_VERB_LIST,
    BH_VERB_CREATE,
    BH_VERB_UPDATE,
    BH_VERB_PATCH,
    BH_VERB_DELETE,
    BH_VERB_DELETE_COLLECTION,
    BH_VERB_WATCH
};
enum bh_patch_type {
    BH_PATCH_NONE,
    BH_PATCH_JSON,
    BH_PATCH_MERGE,
    BH_PATCH_STRATEGIC,
    BH_PATCH_APPLY
};

struct bh_client_req {
    enum bh_client_verb verb;
    const struct bh_kind *kind;
    struct bh_str ns,
        name; /* empty: cluster scoped or all namespaces; no name for create and list */
    struct bh_str subresource; /* "status", "binding", "eviction" or empty */
    struct bh_str label_selector, field_selector;
    struct bh_str
        query; /* more query options, encoded: "propagationPolicy=Background&dryRun=All" */
    enum bh_patch_type patch;
    struct bh_str
        body; /* JSON; copied before the call returns. For delete: DeleteOptions, or empty */
    /* Instead of body, for create and update: the generated struct of msg_kind (the request's kind,
     * or that of the subresource's body). Copied or encoded before the call returns; in process it
     * never becomes text. Its maps are sorted, its raw values are JSON. */
    const void *msg;
    const struct bh_kind *msg_kind;
    /* In a sequence, of a create or update with msg: object and status are written together. In
     * process that is one write, with one version, authorised and validated as both; over the
     * network it is the object and then its status, as any other client would do it. */
    bool with_status;
    int timeout_ms; /* 0: 30 s */
};

/* What came back. Valid during the callback; take references or copies of what is kept. */
struct bh_client_res {
    int status; /* HTTP status; 0 when no answer came (then err.code is UNAVAILABLE, TIMEOUT or
                   PROTO) */
    struct bh_err err;     /* code BH_OK on 2xx; otherwise from the Status: code, and its message */
    struct bh_str reason;  /* Status.reason */
    struct bh_obj *obj;    /* the object, when one object of the request's kind came back */
    struct bh_obj **items; /* list: the objects */
    size_t items_n;
    uint64_t list_rv;
    struct bh_str body; /* raw body; empty in process when obj or items say it all */
};
typedef void (*bh_client_fn)(void *arg, const struct bh_client_res *res);

/* fn may be NULL (fire and forget; failures are logged at debug). The returned id cancels (0 is
 * never returned). */
uint64_t bh_client_call(struct bh_client *c, const struct bh_client_req *req, bh_client_fn fn,
                        void *arg);
void bh_client_cancel(struct bh_client *c,
                      uint64_t id); /* fn will not run; unknown ids are ignored */

/* Several writes in order (creates, updates, patches, deletes), each only if those before it were
 * accepted.
 *
 * In process the server handles them in the same turn, one after the other, without waiting for the
 * disk in between: a later one sees what an earlier one wrote, nobody else's request comes between
 * them, and they become durable together or in order. Over the network each is sent when the one
 * before it was answered with success.
 *
 * fn gets the results of res[0] to res[n - 1]: all of them succeeded but perhaps the last, and
 * after one that failed nothing more was tried - unless the server lost what it had accepted, or no
 * answer came in time: then the first result without success says so (status 500, or 0), and what
 * became of the later requests is as unknown as its own. What succeeded is durable, and stays so
 * when a later request fails. A failed request with_status may have left its object without the
 * status: then obj holds that.
 *
 * A request with_status that creates may, in process, be sent again under the same name when no
 * answer came: the first one was handled before, or never will be.
 *
 * What the server knows when it is cancelled is still carried out: in process nothing before the
 * loop's next turn, all of it afterwards; over the network what was sent, the first at once.
 */
typedef void (*bh_client_seq_fn)(void *arg, const struct bh_client_res *res, size_t n);
uint64_t bh_client_sequence(struct bh_client *c, const struct bh_client_req *reqs, size_t n,
                            bh_client_seq_fn fn, void *arg);

/* Whether requests take effect in the order in which they are asked for, whatever they name: in
 * process. */
bool bh_client_in_order(const struct bh_client *c);

/* Short forms. msg is the kind's generated struct; it is copied or encoded before the call returns.
 */
uint64_t bh_client_create(struct bh_client *c, const struct bh_kind *k, struct bh_str ns,
                          const void *msg, bh_client_fn fn, void *arg);
/* PUT; sub "" or "status". Namespace, name and resourceVersion come from msg's metadata. */
uint64_t bh_client_update(struct bh_client *c, const struct bh_kind *k, const void *msg,
                          const char *sub, bh_client_fn fn, void *arg);
uint64_t bh_client_patch(struct bh_client *c, const struct bh_kind *k, struct bh_str ns,
                         struct bh_str name, const char *sub, enum bh_patch_type type,
                         struct bh_str body, bh_client_fn fn, void *arg);
/* uid empty: no precondition. grace_s < 0: the object's default. */
uint64_t bh_client_delete(struct bh_client *c, const struct bh_kind *k, struct bh_str ns,
                          struct bh_str name, struct bh_str uid, int64_t grace_s, bh_client_fn fn,
                          void *arg);

/* An informer keeps a local set of objects equal to the server's: list, watch, resume, relist when
 * expired, back-off when the server is away. Handlers run on the loop in event order. obj arguments
 * are borrowed: reference what is kept. An object that was deleted and made again under its name is
 * a deletion and an addition, never an update. A kind that the server does not serve is a set
 * without objects. A handler may free its informer. */
struct bh_informer;
struct bh_informer_ops {
    void (*added)(void *arg, struct bh_obj *obj);
    void (*updated)(void *arg, struct bh_obj *old, struct bh_obj *obj);
    void (*deleted)(void *arg, struct bh_obj *last);
    void (*synced)(void *arg); /* once, after the first full list was delivered */
    /* After every full list was delivered: what was there at version rv or before is in the set, or
     * gone. */
    void (*listed)(void *arg, uint64_t rv);
};
struct bh_informer *bh_informer_new(struct bh_client *c, const struct bh_kind *k, struct bh_str ns,
                                    struct bh_str label_selector, struct bh_str field_selector,
                                    const struct bh_informer_ops *ops, void *arg);
struct bh_informer *bh_informer_free(struct bh_informer *i);
bool bh_informer_synced(const struct bh_informer *i);
struct bh_obj *bh_informer_get(const struct bh_informer *i, struct bh_str ns,
                               struct bh_str name); /* borrowed or NULL */
size_t bh_informer_count(const struct bh_informer *i);
/* for (size_t it = 0; (o = bh_informer_next(i, &it));) in unspecified order; the set must not
 * change meanwhile. */
struct bh_obj *bh_informer_next(const struct bh_informer *i, size_t *it);

/* Events (core/v1, aggregated by a count as upstream does): type "Normal" or "Warning". Bounded: at
 * most 25 in a burst per object, then one each 5 minutes; the message is cut at 1,024 bytes.
 * regarding is borrowed; its version is told unless it is 0. */
struct bh_recorder;
struct bh_recorder *bh_recorder_new(struct bh_client *c, const char *component, const char *host);
struct bh_recorder *bh_recorder_free(struct bh_recorder *r);
void bh_event(struct bh_recorder *r, const struct bh_obj *regarding, const char *type,
              const char *reason, const char *fmt, ...) BH_PRINTF(5, 6);

/* Milliseconds; what is zero is upstream's: a lease of 15 s, given up when 10 s passed without
 * renewal, tried each 2 s. */
struct bh_leader_times {
    int64_t lease, renew, retry;
};

/* Leader election through a Lease; times may be NULL. started and stopped run on the loop and may
 * free the leader; after stopped the component must not write. A leader that lost goes on trying.
 */
struct bh_leader;
struct bh_leader *bh_leader_new(struct bh_client *c, struct bh_str ns, struct bh_str lease,
                                struct bh_str identity, const struct bh_leader_times *times,
                                void (*started)(void *arg), void (*stopped)(void *arg), void *arg);
struct bh_leader *bh_leader_free(struct bh_leader *l); /* gives the lease back, without waiting */
/* Gives the lease back: for those who free the client next, which would cancel it. Returns false
 * when it was not ours; else done(arg of the leader) runs once, whatever came of it. Only
 * bh_leader_free() may follow. */
BH_MUST bool bh_leader_release(struct bh_leader *l, void (*done)(void *arg));

#endif
