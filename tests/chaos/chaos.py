#!/usr/bin/env python3
"""`bulkhead up` while its processes die, hang and forget."""
import glob, json, os, random, re, signal, subprocess, sys, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from suite import DIR, LONG, Client, Cluster, Failed, check, http_error, play, pod, say, until  # noqa: E402

SEED = int(os.environ.get("CHAOS_SEED") or random.randrange(1 << 30))
ROUNDS = 30 if LONG else 5
DEVICES = 4
DRIVER = "gpu.bulkhead.dev"
PODS, CLAIMS = "/api/v1/namespaces/default/pods", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
rnd = random.Random(SEED)
say("seed %d, %d rounds" % (SEED, ROUNDS))
c = Cluster("chaos", devices=DEVICES)
c.image()
c.client.ask("POST", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates", {
    "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "one"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}}})
made = 0


def ask(method, path, body=None):
    """Like the client's, but outlives an API server that is just being killed."""
    def one():
        try:
            return c.client.ask(method, path, body, timeout=10)
        except (OSError, http_error):
            return None
    return until("%s %s" % (method, path), one, 40)


def items(path):
    status, body = ask("GET", path)
    check(status == 200, "GET " + path, body)
    return body["items"]


def processes():
    """Of this cluster: pid to command line."""
    found = {}
    for p in os.listdir("/proc"):
        if p.isdigit():
            try:
                line = open("/proc/%s/cmdline" % p, "rb").read().replace(b"\0", b" ").decode(errors="replace")
                if c.data in line and open("/proc/%s/stat" % p).read().rsplit(")", 1)[1].split()[0] != "Z":
                    found[int(p)] = line
            except OSError:
                pass
    return found


def pids(word):
    return [p for p, line in processes().items() if word in line]


def inits():
    """First processes of containers: the children of conmon."""
    found = []
    for p in pids("conmon --api-version"):
        try:
            found += [int(x) for x in open("/proc/%d/task/%d/children" % (p, p)).read().split()]
        except OSError:
            pass
    return found


def kill(found, sig=signal.SIGKILL):
    if not found:
        return None
    p = rnd.choice(sorted(found))
    try:
        os.kill(p, sig)
    except OSError:
        return None
    return p


def up():
    """Brings the cluster back after its main process was killed."""
    until("the old process to be gone", lambda: not pids("bulkhead up "), 10)
    c.up()
    c.client = Client(os.path.join(c.data, "kubeconfig"))


def wound():
    """Something dies or hangs."""
    what = rnd.choice(["driver", "conmon", "init", "up", "hang", "up", "helper"])
    if what == "driver":
        kill(pids("gpu-driver"))
    elif what == "conmon":
        kill(pids("conmon --api-version"))
    elif what == "init":
        kill(inits())
    elif what == "helper":
        kill(pids("runtime-exec") or pids("crun"))
    elif what == "hang":
        p = kill(pids("gpu-driver"), signal.SIGSTOP)
        time.sleep(rnd.random() * 2)
        if p:
            try:
                os.kill(p, signal.SIGCONT)
            except OSError:
                pass
    else:
        kill(pids("bulkhead up "))
        time.sleep(rnd.random() * 0.5)
        up()
    return what


def create():
    global made
    made += 1
    name = "p%d" % made
    p = pod(name, "echo uuid=$BULKHEAD_VISIBLE_DEVICES; while true; do sleep 1; done")
    if rnd.random() < 0.7:
        p["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
        p["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    status, body = ask("POST", PODS, p)
    check(status in (201, 409), "a pod is created", body)


def devices_of(claims):
    found = []
    for x in claims:
        a = x.get("status", {}).get("allocation")
        found += [r["device"] for r in a["devices"]["results"]] if a else []
    return found


def once():
    """No device in two claims."""
    found = devices_of(items(CLAIMS))
    check(len(found) == len(set(found)), "no device is given twice", found)


def settled():
    """Every pod runs, but for those that wait for a device while all are given."""
    pods, claims = items(PODS), items(CLAIMS)
    given = len(devices_of(claims))
    for p in pods:
        s = p["status"]
        if p["metadata"].get("deletionTimestamp"):
            raise Failed("%s is still being deleted" % p["metadata"]["name"])
        ready = s.get("phase") == "Running" and all(x["ready"] for x in s.get("containerStatuses", []))
        waits = not p["spec"].get("nodeName") and p["spec"].get("resourceClaims") and given == DEVICES
        if not ready and not waits:
            raise Failed("%s: %s" % (p["metadata"]["name"], json.dumps(s)[:600]))
    return True


def seen_devices():
    """What the running containers themselves say they have is what the claims say."""
    uuids = {}
    for p in items(PODS):
        name = p["metadata"]["name"]
        if p["status"].get("phase") != "Running" or not p["spec"].get("resourceClaims"):
            continue
        log = until("the log of " + name, lambda: c.client.ask("GET", "%s/%s/log" % (PODS, name))[1], 20)
        u = re.findall(r"uuid=(\S+)", str(log))
        check(u and u[-1] not in uuids, "a device of its own in " + name, (log, uuids))
        uuids[u[-1]] = name


def record(path, member):
    """What a checkpoint says; one that was moved aside says nothing."""
    return json.loads(json.load(open(path))[member]) if os.path.exists(path) else {}


def leftovers():
    """What a machine without pods must not have any more."""
    left = ["process %d: %s" % (p, line[:200]) for p, line in processes().items() if "bulkhead up " not in line and "gpu-driver" not in line]
    left += ["mount " + m.split()[1] for m in open("/proc/mounts") if c.data in m or c.kubelet_root in m]
    for kind in ("containers", "sandboxes", "crun"):
        left += glob.glob(os.path.join(c.data, "runtime", kind, "*"))
    left += glob.glob(os.path.join(c.data, "cdi", "*claim*")) + glob.glob(os.path.join(c.data, "cdi", "*metadata*"))
    left += glob.glob(os.path.join(c.kubelet_root, "pods", "*"))
    left += glob.glob(os.path.join(c.data, "driver", "dra-device-metadata", "*"))
    left += ["prepared claim " + json.dumps(x) for x in record(os.path.join(c.data, "driver", "prepared.json"), "data").get("claims") or []]
    left += ["claim of the kubelet " + json.dumps(x)
             for x in record(os.path.join(c.kubelet_root, "dra_manager_state"), "Data").get("ClaimInfoStateList") or []]
    for g in cgroups:
        left += [d for top in glob.glob("/sys/fs/cgroup") + glob.glob("/sys/fs/cgroup/*") for d in glob.glob(top + "/" + g + "/*/")
                 if not d.rstrip("/").endswith("/conmon")]
    return left


cgroups = set()


def note_cgroup():
    for f in glob.glob(os.path.join(c.data, "runtime", "containers", "*", "state.json")):
        try:
            m = re.search(r'"cgroup":"/?(bulkhead/[0-9a-f]+)', open(f).read())
            if m:
                cgroups.add(m.group(1))
        except OSError:
            pass


def clear():
    """Deletes every pod; nothing of them is left."""
    for p in items(PODS):
        ask("DELETE", "%s/%s" % (PODS, p["metadata"]["name"]))
    until("the pods to go", lambda: not items(PODS), 60)
    until("their claims to go", lambda: not items(CLAIMS), 30)
    try:
        until("the machine to be clean", lambda: not leftovers(), 40)
    except Failed:
        raise Failed("left over:\n  " + "\n  ".join(leftovers()))
    check(cgroups, "the cgroups of the cluster are known")


def under_fire():
    """processes are killed while pods come and go"""
    for n in range(ROUNDS):
        for _ in range(rnd.randrange(1, 4)):
            create()
        time.sleep(rnd.random() * 0.8)
        what = wound()
        there = [p["metadata"]["name"] for p in items(PODS)]
        gone = rnd.sample(there, min(len(there), rnd.randrange(0, 3) + max(0, len(there) - 5)))
        for name in gone:
            ask("DELETE", "%s/%s%s" % (PODS, name, rnd.choice(["", "", "?gracePeriodSeconds=0"])))
        if rnd.random() < 0.3:
            what += ", " + wound()
        note_cgroup()
        once()
        say("round %d: %s; %d deleted of %d" % (n, what, len(gone), len(there)))
        if n % 5 == 4:
            until("every pod in its state (seed %d, round %d)" % (SEED, n), settled, 90)
            once()
            seen_devices()
    clear()


def damage(path, how):
    data = open(path, "rb").read()
    if how == "truncated":
        data = data[:len(data) // 2]
    elif how == "empty":
        data = b""
    elif how == "flipped":
        at = len(data) // 2
        data = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1:]
    else:
        data = re.sub(rb'"version": ?\d+', b'"version":999', data).replace(b"checkpoint.dra.kubelet.k8s.io/v1", b"checkpoint.dra.kubelet.k8s.io/v999")
    with open(path, "wb") as f:
        f.write(data)


def forgotten():
    """every record on disk damaged while nothing runs: quarantined, never fatal"""
    records = [os.path.join(c.kubelet_root, "dra_manager_state"), os.path.join(c.data, "driver", "prepared.json"),
               os.path.join(c.data, "driver", "devices.json"),
               os.path.join(c.data, "runtime", "containers", "*", "state.json"), os.path.join(c.data, "runtime", "sandboxes", "*", "state.json"),
               os.path.join(c.data, "cdi", "*.json")]
    plan = [(r, w) for r in records for w in ("truncated", "empty", "flipped", "another version")]
    if not LONG:
        plan = rnd.sample(plan, 3)
    for path, how in plan:
        p = pod("kept", "echo uuid=$BULKHEAD_VISIBLE_DEVICES; while true; do sleep 1; done")
        p["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
        p["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
        check(ask("POST", PODS, p)[0] == 201, "a pod")
        until("it to run", settled, 40)
        note_cgroup()
        kill(pids("bulkhead up "))
        until("the driver to end with it", lambda: not pids("gpu-driver"), 20)
        files = glob.glob(path)
        check(files, "there is a record " + path)
        for f in files:
            damage(f, how)
        up()
        until("the pod to run again", settled, 60)
        once()
        clear()
        say("%s %s: goes on" % (os.path.relpath(path, c.data), how))


sys.exit(play([under_fire, forgotten], sys.argv[1] if len(sys.argv) > 1 else None))
