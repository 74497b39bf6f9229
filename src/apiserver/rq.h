/* A request on its way through the server: what was asked, what has been decided, how it will be
 * answered.
 *
 * It lives in an arena of its own and is freed when the answer (or the end of the watch) has been
 * given. What is allocated on the way has another arena, which a write that is only to be answered
 * gives back when it has been accepted: while the store works, thousands of them wait.
 * Functions that can refuse return 0, or -code after having filled rq->fail through one of the
 * bh_fail_…() functions: whoever is at the top sends it. One loop.
 */
#ifndef BH_APISERVER_RQ_H
#define BH_APISERVER_RQ_H

#include "api/engine.h"
#include "api/ferr.h"
#include "api/types.h"
#include "apiserver/apiserver.h"
#include "apiserver/validate/validate.h"
#include "apiserver/watch_cache.h"
#include "base/arena.h"
#include "base/list.h"
#include "data/codec.h"

struct bh_meta_v1_object_meta;
struct bh_resource;

struct bh_cause {
    struct bh_str reason, message, field;
};

/* A refusal, in the terms of metav1.Status. */
struct bh_fail {
    int http;
    struct bh_str reason, message;
    bool details; /* write details even when all below is empty */
    struct bh_str name, group, kind, uid;
    struct bh_field_errs causes;
    struct bh_cause extra_cause;        /* one cause that is no field error */
    const struct bh_cause *more_causes; /* or many */
    size_t more_causes_n;
    int retry_after;
    struct bh_str text; /* p != NULL: a plain text answer instead of a Status */
};

enum bh_form { BH_FORM_JSON, BH_FORM_YAML, BH_FORM_PB };
enum bh_as { BH_AS_OBJECT, BH_AS_TABLE, BH_AS_PARTIAL, BH_AS_PARTIAL_LIST };

/* What was asked for, from method and path (upstream's RequestInfo). */
struct bh_ri {
    bool resource;        /* /api/… and /apis/… with a resource in it */
    struct bh_str verb;   /* as authorisers call it */
    struct bh_str prefix; /* "api", "apis", or the first word of any other path */
    struct bh_str group, version, ns, res, name, sub;
    struct bh_str path;      /* decoded, without the query */
    struct bh_str parts[12]; /* of the path, from the resource on ("pods", "x", "log") */
    size_t parts_n;
    bool old_watch; /* /api/v1/watch/… */
    bool in_ns;     /* …/namespaces/NS/RESOURCE */
};

struct bh_rq {
    struct bh_link link; /* in the server's list while it is under way */
    struct bh_apiserver *srv;
    struct bh_arena *life; /* of the request itself, and of what its answer needs */
    struct bh_arena *a;    /* of all else */
    bool accepted;         /* nothing is left to be done but the usual answer of a write */
    struct bh_obj *shown;  /* or NULL: a reference to what will be answered, if it is not stored */
    uint64_t id;
    struct bh_api_sink sink;
    bool canceled; /* nobody listens any more */
    bool objects;  /* in-process: objects instead of bytes */
    struct bh_str method, accept, content_type, user_agent, body;
    void *msg; /* instead of a body: a struct of msg_kind */
    const struct bh_kind *msg_kind;
    bool with_status; /* object and status in one write */
    struct bh_query q;
    struct bh_user user;
    struct bh_ri ri;
    int64_t start_ns;
    struct bh_time now; /* wall clock, whole seconds as the API uses them */

    struct bh_resource *res;          /* what the path names */
    const struct bh_kind *kind;       /* in the version asked for */
    const struct bh_subresource *sub; /* NULL: the object itself */

    enum bh_form form; /* of the answer */
    enum bh_as as;
    struct bh_str as_version; /* "v1" or "v1beta1" of the table or metadata form */
    bool pretty;

    bool dry_run;
    struct bh_str field_manager, field_validation;
    bool force, has_force;

    struct bh_str_vec warnings;
    size_t warnings_cap;
    struct bh_fail fail;
    struct bh_rules_env env; /* for the rules of kinds */

    void (*stop)(struct bh_rq *rq); /* a watch: ends it without another callback; NULL otherwise */
    void *watch;
};

/* ---- life ---- */
void bh_rq_finish(struct bh_rq *rq); /* after the answer: unlinks and frees */
/* Adds a Warning header (299). Text is copied; equal texts are told once. */
void bh_rq_warn(struct bh_rq *rq, struct bh_str text);
/* First value of a query parameter, or NULL. */
const struct bh_str *bh_rq_query(const struct bh_rq *rq, const char *name);
struct bh_meta_v1_object_meta *bh_meta_of(const struct bh_kind *k, void *obj);
const struct bh_meta_v1_object_meta *bh_meta_const(const struct bh_kind *k, const void *obj);

/* ---- refusing (fail.c): all fill rq->fail and return -code ---- */
struct bh_str bh_quoted(struct bh_rq *rq, struct bh_str s); /* as %q of Go has it */
int bh_fail_msg(struct bh_rq *rq, enum bh_code code, const char *fmt, ...) BH_PRINTF(3, 4);
int bh_fail_err(struct bh_rq *rq, const struct bh_err *err); /* code, reason and text from err */
/* 500 without a reason: what upstream answers where an error had no form. */
int bh_fail_plain(struct bh_rq *rq, const char *fmt, ...) BH_PRINTF(2, 3);
struct bh_str bh_uint_error(struct bh_rq *rq,
                            struct bh_str s); /* why s is no uint64, in Go's words */
struct bh_str bh_int_error(struct bh_rq *rq, struct bh_str s); /* the same of an int64 */
int bh_fail_text(struct bh_rq *rq, int http, struct bh_str text);
int bh_fail_generic(struct bh_rq *rq,
                    enum bh_code code); /* upstream's fixed texts for 404, 405, 415 …, details {} */
int bh_fail_not_found(struct bh_rq *rq, struct bh_str group, struct bh_str resource,
                      struct bh_str name);
int bh_fail_named(struct bh_rq *rq, enum bh_code code, const struct bh_kind *k, struct bh_str name,
                  const char *fmt, ...) BH_PRINTF(5, 6); /* details: name, group, resource of k */
int bh_fail_conflict(struct bh_rq *rq, const struct bh_kind *k, struct bh_str name, const char *fmt,
                     ...) BH_PRINTF(4, 5); /* Operation cannot be fulfilled on …: */
int bh_fail_forbidden(struct bh_rq *rq, const struct bh_kind *k, struct bh_str name,
                      const char *fmt, ...) BH_PRINTF(4, 5); /* pods "x" is forbidden: … */
/* group and kind as errors name them; errs has at least one entry. */
int bh_fail_invalid(struct bh_rq *rq, struct bh_str group, struct bh_str kind, struct bh_str name,
                    const struct bh_field_errs *errs);
/* "configmaps" or "deployments.apps", in the arena. */
struct bh_str bh_qualified(struct bh_rq *rq, struct bh_str group, struct bh_str resource);

/* ---- answering (answer.c): each ends the request ---- */
void bh_rq_send_fail(struct bh_rq *rq);
/* The object (as stored) in the form, version and shape asked for. */
void bh_rq_answer_obj(struct bh_rq *rq, int http, struct bh_obj *obj);
/* A message of a kind that is not stored (Status, Scale, …). */
void bh_rq_answer_msg(struct bh_rq *rq, int http, const struct bh_kind *k, const void *msg);
/* Ready JSON, translated when YAML was asked for. */
void bh_rq_answer_json(struct bh_rq *rq, int http, struct bh_str json);
void bh_rq_answer_raw(struct bh_rq *rq, int http, struct bh_str content_type, struct bh_str body);
/* What is common to all: adds warnings, counts the request, calls the sink. res->parts and so on
 * are the caller's. */
void bh_rq_answer(struct bh_rq *rq, struct bh_api_response *res);
void bh_rq_answer_success(struct bh_rq *rq, struct bh_str name,
                          struct bh_str uid); /* Status Success of a delete */
const char *bh_form_type(enum bh_form f);
struct bh_str
bh_form_of_json(struct bh_rq *rq,
                struct bh_str json); /* YAML, indented, or with its newline; in the arena */
/* A failure as an encoded Status (JSON without newline, or protobuf). */
struct bh_str bh_status_json(struct bh_rq *rq, const struct bh_fail *f, bool *ret_details);
const struct bh_api_header *bh_rq_headers(struct bh_rq *rq, const struct bh_api_header *more,
                                          size_t more_n, size_t *ret_n); /* with the warnings */
struct bh_str bh_meta_raw(const struct bh_obj *o); /* the JSON of metadata, a view */
void bh_partial_json(const struct bh_obj *o, struct bh_str version, struct bh_buf *out);

/* ---- asking (media.c, request.c, options.c) ---- */
BH_MUST int bh_ri_parse(struct bh_rq *rq, struct bh_str raw_path);
BH_MUST int bh_media_negotiate(struct bh_rq *rq, bool watch);
/* A table, or metadata alone, of what has no such form: 406. */
BH_MUST int bh_media_no_shape(struct bh_rq *rq);
/* Content type of the body for decoding; 415 otherwise. */
BH_MUST int bh_media_of_body(struct bh_rq *rq, enum bh_form *ret);
BH_MUST int
bh_options_write(struct bh_rq *rq,
                 const char *options_kind); /* dryRun, fieldManager, fieldValidation, force */

#endif
