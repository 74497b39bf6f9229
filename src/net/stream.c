/* Streams: the write queue, reading, closing. Everything that calls the owner happens in the loop's
 * turn, either from readiness or from the one deferred "kick"; that is what keeps owners free of
 * re-entrance. */
#include "net/stream_int.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fs.h"
#include "base/limits.h"

#define IOV_MAX_USED   64
#define FLUSH_TURN_MAX ((size_t)4 << 20) /* bytes for one stream before others get their turn */
#define READ_TURNS     4
#define PEER_END_MS                                                                                \
    1000 /* after our end, how long the peer's is waited for: closing earlier may reset what it    \
            reads */

static void kick(void *arg);

static void on_timer(void *arg)
{
    struct bh_stream *s = arg;

    switch (s->state) {
    case BH_ST_CONNECTING:
        bh_stream_fail(s, BH_E_TIMEOUT, 0, "no connection in time to");
        break;
    case BH_ST_HANDSHAKE:
        bh_stream_fail(s, BH_E_TIMEOUT, 0, "no TLS handshake in time with");
        break;
    case BH_ST_CLOSING: /* the peer had its time */
        bh_stream_die(s, NULL);
        break;
    case BH_ST_OPEN:
    case BH_ST_DEAD:
        break;
    }
}

static void stream_unref(struct bh_stream *s)
{
    if (--s->refs > 0)
        return;
    bh_list_del(&s->link);
    bh_buf_done(&s->unread);
    bh_buf_done(&s->cipher);
    bh_free(s->peer.orgs.p);
    bh_free(s);
}

/* The resources of a stream that is at its end; what owners still look at (the peer) stays. */
static void let_go(struct bh_stream *s)
{
    bh_timer_stop(&s->timer);
    bh_resolve_stop(s);
    s->io = bh_io_free(s->io);
    if (s->fd >= 0) {
        bh_close_p(&s->fd);
        s->fd = -1;
    }
    if (s->listener)
        bh_listener_stream_gone(s);
}

static void drop_with_loop(struct bh_link *lk)
{
    struct bh_stream *s = bh_container(lk, struct bh_stream, link);

    s->state = BH_ST_DEAD;
    let_go(s);
    bh_segs_done(&s->queue);
    bh_stream_tls_stop(s);
    s->refs = 1;
    stream_unref(s);
}

struct bh_stream *bh_stream_new(struct bh_loop *l, const struct bh_stream_ops *ops, void *arg)
{
    struct bh_stream *s = bh_calloc(1, sizeof(*s));

    s->loop = l;
    if (ops)
        s->ops = *ops;
    s->arg = arg;
    s->fd = -1;
    s->refs = 1;
    s->low = BH_STREAM_LOW_BYTES;
    s->high = BH_STREAM_HIGH_BYTES;
    bh_timer_init(&s->timer, l, on_timer, s);
    bh_list_add_tail(&l->streams, &s->link);
    l->drop_stream = drop_with_loop;
    return s;
}

bool bh_stream_attach(struct bh_stream *s, int fd)
{
    struct bh_err e = {0};

    s->fd = fd;
    s->io = bh_io_new(s->loop, fd, bh_stream_on_io, s, &e);
    if (!s->io)
        bh_stream_die(s, &e);
    return s->io != NULL;
}

void bh_stream_rewant(struct bh_stream *s)
{
    unsigned want = 0;

    if (!s->io)
        return;
    switch (s->state) {
    case BH_ST_CONNECTING:
        want = BH_IO_WRITE;
        break;
    case BH_ST_HANDSHAKE:
        want = BH_IO_READ | (s->write_blocked ? BH_IO_WRITE : 0);
        break;
    case BH_ST_OPEN:
        if (!s->paused && !s->read_eof && s->unread.n == 0)
            want |= BH_IO_READ;
        if (s->write_blocked)
            want |= BH_IO_WRITE;
        break;
    case BH_ST_CLOSING: /* what still comes is thrown away, so that our last bytes are not answered
                           by a reset */
        want = (s->read_eof ? 0 : BH_IO_READ) | (s->write_blocked ? BH_IO_WRITE : 0);
        break;
    case BH_ST_DEAD:
        break;
    }
    bh_io_want(s->io, want);
}

void bh_stream_kick(struct bh_stream *s)
{
    if (s->kick_pending)
        return;
    s->kick_pending = true;
    s->refs++;
    bh_loop_defer(s->loop, kick, s);
}

void bh_stream_die(struct bh_stream *s, const struct bh_err *why)
{
    if (s->state == BH_ST_DEAD)
        return;
    s->state = BH_ST_DEAD;
    if (why)
        s->why = *why;
    let_go(s);
    bh_stream_kick(s);
}

void bh_stream_fail(struct bh_stream *s, enum bh_code code, int eno, const char *what)
{
    struct bh_err e = {0};

    if (s->state == BH_ST_CLOSING && s->shut_done) { /* all that was to be said has been said */
        bh_stream_die(s, NULL);
        return;
    }
    if (eno) {
        (void)bh_err_sys(&e, eno, "%s %s", what, s->peer.addr);
        e.code = code;
    } else {
        (void)bh_err_set(&e, code, "%s %s", what, s->peer.addr);
    }
    bh_stream_die(s, &e);
}

/* ---- who is there ---- */

void bh_stream_fill_peer(struct bh_stream *s)
{
    struct sockaddr_storage ss;
    struct ucred cred;
    socklen_t n = sizeof(ss), cn = sizeof(cred);
    char host[NI_MAXHOST], port[NI_MAXSERV];
    int one = 1;

    if (getpeername(s->fd, (struct sockaddr *)&ss, &n) < 0)
        return;
    if (ss.ss_family == AF_UNIX) {
        s->peer.is_unix = true;
        if (s->peer.addr[0] == 0)
            (void)snprintf(s->peer.addr, sizeof(s->peer.addr), "unix");
        if (getsockopt(s->fd, SOL_SOCKET, SO_PEERCRED, &cred, &cn) == 0) {
            s->peer.pid = cred.pid;
            s->peer.uid = cred.uid;
            s->peer.gid = cred.gid;
        }
        return;
    }
    (void)setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(s->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    if (getnameinfo((struct sockaddr *)&ss, n, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        (void)snprintf(s->peer.addr, sizeof(s->peer.addr),
                       ss.ss_family == AF_INET6 ? "[%.60s]:%.10s" : "%.60s:%.10s", host, port);
}

void bh_stream_opened(struct bh_stream *s)
{
    bh_timer_stop(&s->timer);
    s->state = BH_ST_OPEN;
    bh_stream_rewant(s);
    if (s->listener)
        bh_listener_stream_opened(s);
    else if (s->ops.on_open)
        s->ops.on_open(s->arg);
    if (s->state == BH_ST_OPEN && (s->queue.bytes > 0 || s->shut_wanted)) {
        s->flush_wanted = true;
        bh_stream_kick(s);
    }
}

/* ---- writing ---- */

/* Sends what it can. Returns bytes taken by the kernel, or -1 when blocked or failed (see
 * s->state). */
static ssize_t send_iov(struct bh_stream *s, struct iovec *iov, size_t n)
{
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = n};
    ssize_t r;

    do {
        r = sendmsg(s->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (r < 0 && errno == EINTR);
    if (r < 0 && errno == EAGAIN) {
        s->write_blocked = true;
        return -1;
    }
    if (r < 0) {
        bh_stream_fail(s, BH_E_IO, errno, "write to");
        return -1;
    }
    s->sent += (uint64_t)r;
    return r;
}

static ssize_t send_plain(struct bh_stream *s)
{
    struct iovec iov[IOV_MAX_USED];
    size_t n = 0;
    ssize_t r;

    for (struct bh_seg *g = s->queue.first; g && n < IOV_MAX_USED; g = g->next)
        if (g->n > 0) {
            memcpy(&iov[n].iov_base, &g->p, sizeof(g->p)); /* sendmsg only reads */
            iov[n++].iov_len = g->n;
        }
    r = n > 0 ? send_iov(s, iov, n) : 0;
    if (r >= 0)
        bh_segs_consume(&s->queue, (size_t)r);
    return r;
}

static ssize_t send_cipher(struct bh_stream *s)
{
    struct iovec iov;
    ssize_t r;

    if (s->cipher.n == 0) {
        if (!bh_stream_tls_encrypt(s))
            return -1;
        if (s->cipher.n == 0)
            return 0;
    }
    iov.iov_base = s->cipher.p + s->cipher_at;
    iov.iov_len = s->cipher.n - s->cipher_at;
    r = send_iov(s, &iov, 1);
    if (r < 0)
        return r;
    s->cipher_at += (size_t)r;
    if (s->cipher_at == s->cipher.n) {
        s->cipher_at = 0;
        if (s->cipher.cap > 32768)
            bh_buf_done(&s->cipher); /* an idle connection keeps no big buffer */
        else
            bh_buf_clear(&s->cipher);
    }
    return r;
}

size_t bh_stream_queued(const struct bh_stream *s)
{
    return s->queue.bytes + (s->cipher.n - s->cipher_at);
}

uint64_t bh_stream_sent(const struct bh_stream *s)
{
    return s->sent;
}

static void finish_writing(struct bh_stream *s)
{
    if (s->shut_wanted && !s->shut_done) {
        s->shut_done = true;
        (void)shutdown(s->fd, SHUT_WR);
        if (s->state == BH_ST_CLOSING)
            bh_timer_start(&s->timer, PEER_END_MS);
    }
    if (s->shut_done && s->read_eof)
        bh_stream_die(s, NULL);
}

static void flush(struct bh_stream *s)
{
    size_t total = 0;

    s->flush_wanted = false;
    if (s->state == BH_ST_DEAD || s->state == BH_ST_CONNECTING || s->write_blocked)
        return;
    while (bh_stream_queued(s) > 0 || s->queue.first) {
        ssize_t r = s->ssl ? send_cipher(s) : send_plain(s);

        if (s->state == BH_ST_DEAD)
            return;
        if (r < 0)
            break;
        if (r == 0) /* handshake not done: plain bytes wait */
            break;
        total += (size_t)r;
        if (total > FLUSH_TURN_MAX) {
            s->write_blocked = true; /* go on at the next readiness, after others */
            break;
        }
    }
    if (bh_stream_queued(s) == 0 && s->state != BH_ST_HANDSHAKE) {
        if (s->ssl && s->shut_wanted && !s->shut_done && s->cipher.n == 0) {
            bh_stream_tls_notify(s);
            if (s->cipher.n > 0)
                (void)send_cipher(s);
            if (s->state == BH_ST_DEAD)
                return;
        }
        if (bh_stream_queued(s) == 0)
            finish_writing(s);
    }
    if (s->state == BH_ST_DEAD)
        return;
    bh_stream_rewant(s);
    if (s->above_high && bh_stream_queued(s) <= s->low) {
        s->above_high = false;
        if (s->ops.on_drain && s->state == BH_ST_OPEN)
            s->ops.on_drain(s->arg);
    }
}

static bool writable(const struct bh_stream *s)
{
    return s->state <= BH_ST_OPEN && !s->shut_wanted;
}

void bh_stream_write(struct bh_stream *s, const struct bh_part *parts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct bh_part *pt = &parts[i];

        if (!writable(s)) {
            if (pt->release)
                pt->release(pt->ref);
            continue;
        }
        bh_segs_add(&s->queue, pt);
    }
    if (!writable(s))
        return;
    if (s->queue.bytes > BH_STREAM_QUEUE_BYTES_MAX) {
        bh_stream_fail(s, BH_E_LIMIT, 0, "too much queued for");
        return;
    }
    if (bh_stream_queued(s) > s->high)
        s->above_high = true;
    if (s->state == BH_ST_OPEN && !s->write_blocked) {
        s->flush_wanted = true;
        bh_stream_kick(s);
    }
}

void bh_stream_write_str(struct bh_stream *s, struct bh_str data)
{
    bh_stream_write(s, &(struct bh_part){.data = data}, 1);
}

void bh_stream_set_water(struct bh_stream *s, size_t low, size_t high)
{
    s->low = low;
    s->high = high;
}

bool bh_stream_above_high(const struct bh_stream *s)
{
    return s->above_high;
}

/* ---- reading ---- */

ssize_t bh_stream_recv(struct bh_stream *s, void *p, size_t n)
{
    ssize_t r;

    do {
        r = recv(s->fd, p, n, MSG_DONTWAIT);
    } while (r < 0 && errno == EINTR);
    return r;
}

static void got_eof(struct bh_stream *s)
{
    s->read_eof = true;
    if (s->shut_done) {
        bh_stream_die(s, NULL);
        return;
    }
    bh_stream_rewant(s);
    if (s->state == BH_ST_CLOSING)
        return;
    if (s->ops.on_eof)
        s->ops.on_eof(s->arg);
    else
        bh_stream_close(s);
}

static bool may_read(const struct bh_stream *s)
{
    return !s->read_eof && (s->state == BH_ST_CLOSING ||
                            (s->state == BH_ST_OPEN && !s->paused && s->unread.n == 0));
}

static void read_some(struct bh_stream *s)
{
    char *buf = s->loop->scratch;

    for (int turn = 0; turn < READ_TURNS && may_read(s); turn++) {
        ssize_t r = s->ssl ? bh_stream_tls_read(s, buf, BH_LOOP_SCRATCH)
                           : bh_stream_recv(s, buf, BH_LOOP_SCRATCH);

        if (r == -2 || s->state == BH_ST_DEAD)
            return;
        if (r < 0 && errno == EAGAIN)
            return;
        if (r < 0) {
            bh_stream_fail(s, BH_E_IO, errno, "read from");
            return;
        }
        if (r == 0) {
            got_eof(s);
            return;
        }
        if (s->state == BH_ST_OPEN && s->ops.on_read)
            s->ops.on_read(s->arg, (struct bh_str){buf, (size_t)r});
        if (!s->ssl && (size_t)r < BH_LOOP_SCRATCH)
            return; /* the kernel had no more; readiness tells when it has */
    }
    if (s->ssl && may_read(s)) {
        s->pump_wanted = true; /* decrypted bytes may wait inside, and no readiness tells of them */
        bh_stream_kick(s);
    }
}

static void deliver_unread(struct bh_stream *s)
{
    struct bh_buf b = s->unread;

    s->unread = (struct bh_buf){0};
    if (s->ops.on_read)
        s->ops.on_read(s->arg, bh_buf_str(&b));
    bh_buf_done(&b);
}

static void pump(struct bh_stream *s)
{
    s->pump_wanted = false;
    if (s->state == BH_ST_OPEN && !s->paused && s->unread.n > 0)
        deliver_unread(s);
    if (s->ssl && may_read(s)) {
        s->rx_empty = false;
        read_some(s);
    }
    if (s->state != BH_ST_DEAD)
        bh_stream_rewant(s);
}

void bh_stream_unread(struct bh_stream *s, struct bh_str data)
{
    struct bh_buf b = {0};

    if (data.n == 0 || s->state == BH_ST_DEAD)
        return;
    bh_buf_adds(&b, data);
    bh_buf_adds(&b, bh_buf_str(&s->unread));
    bh_buf_done(&s->unread);
    s->unread = b;
    s->pump_wanted = true;
    bh_stream_kick(s);
    bh_stream_rewant(s);
}

void bh_stream_pause(struct bh_stream *s)
{
    s->paused = true;
    if (s->state == BH_ST_OPEN)
        bh_stream_rewant(s);
}

void bh_stream_resume(struct bh_stream *s)
{
    if (!s->paused)
        return;
    s->paused = false;
    if (s->state != BH_ST_OPEN)
        return;
    bh_stream_rewant(s);
    if (s->ssl || s->unread.n > 0) {
        s->pump_wanted = true;
        bh_stream_kick(s);
    }
}

/* ---- turns of the loop ---- */

void bh_stream_on_io(void *arg, unsigned events)
{
    struct bh_stream *s = arg;

    if (s->state == BH_ST_CONNECTING) {
        bh_stream_connect_ready(s);
        return;
    }
    s->rx_empty = false;
    if (events & BH_IO_WRITE) {
        s->write_blocked = false;
        flush(s);
    }
    if (!(events & BH_IO_READ) || s->state == BH_ST_DEAD)
        return;
    if (s->state == BH_ST_HANDSHAKE) {
        bh_stream_tls_handshake(s);
        if (s->state == BH_ST_DEAD)
            return;
        if (s->cipher.n > 0 || s->queue.bytes > 0) {
            s->flush_wanted = true;
            bh_stream_kick(s);
        }
    }
    if (may_read(s))
        read_some(s);
}

static void kick(void *arg)
{
    struct bh_stream *s = arg;

    s->kick_pending = false;
    if (s->state == BH_ST_HANDSHAKE && s->pump_wanted) {
        s->pump_wanted = false;
        bh_stream_tls_handshake(s);
        s->flush_wanted = true;
        s->pump_wanted =
            s->state == BH_ST_OPEN; /* bytes may have come along with the handshake's last */
    }
    if (s->pump_wanted && s->state != BH_ST_DEAD)
        pump(s);
    if (s->flush_wanted && s->state != BH_ST_DEAD)
        flush(s);
    if (s->state == BH_ST_DEAD && !s->kick_pending) {
        void (*on_close)(void *, const struct bh_err *) = s->ops.on_close;

        s->ops = (struct bh_stream_ops){0};
        bh_segs_done(&s->queue);
        bh_stream_tls_stop(s);
        if (on_close)
            on_close(s->arg, &s->why);
        s->refs--; /* the base reference: nobody may know the stream any more */
    }
    stream_unref(s);
}

/* ---- ends ---- */

void bh_stream_shutdown(struct bh_stream *s)
{
    if (s->state == BH_ST_DEAD || s->shut_wanted)
        return;
    s->shut_wanted = true;
    s->flush_wanted = true;
    bh_stream_kick(s);
}

void bh_stream_close(struct bh_stream *s)
{
    if (s->state == BH_ST_DEAD || s->state == BH_ST_CLOSING)
        return;
    if (s->state != BH_ST_OPEN) {
        bh_stream_die(s, NULL);
        return;
    }
    s->state = BH_ST_CLOSING;
    s->paused = false;
    bh_buf_done(&s->unread);
    bh_timer_start(&s->timer, s->shut_done ? PEER_END_MS : BH_STREAM_LINGER_MS);
    s->shut_wanted = true;
    s->flush_wanted = true;
    bh_stream_rewant(s);
    bh_stream_kick(s);
}

void bh_stream_abort(struct bh_stream *s, const struct bh_err *why)
{
    struct bh_err e = {0};

    if (!why) {
        (void)bh_err_set(&e, BH_E_CANCELED, "connection with %s was given up", s->peer.addr);
        why = &e;
    }
    bh_stream_die(s, why);
}

void bh_stream_set_ops(struct bh_stream *s, const struct bh_stream_ops *ops, void *arg)
{
    s->ops = ops ? *ops : (struct bh_stream_ops){0};
    s->arg = arg;
}

struct bh_loop *bh_stream_loop(const struct bh_stream *s)
{
    return s->loop;
}

const struct bh_stream_peer *bh_stream_peer(const struct bh_stream *s)
{
    return &s->peer;
}

struct bh_stream *bh_stream_from_fd(struct bh_loop *l, int fd, const struct bh_stream_ops *ops,
                                    void *arg, struct bh_err *err)
{
    struct bh_stream *s;

    if (bh_loop_is_virtual(l)) {
        (void)close(fd);
        (void)bh_err_set(err, BH_E_UNSUPPORTED, "a virtual loop has no streams");
        return NULL;
    }
    s = bh_stream_new(l, ops, arg);
    if (!bh_stream_attach(s, fd)) {
        if (err)
            *err = s->why;
        s->ops = (struct bh_stream_ops){0}; /* it ends without telling: the caller has no stream */
        return NULL;
    }
    bh_stream_fill_peer(s);
    s->state = BH_ST_OPEN;
    bh_stream_rewant(s);
    return s;
}
