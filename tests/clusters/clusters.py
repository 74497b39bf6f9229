#!/usr/bin/env python3
"""Two clusters side by side. The parts build on each other, so they run as one story."""
import glob, json, os, re, signal, stat, sys, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from suite import BULKHEAD, DIR, Cluster, check, play, pod, run, until  # noqa: E402

CLASS = "gpu.bulkhead.dev"
clusters = {}


def start(name):
    c = clusters[name] = Cluster(name)
    c.image()
    template = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "one"},
                "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]}}}}
    p = pod("user", "echo device $BULKHEAD_VISIBLE_DEVICES; while true; do sleep 1; done", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])
    p["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    p["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}, {"name": "m", "mountPath": "/m"}]
    p["spec"]["volumes"] = [{"name": "v", "configMap": {"name": "cm"}}, {"name": "m", "emptyDir": {"medium": "Memory"}}]
    c.kubectl("create", "cm", "cm", "--from-literal=cluster=" + name)
    c.kubectl("create", "-f", "-", stdin="\n---\n".join(json.dumps(o) for o in (template, p, pod("plain"))))
    c.kubectl("wait", "--for=condition=Ready", "pod/user", "pod/plain", "--timeout=40s")
    return c


def containers(c):
    """name -> (container id, restarts, pid)"""
    out = {}
    for p in c.kubectl.json("get", "pods")["items"]:
        s = p["status"]["containerStatuses"][0]
        cid = s["containerID"].split("://")[1]
        out[p["metadata"]["name"]] = (cid, s["restartCount"], int(open(os.path.join(c.data, "runtime", "containers", cid, "pid")).read()))
    return out


def traces(c):
    """What a running cluster has on the machine, to be looked for when it is gone."""
    t = {"pids": {c.pid()}, "cgroups": set(), "netns": set()}
    own = os.readlink("/proc/self/ns/net")
    for p in os.listdir("/proc"):
        if not p.isdigit():
            continue
        try:
            words = open("/proc/%s/cmdline" % p).read()
        except OSError:
            continue
        if c.data in words:
            t["pids"].add(int(p))
    for _, _, pid in containers(c).values():
        t["pids"].add(pid)
        ns = os.readlink("/proc/%d/ns/net" % pid)
        if ns != own:
            t["netns"].add(ns)
        for line in open("/proc/%d/cgroup" % pid):
            controllers, path = line.rstrip("\n").split(":", 2)[1:]
            for mount in glob.glob("/sys/fs/cgroup/*") + ["/sys/fs/cgroup"]:
                if "bulkhead" in path and os.path.isdir(mount + path):
                    t["cgroups"].add(mount + path)
    # The whole of it: the folder of the cluster, below the one that clusters share.
    t["cgroups"] |= {re.match(r"(.*/bulkhead/[^/]+)", p).group(1) for p in t["cgroups"] if re.match(r"(.*/bulkhead/[^/]+)", p)}
    return t


def alive(pid):
    try:
        return open("/proc/%d/stat" % pid).read().split(")")[-1].split()[0] not in "ZX"
    except OSError:
        return False


def nothing_left(c, t):
    left = until("processes to end", lambda: [1] if not [p for p in t["pids"] if alive(p)] else None, 10)
    check(left, "no process")
    check(not [g for g in t["cgroups"] if os.path.exists(g)], "no cgroup", [g for g in t["cgroups"] if os.path.exists(g)])
    mounts = open("/proc/self/mountinfo").read()
    there = os.path.dirname(c.data)
    check(there + "/" not in mounts, "no mount", [m for m in mounts.split("\n") if there + "/" in m])
    check(not [n for n in t["netns"] if n in mounts], "no network namespace is held by a mount")
    held = set()
    for p in os.listdir("/proc"):
        if p.isdigit():
            try:
                held.add(os.readlink("/proc/%s/ns/net" % p))
            except OSError:
                pass
    check(not t["netns"] & held, "nor by a process")
    check(there + "/" not in open("/proc/net/unix").read(), "no socket")
    check(not os.path.exists(c.data), "no data directory", os.listdir(c.data) if os.path.exists(c.data) else "")
    check(not os.path.exists(c.kubelet_root), "no kubelet root", os.listdir(c.kubelet_root) if os.path.exists(c.kubelet_root) else "")
    stray = [f for f in glob.glob("/etc/cdi/*") + glob.glob("/var/run/cdi/*") if there in open(f, errors="replace").read()]
    check(not stray, "no CDI file elsewhere", stray)


def side_by_side():
    """both run pods with devices, each sees its own"""
    a, b = start("a"), start("b")
    check(a.port != b.port, "ports")
    for c in (a, b):
        log = until("its device", lambda: c.kubectl("logs", "user"))
        check(log.startswith("device ") and len(log) > 10, "a pod has a device", log)
        check(len(c.kubectl.json("get", "nodes")["items"]) == 1, "one node each")
        check(len(c.kubectl.json("get", "resourceslices")["items"]) == 1, "one slice each")
        check(c.kubectl("get", "cm", "cm", "-o", "jsonpath={.data.cluster}") == c.name, "objects of its own")
        pid = containers(c)["user"][2]
        check(open("/proc/%d/root/v/cluster" % pid).read() == c.name, "a volume of its own")
    ta, tb = traces(a), traces(b)
    check(ta["cgroups"] and tb["cgroups"] and not ta["cgroups"] & tb["cgroups"], "cgroups of their own", (ta["cgroups"], tb["cgroups"]))
    check(not ta["pids"] & tb["pids"], "processes of their own")
    e = run(*b.kubectl.base, "--server", "https://127.0.0.1:%d" % a.port, "get", "pods", ok=False)
    check(e.returncode != 0 and ("certificate" in e.stderr or "Unauthorized" in e.stderr), "b's credentials are worth nothing at a", e.stderr)


def up_again():
    """up of a cluster that runs; wrong starts beside it"""
    a, b = clusters["a"], clusters["b"]
    pid, before = a.pid(), containers(a)
    for _ in range(2):
        r = a.up(ok=False)
        check(r.returncode == 0 and "runs already" in r.stdout and str(pid) in r.stdout, "it says that it runs already", r)
    check(a.pid() == pid and containers(a) == before, "nothing happened to it")
    r = run(BULKHEAD, "up", "--data-dir", a.data, "--kubelet-root", a.kubelet_root, "--port", str(a.port), ok=False, timeout=20)
    check(r.returncode == 0 and "runs already" in r.stdout, "in the foreground too", r)
    other = os.path.join(DIR, "c", "data")
    r = run(BULKHEAD, "up", "--background", "--data-dir", other, "--kubelet-root", os.path.join(DIR, "c", "kubelet"), "--port", str(a.port), ok=False, timeout=90)
    check(r.returncode == 1, "a third with the port of the first does not start", r)
    check("in use" in open(os.path.join(other, "bulkhead.log")).read(), "and its log says why")
    r = run(BULKHEAD, "up", "--background", "--data-dir", other, "--kubelet-root", a.kubelet_root, "--port", str(b.port + 100), ok=False, timeout=90)
    check(r.returncode == 1, "nor with its kubelet root", r)
    run(BULKHEAD, "down", "--purge", "--data-dir", other, "--kubelet-root", os.path.join(DIR, "c", "kubelet"))
    check(not os.path.exists(other), "what did not start can be purged")
    check(containers(a) == before and a.kubectl("get", "--raw", "/readyz") == "ok", "the first runs on")


def leftovers():
    """what pods left behind that went while nobody ran"""
    a = clusters["a"]
    before = containers(a)
    uids = {p["metadata"]["uid"] for p in a.kubectl.json("get", "pods")["items"]}
    pods = os.path.join(a.kubelet_root, "pods")
    check(uids <= set(os.listdir(pods)), "a pod has a directory", os.listdir(pods))
    os.kill(a.pid(), signal.SIGKILL)
    gone = os.path.join(pods, "3b0c1f0e-5a54-4b7e-9c53-0d9b3a4f6c11")
    mounted = os.path.join(gone, "volumes", "kubernetes.io~projected", "token")
    os.makedirs(mounted)
    open(os.path.join(gone, "file"), "w").close()
    run("mount", "-t", "tmpfs", "tmpfs", mounted)
    odd = os.path.join(pods, "not a pod")
    os.makedirs(odd)
    a.up()
    until("the directory of the pod that is gone to go", lambda: not os.path.exists(gone))
    check(gone not in open("/proc/mounts").read(), "and what was mounted in it")
    check(os.path.isdir(odd), "what is no pod's stays")
    os.rmdir(odd)
    check(uids <= set(os.listdir(pods)), "and so do those of pods that run", os.listdir(pods))
    check(containers(a) == before, "whose containers were not touched")


def secrets():
    """keys and kubeconfigs are for root alone"""
    for c in clusters.values():
        n = 0
        for folder, _, files in os.walk(c.data):
            if os.path.join(c.data, "runtime") in folder:
                continue
            for f in files:
                path = os.path.join(folder, f)
                if not os.path.isfile(path) or os.path.islink(path):
                    continue
                secret = f.endswith(".key") or "kubeconfig" in f or "PRIVATE KEY" in open(path, errors="replace").read(100000)
                if secret and "state" not in f and not f.endswith(".log"):
                    n += 1
                    mode = stat.S_IMODE(os.stat(path).st_mode)
                    check(mode == 0o600, "%s is 0600" % f, oct(mode))
        check(n >= 8, "keys were found", n)
        for f in glob.glob(os.path.join(c.data, "store", "*")):
            check(stat.S_IMODE(os.stat(f).st_mode) & 0o077 == 0 or stat.S_IMODE(os.stat(os.path.dirname(f)).st_mode) & 0o077 == 0, "the store is closed", f)


def one_goes():
    """down --purge of one leaves the other alone"""
    a, b = clusters["a"], clusters["b"]
    ta, before = traces(a), containers(b)
    cdi = {f: (os.stat(f).st_mtime_ns, os.stat(f).st_ino) for f in glob.glob(os.path.join(b.data, "cdi", "*"))}
    check(cdi, "b has CDI files")
    groups = traces(b)["cgroups"]
    a.down()
    nothing_left(a, ta)
    check(containers(b) == before, "b: same containers, same processes, no restart", (containers(b), before))
    check(all(alive(pid) for _, _, pid in before.values()), "b: they are alive")
    check({f: (os.stat(f).st_mtime_ns, os.stat(f).st_ino) for f in glob.glob(os.path.join(b.data, "cdi", "*"))} == cdi, "b: CDI files untouched")
    check(all(os.path.isdir(g) for g in groups), "b: cgroups are there")
    check(open("/proc/%d/root/v/cluster" % before["user"][2]).read() == "b", "b: volumes are there")
    b.kubectl("create", "-f", "-", stdin=json.dumps(pod("new")))
    b.kubectl("wait", "--for=condition=Ready", "pod/new", "--timeout=40s")
    check(True, "b: new pods start")


def down_and_up():
    """down keeps the data, up goes on; a killed cluster can be taken away"""
    b = clusters["b"]
    t = traces(b)
    uid = b.kubectl("get", "pod", "user", "-o", "jsonpath={.metadata.uid}")
    out = run(BULKHEAD, "down", "--data-dir", b.data, "--kubelet-root", b.kubelet_root)
    check("stopped" in out, "down says so", out)
    check(not [p for p in t["pids"] if alive(p)], "its processes are gone", [p for p in t["pids"] if alive(p)])
    check(os.path.exists(os.path.join(b.data, "kubeconfig")), "the data is there")
    check(run(BULKHEAD, "down", "--data-dir", b.data, "--kubelet-root", b.kubelet_root).startswith("No cluster runs"), "down twice")
    b.up()
    check(b.kubectl("get", "pod", "user", "-o", "jsonpath={.metadata.uid}") == uid, "the objects are the same")
    b.kubectl("wait", "--for=condition=Ready", "pod/user", "pod/plain", "--timeout=60s")
    check(True, "its pods run again")
    t = traces(b)
    os.kill(b.pid(), signal.SIGKILL)
    time.sleep(0.5)
    b.down()
    nothing_left(b, t)


try:
    status = play([side_by_side, up_again, leftovers, secrets, one_goes, down_and_up])
finally:
    for c in clusters.values():
        c.down()
sys.exit(status)
