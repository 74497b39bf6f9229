/* Structs by offsets, and how they become pointers. */
#include "api/image.h"

#include "base/arena.h"

#define ALIGN 8u

static void grow(void *items_pp, size_t *cap, size_t need, size_t item_size)
{
    void *p;

    if (need <= *cap)
        return;
    *cap = need > *cap * 2 ? need + 256 : *cap * 2;
    memcpy(&p, items_pp, sizeof(p));
    p = bh_realloc(p, *cap * item_size);
    memcpy(items_pp, &p, sizeof(p));
}

void bh_image_clear(struct bh_image *im)
{
    im->n = im->links_n = im->views_n = 0;
}

void bh_image_done(struct bh_image *im)
{
    bh_free(im->p);
    bh_free(im->links);
    bh_free(im->views);
    *im = (struct bh_image){0};
}

size_t bh_image_alloc(struct bh_image *im, size_t n)
{
    size_t at = (im->n + ALIGN - 1) & ~(size_t)(ALIGN - 1);

    grow(&im->p, &im->cap, at + n, 1);
    memset(im->p + at, 0, n);
    im->n = at + n;
    return at;
}

void bh_image_link(struct bh_image *im, size_t slot, size_t to)
{
    grow(&im->links, &im->links_cap, im->links_n + 1, sizeof(*im->links));
    im->links[im->links_n++] = (struct bh_image_ptr){slot, to};
}

static void set_len(struct bh_image *im, size_t slot, size_t n)
{
    bh_image_set(im, slot + offsetof(struct bh_str, n), &n, sizeof(n));
}

void bh_image_view(struct bh_image *im, size_t slot, size_t at, size_t n)
{
    grow(&im->views, &im->views_cap, im->views_n + 1, sizeof(*im->views));
    im->views[im->views_n++] = (struct bh_image_ptr){slot + offsetof(struct bh_str, p), at};
    set_len(im, slot, n);
}

void bh_image_copy(struct bh_image *im, size_t slot, struct bh_str s)
{
    size_t at = im->n;

    grow(&im->p, &im->cap, at + s.n, 1);
    if (s.n)
        memcpy(im->p + at, s.p, s.n);
    im->n = at + s.n;
    bh_image_link(im, slot + offsetof(struct bh_str, p), at);
    set_len(im, slot, s.n);
}

static void point(char *block, size_t slot, const char *to)
{
    memcpy(block + slot, &to, sizeof(to));
}

void *bh_image_place(const struct bh_image *im, const char *text, size_t moving)
{
    size_t extra = 0, i = 0, n;
    char *block, *at;

    for (; i < im->views_n && im->views[i].to < moving; i++) {
        memcpy(&n,
               im->p + im->views[i].slot - offsetof(struct bh_str, p) + offsetof(struct bh_str, n),
               sizeof(n));
        extra += n;
    }
    block = bh_malloc(im->n + extra);
    memcpy(block, im->p, im->n);
    at = block + im->n;
    for (size_t k = 0; k < im->links_n; k++)
        point(block, im->links[k].slot, block + im->links[k].to);
    for (size_t k = 0; k < i; k++) {
        memcpy(&n,
               im->p + im->views[k].slot - offsetof(struct bh_str, p) + offsetof(struct bh_str, n),
               sizeof(n));
        if (n)
            memcpy(at, text + im->views[k].to, n);
        point(block, im->views[k].slot, at);
        at += n;
    }
    for (; i < im->views_n; i++)
        point(block, im->views[i].slot, text + im->views[i].to);
    return block;
}
