/* `bulkhead scheduler`: the scheduler as a process of its own. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/flags.h"
#include "client/role.h"
#include "data/time_fmt.h"
#include "scheduler/profile.h"
#include "scheduler/serve.h"

static const char usage[] =
    "usage: bulkhead scheduler --kubeconfig FILE [options]\n"
    "  --config FILE                 a KubeSchedulerConfiguration "
    "(kubescheduler.config.k8s.io/v1)\n"
    "  --leader-elect[=BOOL]         take a Lease before working (default true)\n"
    "  --leader-elect-lease-duration, --leader-elect-renew-deadline, --leader-elect-retry-period\n"
    "                                durations; 15s, 10s, 2s unless the configuration says "
    "otherwise\n"
    "  --leader-elect-resource-name, --leader-elect-resource-namespace\n"
    "                                the Lease (kube-scheduler in kube-system)\n"
    "  --secure-port PORT            /healthz, /livez, /readyz and /metrics over TLS (default 0: "
    "none)\n"
    "  --bind-address ADDRESS        of that port (default 127.0.0.1)\n"
    "  --device-scoring on|off       choose the devices that fit best (default), or the first that "
    "fit\n"
    "Flags win over the file.\n";

enum flag {
    KUBECONFIG = 1,
    LEADER,
    LEASE,
    RENEW,
    RETRY,
    LOCK,
    NAME,
    NAMESPACE,
    SCORING,
    CONFIG,
    PORT,
    BIND,
    HELP,
    FLAGS
};

static const struct option longs[] = {
    {"kubeconfig", required_argument, NULL, KUBECONFIG},
    {"leader-elect", optional_argument, NULL, LEADER},
    {"leader-elect-lease-duration", required_argument, NULL, LEASE},
    {"leader-elect-renew-deadline", required_argument, NULL, RENEW},
    {"leader-elect-retry-period", required_argument, NULL, RETRY},
    {"leader-elect-resource-lock", required_argument, NULL, LOCK},
    {"leader-elect-resource-name", required_argument, NULL, NAME},
    {"leader-elect-resource-namespace", required_argument, NULL, NAMESPACE},
    {"device-scoring", required_argument, NULL, SCORING},
    {"config", required_argument, NULL, CONFIG},
    {"secure-port", required_argument, NULL, PORT},
    {"bind-address", required_argument, NULL, BIND},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0}};

struct process {
    struct bh_scheduler_opts opts;
    struct bh_scheduler *sched; /* NULL while another one leads */
    struct sched_server *server;
    const char *host;
    int port; /* 0: none */
};

static void *start(void *arg, struct bh_client *c, struct bh_err *err)
{
    struct process *p = arg;

    p->sched = bh_scheduler_new(c, &p->opts, err);
    return p->sched ? p : NULL;
}

static void stop(void *self)
{
    struct process *p = self;

    p->sched = bh_scheduler_free(p->sched);
}

static bool open_port(void *arg, struct bh_loop *l, struct bh_err *err)
{
    struct process *p = arg;

    if (!p->port)
        return true;
    p->server = sched_server_new(l, p->host, p->port, &p->sched, NULL, err);
    return p->server != NULL;
}

static void close_port(void *arg)
{
    struct process *p = arg;

    p->server = sched_server_free(p->server);
}

/* What of the configuration a role has to know; flags that were given win. The strings of the
 * configuration end with a NUL: they are whole strings of its arena. */
static int apply(const struct bh_scheduler_config *cfg, const char *const flags[FLAGS],
                 struct bh_role *r, struct bh_arena *a)
{
    const struct bh_kubescheduler_v1_leader_election_configuration *l = &cfg->c->leader_election;
    struct bh_str times[] = {l->lease_duration, l->renew_deadline, l->retry_period};
    int64_t *to[] = {&r->times.lease, &r->times.renew, &r->times.retry};
    bool elect = l->leader_elect;

    if (flags[LEADER] && !bh_flag_bool(*flags[LEADER] ? flags[LEADER] : NULL, &elect)) {
        fprintf(stderr, "--leader-elect: not a boolean: %s\n", flags[LEADER]);
        return 2;
    }
    for (size_t i = 0; i < BH_COUNT(times); i++) {
        const char *flag = flags[LEASE + i];
        struct bh_err err = {0};
        int64_t ns = 0;

        if (bh_duration_parse(flag ? bh_s(flag) : times[i], &ns, &err) < 0 || ns <= 0) {
            fprintf(stderr, "--%s: %s\n", longs[LEASE - 1 + i].name,
                    err.msg[0] ? err.msg : "must be greater than zero");
            return 2;
        }
        *to[i] = ns / 1000000;
    }
    if (flags[LOCK] && !bh_str_eqc(bh_s(flags[LOCK]), "leases")) {
        fprintf(stderr, "--leader-elect-resource-lock: only leases, not %s\n", flags[LOCK]);
        return 2;
    }
    if (r->times.lease <= r->times.renew) {
        fprintf(stderr, "leaderElection.leaseDuration: must be greater than `RenewDeadline`\n");
        return 1;
    }
    r->lease_ns = flags[NAMESPACE] ? flags[NAMESPACE] : bh_str_dup(a, l->resource_namespace).p;
    if (elect)
        r->lease = flags[NAME] ? flags[NAME] : bh_str_dup(a, l->resource_name).p;
    r->kubeconfig = flags[KUBECONFIG];
    if (!r->kubeconfig && cfg->c->client_connection.kubeconfig.n)
        r->kubeconfig = bh_str_dup(a, cfg->c->client_connection.kubeconfig).p;
    return 0;
}

static int run(const char *const flags[FLAGS], struct process *p)
{
    struct bh_role r = {.name = "bulkhead-scheduler",
                        .start = start,
                        .stop = stop,
                        .open = open_port,
                        .close = close_port,
                        .arg = p};
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_scheduler_config *cfg;
    struct bh_err err = {0};
    int rc;

    rc = flags[CONFIG] ? bh_scheduler_config_load(flags[CONFIG], &cfg, &err)
                       : sched_config_parse((struct bh_str){NULL, 0}, &cfg, &err);
    if (rc < 0) {
        fprintf(stderr, "bulkhead scheduler: %s\n", err.msg);
        return 1;
    }
    p->opts.config = cfg;
    rc = apply(cfg, flags, &r, a);
    if (rc == 0)
        rc = bh_role_run(&r);
    (void)bh_scheduler_config_free(cfg);
    return rc;
}

int bh_scheduler_main(int argc, char **argv)
{
    const char *flags[FLAGS] = {NULL};
    struct process p = {.host = "127.0.0.1"};
    int64_t port = 0;
    int c;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (c <= 0 || c >= FLAGS) {
            fputs(usage, stderr);
            return 2;
        }
        if (c == HELP) {
            fputs(usage, stdout);
            return 0;
        }
        flags[c] = optarg ? optarg : "";
    }
    if (optind < argc) {
        fprintf(stderr, "unexpected argument %s\n%s", argv[optind], usage);
        return 2;
    }
    if (flags[SCORING] && bh_str_eqc(bh_s(flags[SCORING]), "off")) {
        p.opts.device_scoring_off = true;
    } else if (flags[SCORING] && !bh_str_eqc(bh_s(flags[SCORING]), "on")) {
        fprintf(stderr, "--device-scoring: on or off, not %s\n", flags[SCORING]);
        return 2;
    }
    if (flags[PORT] && !bh_str_i64(bh_s(flags[PORT]), 0, 65535, &port)) {
        fprintf(stderr, "--secure-port: not a port: %s\n", flags[PORT]);
        return 2;
    }
    p.port = (int)port;
    if (flags[BIND])
        p.host = flags[BIND];
    return run(flags, &p);
}
