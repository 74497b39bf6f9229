/* The API server: handler chain, registry and watch cache over one store, on one loop.
 *
 * Two front doors lead to the same chain: HTTPS (bh_apiserver_listen) authenticates and calls
 * bh_apiserver_handle(); the in-process client calls it directly with a user. Authorisation,
 * admission, field management and validation apply to both. Everything here is for the loop's own
 * thread. What leaves the server are referenced immutable objects, so a caller may hand them to
 * other threads.
 */
#ifndef BH_APISERVER_APISERVER_H
#define BH_APISERVER_APISERVER_H

#include "base/err.h"
#include "base/str.h"

struct bh_apiserver;
struct bh_kind;
struct bh_loop;
struct bh_obj;
struct bh_store;

struct bh_user_extra {
    struct bh_str key;
    struct bh_str_vec values;
};

/* Who asks. Borrowed by every function that takes one. */
struct bh_user {
    struct bh_str name;
    struct bh_str uid;
    struct bh_str_vec groups;
    const struct bh_user_extra *extra;
    size_t extra_n;
};

/* What is asked, in the words of an authoriser. resource is empty on paths that are no resource
 * (then path counts). */
struct bh_authz_attrs {
    const struct bh_user *user;
    struct bh_str verb; /* get list watch create update patch delete deletecollection; else the
                           method in lower case */
    struct bh_str group, version, resource, subresource, ns, name;
    struct bh_str path;
    struct bh_str field_selector, label_selector;
};
/* True when allowed. Otherwise may write a short reason (NUL-terminated, "" for none). Must not
 * block. */
typedef bool (*bh_authorize_fn)(void *arg, const struct bh_authz_attrs *at, char *reason,
                                size_t reason_n);

/* Zero-initialised is valid: anonymous requests see health and version, system:masters may do all.
 * Strings are copied. */
struct bh_apiserver_opts {
    const char *token_auth_file;    /* CSV: token,user,uid,"group,group"; NULL: none */
    const char *client_ca_file;     /* PEM; NULL: the CA that bh_apiserver_listen() made, if any */
    const char *authorization_mode; /* "AlwaysAllow", "Node,RBAC", …; NULL: "Node,RBAC" */
    const char *enable_admission, *disable_admission; /* plugin names, comma separated */
    const char *feature_gates;                        /* "DRADeviceTaintRules=true,…" */
    const char *runtime_config; /* "resource.k8s.io/v1beta1=true,…"; NULL: every version that has a
                                   schema */
    /* PEM files for the connection to kubelets (logs); NULL: not verified, no certificate. */
    const char *kubelet_certificate_authority, *kubelet_client_certificate, *kubelet_client_key;
    const char *service_cidr; /* NULL: 10.96.0.0/16 */
    bool no_anonymous;
    bh_authorize_fn authorize; /* replaces the built-in authoriser when not NULL */
    void *authorize_arg;
};

/* Loads the store (blocking), fills the watch cache and makes the default namespaces. Borrows loop
 * and store, which must outlive the server. */
BH_MUST int bh_apiserver_new(struct bh_loop *l, struct bh_store *store,
                             const struct bh_apiserver_opts *o, struct bh_apiserver **ret,
                             struct bh_err *err);
/* Ends every watch and listener; calls under way are never answered. Accepts NULL, returns NULL. */
struct bh_apiserver *bh_apiserver_free(struct bh_apiserver *srv);
struct bh_loop *bh_apiserver_loop(const struct bh_apiserver *srv);

/* One request after authentication. Everything is copied before bh_apiserver_handle() returns,
 * unless it comes with its arena. */
struct bh_api_request {
    struct bh_str method; /* "GET", … */
    struct bh_str
        path; /* without the query, percent-encoded as sent: "/api/v1/namespaces/default/pods" */
    struct bh_str query;  /* without "?", percent-encoded; may be empty */
    struct bh_str accept; /* empty: application/json */
    struct bh_str content_type;
    struct bh_str user_agent;
    struct bh_str body;
    /* Instead of a body, in process: the struct of msg_kind that its JSON decodes to. Only with an
     * arena. */
    void *msg;
    const struct bh_kind *msg_kind;
    /* Of a create or update with msg on the path of the object: its status is written with it, as
     * if a second request on the path of the status followed. */
    bool with_status;
    /* Not NULL: where all of the above lives. It becomes the server's, and nothing is copied. */
    struct bh_arena *arena;
    const struct bh_user *user;
    bool objects; /* the caller wants obj/items instead of bytes: parts stay empty where they say it
                     all */
};

struct bh_api_header {
    struct bh_str name, value;
};

/* Bytes of the body, in order; obj (may be NULL) is what keeps them alive and is borrowed like the
 * rest. A receiver that sends later takes a reference, and copies parts whose obj is NULL. */
struct bh_api_part {
    struct bh_str bytes;
    const struct bh_obj *obj;
};

/* An answer; valid during the callback only. */
struct bh_api_response {
    int status;
    struct bh_str content_type;
    const struct bh_api_header *headers; /* Warning, Retry-After, Location, … */
    size_t headers_n;
    const struct bh_api_part *parts;
    size_t parts_n;
    /* With rq->objects, and only when status is 2xx: */
    struct bh_obj *obj; /* the one object that came back (in the version that was asked), or NULL */
    struct bh_obj **items; /* a list */
    size_t items_n;
    uint64_t list_rv;
    struct bh_str list_continue;
    /* Of a failure: from the Status. */
    enum bh_code code;
    struct bh_str reason, message;
};

enum bh_watch_type {
    BH_WATCH_ADDED,
    BH_WATCH_MODIFIED,
    BH_WATCH_DELETED,
    BH_WATCH_BOOKMARK,
    BH_WATCH_ERROR
};

/* One watch event. obj is the event's object (borrowed; NULL for BOOKMARK and ERROR); rv its
 * version, or the bookmark's. bytes is the encoded frame for this watch's media type, newline or
 * length included (empty with rq->objects); it lives as long as keep (an opaque counted block, see
 * bh_api_bytes_ref), or during the call when keep is NULL. */
struct bh_api_bytes;
struct bh_api_event {
    enum bh_watch_type type;
    struct bh_obj *obj;
    uint64_t rv;
    bool initial_end; /* a bookmark that ends the initial events */
    struct bh_str bytes;
    struct bh_api_bytes *keep;
    enum bh_code code; /* ERROR: BH_E_GONE and so on */
    struct bh_str message;
};
struct bh_api_bytes *bh_api_bytes_ref(struct bh_api_bytes *b);
struct bh_api_bytes *bh_api_bytes_unref(struct bh_api_bytes *b); /* accepts NULL, returns NULL */

/* Where answers go. Either answer runs once, or watch_open once, then event any number of times,
 * then watch_end once (unless cancelled first). They may run inside bh_apiserver_handle(). */
struct bh_api_sink {
    void *arg;
    void (*answer)(void *arg, const struct bh_api_response *res);
    void (*watch_open)(void *arg, struct bh_str content_type, const struct bh_api_header *headers,
                       size_t headers_n);
    /* Returns false when the receiver's queue is full: the server then ends the watch. */
    bool (*event)(void *arg, const struct bh_api_event *ev);
    void (*watch_end)(void *arg);
};

/* Returns the call's id for bh_apiserver_cancel(), or 0 when the answer was given already. */
uint64_t bh_apiserver_handle(struct bh_apiserver *srv, const struct bh_api_request *rq,
                             const struct bh_api_sink *sink);
/* No callback of that call runs afterwards. A write under way is still carried out. Unknown ids are
 * ignored. */
void bh_apiserver_cancel(struct bh_apiserver *srv, uint64_t id);

/* HTTPS. Certificates that are not given are made (CA, serving) and kept in cert_dir. port 0 picks
 * one. */
struct bh_apiserver_listen_opts {
    const char *bind_address; /* NULL: 0.0.0.0 */
    int port;
    const char *cert_dir;
    const char *tls_cert_file, *tls_key_file;
    const char *const *extra_names; /* more names or addresses for the certificate */
    size_t extra_names_n;
};
BH_MUST int bh_apiserver_listen(struct bh_apiserver *srv, const struct bh_apiserver_listen_opts *o,
                                int *ret_port, struct bh_err *err);

/* `bulkhead apiserver …`: flags named as kube-apiserver's. Runs until SIGTERM or SIGINT; returns
 * the exit status. */
int bh_apiserver_main(int argc, char **argv);

#endif
