/* A toy API server for tests of components: objects by path over plain HTTP on loopback, with list,
 * watch, create, update, delete and deletecollection. No validation, no defaults, no selectors but
 * spec.driver. Same loop as its user. */
#ifndef BH_TESTS_FAKE_API_H
#define BH_TESTS_FAKE_API_H

#include "base/str.h"

struct bh_fake_api;
struct bh_loop;

struct bh_fake_api *bh_fake_api_new(struct bh_loop *l);
struct bh_fake_api *bh_fake_api_free(struct bh_fake_api *f);
/* Writes a kubeconfig that leads here. */
void bh_fake_api_kubeconfig(const struct bh_fake_api *f, const char *path);
/* Creates or replaces an object: path "/api/v1/nodes/n1". uid and resourceVersion are added when
 * missing. */
void bh_fake_api_put(struct bh_fake_api *f, const char *path, const char *json);
void bh_fake_api_del(struct bh_fake_api *f, const char *path);
/* JSON of an object, empty when there is none; of the first object by name below a collection with
 * bh_fake_api_first(). */
struct bh_str bh_fake_api_get(const struct bh_fake_api *f, const char *path);
struct bh_str bh_fake_api_first(const struct bh_fake_api *f, const char *collection);
size_t bh_fake_api_count(const struct bh_fake_api *f, const char *collection);
/* Requests that changed something, since the start: POST, PUT, PATCH, DELETE. */
size_t bh_fake_api_writes(const struct bh_fake_api *f);
/* The last deletecollection's query, decoded or not, and how many there were. */
struct bh_str bh_fake_api_wipes(const struct bh_fake_api *f, size_t *ret_n);
/* The next n requests that match the method and whose path holds the text are answered with this
 * status. */
void bh_fake_api_fail(struct bh_fake_api *f, const char *method, const char *path_part, int status,
                      int n);

#endif
