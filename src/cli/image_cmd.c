#include "cli/commands.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/flags.h"
#include "base/fs.h"
#include "data/json.h"
#include "runtime/image_store.h"
#include "runtime/rt_record.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct image_opts {
    const char *data_dir, *name;
    bool json;
    char **rest;
    int rest_n;
};

static int usage(void)
{
    fputs("usage: bulkhead image import [--name NAME] FILE...\n"
          "       bulkhead image list [-o json]\n"
          "       bulkhead image rm NAME...\n"
          "  --data-dir DIR   the cluster's data directory (or BULKHEAD_DATA_DIR)\n",
          stderr);
    return 2;
}

static bool parse(int argc, char **argv, struct image_opts *o)
{
    o->data_dir = getenv("BULKHEAD_DATA_DIR");
    o->rest = argv;
    for (int i = 0; i < argc; i++) {
        const char *v;

        if ((v = bh_flag_value(argc, argv, &i, "--data-dir")) != NULL)
            o->data_dir = v;
        else if ((v = bh_flag_value(argc, argv, &i, "--name")) != NULL)
            o->name = v;
        else if ((v = bh_flag_value(argc, argv, &i, "-o")) != NULL && strcmp(v, "json") == 0)
            o->json = true;
        else if (argv[i][0] == '-')
            return false;
        else
            argv[o->rest_n++] = argv[i];
    }
    if (!o->data_dir || !*o->data_dir) {
        fputs("bulkhead image: give --data-dir or set BULKHEAD_DATA_DIR\n", stderr);
        return false;
    }
    return true;
}

static int fail(const struct bh_err *err)
{
    fprintf(stderr, "bulkhead image: %s\n", err->msg);
    return 1;
}

static int cmd_import(const struct image_opts *o, const char *dir)
{
    struct bh_err err = {0};

    for (int i = 0; i < o->rest_n; i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_image_list l;

        if (bh_image_import(a, dir, o->rest[i], bh_s(o->name), &l, &err) < 0)
            return fail(&err);
        for (size_t k = 0; k < l.n; k++) {
            const struct bh_cri_image *img = &l.p[k]->cri;

            printf("%.*s", BH_SF(img->id));
            for (size_t t = 0; t < img->repo_tags.n; t++)
                printf(" %.*s", BH_SF(img->repo_tags.p[t]));
            putchar('\n');
        }
    }
    return o->rest_n > 0 ? 0 : usage();
}

static void print_size(int64_t n)
{
    if (n >= 10 << 20)
        printf("%lldMi", (long long)(n >> 20));
    else
        printf("%lldKi", (long long)((n + 1023) >> 10));
}

static void list_json(struct bh_arena *a, const struct bh_image_list *l)
{
    struct bh_jv arr = BH_JV_ARR;
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < l->n; i++) {
        const struct bh_cri_image *img = &l->p[i]->cri;
        struct bh_jv v = BH_JV_OBJ, tags = BH_JV_ARR, digests = BH_JV_ARR;

        if (l->p[i]->gone)
            continue;
        for (size_t t = 0; t < img->repo_tags.n; t++)
            bh_jv_append(a, &tags, bh_jv_str(img->repo_tags.p[t]));
        for (size_t t = 0; t < img->repo_digests.n; t++)
            bh_jv_append(a, &digests, bh_jv_str(img->repo_digests.p[t]));
        bh_jv_setc(a, &v, "id", bh_jv_str(img->id));
        bh_jv_setc(a, &v, "repoTags", tags);
        bh_jv_setc(a, &v, "repoDigests", digests);
        bh_jv_setc(a, &v, "size", bh_jv_i64(a, img->size));
        bh_jv_append(a, &arr, v);
    }
    bh_jv_write(&b, &arr, BH_JSON_INDENT2 | BH_JSON_PLAIN);
    printf("%s\n", bh_buf_cstr(&b));
}

static int cmd_list(const struct image_opts *o, const char *dir)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_image_list l;
    struct bh_err err = {0};
    size_t bad;

    if (bh_image_list_all(a, dir, &l, &bad, &err) < 0)
        return fail(&err);
    if (bad > 0)
        fprintf(stderr, "bulkhead image: %zu records in '%s' are unreadable\n", bad, dir);
    if (o->json) {
        list_json(a, &l);
        return 0;
    }
    printf("%-56s %-14s %s\n", "IMAGE", "ID", "SIZE");
    for (size_t i = 0; i < l.n; i++) {
        const struct bh_cri_image *img = &l.p[i]->cri;

        for (size_t t = 0; !l.p[i]->gone && (t < img->repo_tags.n || t == 0); t++) {
            struct bh_str name = t < img->repo_tags.n ? img->repo_tags.p[t] : BH_S("<none>");

            printf("%-56.*s %-14.*s ", BH_SF(name), BH_SF(bh_str_sub(img->id, 7, 19)));
            print_size(img->size);
            putchar('\n');
        }
    }
    return 0;
}

struct users {
    struct bh_arena *a;
    const char *data_dir;
};

/* Whether a container on disk was made from the image or mounts it; an unreadable record counts as
 * a user. */
static bool image_used(void *arg, struct bh_str id)
{
    const struct users *u = arg;
    char path[PATH_MAX];
    bool used = false;
    DIR *d;

    if (bh_path(path, sizeof(path), NULL, "%s/runtime/containers", u->data_dir) < 0)
        return true;
    d = opendir(path);
    if (!d)
        return false;
    for (struct dirent *e; !used && (e = readdir(d)) != NULL;) {
        BH_AUTO_BUF b = {.max = 4 << 20};
        struct bh_rt_container_rec rec;

        if (e->d_name[0] == '.' ||
            bh_path(path, sizeof(path), NULL, "%s/runtime/containers/%s/state.json", u->data_dir,
                    e->d_name) < 0)
            continue;
        int r = bh_fs_read(path, b.max, &b, NULL);
        if (r == -BH_E_NOT_FOUND)
            continue;
        if (r < 0 || bh_rt_container_decode(u->a, bh_buf_str(&b), &rec, NULL) < 0) {
            used = true;
            continue;
        }
        used = bh_str_eq(rec.image_id, id);
        for (size_t i = 0; !used && i < rec.config.mounts.n; i++)
            used = bh_str_eq(rec.config.mounts.p[i].image, id);
    }
    closedir(d);
    return used;
}

static int cmd_rm(const struct image_opts *o, const char *dir)
{
    struct bh_err err = {0};

    for (int i = 0; i < o->rest_n; i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct users u = {a, o->data_dir};
        struct bh_image *img;

        /* Unlike the runtime's call, a person wants to hear that the name was wrong. */
        if (bh_image_resolve(a, dir, bh_s(o->rest[i]), &img, &err) < 0 ||
            bh_image_remove(dir, bh_s(o->rest[i]), image_used, &u, &err) < 0)
            return fail(&err);
        printf("removed %.*s\n", BH_SF(img->cri.id));
    }
    return o->rest_n > 0 ? 0 : usage();
}

int bh_image_main(int argc, char **argv)
{
    struct image_opts o = {0};
    struct bh_err err = {0};
    char dir[PATH_MAX];

    if (argc < 2)
        return usage();
    if (!parse(argc - 2, argv + 2, &o))
        return usage();
    if (bh_path(dir, sizeof(dir), &err, "%s/runtime/images", o.data_dir) < 0)
        return fail(&err);
    if (strcmp(argv[1], "import") == 0 || strcmp(argv[1], "load") == 0)
        return cmd_import(&o, dir);
    if (strcmp(argv[1], "list") == 0 || strcmp(argv[1], "ls") == 0)
        return cmd_list(&o, dir);
    if (strcmp(argv[1], "rm") == 0 || strcmp(argv[1], "remove") == 0)
        return cmd_rm(&o, dir);
    return usage();
}
