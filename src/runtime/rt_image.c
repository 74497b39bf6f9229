/* The runtime's image calls: the image store on the worker pool. */
#include "runtime/rt_int.h"

#include "runtime/image_store.h"

#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

static void list_prepare(struct rt_op *op)
{
    struct bh_image_list all;
    struct bh_cri_image_vec *v = op->result;

    op->rc = bh_image_list_all(op->arena, op->rt->images, &all, NULL, &op->err);
    if (op->rc < 0)
        return;
    v->p = bh_new_n(op->arena, struct bh_cri_image, all.n + 1);
    for (size_t i = 0; i < all.n; i++)
        if (!all.p[i]->gone)
            v->p[v->n++] = all.p[i]->cri;
}

static void list_complete(struct rt_op *op)
{
    bh_cri_images_fn fn = (bh_cri_images_fn)op->done;

    fn(op->arg, op->rc < 0 ? &op->err : NULL, op->result);
    rt_op_free(op);
}

void rt_image_list(struct bh_runtime *b, bh_cri_images_fn done, void *arg)
{
    struct rt_op *op = rt_op_new(rt_of(b), (void (*)(void))done, arg);

    op->result = bh_new(op->arena, struct bh_cri_image_vec);
    op->prepare = list_prepare;
    op->complete = list_complete;
    rt_op_run(op);
}

static void status_prepare(struct rt_op *op)
{
    struct bh_image *img;

    op->rc = bh_image_resolve(op->arena, op->rt->images, op->id, &img, &op->err);
    if (op->rc == 0)
        op->result = &img->cri;
    else if (op->rc == -BH_E_NOT_FOUND)
        op->rc = 0;
}

static void status_complete(struct rt_op *op)
{
    bh_cri_image_fn fn = (bh_cri_image_fn)op->done;

    fn(op->arg, op->rc < 0 ? &op->err : NULL, op->result);
    rt_op_free(op);
}

void rt_image_status(struct bh_runtime *b, struct bh_str name, bh_cri_image_fn done, void *arg)
{
    struct rt_op *op = rt_op_new(rt_of(b), (void (*)(void))done, arg);

    op->id = bh_str_dup(op->arena, name);
    op->prepare = status_prepare;
    op->complete = status_complete;
    rt_op_run(op);
}

static void pull_complete(struct rt_op *op)
{
    op->id = (struct bh_str){NULL, 0};
    rt_cb_id(op);
    rt_op_free(op);
}

void rt_image_pull(struct bh_runtime *b, struct bh_str name, bh_cri_id_fn done, void *arg)
{
    struct rt_op *op = rt_op_new(rt_of(b), (void (*)(void))done, arg);

    op->complete = pull_complete;
    rt_op_fail(op, BH_E_UNSUPPORTED,
               "failed to pull image \"%.*s\": this runtime does not speak to registries; use "
               "`bulkhead image import`",
               BH_SF(name));
}

static bool in_use(void *arg, struct bh_str image_id)
{
    const struct rt_op *op = arg;

    for (size_t i = 0; i < op->paths.n; i++)
        if (bh_str_eq(op->paths.p[i], image_id))
            return true;
    return false;
}

static void remove_prepare(struct rt_op *op)
{
    op->rc = bh_image_remove(op->rt->images, op->id, in_use, op, &op->err);
}

static void remove_complete(struct rt_op *op)
{
    rt_cb_done(op);
    rt_op_free(op);
}

void rt_image_remove(struct bh_runtime *b, struct bh_str name, bh_cri_done_fn done, void *arg)
{
    struct rt *rt = rt_of(b);
    struct rt_op *op = rt_op_new(rt, (void (*)(void))done, arg);
    size_t n = 0;

    op->id = bh_str_dup(op->arena, name);
    /* A container needs the layers of its image, and of the images it mounts, for as long as it
     * exists. */
    bh_list_for(it, &rt->container_list) n +=
        1 + bh_container(it, struct rt_container, link)->rec.config.mounts.n;
    op->paths.p = bh_new_n(op->arena, struct bh_str, n + 1);
    bh_list_for(it, &rt->container_list)
    {
        const struct rt_container *ct = bh_container(it, struct rt_container, link);

        op->paths.p[op->paths.n++] = bh_str_dup(op->arena, ct->rec.image_id);
        for (size_t i = 0; i < ct->rec.config.mounts.n; i++)
            if (ct->rec.config.mounts.p[i].image.n > 0)
                op->paths.p[op->paths.n++] =
                    bh_str_dup(op->arena, ct->rec.config.mounts.p[i].image);
    }
    op->prepare = remove_prepare;
    op->complete = remove_complete;
    rt_op_run(op);
}

static void fs_prepare(struct rt_op *op)
{
    struct bh_cri_fs_info *info = op->result;
    struct bh_image_list all;
    struct statvfs st;

    op->rc = bh_image_list_all(op->arena, op->rt->images, &all, NULL, &op->err);
    if (op->rc < 0)
        return;
    if (statvfs(op->rt->images, &st) < 0) {
        op->rc = bh_err_sys(&op->err, errno, "statvfs '%s'", op->rt->images);
        return;
    }
    info->mountpoint = bh_s(op->rt->images);
    info->capacity_bytes = (uint64_t)st.f_blocks * st.f_frsize;
    info->available_bytes = (uint64_t)st.f_bavail * st.f_frsize;
    for (size_t i = 0; i < all.n; i++)
        info->used_bytes += (uint64_t)all.p[i]->cri.size;
}

static void fs_complete(struct rt_op *op)
{
    bh_cri_fs_info_fn fn = (bh_cri_fs_info_fn)op->done;

    fn(op->arg, op->rc < 0 ? &op->err : NULL, op->result);
    rt_op_free(op);
}

void rt_image_fs_info(struct bh_runtime *b, bh_cri_fs_info_fn done, void *arg)
{
    struct rt_op *op = rt_op_new(rt_of(b), (void (*)(void))done, arg);

    op->result = bh_new(op->arena, struct bh_cri_fs_info);
    op->prepare = fs_prepare;
    op->complete = fs_complete;
    rt_op_run(op);
}
