/* Who asks: bearer tokens from a file, client certificates, or nobody. */
#include "apiserver/server_int.h"
#include "base/fs.h"

#include <string.h>

#define TOKEN_FILE_BYTES_MAX (16u << 20)

struct bh_authn {
    struct bh_arena *a;
    struct bh_map tokens; /* token -> struct bh_user */
    bool anonymous;
};

/* One field of a CSV line: quoted (doubled quotes inside) or plain. */
static struct bh_str csv_field(struct bh_arena *a, struct bh_str *line)
{
    char *out;
    size_t n = 0, i = 1;

    if (line->n == 0 || line->p[0] != '"')
        return bh_str_cut(line, ',');
    out = bh_arena_alloc(a, line->n);
    for (; i < line->n; i++) {
        if (line->p[i] == '"') {
            if (i + 1 < line->n && line->p[i + 1] == '"')
                i++;
            else
                break;
        }
        out[n++] = line->p[i];
    }
    *line = bh_str_sub(*line, i + 1, line->n);
    if (line->n > 0 && line->p[0] == ',')
        *line = bh_str_sub(*line, 1, line->n);
    else
        *line = (struct bh_str){NULL, 0};
    return (struct bh_str){out, n};
}

static struct bh_str_vec split_groups(struct bh_arena *a, struct bh_str text, const char *always)
{
    struct bh_str_vec v = {bh_new_n(a, struct bh_str, text.n + 2), 0};

    while (text.p && text.n > 0) {
        v.p[v.n++] = bh_str_cut(&text, ',');
        /* A comma at the end leaves an empty group, as upstream. */
        if (text.p && text.n == 0)
            v.p[v.n++] = BH_S("");
    }
    v.p[v.n++] = bh_s(always);
    return v;
}

static int read_line(struct bh_authn *an, struct bh_str line, size_t number, const char *path,
                     struct bh_err *err)
{
    struct bh_user *u = bh_new(an->a, struct bh_user);
    struct bh_str token = csv_field(an->a, &line), groups = BH_S("");

    u->name = line.p ? csv_field(an->a, &line) : BH_S("");
    if (!line.p)
        return bh_err_set(err, BH_E_INVALID, "%s: line %zu: token, user name and uid are needed",
                          path, number);
    u->uid = csv_field(an->a, &line);
    if (line.p)
        groups = csv_field(an->a, &line);
    if (token.n == 0)
        return 0;
    u->groups = split_groups(an->a, groups, "system:authenticated");
    (void)bh_map_put(&an->tokens, token, u);
    return 0;
}

static int read_tokens(struct bh_authn *an, const char *path, struct bh_err *err)
{
    struct bh_buf b = {.max = TOKEN_FILE_BYTES_MAX};
    struct bh_str rest;
    size_t number = 0;
    int r = bh_fs_read(path, TOKEN_FILE_BYTES_MAX, &b, err);

    if (r == 0) {
        rest = bh_str_dup(an->a, bh_buf_str(&b));
        while (r == 0 && rest.p && rest.n > 0) {
            struct bh_str line = bh_str_trim(bh_str_cut(&rest, '\n'));

            number++;
            if (line.n > 0 && line.p[0] != '#')
                r = read_line(an, line, number, path, err);
        }
    }
    bh_buf_done(&b);
    return r;
}

struct bh_authn *bh_authn_new(const struct bh_apiserver_opts *o, struct bh_err *err)
{
    struct bh_authn *an = bh_calloc(1, sizeof(*an));

    an->a = bh_arena_new(0);
    an->anonymous = !o->no_anonymous;
    if (o->token_auth_file && read_tokens(an, o->token_auth_file, err) < 0)
        return bh_authn_free(an);
    return an;
}

struct bh_authn *bh_authn_free(struct bh_authn *an)
{
    if (!an)
        return NULL;
    bh_map_done(&an->tokens);
    (void)bh_arena_free(an->a);
    bh_free(an);
    return NULL;
}

int bh_authn_check(const struct bh_authn *an, struct bh_arena *a, struct bh_str token,
                   struct bh_str cn, struct bh_str_vec orgs, struct bh_user *ret)
{
    static struct bh_str nobody[] = {BH_S_INIT("system:unauthenticated")};
    const struct bh_user *u;

    if (cn.n > 0) {
        *ret = (struct bh_user){.name = cn};
        ret->groups.p = bh_new_n(a, struct bh_str, orgs.n + 1);
        if (orgs.n > 0)
            memcpy(ret->groups.p, orgs.p, orgs.n * sizeof(struct bh_str));
        ret->groups.n = orgs.n;
        ret->groups.p[ret->groups.n++] = BH_S("system:authenticated");
        return 1;
    }
    if (token.p) {
        u = bh_map_get(&an->tokens, token);
        if (!u)
            return 0;
        *ret = *u;
        return 1;
    }
    if (!an->anonymous)
        return 0;
    *ret = (struct bh_user){.name = BH_S("system:anonymous"), .groups = {nobody, 1}};
    return 1;
}
