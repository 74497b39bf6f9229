/* What an earlier process left: every record is read and compared with what is really there.
 * Running containers are not touched. Blocking, at start-up only. */
#include "runtime/rt_int.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool id_ok(const char *s)
{
    return strlen(s) == RT_ID_LEN && strspn(s, "0123456789abcdef") == RT_ID_LEN;
}

/* An unreadable record cannot be acted upon, and what it stood for cannot be managed any more: it
 * is put aside for the operator, and the container, which crun still knows by its id, is removed.
 */
static void quarantine(struct rt *rt, const char *kind, const char *id, const char *why)
{
    char from[PATH_MAX], to[PATH_MAX];

    bh_log(BH_ERROR, "unreadable record moved to quarantine, continuing", BH_CSTR("kind", kind),
           BH_CSTR("id", id), BH_CSTR("error", why));
    rt_crun_delete(rt, bh_s(id));
    if (bh_path(from, sizeof(from), NULL, "%s/%s/%s", rt->dir, kind, id) < 0)
        return;
    rt_unmount_under(from);
    if (bh_path(to, sizeof(to), NULL, "%s/quarantine/%s-%s", rt->dir, kind, id) < 0)
        return;
    if (bh_fs_remove_tree(to, NULL) < 0 || rename(from, to) < 0)
        bh_log(BH_ERROR, "record could not be moved to quarantine", BH_CSTR("path", from));
}

/* A process of an earlier boot, or whose number belongs to another by now, is gone. */
static bool really_runs(const struct rt *rt, struct bh_str boot, int64_t pid, int64_t start)
{
    return bh_str_eqc(boot, rt->boot_id) && rt_pid_is(pid, start);
}

static void adopt_sandbox(struct rt *rt, struct bh_rt_sandbox_rec *rec)
{
    if (rec->phase == BH_RT_CREATING || rec->phase == BH_RT_REMOVING) {
        rt_sandbox_wipe(rt, rec->id, rec->cgroup);
        return;
    }
    if (rec->phase == BH_RT_RUNNING && !really_runs(rt, rec->boot_id, rec->pid, rec->pid_start))
        rec->phase = BH_RT_EXITED;
    struct rt_sandbox *sb = rt_sandbox_add(rt, rec);
    if (rec->phase == BH_RT_RUNNING)
        rt_watch_sandbox(sb);
}

/* crun removes the fifo when the container is started. */
static bool was_started(const struct rt *rt, struct bh_str id)
{
    char path[PATH_MAX];

    return bh_path(path, sizeof(path), NULL, "%s/crun/%.*s/exec.fifo", rt->dir, BH_SF(id)) == 0 &&
           !bh_fs_exists(path);
}

static void adopt_container(struct rt *rt, struct bh_rt_container_rec *rec)
{
    struct rt_sandbox *sb = rt_find_sandbox(rt, rec->sandbox_id);

    if (!sb || rec->phase == BH_RT_CREATING || rec->phase == BH_RT_REMOVING) {
        rt_container_wipe(rt, rec->id, rec->cgroup,
                          bh_str_eqc(rec->boot_id, rt->boot_id) ? rec->conmon_pid : 0);
        return;
    }
    if (rec->phase == BH_RT_STARTING)
        rec->phase = was_started(rt, rec->id) ? BH_RT_RUNNING : BH_RT_CREATED;
    if (rec->phase == BH_RT_CREATED)
        rec->started_ns = 0;
    if (!bh_str_eqc(rec->boot_id, rt->boot_id)) {
        rec->pid = rec->conmon_pid = 0; /* numbers of another boot */
        rec->pid_start = -1;
        rec->boot_id = bh_s(rt->boot_id);
    }
    struct rt_container *ct = rt_container_add(rt, sb, rec);
    if (!rt_alive(ct))
        return;
    rt_watch_container(ct);
    /* It may have ended while nobody watched: its exit file then tells. */
    if (ct->watch.pidfd < 0)
        rt_exit_check(ct);
}

static int read_record(const struct rt *rt, const char *kind, const char *id, struct bh_arena *a,
                       struct bh_str *ret, struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = RT_RECORD_MAX};
    char path[PATH_MAX];
    int r = bh_path(path, sizeof(path), err, "%s/%s/%s/state.json", rt->dir, kind, id);

    if (r == 0)
        r = bh_fs_read(path, b.max, &b, err);
    if (r == 0)
        *ret = bh_str_dup(a, bh_buf_str(&b));
    return r;
}

static void adopt_one(struct rt *rt, bool sandbox, const char *id)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    const char *kind = sandbox ? "sandboxes" : "containers";
    struct bh_rt_container_rec crec;
    struct bh_rt_sandbox_rec srec;
    struct bh_err err = {0};
    struct bh_str text;
    int r = read_record(rt, kind, id, a, &text, &err);

    /* A directory without a record: the crash came before the record, so nothing else has happened
     * yet. */
    if (r == -BH_E_NOT_FOUND) {
        if (sandbox)
            rt_sandbox_wipe(rt, bh_s(id), (struct bh_str){NULL, 0});
        else
            rt_container_wipe(rt, bh_s(id), (struct bh_str){NULL, 0}, 0);
        return;
    }
    if (r == 0)
        r = sandbox ? bh_rt_sandbox_decode(a, text, &srec, &err)
                    : bh_rt_container_decode(a, text, &crec, &err);
    if (r == 0 && !bh_str_eqc(sandbox ? srec.id : crec.id, id))
        r = bh_err_set(&err, BH_E_INVALID, "the record belongs to another id");
    if (r < 0)
        quarantine(rt, kind, id, err.msg);
    else if (sandbox)
        adopt_sandbox(rt, &srec);
    else
        adopt_container(rt, &crec);
}

static int adopt_dir(struct rt *rt, bool sandbox, struct bh_err *err)
{
    char path[PATH_MAX];
    int r =
        bh_path(path, sizeof(path), err, "%s/%s", rt->dir, sandbox ? "sandboxes" : "containers");

    if (r < 0)
        return r;
    DIR *d = opendir(path);
    if (!d)
        return bh_err_sys(err, errno, "open '%s'", path);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (id_ok(e->d_name))
            adopt_one(rt, sandbox, e->d_name);
    closedir(d);
    return 0;
}

int rt_adopt(struct rt *rt, struct bh_err *err)
{
    int r = adopt_dir(rt, true, err);

    return r < 0 ? r : adopt_dir(rt, false, err);
}
