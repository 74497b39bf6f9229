/* Images on disk: unpacked layers shared by digest, one record per image.
 *
 *     DIR/records/<hex of the configuration's digest>.json   names, digests, layers, the
 * configuration DIR/layers/<32 hex digits of the layer's diff id>/     unpacked content, immutable,
 * overlayfs form DIR/tmp/                                               what is being made; emptied
 * when the lock is free DIR/lock                                               one changer at a
 * time, in any process
 *
 * A record is written after its layers are complete and synced; removing an image removes its
 * record first. Layers that no record names are removed then. Readers take no lock: records are
 * replaced whole. All calls block: worker pool or command line. Thread: any.
 */
#ifndef BH_RUNTIME_IMAGE_STORE_H
#define BH_RUNTIME_IMAGE_STORE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "data/json.h"
#include "runtime/runtime.h"

struct bh_image_layer {
    struct bh_str diff_id; /* sha256:<hex> */
    int64_t bytes;
};

struct bh_image {
    struct bh_cri_image cri;
    struct bh_image_layer *layers; /* lowest first */
    size_t n_layers;
    struct bh_str_vec entrypoint, cmd, env;
    struct bh_str working_dir, user, stop_signal;
    int64_t imported_ns;
    bool gone; /* removed while a container used it: kept for its layers only, never found by name
                  or id */
    struct bh_jv config; /* the whole configuration document */
};

struct bh_image_list {
    struct bh_image **p;
    size_t n;
};

/* dir is made when it is missing. Unreadable records are left out and counted in *ret_bad (may be
 * NULL). */
/* The list includes images that are gone. */
BH_MUST int bh_image_list_all(struct bh_arena *a, const char *dir, struct bh_image_list *ret,
                              size_t *ret_bad, struct bh_err *err);
/* By id (with or without sha256:), by name, by name@digest. Names are compared in full form:
 * busybox is docker.io/library/busybox:latest. -BH_E_NOT_FOUND. */
BH_MUST int bh_image_resolve(struct bh_arena *a, const char *dir, struct bh_str name,
                             struct bh_image **ret, struct bh_err *err);
/* Full form of a name: host, path and tag or digest. -BH_E_INVALID "invalid reference format". */
BH_MUST int bh_image_full_name(struct bh_arena *a, struct bh_str name, struct bh_str *ret,
                               struct bh_err *err);
/* Takes the image with all its names away. used(arg, id) tells whether a container needs its layers
 * (NULL: none does); such layers stay until a later removal finds them unused. Missing is fine. */
BH_MUST int bh_image_remove(const char *dir, struct bh_str name,
                            bool (*used)(void *arg, struct bh_str image_id), void *arg,
                            struct bh_err *err);
/* Imports an OCI or docker archive. name: replaces the names in the archive when not empty (the
 * archive must then hold one image). The images stand in ret afterwards. */
BH_MUST int bh_image_import(struct bh_arena *a, const char *dir, const char *file,
                            struct bh_str name, struct bh_image_list *ret, struct bh_err *err);

/* Path of a layer's directory relative to DIR/layers: the first 32 digits. */
struct bh_str bh_image_layer_dir(struct bh_arena *a, struct bh_str diff_id);
/* The layers as an overlay's lowerdir, highest first, relative to DIR/layers. */
struct bh_str bh_image_lowerdirs(struct bh_arena *a, const struct bh_image *img);
/* Reads a file of the image, highest layer first; whiteouts are honoured for the file itself only.
 */
BH_MUST int bh_image_read_file(struct bh_arena *a, const char *dir, const struct bh_image *img,
                               const char *path, struct bh_str *ret, struct bh_err *err);

/* Used by the importer. The lock is waited for up to 10 minutes. */
BH_MUST int bh_image_lock(const char *dir, int *ret_fd, struct bh_err *err);
BH_MUST int bh_image_save(struct bh_arena *a, const char *dir, const struct bh_image *img,
                          struct bh_err *err);
/* Fills the parsed fields from img->config. */
void bh_image_read_config(struct bh_arena *a, struct bh_image *img);
/* Takes the names away from every other image. */
BH_MUST int bh_image_take_names(struct bh_arena *a, const char *dir, const struct bh_image *owner,
                                struct bh_err *err);

#endif
