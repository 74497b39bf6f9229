/* Listeners: accept in bounded turns, hold back at the connection limit, and take a rest when
 * descriptors run out. */
#include "net/stream_int.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fs.h"
#include "base/limits.h"

#define ACCEPT_TURN 64  /* connections per readiness */
#define REST_MS     100 /* after accept failed for want of descriptors or memory */

struct bh_listener {
    struct bh_loop *loop;
    int fd;
    struct bh_io *io;
    bh_accept_fn fn;
    void *arg;
    struct bh_tls *tls;
    size_t conns, conns_max;
    int handshake_ms;
    int port;
    char *unix_path;
    struct bh_timer rest;
    struct bh_link streams;
};

static void rewant(struct bh_listener *ln)
{
    bool open = ln->conns < ln->conns_max && !bh_timer_armed(&ln->rest);

    bh_io_want(ln->io, open ? BH_IO_READ : 0);
}

static void on_rest(void *arg)
{
    rewant(arg);
}

void bh_listener_stream_opened(struct bh_stream *s)
{
    struct bh_listener *ln = s->listener;

    ln->fn(ln->arg, s);
}

void bh_listener_stream_gone(struct bh_stream *s)
{
    struct bh_listener *ln = s->listener;

    s->listener = NULL;
    bh_list_del(&s->listener_link);
    bh_assert(ln->conns > 0);
    ln->conns--;
    rewant(ln);
}

static void take(struct bh_listener *ln, int fd)
{
    struct bh_stream *s = bh_stream_new(ln->loop, NULL, NULL);

    s->listener = ln;
    bh_list_add_tail(&ln->streams, &s->listener_link);
    ln->conns++;
    if (!bh_stream_attach(s, fd))
        return;
    bh_stream_fill_peer(s);
    if (!ln->tls) {
        bh_stream_opened(s);
        return;
    }
    bh_timer_start(&s->timer, ln->handshake_ms);
    (void)bh_stream_tls_start(s, ln->tls, NULL, NULL);
}

static void on_ready(void *arg, unsigned events)
{
    struct bh_listener *ln = arg;

    (void)events;
    for (int i = 0; i < ACCEPT_TURN && ln->conns < ln->conns_max; i++) {
        int fd = accept4(ln->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            take(ln, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            bh_timer_start(&ln->rest, REST_MS);
        if (errno != EINTR && errno != ECONNABORTED)
            break;
    }
    rewant(ln);
}

static int unix_address(const char *path, struct sockaddr_un *un, socklen_t *ret_n,
                        struct bh_err *err)
{
    struct bh_str p = bh_s(path);

    if (p.n == 0 || p.n >= sizeof(un->sun_path))
        return bh_err_set(err, BH_E_BAD_REQUEST, "socket path '%s' is too long", path);
    memset(un, 0, sizeof(*un));
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, p.p, p.n);
    *ret_n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + p.n);
    if (un->sun_path[0] == '@')
        un->sun_path[0] = 0; /* the abstract namespace */
    else
        *ret_n += 1;
    return 0;
}

/* A socket file that nobody answers on is left over from an earlier run. */
static void remove_stale(const char *path, const struct sockaddr_un *un, socklen_t n)
{
    struct stat st;
    int fd;

    if (un->sun_path[0] == 0 || lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)un, n) < 0 && errno == ECONNREFUSED)
        (void)unlink(path);
    (void)close(fd);
}

static int listen_unix(struct bh_listener *ln, const struct bh_listen_opts *o, struct bh_err *err)
{
    struct sockaddr_un un;
    socklen_t n = 0;
    int r = unix_address(o->unix_path, &un, &n, err);

    if (r < 0)
        return r;
    remove_stale(o->unix_path, &un, n);
    ln->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (ln->fd < 0)
        return bh_err_sys(err, errno, "socket");
    if (bind(ln->fd, (struct sockaddr *)&un, n) < 0)
        return bh_err_sys(err, errno, "bind '%s'", o->unix_path);
    if (un.sun_path[0]) {
        ln->unix_path = bh_strdup_c(bh_s(o->unix_path));
        if (chmod(o->unix_path, o->unix_mode ? o->unix_mode : 0600) < 0)
            return bh_err_sys(err, errno, "chmod '%s'", o->unix_path);
    }
    return 0;
}

static int bind_address(struct bh_listener *ln, const struct addrinfo *ai,
                        const struct bh_listen_opts *o, struct bh_err *err)
{
    int one = 1, zero = 0;

    ln->fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (ln->fd < 0)
        return bh_err_sys(err, errno, "socket");
    (void)setsockopt(ln->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (o->reuse_port)
        (void)setsockopt(ln->fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
    if (ai->ai_family == AF_INET6 && !o->host)
        (void)setsockopt(ln->fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
    if (bind(ln->fd, ai->ai_addr, ai->ai_addrlen) < 0) {
        int r = bh_err_sys(err, errno, "bind %s port %d", o->host ? o->host : "*", o->port);

        (void)close(ln->fd);
        ln->fd = -1;
        return r;
    }
    return 0;
}

static int learn_port(struct bh_listener *ln, struct bh_err *err)
{
    struct sockaddr_storage ss;
    socklen_t n = sizeof(ss);
    char port[NI_MAXSERV];
    int64_t v;

    if (getsockname(ln->fd, (struct sockaddr *)&ss, &n) < 0)
        return bh_err_sys(err, errno, "getsockname");
    if (getnameinfo((struct sockaddr *)&ss, n, NULL, 0, port, sizeof(port), NI_NUMERICSERV) != 0 ||
        !bh_str_i64(bh_s(port), 0, 65535, &v))
        return bh_err_set(err, BH_E_INTERNAL, "the bound port cannot be read");
    ln->port = (int)v;
    return 0;
}

static int listen_inet(struct bh_listener *ln, const struct bh_listen_opts *o, struct bh_err *err)
{
    static const char *const any[] = {"::", "0.0.0.0"}; /* the second where IPv6 is switched off */
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
    char port[16];
    int r = -BH_E_IO;

    (void)snprintf(port, sizeof(port), "%d", o->port);
    for (int i = 0; i < (o->host ? 1 : 2); i++) {
        const char *host = o->host ? o->host : any[i];
        struct addrinfo *ai = NULL;

        if (getaddrinfo(host, port, &hints, &ai) != 0)
            return bh_err_set(err, BH_E_BAD_REQUEST, "'%s' port %d is no address to listen on",
                              host, o->port);
        r = bind_address(ln, ai, o, err);
        freeaddrinfo(ai);
        if (r == 0)
            return learn_port(ln, err);
    }
    return r;
}

struct bh_listener *bh_listen(struct bh_loop *l, const struct bh_listen_opts *o, bh_accept_fn fn,
                              void *arg, struct bh_err *err)
{
    struct bh_listener *ln;
    int r;

    if (bh_loop_is_virtual(l)) {
        (void)bh_err_set(err, BH_E_UNSUPPORTED, "a virtual loop has no streams");
        return NULL;
    }
    ln = bh_calloc(1, sizeof(*ln));
    ln->loop = l;
    ln->fd = -1;
    ln->fn = fn;
    ln->arg = arg;
    ln->tls = bh_tls_ref(o->tls);
    ln->conns_max = o->conns_max ? o->conns_max : BH_CONNS_MAX;
    ln->handshake_ms =
        o->handshake_timeout_ms ? o->handshake_timeout_ms : BH_TLS_HANDSHAKE_TIMEOUT_MS;
    bh_list_init(&ln->streams);
    bh_timer_init(&ln->rest, l, on_rest, ln);
    r = o->unix_path ? listen_unix(ln, o, err) : listen_inet(ln, o, err);
    if (r == 0 && listen(ln->fd, o->backlog ? o->backlog : 1024) < 0)
        r = bh_err_sys(err, errno, "listen on %s port %d", o->host ? o->host : "*", o->port);
    if (r == 0)
        ln->io = bh_io_new(l, ln->fd, on_ready, ln, err);
    if (!ln->io)
        return bh_listener_free(ln);
    rewant(ln);
    return ln;
}

int bh_listener_port(const struct bh_listener *ln)
{
    return ln->port;
}

size_t bh_listener_conns(const struct bh_listener *ln)
{
    return ln->conns;
}

void bh_listener_set_tls(struct bh_listener *ln, struct bh_tls *tls)
{
    struct bh_tls *old = ln->tls;

    bh_assert((old == NULL) == (tls == NULL)); /* plain and TLS are not exchanged for one another */
    ln->tls = bh_tls_ref(tls);
    (void)bh_tls_unref(old);
}

struct bh_listener *bh_listener_free(struct bh_listener *ln)
{
    if (!ln)
        return NULL;
    bh_timer_stop(&ln->rest);
    bh_list_for_safe(it, &ln->streams)
    {
        struct bh_stream *s = bh_container(it, struct bh_stream, listener_link);

        bh_list_del(&s->listener_link);
        s->listener = NULL;
        if (s->state == BH_ST_HANDSHAKE) /* nobody will take it */
            bh_stream_die(s, NULL);
    }
    (void)bh_io_free(ln->io);
    bh_close_p(&ln->fd);
    if (ln->unix_path)
        (void)unlink(ln->unix_path);
    bh_free(ln->unix_path);
    (void)bh_tls_unref(ln->tls);
    bh_free(ln);
    return NULL;
}
