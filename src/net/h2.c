/* HTTP/2 on nghttp2's session: the library frames, compresses and keeps windows; this file keeps
 * streams, header lists and outgoing bytes, all with limits. */
#include "net/h2.h"

#include <nghttp2/nghttp2.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/list.h"
#include "net/segs.h"

#define WINDOW_DEFAULT (256u << 10)
#define CONN_WINDOW    (8 << 20)
/* A peer that opens and resets streams faster than this is cut off (CVE-2023-44487). */
#define RESET_BURST 1000
#define RESET_RATE  33

struct bh_h2_stream {
    struct bh_link link;
    struct bh_h2 *h2;
    int32_t id; /* 0 until the library has given one */
    void *user;

    bool seen_headers; /* the first (not 1xx) block was reported: what follows are trailers */

    struct bh_segs out;
    uint64_t sent; /* bytes of it taken so far */
    bool deferred; /* the data source waits for resume */
    bool out_end;
    bool want_drained;
    struct bh_link drained_link; /* of the connection, while that has to be told */
    nghttp2_nv *trailers;        /* names and values are in trailer_arena */
    size_t trailers_n;
    struct bh_arena *trailer_arena;
    bool sent_end, got_end;
    bool closing;
    size_t unconsumed; /* received bytes not yet given back to the peer */
};

struct bh_h2 {
    nghttp2_session *s;
    struct bh_h2_opts o;
    struct bh_h2_ops ops;
    void *arg;
    struct bh_link streams;
    size_t streams_n;
    struct bh_link drained; /* streams whose bytes have all been taken */
    bool ready, goaway, fatal;
    /* The header block being received: blocks follow each other on a connection. */
    int32_t block_id; /* its stream; 0: none */
    struct bh_arena *arena;
    struct bh_h2_header *headers;
    size_t headers_n, headers_cap;
    size_t header_bytes;
};

static void say_output(struct bh_h2 *h)
{
    if (h->ops.output)
        h->ops.output(h->arg);
}

static struct bh_h2_stream *stream_new(struct bh_h2 *h, int32_t id)
{
    struct bh_h2_stream *s = bh_calloc(1, sizeof(*s));

    s->h2 = h;
    s->id = id;
    bh_list_add_tail(&h->streams, &s->link);
    h->streams_n++;
    return s;
}

static void block_begin(struct bh_h2 *h, int32_t id)
{
    bh_arena_reset(h->arena);
    h->block_id = id;
    h->headers = NULL;
    h->headers_n = h->headers_cap = h->header_bytes = 0;
}

static void stream_close(struct bh_h2_stream *s, uint32_t code)
{
    struct bh_h2 *h = s->h2;

    s->closing = true;
    bh_list_del(&s->link);
    h->streams_n--;
    if (s->unconsumed > 0 && !h->fatal)
        (void)nghttp2_session_consume_connection(h->s, s->unconsumed);
    s->unconsumed = 0;
    if (h->ops.closed)
        h->ops.closed(h->arg, s, code);
    bh_list_del(&s->drained_link);
    (void)bh_arena_free(s->trailer_arena);
    bh_segs_done(&s->out);
    bh_free(s);
}

static struct bh_h2_stream *stream_of(nghttp2_session *ses, int32_t id)
{
    return nghttp2_session_get_stream_user_data(ses, id);
}

/* ---- receiving ---- */

static int on_begin_headers(nghttp2_session *ses, const nghttp2_frame *f, void *user)
{
    struct bh_h2 *h = user;
    struct bh_h2_stream *s;

    if (f->hd.type != NGHTTP2_HEADERS)
        return 0;
    if (f->headers.cat == NGHTTP2_HCAT_REQUEST) {
        s = stream_new(h, f->hd.stream_id);
        (void)nghttp2_session_set_stream_user_data(ses, f->hd.stream_id, s);
    } else {
        s = stream_of(ses, f->hd.stream_id);
    }
    block_begin(h, s ? f->hd.stream_id : 0);
    return 0;
}

static int on_header(nghttp2_session *ses, const nghttp2_frame *f, const uint8_t *name, size_t nn,
                     const uint8_t *value, size_t vn, uint8_t flags, void *user)
{
    struct bh_h2 *h = user;

    (void)ses;
    (void)flags;
    if (f->hd.stream_id != h->block_id)
        return 0;
    h->header_bytes += nn + vn + 32;
    if (h->header_bytes > h->o.header_bytes_max || h->headers_n >= BH_HEADERS_MAX)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    bh_arena_grow(h->arena, &h->headers, &h->headers_cap, h->headers_n + 1, sizeof(*h->headers));
    h->headers[h->headers_n++] = (struct bh_h2_header){
        bh_str_dup(h->arena, (struct bh_str){(const char *)name, nn}),
        bh_str_dup(h->arena, (struct bh_str){(const char *)value, vn}),
    };
    return 0;
}

/* A response with a 1xx status is followed by the real one. */
static bool is_informational(const struct bh_h2 *h)
{
    return h->headers_n > 0 && bh_str_eqc(h->headers[0].name, ":status") &&
           h->headers[0].value.n == 3 && h->headers[0].value.p[0] == '1';
}

static void headers_complete(struct bh_h2_stream *s)
{
    struct bh_h2 *h = s->h2;
    bool trailers = s->seen_headers;

    h->block_id = 0;
    if (is_informational(h))
        return;
    s->seen_headers = true;
    if (h->ops.headers)
        h->ops.headers(h->arg, s, h->headers, h->headers_n, trailers);
}

static int on_frame_recv(nghttp2_session *ses, const nghttp2_frame *f, void *user)
{
    struct bh_h2 *h = user;
    struct bh_h2_stream *s;

    switch (f->hd.type) {
    case NGHTTP2_SETTINGS:
        if (!(f->hd.flags & NGHTTP2_FLAG_ACK) && !h->ready) {
            h->ready = true;
            if (h->ops.ready)
                h->ops.ready(h->arg);
        }
        return 0;
    case NGHTTP2_GOAWAY:
        h->goaway = true;
        if (h->ops.goaway)
            h->ops.goaway(h->arg, f->goaway.error_code);
        return 0;
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        break;
    default:
        return 0;
    }
    s = stream_of(ses, f->hd.stream_id);
    if (!s || s->closing)
        return 0;
    if (f->hd.type == NGHTTP2_HEADERS && h->block_id == f->hd.stream_id)
        headers_complete(s);
    /* The callback may have reset the stream; the library closes it later, so s is still there. */
    if (f->hd.flags & NGHTTP2_FLAG_END_STREAM) {
        s->got_end = true;
        if (h->ops.end)
            h->ops.end(h->arg, s);
    }
    return 0;
}

static int on_data_chunk(nghttp2_session *ses, uint8_t flags, int32_t id, const uint8_t *p,
                         size_t n, void *user)
{
    struct bh_h2 *h = user;
    struct bh_h2_stream *s = stream_of(ses, id);

    (void)flags;
    if (!s || s->closing) {
        (void)nghttp2_session_consume_connection(ses, n);
        return 0;
    }
    s->unconsumed += n;
    if (h->ops.data)
        h->ops.data(h->arg, s, (struct bh_str){(const char *)p, n});
    return 0;
}

static int on_stream_close(nghttp2_session *ses, int32_t id, uint32_t code, void *user)
{
    struct bh_h2_stream *s = stream_of(ses, id);

    (void)user;
    if (s) {
        (void)nghttp2_session_set_stream_user_data(ses, id, NULL);
        stream_close(s, code);
    }
    return 0;
}

/* ---- sending ---- */

static int on_frame_send(nghttp2_session *ses, const nghttp2_frame *f, void *user)
{
    struct bh_h2 *h = user;
    struct bh_h2_stream *s;

    if ((f->hd.type != NGHTTP2_HEADERS && f->hd.type != NGHTTP2_DATA) ||
        !(f->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    s = stream_of(ses, f->hd.stream_id);
    if (!s)
        return 0;
    s->sent_end = true;
    /* A complete answer while the request is still coming in: the rest of it is of no use (RFC 9113
     * section 8.1). */
    if (h->o.server && !s->got_end)
        (void)nghttp2_submit_rst_stream(ses, NGHTTP2_FLAG_NONE, f->hd.stream_id, NGHTTP2_NO_ERROR);
    return 0;
}

static ssize_t read_out(nghttp2_session *ses, int32_t id, uint8_t *buf, size_t n, uint32_t *flags,
                        nghttp2_data_source *src, void *user)
{
    struct bh_h2_stream *s = src->ptr;
    size_t have = s->out.bytes, k = 0;

    (void)user;
    if (have == 0 && !s->out_end) {
        s->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    for (const struct bh_seg *g = s->out.first; g && k < n; g = g->next) {
        size_t take = g->n < n - k ? g->n : n - k;

        if (take > 0)
            memcpy(buf + k, g->p, take);
        k += take;
    }
    bh_segs_consume(&s->out, k);
    s->sent += k;
    if (k == have) {
        if (s->want_drained) {
            bh_list_del(&s->drained_link);
            bh_list_add_tail(&s->h2->drained, &s->drained_link);
        }
        if (s->out_end) {
            *flags |= NGHTTP2_DATA_FLAG_EOF;
            if (s->trailers_n > 0) {
                *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
                if (nghttp2_submit_trailer(ses, id, s->trailers, s->trailers_n) != 0)
                    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
            }
        }
    }
    return (ssize_t)k;
}

/* Names and values are borrowed: nghttp2 copies them when they are submitted. */
static nghttp2_nv *to_nv(struct bh_arena *a, const struct bh_h2_header *hd, size_t n)
{
    nghttp2_nv *nv = bh_arena_alloc_n(a, n > 0 ? n : 1, sizeof(*nv));

    for (size_t i = 0; i < n; i++)
        /* nghttp2_nv only lacks the const. */
        nv[i] =
            (nghttp2_nv){(uint8_t *)(uintptr_t)hd[i].name.p, (uint8_t *)(uintptr_t)hd[i].value.p,
                         hd[i].name.n, hd[i].value.n, NGHTTP2_NV_FLAG_NONE};
    return nv;
}

static void stream_resume(struct bh_h2_stream *s)
{
    if (s->deferred) {
        s->deferred = false;
        (void)nghttp2_session_resume_data(s->h2->s, s->id);
    }
    say_output(s->h2);
}

struct bh_h2_stream *bh_h2_open(struct bh_h2 *h, const struct bh_h2_header *hd, size_t n, bool end,
                                void *user)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_h2_stream *s;
    nghttp2_data_provider prd = {.read_callback = read_out};
    int32_t id;

    if (h->goaway || h->fatal || h->streams_n >= BH_STREAMS_MAX)
        return NULL;
    s = stream_new(h, 0);
    s->user = user;
    s->out_end = end;
    prd.source.ptr = s;
    id = nghttp2_submit_request(h->s, NULL, to_nv(a, hd, n), n, end ? NULL : &prd, s);
    if (id < 0) {
        bh_list_del(&s->link);
        h->streams_n--;
        bh_free(s);
        return NULL;
    }
    s->id = id;
    say_output(h);
    return s;
}

int bh_h2_respond(struct bh_h2_stream *s, const struct bh_h2_header *hd, size_t n, bool end)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    nghttp2_data_provider prd = {.source = {.ptr = s}, .read_callback = read_out};

    if (s->closing)
        return -BH_E_CANCELED;
    if (nghttp2_submit_response(s->h2->s, s->id, to_nv(a, hd, n), n, end ? NULL : &prd) != 0)
        return -BH_E_CANCELED;
    if (end)
        s->out_end = true;
    say_output(s->h2);
    return 0;
}

void bh_h2_inform(struct bh_h2_stream *s, struct bh_str status)
{
    nghttp2_nv nv = {(uint8_t *)(uintptr_t) ":status", (uint8_t *)(uintptr_t)status.p, 7, status.n,
                     NGHTTP2_NV_FLAG_NONE};

    if (s->closing)
        return;
    (void)nghttp2_submit_headers(s->h2->s, NGHTTP2_FLAG_NONE, s->id, NULL, &nv, 1, NULL);
    say_output(s->h2);
}

int bh_h2_send_parts(struct bh_h2_stream *s, const struct bh_part *parts, size_t n)
{
    size_t bytes = 0;
    int r = 0;

    for (size_t i = 0; i < n; i++)
        bytes += parts[i].data.n;
    if (s->closing || s->out_end)
        r = -BH_E_CANCELED;
    else if (bytes > s->h2->o.stream_out_max || s->out.bytes + bytes > s->h2->o.stream_out_max)
        r = -BH_E_LIMIT;
    for (size_t i = 0; i < n; i++) {
        if (r == 0)
            bh_segs_add(&s->out, &parts[i]);
        else if (parts[i].release)
            parts[i].release(parts[i].ref);
    }
    if (r < 0)
        return r;
    s->want_drained = true;
    stream_resume(s);
    return 0;
}

int bh_h2_send(struct bh_h2_stream *s, struct bh_str bytes)
{
    return bh_h2_send_parts(s, &(struct bh_part){.data = bytes}, 1);
}

void bh_h2_send_end(struct bh_h2_stream *s, const struct bh_h2_header *trailers, size_t n)
{
    if (s->closing || s->out_end)
        return;
    s->out_end = true;
    if (n > 0) { /* they are submitted behind the last byte: copies wait for that */
        struct bh_h2_header *copy;

        s->trailer_arena = bh_arena_new(0);
        copy = bh_new_n(s->trailer_arena, struct bh_h2_header, n);
        for (size_t i = 0; i < n; i++)
            copy[i] = (struct bh_h2_header){bh_str_dup(s->trailer_arena, trailers[i].name),
                                            bh_str_dup(s->trailer_arena, trailers[i].value)};
        s->trailers = to_nv(s->trailer_arena, copy, n);
        s->trailers_n = n;
    }
    stream_resume(s);
}

void bh_h2_reset(struct bh_h2_stream *s, uint32_t code)
{
    if (s->closing)
        return;
    (void)nghttp2_submit_rst_stream(s->h2->s, NGHTTP2_FLAG_NONE, s->id, code);
    say_output(s->h2);
}

void bh_h2_consume(struct bh_h2_stream *s, size_t n)
{
    if (n > s->unconsumed)
        n = s->unconsumed;
    if (n == 0 || s->closing)
        return;
    s->unconsumed -= n;
    (void)nghttp2_session_consume(s->h2->s, s->id, n);
    say_output(s->h2);
}

size_t bh_h2_unsent(const struct bh_h2_stream *s)
{
    return s->out.bytes;
}
uint64_t bh_h2_sent(const struct bh_h2_stream *s)
{
    return s->sent;
}
bool bh_h2_accepts(const struct bh_h2 *h)
{
    return !h->goaway && !h->fatal && nghttp2_session_check_request_allowed(h->s);
}
size_t bh_h2_room(const struct bh_h2 *h)
{
    size_t max = nghttp2_session_get_remote_settings(h->s, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

    if (!bh_h2_accepts(h))
        return 0;
    max = max < BH_STREAMS_MAX ? max : BH_STREAMS_MAX;
    return h->streams_n < max ? max - h->streams_n : 0;
}
void *bh_h2_user(const struct bh_h2_stream *s)
{
    return s->user;
}
void bh_h2_set_user(struct bh_h2_stream *s, void *user)
{
    s->user = user;
}
size_t bh_h2_streams(const struct bh_h2 *h)
{
    return h->streams_n;
}

/* ---- connection ---- */

static nghttp2_session_callbacks *callbacks_new(void)
{
    nghttp2_session_callbacks *cb = NULL;

    bh_assert(nghttp2_session_callbacks_new(&cb) == 0);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_send);
    return cb;
}

static nghttp2_option *option_new(void)
{
    nghttp2_option *opt = NULL;

    bh_assert(nghttp2_option_new(&opt) == 0);
    nghttp2_option_set_no_auto_window_update(opt, 1);
    nghttp2_option_set_no_closed_streams(opt, 1);
    nghttp2_option_set_max_reserved_remote_streams(opt, 0);
    nghttp2_option_set_stream_reset_rate_limit(opt, RESET_BURST, RESET_RATE);
    return opt;
}

struct bh_h2 *bh_h2_new(const struct bh_h2_opts *o, const struct bh_h2_ops *ops, void *arg)
{
    struct bh_h2 *h = bh_calloc(1, sizeof(*h));
    nghttp2_session_callbacks *cb = callbacks_new();
    nghttp2_option *opt = option_new();
    nghttp2_settings_entry iv[4];
    size_t n = 0;

    h->o = *o;
    h->ops = *ops;
    h->arg = arg;
    bh_list_init(&h->streams);
    bh_list_init(&h->drained);
    h->arena = bh_arena_new(0);
    if (h->o.streams_max == 0)
        h->o.streams_max = BH_STREAMS_MAX;
    if (h->o.window_bytes == 0)
        h->o.window_bytes = WINDOW_DEFAULT;
    if (h->o.header_bytes_max == 0)
        h->o.header_bytes_max = BH_HEADER_BYTES_MAX;
    if (h->o.stream_out_max == 0)
        h->o.stream_out_max = BH_GRPC_MESSAGE_MAX + (64u << 10);
    bh_assert((o->server ? nghttp2_session_server_new2(&h->s, cb, h, opt)
                         : nghttp2_session_client_new2(&h->s, cb, h, opt)) == 0);
    nghttp2_session_callbacks_del(cb);
    nghttp2_option_del(opt);

    iv[n++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
                                       o->server ? h->o.streams_max : 0};
    iv[n++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, h->o.window_bytes};
    iv[n++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
                                       (uint32_t)h->o.header_bytes_max};
    if (!o->server)
        iv[n++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_ENABLE_PUSH, 0};
    bh_assert(nghttp2_submit_settings(h->s, NGHTTP2_FLAG_NONE, iv, n) == 0);
    bh_assert(nghttp2_session_set_local_window_size(h->s, NGHTTP2_FLAG_NONE, 0, CONN_WINDOW) == 0);
    return h;
}

struct bh_h2 *bh_h2_free(struct bh_h2 *h)
{
    if (!h)
        return NULL;
    h->fatal = true; /* no more calls into the session from callbacks */
    h->ops.output = NULL;
    while (!bh_list_empty(&h->streams)) {
        struct bh_h2_stream *s = bh_container(h->streams.next, struct bh_h2_stream, link);

        if (s->id > 0)
            (void)nghttp2_session_set_stream_user_data(h->s, s->id, NULL);
        stream_close(s, NGHTTP2_INTERNAL_ERROR);
    }
    nghttp2_session_del(h->s);
    (void)bh_arena_free(h->arena);
    bh_free(h);
    return NULL;
}

int bh_h2_feed(struct bh_h2 *h, struct bh_str bytes, struct bh_err *err)
{
    ssize_t r;

    if (h->fatal)
        return bh_err_set(err, BH_E_PROTO, "the connection has failed");
    r = nghttp2_session_mem_recv(h->s, (const uint8_t *)bytes.p, bytes.n);
    if (r < 0) {
        h->goaway = true;
        return bh_err_set(err, BH_E_PROTO, "HTTP/2: %s", nghttp2_strerror((int)r));
    }
    say_output(h); /* SETTINGS and PING answers, window updates */
    return 0;
}

static void tell_drained(struct bh_h2 *h)
{
    while (!bh_list_empty(&h->drained)) {
        struct bh_h2_stream *s = bh_container(h->drained.next, struct bh_h2_stream, drained_link);

        bh_list_del(&s->drained_link);
        if (s->out.bytes > 0) /* more came meanwhile */
            continue;
        s->want_drained = false;
        if (h->ops.drained)
            h->ops.drained(h->arg, s);
    }
}

bool bh_h2_take(struct bh_h2 *h, struct bh_buf *out, size_t max)
{
    bool more = true;

    while (more && !h->fatal && out->n < max) {
        const uint8_t *p;
        ssize_t n = nghttp2_session_mem_send(h->s, &p);

        if (n < 0)
            h->fatal = true;
        if (n <= 0)
            more = false;
        else
            bh_buf_add(out, p, (size_t)n);
    }
    tell_drained(h);
    return more && !h->fatal;
}

bool bh_h2_done(const struct bh_h2 *h)
{
    return h->fatal ||
           (nghttp2_session_want_read(h->s) == 0 && nghttp2_session_want_write(h->s) == 0) ||
           (h->goaway && h->streams_n == 0 && nghttp2_session_want_write(h->s) == 0);
}

void bh_h2_shutdown(struct bh_h2 *h, uint32_t code)
{
    int32_t last = nghttp2_session_get_last_proc_stream_id(h->s);

    h->goaway = true;
    (void)nghttp2_submit_goaway(h->s, NGHTTP2_FLAG_NONE, last, code, NULL, 0);
    say_output(h);
}

void bh_h2_ping(struct bh_h2 *h)
{
    (void)nghttp2_submit_ping(h->s, NGHTTP2_FLAG_NONE, NULL);
    say_output(h);
}
