/* The kubelet's HTTPS API: /healthz, /pods and /containerLogs, for the API server and for
 * monitoring.
 *
 * Only a client certificate of our CA is let in (upstream asks the API server; here the certificate
 * has to say system:masters or be the API server's own). Logs are followed by looking at the file
 * ten times a second while the container runs.
 */
#include <dirent.h>
#include <stdio.h>

#include "api/engine.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "data/time_fmt.h"
#include "kubelet/kubelet_int.h"
#include "kubelet/log_reader.h"
#include "net/http.h"

#define FOLLOW_MS      100
#define QUEUE_MAX      ((size_t)1 << 20)
#define FOLLOWERS_MAX  1000
#define PATH_MAX_BYTES 4096

struct kubelet_server {
    struct bh_kubelet *k;
    struct bh_http_server *http;
    struct bh_link followers;
    size_t n_followers;
};

struct follower {
    struct bh_link link;
    struct kubelet_server *s;
    struct bh_http_exchange *x;
    struct bh_log_reader *log;
    struct bh_timer timer;
    bool follow;
    bool ended; /* the container was seen not running: one more read, then the end */
    bool asking;
    bool dead;       /* waits for the runtime's answer */
    char *container; /* name */
    char *pod_uid;
};

static void answer(struct bh_http_exchange *x, int status, const char *type, struct bh_str body)
{
    struct bh_http_header h = BH_HTTP_HEADER("Content-Type", bh_s(type));
    struct bh_part part = {.data = body};

    bh_http_respond(x, status, &h, 1, &part, body.n ? 1 : 0);
}

static void answer_text(struct bh_http_exchange *x, int status, const char *text)
{
    answer(x, status, "text/plain; charset=utf-8", bh_s(text));
}

static bool allowed(const struct bh_http_exchange *x)
{
    const struct bh_stream_peer *p = x->peer;

    if (!p->cert_verified)
        return false;
    for (size_t i = 0; i < p->orgs.n; i++)
        if (bh_str_eqc(p->orgs.p[i], "system:masters"))
            return true;
    return bh_str_eqc(p->cn, "kube-apiserver-kubelet-client");
}

/* ---- pods ---- */

static void serve_pods(struct kubelet_server *s, struct bh_http_exchange *x)
{
    BH_AUTO_BUF b = {0};
    bool any = false;
    void *v;

    bh_buf_addz(&b, "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{},\"items\":[");
    for (size_t it = 0; bh_map_next(&s->k->workers, &it, NULL, &v);) {
        struct bh_obj *o = kl_worker_pod(v);

        if (!o)
            continue;
        bh_buf_addz(&b, any ? "," : "");
        bh_buf_adds(&b, o->json);
        any = true;
    }
    bh_buf_addz(&b, "]}");
    answer(x, 200, "application/json", bh_buf_str(&b));
}

/* ---- logs ---- */

static void follower_free(struct follower *f)
{
    bh_timer_stop(&f->timer);
    bh_list_del(&f->link);
    f->s->n_followers--;
    f->log = bh_log_reader_free(f->log);
    bh_free(f->container);
    bh_free(f->pod_uid);
    bh_free(f);
}

static void follower_end(struct follower *f)
{
    bh_http_stream_end(f->x);
    if (f->asking) {
        f->dead = true;
        bh_timer_stop(&f->timer);
    } else {
        follower_free(f);
    }
}

/* Sends what there is. Returns false when the stream has ended. */
static bool pump(struct follower *f)
{
    struct bh_err err = {0};
    int more = 1;

    while (more == 1 && bh_http_queued(f->x) < QUEUE_MAX) {
        BH_AUTO_BUF b = {0};

        more = bh_log_reader_next(f->log, &b, &err);
        if (b.n) {
            struct bh_part part = {.data = bh_buf_str(&b)};

            bh_http_stream_write(f->x, &part, 1);
        }
    }
    if (bh_http_gone(f->x) || more < 0 || more == 2 || (more == 0 && (!f->follow || f->ended))) {
        follower_end(f);
        return false;
    }
    return true;
}

static void running_asked(void *arg, const struct bh_err *err, const struct bh_cri_container_vec *v)
{
    struct follower *f = arg;
    bool running = false;

    f->asking = false;
    if (f->dead) {
        follower_free(f);
        return;
    }
    for (size_t i = 0; !err && i < v->n; i++) {
        const struct bh_str *uid = bh_str_map_get(&v->p[i].labels, BH_S(KL_LABEL_POD_UID));

        running = running ||
                  (uid && bh_str_eqc(*uid, f->pod_uid) && bh_str_eqc(v->p[i].name, f->container) &&
                   (v->p[i].state == BH_CRI_RUNNING || v->p[i].state == BH_CRI_CREATED));
    }
    f->ended = !running;
    if (pump(f))
        bh_timer_start(&f->timer, FOLLOW_MS);
}

static void follow(void *arg)
{
    struct follower *f = arg;

    if (!pump(f))
        return;
    f->asking = true;
    f->s->k->rt->ops->container_list(f->s->k->rt, (struct bh_str){0}, (struct bh_str){0},
                                     running_asked, f);
}

/* Highest run number below `below` whose log exists; -1: none. */
static int64_t latest_log(const char *dir, int64_t below)
{
    DIR *d = opendir(dir);
    int64_t best = -1, n;

    for (struct dirent *e; d && (e = readdir(d));) {
        struct bh_str name = bh_s(e->d_name), num = bh_str_cut(&name, '.');

        if (bh_str_eqc(name, "log") && bh_str_i64(num, 0, below - 1, &n) && n > best)
            best = n;
    }
    if (d)
        closedir(d);
    return best;
}

static struct bh_obj *find_pod(struct bh_kubelet *k, struct bh_str ns, struct bh_str name)
{
    void *v;

    for (size_t it = 0; bh_map_next(&k->workers, &it, NULL, &v);) {
        struct bh_obj *o = kl_worker_pod(v);

        if (o && bh_str_eq(o->ns, ns) && bh_str_eq(o->name, name))
            return o;
    }
    return NULL;
}

static bool has_container(const struct bh_obj *o, struct bh_str name)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(o);

    for (size_t i = 0; i < pod->spec.containers.n; i++)
        if (bh_str_eq(pod->spec.containers.p[i].name, name))
            return true;
    for (size_t i = 0; i < pod->spec.init_containers.n; i++)
        if (bh_str_eq(pod->spec.init_containers.p[i].name, name))
            return true;
    return false;
}

static bool query_bool(struct bh_http_exchange *x, const char *key)
{
    struct bh_str v = bh_http_query_get(x->arena, x->query, bh_s(key));

    /* Some clients write "True". */
    return bh_str_eq_nocase(v, BH_S("true")) || bh_str_eqc(v, "1");
}

static int parse_log_options(struct kubelet_server *s, struct bh_http_exchange *x,
                             struct bh_log_opts *o)
{
    struct bh_str v;
    struct bh_time t;
    int64_t n;

    *o = (struct bh_log_opts){.tail_lines = -1, .timestamps = query_bool(x, "timestamps")};
    v = bh_http_query_get(x->arena, x->query, BH_S("tailLines"));
    if (v.n && !bh_str_i64(v, 0, INT64_MAX, &o->tail_lines))
        return -1;
    v = bh_http_query_get(x->arena, x->query, BH_S("limitBytes"));
    if (v.n && !bh_str_i64(v, 1, INT64_MAX, &o->limit_bytes))
        return -1;
    v = bh_http_query_get(x->arena, x->query, BH_S("sinceSeconds"));
    if (v.n) {
        if (!bh_str_i64(v, 1, INT32_MAX, &n))
            return -1;
        o->since_ns = bh_loop_wall_ns(s->k->loop) - n * 1000000000;
    }
    v = bh_http_query_get(x->arena, x->query, BH_S("sinceTime"));
    if (v.n) {
        if (bh_time_parse(v, &t, NULL) < 0)
            return -1;
        o->since_ns = t.sec * 1000000000 + t.nsec;
    }
    return 0;
}

static void serve_logs(struct kubelet_server *s, struct bh_http_exchange *x, struct bh_str rest)
{
    struct bh_str ns = bh_str_cut(&rest, '/'), name = bh_str_cut(&rest, '/'), container = rest;
    struct bh_http_header h = BH_HTTP_HEADER("Content-Type", BH_S("text/plain"));
    struct bh_obj *o = find_pod(s->k, ns, name);
    char dir[PATH_MAX_BYTES], path[PATH_MAX_BYTES];
    struct bh_log_opts lo;
    struct bh_err err = {0};
    struct follower *f;
    int64_t run;

    if (!o || !has_container(o, container)) {
        answer_text(x, 404, o ? "container not found in pod" : "pod not found");
        return;
    }
    if (parse_log_options(s, x, &lo) < 0) {
        answer_text(x, 400, "invalid log options");
        return;
    }
    if (s->n_followers >= FOLLOWERS_MAX) {
        answer_text(x, 429, "too many log streams");
        return;
    }
    if (bh_path(dir, sizeof(dir), NULL, "%s/pods/%.*s_%.*s_%.*s/%.*s", s->k->log_dir, BH_SF(ns),
                BH_SF(name), BH_SF(o->uid), BH_SF(container)) < 0) {
        answer_text(x, 400, "name too long");
        return;
    }
    run = latest_log(dir, INT32_MAX);
    if (run >= 0 && query_bool(x, "previous"))
        run = latest_log(dir, run);
    if (bh_path(path, sizeof(path), NULL, "%s/%lld.log", dir, (long long)run) < 0) {
        answer_text(x, 400, "name too long");
        return;
    }
    f = bh_calloc(1, sizeof(*f));
    if (run < 0 || bh_log_reader_open(path, &lo, &f->log, &err) < 0) {
        char msg[1024];

        bh_free(f);
        snprintf(msg, sizeof(msg),
                 query_bool(x, "previous")
                     ? "previous terminated container \"%.*s\" in pod \"%.*s\" not found"
                     : "container \"%.*s\" in pod \"%.*s\" is waiting to start: ContainerCreating",
                 BH_SF(container), BH_SF(name));
        answer_text(x, 400, msg);
        return;
    }
    f->s = s;
    f->x = x;
    f->follow = query_bool(x, "follow");
    f->container = bh_strdup_c(container);
    f->pod_uid = bh_strdup_c(o->uid);
    bh_timer_init(&f->timer, s->k->loop, follow, f);
    bh_list_add_tail(&s->followers, &f->link);
    s->n_followers++;
    bh_http_stream_start(x, 200, &h, 1);
    follow(f);
}

static void handle(void *arg, struct bh_http_exchange *x)
{
    struct kubelet_server *s = arg;

    if (!allowed(x)) {
        answer_text(x, 401, "Unauthorized");
    } else if (!bh_str_eqc(x->method, "GET")) {
        answer_text(x, 405, "method not allowed");
    } else if (bh_str_starts(x->path, BH_S("/healthz"))) {
        answer_text(x, 200, "ok");
    } else if (bh_str_eqc(x->path, "/pods") || bh_str_eqc(x->path, "/pods/")) {
        serve_pods(s, x);
    } else if (bh_str_starts(x->path, BH_S("/containerLogs/"))) {
        struct bh_str path;

        if (!bh_http_unescape(x->arena, bh_str_sub(x->path, 15, x->path.n), &path))
            answer_text(x, 400, "bad path");
        else
            serve_logs(s, x, path);
    } else {
        answer_text(x, 404, "404 page not found\n");
    }
}

struct kubelet_server *kubelet_server_new(struct bh_kubelet *k, const struct bh_kubelet_opts *o,
                                          struct bh_err *err)
{
    static const char *const alpn[] = {"http/1.1", NULL};
    const struct bh_tls_opts to = {.server = true,
                                   .cert_pem = o->cert_pem,
                                   .key_pem = o->key_pem,
                                   .ca_pem = o->client_ca_pem,
                                   .alpn = alpn};
    struct kubelet_server *s = bh_calloc(1, sizeof(*s));
    const struct bh_http_server_opts ho = {.handler = handle, .arg = s};
    struct bh_listen_opts lo = {.host = o->bind_address ? o->bind_address : "0.0.0.0",
                                .port = o->port};

    s->k = k;
    bh_list_init(&s->followers);
    s->http = bh_http_server_new(k->loop, &ho);
    lo.tls = bh_tls_new(&to, err);
    if (!lo.tls || bh_http_server_listen(s->http, &lo, NULL, err) < 0) {
        (void)bh_err_wrap(err, "kubelet port %d", o->port);
        (void)bh_tls_unref(lo.tls);
        return kubelet_server_free(s);
    }
    (void)bh_tls_unref(lo.tls);
    return s;
}

struct kubelet_server *kubelet_server_free(struct kubelet_server *s)
{
    if (!s)
        return NULL;
    /* The runtime is gone by now: no answer that a follower waits for will come. */
    while (!bh_list_empty(&s->followers)) {
        struct follower *f = bh_container(s->followers.next, struct follower, link);

        if (!f->dead)
            bh_http_stream_abort(f->x);
        follower_free(f);
    }
    s->http = bh_http_server_free(s->http);
    bh_free(s);
    return NULL;
}
