/* Outgoing connections: resolve (on a worker when it is a name), then one address after the other
 * until one answers. */
#include "net/stream_int.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fs.h"
#include "base/limits.h"

#define ADDRESSES_MAX 16

/* Belongs to the stream, but for the time a worker has it: then a stream that dies leaves it to the
 * worker's end. */
struct bh_resolve {
    struct bh_stream *s; /* NULL: the stream is gone */
    char *host, *server_name;
    const char *const *alpn;
    char port[16];
    struct bh_tls *tls;
    bool at_worker;
    int error; /* of getaddrinfo */
    struct sockaddr_storage addr[ADDRESSES_MAX];
    socklen_t addr_n[ADDRESSES_MAX];
    size_t n, next;
    int last_errno;
};

static void resolve_free(struct bh_resolve *r)
{
    bh_free(r->host);
    bh_free(r->server_name);
    (void)bh_tls_unref(r->tls);
    bh_free(r);
}

void bh_resolve_stop(struct bh_stream *s)
{
    struct bh_resolve *r = s->resolve;

    s->resolve = NULL;
    if (!r)
        return;
    r->s = NULL;
    if (!r->at_worker)
        resolve_free(r);
}

static void lookup(struct bh_resolve *r, int flags)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    struct addrinfo *list = NULL;

    r->error = getaddrinfo(r->host, r->port, &hints, &list);
    if (r->error)
        return;
    for (struct addrinfo *a = list; a && r->n < ADDRESSES_MAX; a = a->ai_next) {
        memcpy(&r->addr[r->n], a->ai_addr, a->ai_addrlen);
        r->addr_n[r->n++] = a->ai_addrlen;
    }
    freeaddrinfo(list);
}

static void lookup_work(void *arg)
{
    lookup(arg, AI_ADDRCONFIG);
}

static void connected(struct bh_stream *s)
{
    struct bh_resolve *r = s->resolve;

    bh_stream_fill_peer(s);
    s->resolve = NULL;
    if (!r->tls)
        bh_stream_opened(s);
    else
        (void)bh_stream_tls_start(s, r->tls, r->server_name, r->alpn);
    resolve_free(r);
}

static void try_next(struct bh_stream *s)
{
    struct bh_resolve *r = s->resolve;

    while (r->next < r->n) {
        size_t i = r->next++;
        int fd = socket(r->addr[i].ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        if (fd < 0) {
            r->last_errno = errno;
            continue;
        }
        if (connect(fd, (struct sockaddr *)&r->addr[i], r->addr_n[i]) < 0 && errno != EINPROGRESS) {
            r->last_errno = errno;
            (void)close(fd);
            continue;
        }
        if (bh_stream_attach(s, fd))
            bh_stream_rewant(s); /* a connection that stands already is writable at once */
        return;
    }
    bh_stream_fail(s, BH_E_UNAVAILABLE, r->last_errno ? r->last_errno : EADDRNOTAVAIL,
                   "connect to");
}

void bh_stream_connect_ready(struct bh_stream *s)
{
    int e = 0;
    socklen_t n = sizeof(e);

    bh_assert(s->resolve != NULL);
    (void)getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &e, &n);
    if (e == 0) {
        connected(s);
        return;
    }
    s->resolve->last_errno = e;
    s->io = bh_io_free(s->io);
    bh_close_p(&s->fd);
    s->fd = -1;
    try_next(s);
}

static void looked_up(void *arg)
{
    struct bh_resolve *r = arg;
    struct bh_err e = {0};

    r->at_worker = false;
    if (!r->s) {
        resolve_free(r);
        return;
    }
    if (r->error) {
        (void)bh_err_set(&e, BH_E_UNAVAILABLE, "find the address of '%s': %s", r->host,
                         gai_strerror(r->error));
        bh_stream_die(r->s, &e);
        return;
    }
    try_next(r->s);
}

static int set_unix(struct bh_stream *s, struct bh_resolve *r, const char *path, struct bh_err *err)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct bh_str p = bh_s(path);

    if (p.n == 0 || p.n >= sizeof(un.sun_path))
        return bh_err_set(err, BH_E_BAD_REQUEST, "socket path '%s' is too long", path);
    memcpy(un.sun_path, p.p, p.n);
    r->addr_n[0] = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + p.n);
    if (p.p[0] == '@')
        un.sun_path[0] = 0;
    else
        r->addr_n[0]++;
    memcpy(&r->addr[0], &un, sizeof(un));
    r->n = 1;
    (void)snprintf(s->peer.addr, sizeof(s->peer.addr), "unix:%s", path);
    return 0;
}

/* From the loop, so that a failure at once is still told through on_close and not from inside the
 * call. */
static void start(void *arg)
{
    struct bh_resolve *r = arg;

    r->at_worker = false;
    if (!r->s) {
        resolve_free(r);
        return;
    }
    if (r->n == 0)
        lookup(r, AI_NUMERICHOST);
    if (r->n > 0) {
        try_next(r->s);
        return;
    }
    r->at_worker = true;
    bh_loop_work(r->s->loop, lookup_work, looked_up, r);
}

struct bh_stream *bh_stream_connect(struct bh_loop *l, const struct bh_connect_opts *o,
                                    const struct bh_stream_ops *ops, void *arg, struct bh_err *err)
{
    struct bh_stream *s;
    struct bh_resolve *r;

    if (bh_loop_is_virtual(l)) {
        (void)bh_err_set(err, BH_E_UNSUPPORTED, "a virtual loop has no streams");
        return NULL;
    }
    if (!o->unix_path && (!o->host || !o->host[0] || o->port < 1 || o->port > 65535)) {
        (void)bh_err_set(err, BH_E_BAD_REQUEST, "no host and port to connect to");
        return NULL;
    }
    s = bh_stream_new(l, ops, arg);
    s->state = BH_ST_CONNECTING;
    r = bh_calloc(1, sizeof(*r));
    r->s = s;
    if (o->unix_path) {
        if (set_unix(s, r, o->unix_path, err) < 0) {
            resolve_free(r);
            s->ops = (struct bh_stream_ops){0};
            bh_stream_die(s, NULL);
            return NULL;
        }
    } else {
        r->host = bh_strdup_c(bh_s(o->host));
        (void)snprintf(r->port, sizeof(r->port), "%d", o->port);
        (void)snprintf(s->peer.addr, sizeof(s->peer.addr), "%.100s:%d", o->host, o->port);
    }
    if (o->tls) {
        const char *name = o->server_name ? o->server_name : o->host;

        r->tls = bh_tls_ref(o->tls);
        r->alpn = o->alpn;
        r->server_name = name ? bh_strdup_c(bh_s(name)) : NULL;
    }
    s->resolve = r;
    r->at_worker = true; /* the deferred call has it */
    bh_timer_start(&s->timer, o->timeout_ms ? o->timeout_ms : BH_CONNECT_TIMEOUT_MS);
    bh_loop_defer(l, start, r);
    return s;
}
