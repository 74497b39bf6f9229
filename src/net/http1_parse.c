/* HTTP/1.1 messages, strictly. A head is collected until its empty line, checked line by line, and
 * then given to http-parser as a whole; bodies are framed here. */
#include "net/http1.h"

#include <http_parser.h>
#include <pthread.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"

enum {
    S_HEAD,
    S_LENGTH,   /* left bytes of body */
    S_CHUNK,    /* a chunk size line */
    S_DATA,     /* left bytes of a chunk */
    S_DATA_END, /* CR LF behind it */
    S_TRAILER,
    S_UNTIL_EOF, /* response without framing */
    S_END,       /* the end is still to be told */
    S_BAD,
};

#define TRAILER_BYTES_MAX (8u << 10)
#define EMPTY_LINES_MAX   2 /* before a request line: RFC 9112 §2.2 */
#define HEAD_BYTES_MAX    (BH_URL_BYTES_MAX + BH_HEADER_BYTES_MAX)

static const unsigned char token_char[256] = {
    ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1,         ['&'] = 1,         ['\''] = 1,
    ['*'] = 1, ['+'] = 1, ['-'] = 1, ['.'] = 1,         ['^'] = 1,         ['_'] = 1,
    ['`'] = 1, ['|'] = 1, ['~'] = 1, ['0' ... '9'] = 1, ['a' ... 'z'] = 1, ['A' ... 'Z'] = 1,
};

static bool is_token(struct bh_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!token_char[(unsigned char)s.p[i]])
            return false;
    return s.n > 0;
}

/* Field values: visible characters, blanks, tabs, and bytes above 127 (RFC 9110 §5.5). */
static bool is_field_value(struct bh_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

bool bh_h1_header_ok(struct bh_str name, struct bh_str value)
{
    return is_token(name) && is_field_value(value);
}

static int bad(struct bh_h1 *h, int status, struct bh_err *err, const char *what)
{
    h->state = S_BAD;
    h->bad_status = status;
    return bh_err_set(err,
                      status == 413 || status == 414 || status == 431 ? BH_E_LIMIT : BH_E_PROTO,
                      "HTTP/1: %s", what);
}

void bh_h1_init(struct bh_h1 *h, bool response)
{
    *h = (struct bh_h1){.response = response};
    h->acc.max = HEAD_BYTES_MAX + 1024;
}

void bh_h1_done(struct bh_h1 *h)
{
    bh_buf_done(&h->acc);
}

bool bh_h1_idle(const struct bh_h1 *h)
{
    return h->state == S_HEAD && h->acc.n == 0 && h->skipped == 0;
}

bool bh_h1_in_body(const struct bh_h1 *h)
{
    return h->state > S_HEAD && h->state < S_END;
}

/* ---- the head ---- */

static struct bh_str trim_ows(struct bh_str s)
{
    while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t')) {
        s.p++;
        s.n--;
    }
    while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

/* Whether a comma list names the token, in any case. */
static bool lists(struct bh_str list, struct bh_str token)
{
    while (list.p) {
        struct bh_str one = trim_ows(bh_str_cut(&list, ','));

        if (bh_str_eq_nocase(one, token))
            return true;
    }
    return false;
}

struct seen {
    int hosts, lengths, codings;
    bool close, keep_alive, conn_upgrade, upgrade;
};

static int note_length(struct bh_h1 *h, struct bh_str v, struct bh_err *err)
{
    uint64_t n = 0;

    if (v.n == 0 || v.n > 18)
        return bad(h, 400, err, "Content-Length is no length");
    for (size_t i = 0; i < v.n; i++) {
        if (v.p[i] < '0' || v.p[i] > '9')
            return bad(h, 400, err, "Content-Length is no length");
        n = n * 10 + (uint64_t)(v.p[i] - '0');
    }
    h->head.has_length = true;
    h->head.length = n;
    return 0;
}

/* Headers that frame the message or steer the connection. Chosen by length first: most headers are
 * none of them. */
static int note_header(struct bh_h1 *h, struct seen *s, struct bh_str name, struct bh_str v,
                       struct bh_err *err)
{
    switch (name.n) {
    case 4:
        s->hosts += bh_str_eq_nocase(name, BH_S("host"));
        break;
    case 6:
        if (bh_str_eq_nocase(name, BH_S("expect")) && !h->response) {
            if (!bh_str_eq_nocase(v, BH_S("100-continue")))
                return bad(h, 417, err, "unknown expectation");
            h->head.expect_continue = true;
        }
        break;
    case 7:
        s->upgrade |= bh_str_eq_nocase(name, BH_S("upgrade"));
        break;
    case 10:
        if (bh_str_eq_nocase(name, BH_S("connection"))) {
            s->close |= lists(v, BH_S("close"));
            s->keep_alive |= lists(v, BH_S("keep-alive"));
            s->conn_upgrade |= lists(v, BH_S("upgrade"));
        }
        break;
    case 14:
        if (bh_str_eq_nocase(name, BH_S("content-length"))) {
            if (s->lengths++ > 0)
                return bad(h, 400, err, "more than one Content-Length");
            return note_length(h, v, err);
        }
        break;
    case 17:
        if (bh_str_eq_nocase(name, BH_S("transfer-encoding"))) {
            if (s->codings++ > 0 || !bh_str_eq_nocase(v, BH_S("chunked")))
                return bad(h, 501, err, "transfer coding other than chunked");
            h->head.chunked = true;
        }
        break;
    default:
        break;
    }
    return 0;
}

/* A header line without its CR LF. */
static int check_header_line(struct bh_h1 *h, struct bh_str line, struct bh_str *ret_name,
                             struct bh_str *ret_value, struct bh_err *err)
{
    ptrdiff_t colon;

    if (line.p[0] == ' ' || line.p[0] == '\t')
        return bad(h, 400, err, "folded header");
    colon = bh_str_chr(line, ':', 0);
    if (colon < 0)
        return bad(h, 400, err, "header line without a colon");
    *ret_name = bh_str_sub(line, 0, (size_t)colon);
    *ret_value = trim_ows(bh_str_sub(line, (size_t)colon + 1, line.n));
    if (!is_token(*ret_name))
        return bad(h, 400, err, "invalid header name");
    if (!is_field_value(*ret_value))
        return bad(h, 400, err, "control character in a header");
    return 0;
}

/* "METHOD SP target SP HTTP/1.x": exactly one blank each, nothing but visible ASCII. */
static int check_request_line(struct bh_h1 *h, struct bh_str line, struct bh_err *err)
{
    struct bh_str rest = line, method = bh_str_cut(&rest, ' '), target = bh_str_cut(&rest, ' ');

    if (!is_token(method) || target.n == 0 || !rest.p)
        return bad(h, 400, err, "malformed request line");
    for (size_t i = 0; i < target.n; i++)
        if ((unsigned char)target.p[i] <= 0x20 || (unsigned char)target.p[i] >= 0x7f)
            return bad(h, 400, err, "invalid character in the request target");
    if (rest.n != 8 || !bh_str_starts(rest, BH_S("HTTP/")))
        return bad(h, 400, err, "malformed request line");
    if (!bh_str_eqc(rest, "HTTP/1.1") && !bh_str_eqc(rest, "HTTP/1.0"))
        return bad(h, 505, err, "unsupported version");
    if (bh_str_eqc(method, "CONNECT"))
        return bad(h, 501, err, "CONNECT is not served");
    return 0;
}

static int check_status_line(struct bh_h1 *h, struct bh_str line, struct bh_err *err)
{
    if (!bh_str_starts(line, BH_S("HTTP/1.1 ")) && !bh_str_starts(line, BH_S("HTTP/1.0 ")))
        return bad(h, 400, err, "not an HTTP/1 response");
    if (line.n < 12 || (line.n > 12 && line.p[12] != ' ') || !is_field_value(line))
        return bad(h, 400, err, "malformed status line");
    return 0;
}

/* One line of a head, CR LF included; CR may stand nowhere else. */
static int strip_line(struct bh_h1 *h, struct bh_str *line, struct bh_err *err)
{
    if (line->n < 2 || line->p[line->n - 2] != '\r')
        return bad(h, 400, err, "bare line feed");
    line->n -= 2;
    if (memchr(line->p, '\r', line->n) || memchr(line->p, 0, line->n))
        return bad(h, 400, err, "bare carriage return or NUL");
    return 0;
}

static int check_head(struct bh_h1 *h, struct bh_str head, struct seen *s, size_t *ret_headers,
                      struct bh_err *err)
{
    size_t n = 0;
    bool first = true;
    int r;

    while (head.n > 2) {
        const char *lf = memchr(head.p, '\n', head.n);
        struct bh_str line = {head.p, (size_t)(lf - head.p) + 1}, name, value;

        head = bh_str_sub(head, line.n, head.n);
        r = strip_line(h, &line, err);
        if (r < 0)
            return r;
        if (first) {
            r = h->response ? check_status_line(h, line, err) : check_request_line(h, line, err);
            first = false;
        } else {
            if (++n > BH_HEADERS_MAX)
                return bad(h, 431, err, "too many headers");
            r = check_header_line(h, line, &name, &value, err);
            if (r == 0)
                r = note_header(h, s, name, value, err);
        }
        if (r < 0)
            return r;
    }
    *ret_headers = n;
    return 0;
}

/* What http-parser reports while it reads the head. */
struct collect {
    struct bh_h1 *h;
    size_t max;
    bool complete, over;
};

static int on_url(http_parser *p, const char *at, size_t n)
{
    struct collect *c = p->data;

    c->h->head.target = (struct bh_str){at, n};
    return 0;
}

static int on_field(http_parser *p, const char *at, size_t n)
{
    struct collect *c = p->data;
    struct bh_h1_head *hd = &c->h->head;

    if (hd->headers_n == c->max) {
        c->over = true;
        return 1;
    }
    hd->headers[hd->headers_n++] = (struct bh_http_header){{at, n}, {"", 0}};
    return 0;
}

static int on_value(http_parser *p, const char *at, size_t n)
{
    struct collect *c = p->data;
    struct bh_h1_head *hd = &c->h->head;

    if (hd->headers_n == 0)
        return 1;
    hd->headers[hd->headers_n - 1].value = trim_ows((struct bh_str){at, n});
    return 0;
}

static int on_complete(http_parser *p)
{
    struct collect *c = p->data;

    c->complete = true;
    http_parser_pause(p, 1); /* bodies are framed by us */
    return 0;
}

static void raise_parser_limit(void)
{
    http_parser_set_max_header_size(HEAD_BYTES_MAX + 1024); /* ours are checked before and hold */
}

static int run_parser(struct bh_h1 *h, struct bh_str head, size_t headers, struct bh_err *err)
{
    static const http_parser_settings settings = {.on_url = on_url,
                                                  .on_header_field = on_field,
                                                  .on_header_value = on_value,
                                                  .on_headers_complete = on_complete};
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct collect c = {.h = h, .max = headers};
    struct bh_str invented = {NULL, 0};
    http_parser p;

    (void)pthread_once(&once, raise_parser_limit);
    http_parser_init(&p, h->response ? HTTP_RESPONSE : HTTP_REQUEST);
    p.data = &c;
    h->head.headers = bh_new_n(h->arena, struct bh_http_header, headers + 1);
    (void)http_parser_execute(&p, &settings, head.p, head.n);
    if (HTTP_PARSER_ERRNO(&p) == HPE_INVALID_METHOD && !h->response) {
        /* Any token may be a method (RFC 9110 §9.1); the parser knows only its own list. It reads
         * the rest as if GET stood there, and what was asked is kept. */
        struct bh_str rest = head, method = bh_str_cut(&rest, ' ');

        invented = method;
        head = bh_str_fmt(h->arena, "GET %.*s", BH_SF(rest));
        http_parser_init(&p, HTTP_REQUEST);
        p.data = &c;
        (void)http_parser_execute(&p, &settings, head.p, head.n);
    }
    if (!c.complete || c.over || h->head.headers_n != headers)
        return bad(h, 400, err, http_errno_description(HTTP_PARSER_ERRNO(&p)));
    h->head.minor = p.http_minor;
    if (h->response)
        h->head.status = (int)p.status_code;
    else
        h->head.method = invented.p ? invented : bh_s(http_method_str((enum http_method)p.method));
    return 0;
}

const char *bh_h1_split_target(struct bh_str t, struct bh_str method, struct bh_str *ret_path,
                               struct bh_str *ret_query)
{
    ptrdiff_t q;

    if (bh_str_starts(t, BH_S("http://")) || bh_str_starts(t, BH_S("https://"))) {
        /* Absolute form, as proxies send it: the authority must agree with Host only by convention;
         * it is ignored. */
        ptrdiff_t slash = bh_str_chr(t, '/', 8);

        t = slash < 0 ? BH_S("/") : bh_str_sub(t, (size_t)slash, t.n);
    }
    if (t.n == 0 || (t.p[0] != '/' && !(bh_str_eqc(t, "*") && bh_str_eqc(method, "OPTIONS"))))
        return "request target is no path";
    q = bh_str_chr(t, '?', 0);
    *ret_path = q < 0 ? t : bh_str_sub(t, 0, (size_t)q);
    *ret_query = q < 0 ? (struct bh_str){"", 0} : bh_str_sub(t, (size_t)q + 1, t.n);
    return bh_str_chr(t, '#', 0) >= 0 ? "fragment in the request target" : NULL;
}

static void choose_body(struct bh_h1 *h)
{
    struct bh_h1_head *hd = &h->head;

    h->left = 0;
    if (h->response && (h->no_body || hd->status < 200 || hd->status == 204 || hd->status == 304)) {
        h->state = S_END;
    } else if (hd->chunked) {
        h->state = S_CHUNK;
    } else if (hd->has_length) {
        h->left = hd->length;
        h->state = h->left > 0 ? S_LENGTH : S_END;
    } else if (h->response) {
        h->state = S_UNTIL_EOF;
        hd->keep_alive = false;
    } else {
        h->state = S_END;
    }
}

static int parse_head(struct bh_h1 *h, struct bh_str raw, struct bh_err *err)
{
    struct seen s = {0};
    struct bh_str head;
    size_t headers = 0;
    int r;

    h->head = (struct bh_h1_head){0};
    r = check_head(h, raw, &s, &headers, err);
    if (r < 0)
        return r;
    bh_assert(h->arena != NULL);
    head = bh_str_dup(h->arena, raw);
    r = run_parser(h, head, headers, err);
    if (r < 0)
        return r;
    if (s.codings > 0 && s.lengths > 0)
        return bad(h, 400, err, "both Transfer-Encoding and Content-Length");
    if (s.codings > 0 && h->head.minor == 0)
        return bad(h, 400, err, "Transfer-Encoding in HTTP/1.0");
    if (!h->response && (s.hosts > 1 || (s.hosts == 0 && h->head.minor > 0)))
        return bad(h, 400, err, "exactly one Host header is needed");
    if (!h->response) {
        const char *why =
            bh_h1_split_target(h->head.target, h->head.method, &h->head.path, &h->head.query);

        if (why)
            return bad(h, 400, err, why);
    }
    h->head.keep_alive = h->head.minor > 0 ? !s.close : s.keep_alive && !s.close;
    h->head.upgrade = s.upgrade && s.conn_upgrade;
    choose_body(h);
    return BH_H1_HEAD;
}

/* Looks for the empty line that ends the head in acc + more input. Lines are checked for length as
 * they grow. */
static int find_end(struct bh_h1 *h, struct bh_str text, size_t *ret_end, struct bh_err *err)
{
    for (;;) {
        const char *lf = memchr(text.p + h->scanned, '\n', text.n - h->scanned);
        size_t end = lf ? (size_t)(lf - text.p) + 1 : text.n;

        if (h->line_at == 0 && end > BH_URL_BYTES_MAX)
            return bad(h, h->response ? 400 : 414, err, "request line too long");
        if (end > HEAD_BYTES_MAX)
            return bad(h, 431, err, "headers too long");
        if (!lf) {
            h->scanned = text.n;
            return 0;
        }
        h->scanned = end;
        if (end - h->line_at <= 2) { /* empty, with or without its CR: strip_line judges that */
            if (h->line_at == 0 && !h->response && ++h->skipped <= EMPTY_LINES_MAX) {
                *ret_end = end;
                return 2;
            }
            if (end - h->line_at == 1 || text.p[h->line_at] != '\r' || h->line_at == 0)
                return bad(h, 400, err, h->line_at == 0 ? "no request line" : "bare line feed");
            *ret_end = end;
            return 1;
        }
        h->line_at = end;
    }
}

static int next_head(struct bh_h1 *h, struct bh_str *in, struct bh_err *err)
{
    struct bh_str text = *in;
    size_t had = h->acc.n, end = 0;
    int r;

    if (in->n == 0)
        return BH_H1_MORE;
    if (had > 0) { /* continue an incomplete one; mostly a head comes in one piece and is not copied
                      here */
        size_t room = h->acc.max - had, k = in->n < room ? in->n : room;

        bh_buf_add(&h->acc, in->p, k);
        text = bh_buf_str(&h->acc);
    }
    r = find_end(h, text, &end, err);
    if (r < 0)
        return r;
    if (r == 0) {
        if (had == 0)
            bh_buf_add(&h->acc, in->p, in->n);
        in->n = 0;
        return BH_H1_MORE;
    }
    *in = bh_str_sub(*in, end - had, in->n);
    h->scanned = h->line_at = 0;
    if (r == 2) { /* an empty line before the request line */
        bool crlf = end == 2 && text.p[0] == '\r';

        bh_buf_clear(&h->acc);
        return crlf ? next_head(h, in, err)
                    : bad(h, 400, err, "bare line feed"); /* EMPTY_LINES_MAX deep */
    }
    h->skipped = 0;
    text.n = end;
    r = parse_head(h, text, err);
    bh_buf_clear(&h->acc);
    if (h->acc.cap > 8192)
        bh_buf_done(&h->acc); /* an idle connection keeps no big buffer */
    return r;
}

/* ---- bodies ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Collects one line (CR LF included) of at most max bytes in acc. 1: complete, *ret_line without CR
 * LF. */
static int take_line(struct bh_h1 *h, struct bh_str *in, size_t max, struct bh_str *ret_line,
                     struct bh_err *err)
{
    const char *lf = in->n > 0 ? memchr(in->p, '\n', in->n) : NULL;
    size_t k = lf ? (size_t)(lf - in->p) + 1 : in->n;
    int r;

    if (h->acc.n + k > max)
        return bad(h, 400, err, "line too long in a chunked body");
    bh_buf_add(&h->acc, in->p, k);
    *in = bh_str_sub(*in, k, in->n);
    if (!lf)
        return 0;
    *ret_line = bh_buf_str(&h->acc);
    r = strip_line(h, ret_line, err);
    return r < 0 ? r : 1;
}

static int next_chunk(struct bh_h1 *h, struct bh_str *in, struct bh_err *err)
{
    struct bh_str line;
    size_t i = 0;
    uint64_t n = 0;
    int r = take_line(h, in, BH_HTTP_CHUNK_LINE_MAX, &line, err);

    if (r <= 0)
        return r;
    for (; i < line.n && hex_digit(line.p[i]) >= 0; i++) {
        if (i == 15)
            return bad(h, 413, err, "chunk too large");
        n = n << 4 | (uint64_t)hex_digit(line.p[i]);
    }
    if (i == 0 || (i < line.n && line.p[i] != ';') || !is_field_value(line))
        return bad(h, 400, err, "malformed chunk size");
    bh_buf_clear(&h->acc);
    h->left = n;
    h->state = n > 0 ? S_DATA : S_TRAILER;
    h->trailer_bytes = 0;
    return 1;
}

static int next_trailer(struct bh_h1 *h, struct bh_str *in, struct bh_err *err)
{
    struct bh_str line, name, value;
    int r = take_line(h, in, TRAILER_BYTES_MAX, &line, err);

    if (r <= 0)
        return r;
    h->trailer_bytes += line.n + 2;
    if (h->trailer_bytes > TRAILER_BYTES_MAX)
        return bad(h, 431, err, "trailers too long");
    if (line.n == 0)
        h->state = S_END;
    else if ((r = check_header_line(h, line, &name, &value, err)) < 0)
        return r;
    bh_buf_clear(&h->acc);
    return 1;
}

static int next_data_end(struct bh_h1 *h, struct bh_str *in, struct bh_err *err)
{
    struct bh_str line;
    int r = take_line(h, in, 2, &line, err);

    if (r <= 0)
        return r;
    bh_buf_clear(&h->acc);
    h->state = S_CHUNK;
    return 1;
}

static int take_data(struct bh_h1 *h, struct bh_str *in, struct bh_str *ret_data)
{
    size_t k = in->n;

    if (h->state != S_UNTIL_EOF && k > h->left)
        k = (size_t)h->left;
    *ret_data = bh_str_sub(*in, 0, k);
    *in = bh_str_sub(*in, k, in->n);
    if (h->state == S_UNTIL_EOF)
        return BH_H1_BODY;
    h->left -= k;
    if (h->left == 0)
        h->state = h->state == S_DATA ? S_DATA_END : S_END;
    return BH_H1_BODY;
}

int bh_h1_next(struct bh_h1 *h, struct bh_str *in, struct bh_str *ret_data, struct bh_err *err)
{
    for (;;) {
        int r = 0;

        if (h->state == S_END) {
            h->state = S_HEAD;
            return BH_H1_END;
        }
        if (in->n == 0)
            return BH_H1_MORE;
        switch (h->state) {
        case S_HEAD:
            return next_head(h, in, err);
        case S_LENGTH:
        case S_DATA:
        case S_UNTIL_EOF:
            return take_data(h, in, ret_data);
        case S_CHUNK:
            r = next_chunk(h, in, err);
            break;
        case S_DATA_END:
            r = next_data_end(h, in, err);
            break;
        case S_TRAILER:
            r = next_trailer(h, in, err);
            break;
        default:
            return bh_err_set(err, BH_E_PROTO, "HTTP/1: the connection is broken");
        }
        if (r < 0)
            return r;
    }
}

int bh_h1_eof(struct bh_h1 *h, struct bh_err *err)
{
    if (h->state == S_END || h->state == S_UNTIL_EOF) {
        h->state = S_HEAD;
        return BH_H1_END;
    }
    if (bh_h1_idle(h))
        return BH_H1_MORE;
    return bad(h, 400, err, "the connection ended within a message");
}
