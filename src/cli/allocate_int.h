/* Private to `bulkhead allocate`: the objects of a file. */
#ifndef BH_CLI_ALLOCATE_INT_H
#define BH_CLI_ALLOCATE_INT_H

#include "base/err.h"
#include "base/str.h"

struct bh_arena;
struct bh_dra_model;
struct bh_obj;

struct bh_alloc_object {
    struct bh_obj *obj;
    struct bh_str kind;
    struct bh_str label; /* "ns/name", "name" */
    size_t line;         /* where its document begins, from 1 */
    size_t line_end;     /* where it ends */
    struct bh_str at;    /* its path inside the document: "", "items[3]" */
};

struct bh_alloc_file {
    struct bh_arena *a;
    const char *name; /* for messages */
    struct bh_str text;
    struct bh_alloc_object *objects;
    size_t n, cap;
    bool bad; /* something was said on stderr */
};

/* Reads a YAML stream, a JSON document, Lists and arrays of objects. Says what is wrong on stderr
 * as FILE:LINE: KIND NAME: FIELD: text, and sets bad. name "-" is standard input. */
void bh_alloc_load(struct bh_alloc_file *f);
void bh_alloc_unload(struct bh_alloc_file *f);
/* Puts everything into the model. */
void bh_alloc_fill(const struct bh_alloc_file *f, struct bh_dra_model *m);
/* The claim called "ns/name" (or "name" in default), or NULL. */
const struct bh_alloc_object *bh_alloc_claim(const struct bh_alloc_file *f, struct bh_str key);
/* FILE:LINE: KIND NAME: FIELD: text; the line is that of the field, as near as it can be found. */
void bh_alloc_complain(struct bh_alloc_file *f, const struct bh_alloc_object *o,
                       struct bh_str field, struct bh_str text);

#endif
