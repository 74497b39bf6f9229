/* Image locality: nodes that hold the pod's images score higher, the more the larger and rarer.
 *
 * Per image the scheduler counts the nodes that have it. An image is as large as the node says that
 * had it first (upstream's rule): a node keeps only which images it has.
 */
#include "scheduler/sched_int.h"

#define MIN_BYTES  ((int64_t)23 << 20)
#define MAX_BYTES  ((int64_t)1000 << 20)
#define IMAGES_MAX 256 /* per node; kubelets report 50 */
#define MAX_SCORE  100

struct image {
    int64_t size;
    uint32_t nodes;
};

static struct image *image_add(struct bh_scheduler *s, struct bh_str name, int64_t size)
{
    struct image *im = bh_map_get(&s->images, name);

    if (!im) {
        im = bh_calloc(1, sizeof(*im));
        im->size = size;
        (void)bh_map_put(&s->images, name, im);
    }
    im->nodes++;
    return im;
}

static void image_drop(struct bh_scheduler *s, struct bh_str name, struct image *im)
{
    if (--im->nodes)
        return;
    (void)bh_map_del(&s->images, name);
    bh_free(im);
}

void sched_images_clear(struct bh_scheduler *s, struct snode *n)
{
    struct bh_str name;
    size_t it = 0;
    void *v;

    while (bh_map_next(&n->images, &it, &name, &v))
        image_drop(s, name, v);
    bh_map_done(&n->images);
}

bool sched_images_same(const struct bh_core_v1_node *a, const struct bh_core_v1_node *b)
{
    const struct bh_core_v1_container_image_vec *v = &a->status.images, *w = &b->status.images;

    if (v->n != w->n)
        return false;
    for (size_t i = 0; i < v->n; i++) {
        if (v->p[i].size_bytes != w->p[i].size_bytes || v->p[i].names.n != w->p[i].names.n)
            return false;
        for (size_t k = 0; k < v->p[i].names.n; k++)
            if (!bh_str_eq(v->p[i].names.p[k], w->p[i].names.p[k]))
                return false;
    }
    return true;
}

void sched_images_read(struct bh_scheduler *s, struct snode *n)
{
    const struct bh_core_v1_container_image_vec *v = &n->n->status.images;

    if (!v->n && !n->images.n)
        return;
    sched_images_changed(s);
    sched_images_clear(s, n);
    for (size_t i = 0; i < v->n && i < IMAGES_MAX; i++)
        for (size_t k = 0; k < v->p[i].names.n; k++)
            if (!bh_map_get(&n->images, v->p[i].names.p[k]))
                (void)bh_map_put(&n->images, v->p[i].names.p[k],
                                 image_add(s, v->p[i].names.p[k], v->p[i].size_bytes));
}

/* "app" means "app:latest"; a port is no tag. */
static struct bh_str normal(struct bh_arena *a, struct bh_str image)
{
    ptrdiff_t colon = -1, slash = -1;

    for (size_t i = 0; i < image.n; i++) {
        if (image.p[i] == ':')
            colon = (ptrdiff_t)i;
        if (image.p[i] == '/')
            slash = (ptrdiff_t)i;
    }
    return colon > slash ? image : bh_str_fmt(a, "%.*s:latest", BH_SF(image));
}

static int64_t worth(struct cycle *c, struct bh_str image, const struct snode *n)
{
    struct bh_str name = normal(c->a, image);
    const struct image *im = bh_map_get(&n->images, name);
    double spread;

    if (!im)
        return 0;
    spread = (double)im->nodes / (double)c->s->nodes.n;
    return (int64_t)((double)im->size * spread);
}

static int64_t sum_of(struct cycle *c, const struct bh_core_v1_container_vec *v,
                      const struct snode *n)
{
    int64_t sum = 0;

    for (size_t i = 0; i < v->n; i++)
        sum += worth(c, v->p[i].image, n);
    return sum;
}

int64_t sched_images_score(struct cycle *c, const struct snode *n)
{
    const struct bh_core_v1_pod_spec *spec = &c->pod->p->spec;
    int64_t count_, max, sum;

    if (!n->images.n)
        return 0;
    count_ = (int64_t)(spec->containers.n + spec->init_containers.n);
    max = MAX_BYTES * count_;
    sum = sum_of(c, &spec->containers, n) + sum_of(c, &spec->init_containers, n);
    for (size_t i = 0; i < spec->volumes.n; i++)
        if (spec->volumes.p[i].volume_source.image)
            sum += worth(c, spec->volumes.p[i].volume_source.image->reference, n);
    if (sum < MIN_BYTES)
        sum = MIN_BYTES;
    if (sum > max)
        sum = max;
    return MAX_SCORE * (sum - MIN_BYTES) / (max - MIN_BYTES);
}
