/* An API in this process's memory behind the client seam, so that the scheduler's own cost shows:
 * objects by name, list, watch, create, update, patch, delete, binding. Nothing is defaulted,
 * validated, admitted or durable. Claims of templates are made together with their pod and go with
 * it, in the controllers' place. Clients of one mem_api see the same objects; one loop. */
#ifndef BH_BENCH_MEM_API_H
#define BH_BENCH_MEM_API_H

#include "base/str.h"

struct bh_client;
struct bh_loop;
struct mem_api;

struct mem_api *mem_api_new(struct bh_loop *l);
/* Every client must be freed before. */
struct mem_api *mem_api_free(struct mem_api *m);
/* measured: the time inside its callbacks, less its calls, is added up in mem_api_user_seconds().
 */
struct bh_client *mem_api_client(struct mem_api *m, bool measured);
double mem_api_user_seconds(const struct mem_api *m);
/* Writes so far, events of the recorder included. */
size_t mem_api_writes(const struct mem_api *m);

#endif
