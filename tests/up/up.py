"""`bulkhead up` and `bulkhead down` from the outside.

    BULKHEAD=build/bulkhead python3 up.py --dir SCRATCH

Needs root. Ends with "N passed, N failed"; exit status 1 when a step failed. Leaves no process and no mount behind.
"""
import argparse, base64, http.client, json, os, re, signal, socket, ssl, subprocess, sys, time

BULKHEAD = os.path.abspath(os.environ.get("BULKHEAD", "build/bulkhead"))
DRA = "/apis/resource.k8s.io/v1"


def free_ports(n):
    """The first of n ports in a row that nobody uses."""
    for base in range(28000, 60000, 16):
        socks = []
        try:
            for p in range(base, base + n):
                s = socket.socket()
                socks.append(s)
                s.bind(("127.0.0.1", p))
            return base
        except OSError:
            continue
        finally:
            for s in socks:
                s.close()
    raise SystemExit("no free ports")


class Cluster:
    def __init__(self, top, name, port, *more):
        self.data, self.port, self.more = os.path.join(top, name), port, list(more)
        os.makedirs(os.path.dirname(self.data), exist_ok=True)

    def scope(self):
        return ["--data-dir", self.data, "--port", str(self.port), *self.more]

    def up(self, *more, background=True, timeout=100):
        argv = [BULKHEAD, "up", *(["--background"] if background else []), *self.scope(), *more]
        return subprocess.run(argv, capture_output=True, text=True, timeout=timeout, cwd="/")

    def down(self, *more):
        return subprocess.run([BULKHEAD, "down", "--data-dir", self.data, *more], capture_output=True, text=True, timeout=60)

    def pid(self):
        with open(os.path.join(self.data, "bulkhead.pid"), encoding="utf-8") as f:
            return int(f.read())

    def driver(self):
        """Pid of this cluster's driver, 0: none."""
        for p in os.listdir("/proc"):
            try:
                with open("/proc/%s/cmdline" % p, "rb") as f:
                    words = f.read().split(b"\0")
            except OSError:
                continue
            if b"gpu-driver" in words and os.path.join(self.data, "driver").encode() in words:
                return int(p)
        return 0

    def call(self, method, path, body=None, who="kubeconfig"):
        """Status and object as the owner of one of the cluster's kubeconfigs; (0, None) when nobody answers."""
        with open(os.path.join(self.data, who), encoding="utf-8") as f:
            text = f.read()
        files = {}
        for key in ("certificate-authority", "client-certificate", "client-key"):
            files[key] = os.path.join(self.data, ".test-" + key)
            with open(files[key], "wb") as f:
                f.write(base64.b64decode(re.search(key + r"-data: (\S+)", text).group(1)))
        ctx = ssl.create_default_context(cafile=files["certificate-authority"])
        ctx.load_cert_chain(files["client-certificate"], files["client-key"])
        try:
            c = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=ctx)
            c.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
            r = c.getresponse()
            out = r.read()
            c.close()
            return r.status, json.loads(out) if out[:1] == b"{" else None
        except (OSError, http.client.HTTPException):
            return 0, None
        finally:
            for f in files.values():
                os.unlink(f)

    def node(self):
        items = (self.call("GET", "/api/v1/nodes")[1] or {}).get("items") or []
        return items[0] if items else None

    def ready(self):
        conds = (self.node() or {}).get("status", {}).get("conditions", [])
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conds)

    def devices(self):
        items = (self.call("GET", DRA + "/resourceslices")[1] or {}).get("items") or []
        return sum(len(s["spec"].get("devices") or []) for s in items)


class Suite:
    def __init__(self, top):
        self.top, self.passed, self.failed, self.clusters, self.mounts = top, 0, 0, [], []
        self.port = free_ports(12)

    def cluster(self, name, offset, *more):
        c = Cluster(self.top, name, self.port + offset, *more)
        self.clusters.append(c)
        return c

    def check(self, what, ok, more=""):
        self.passed, self.failed = self.passed + bool(ok), self.failed + (not ok)
        print("%s %s%s" % ("ok  " if ok else "FAIL", what, "" if ok or not more else ": " + str(more)), flush=True)
        return ok

    def within(self, seconds, fn):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            got = fn()
            if got:
                return got
            time.sleep(0.05)
        return None

    def refused(self, what, r, word, status=1):
        self.check("%s is refused with a reason" % what, r.returncode == status and word in r.stderr, (r.returncode, r.stdout, r.stderr))

    def first_start(self, a):
        r = a.up()
        if not self.check("up returns", r.returncode == 0, r.stderr):
            return False
        self.check("the node is Ready then", a.ready())
        self.check("and its slices are there", a.devices() == 8, a.devices())
        self.check("it tells how to go on", "export KUBECONFIG=%s/kubeconfig" % a.data in r.stdout)
        for background in (True, False):
            r = a.up(background=background)
            self.check("a second up says that it runs already", r.returncode == 0 and "runs already (pid %d" % a.pid() in r.stdout, r)
        secret = []
        for top, _, files in os.walk(a.data):
            secret += [os.path.join(top, f) for f in files if f.endswith(".key") or f.endswith("kubeconfig")]
        self.check("keys are their owner's alone", len(secret) > 8 and all(os.stat(f).st_mode & 0o77 == 0 for f in secret))
        self.check("the data directory too", os.stat(a.data).st_mode & 0o77 == 0)
        return True

    def rights(self, a):
        def can(who, method, path, body=None):
            return a.call(method, path, body, who)[0]
        self.check("the controllers may list what they watch", can("controller-manager.kubeconfig", "GET", "/api/v1/pods") == 200)
        self.check("the scheduler may list pods, not delete nodes", can("scheduler.kubeconfig", "GET", "/api/v1/pods") == 200 and
                   can("scheduler.kubeconfig", "DELETE", "/api/v1/nodes/none") == 403)
        self.check("a kubelet may see its node, not all secrets", can("kubelet.kubeconfig", "GET", "/api/v1/nodes/" + a.node()["metadata"]["name"]) == 200 and
                   can("kubelet.kubeconfig", "GET", "/api/v1/secrets") == 403)

    def life(self, a):
        node = a.node()["metadata"]["name"]
        a.call("POST", "/api/v1/namespaces", {"metadata": {"name": "room"}})
        a.call("POST", "/api/v1/namespaces/room/configmaps", {"metadata": {"name": "c"}})
        for ns, name in (("room", "p"), ("default", "q")):
            a.call("POST", "/api/v1/namespaces/%s/pods" % ns, {"metadata": {"name": name}, "spec": {
                "nodeName": node, "containers": [{"name": "c", "image": "nowhere.test/none"}]}})
        a.call("DELETE", "/api/v1/namespaces/default/pods/q", {"gracePeriodSeconds": 0})
        self.check("a pod that is deleted by force is gone", a.call("GET", "/api/v1/namespaces/default/pods/q")[0] == 404)
        a.call("DELETE", "/api/v1/namespaces/room")
        self.check("a namespace that is deleted empties itself", self.within(40, lambda: a.call("GET", "/api/v1/namespaces/room")[0] == 404))
        _, o = a.call("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "owner"}})
        ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": o["metadata"]["uid"]}
        a.call("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "dep", "ownerReferences": [ref]}})
        a.call("DELETE", "/api/v1/namespaces/default/configmaps/owner", {"propagationPolicy": "Background"})
        self.check("dependents follow their owner", self.within(10, lambda: a.call("GET", "/api/v1/namespaces/default/configmaps/dep")[0] == 404))

    def driver(self, a):
        first = a.driver()
        os.kill(first, signal.SIGKILL)
        second = self.within(10, lambda: a.driver() not in (0, first) and a.driver())
        self.check("a driver that dies is started again", second)
        self.check("its slices stay", a.devices() == 8)

    def restarts(self, a):
        os.kill(a.pid(), signal.SIGKILL)
        self.check("the driver dies with up", self.within(5, lambda: not a.driver()))
        r = a.up()
        self.check("up after a kill", r.returncode == 0, r.stderr)
        self.check("with a driver of this start", a.driver() and a.ready() and a.devices() == 8)
        began = time.monotonic()
        r = a.down()
        self.check("down stops it", r.returncode == 0 and "stopped" in r.stdout, r)
        self.check("in seconds", time.monotonic() - began < 6)
        self.check("and leaves no driver", not a.driver())
        r = a.down()
        self.check("down again is fine", r.returncode == 0 and "No cluster runs" in r.stdout, r)
        r = a.up()
        self.check("what was there is there after a restart", r.returncode == 0 and a.call("GET", "/api/v1/namespaces/default/configmaps/kept")[0] == 200, r.stderr)

    def beside(self, a):
        b = self.cluster("b/data", 4, "--devices", "2")
        r = b.up()
        self.check("a second cluster starts beside the first", r.returncode == 0, r.stderr)
        self.check("each has its own devices", a.devices() == 8 and b.devices() == 2)
        b.call("POST", "/api/v1/namespaces", {"metadata": {"name": "only-b"}})
        self.check("and its own objects", a.call("GET", "/api/v1/namespaces/only-b")[0] == 404)
        self.refused("a port that is taken", self.cluster("c/data", 4).up(), "Address already in use")
        self.refused("a kubelet root that is taken", self.cluster("d/data", 8, "--kubelet-root", os.path.join(b.data, "kubelet")).up(),
                     "another cluster uses the kubelet root")
        r = self.clusters[-1].down("--purge", "--kubelet-root", os.path.join(b.data, "kubelet"))
        self.check("whose purge leaves it alone", r.returncode == 0 and os.path.isdir(os.path.join(b.data, "kubelet/plugins")), r)
        r = b.down("--purge")
        self.check("down --purge removes all of the second", r.returncode == 0 and not os.path.exists(b.data), r)
        self.check("and nothing of the first", a.ready() and a.devices() == 8 and a.driver())

    def trouble(self):
        small = os.path.join(self.top, "small")
        os.makedirs(small)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", small], capture_output=True, check=False).returncode == 0:
            self.mounts.append(small)
            self.refused("a full disk", self.cluster("small/data", 8).up(), "is full")
        with open(os.path.join(self.top, "file"), "w", encoding="utf-8"):
            pass
        self.refused("a directory that cannot be made", Cluster(self.top, "x", self.port + 8, "--data-dir", self.top + "/file/x").up(), "/file")
        c = self.cluster("e/data", 8)
        self.refused("a profile that is not there", c.up("--profile", self.top + "/none"), "/none", 2)
        self.refused("a port that is no number", c.up("--port", "x"), "--port", 2)
        self.refused("a word too many", c.up("word"), "word", 2)
        r = c.down()
        self.check("down where nothing is", r.returncode == 0 and "no cluster" in r.stdout, r)

    def play(self):
        a = self.cluster("a/data", 0)
        if not self.first_start(a):
            return
        self.rights(a)
        a.call("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "kept"}})
        self.life(a)
        self.driver(a)
        self.restarts(a)
        self.beside(a)
        self.trouble()
        r = a.down("--purge")
        self.check("at the end nothing is left", r.returncode == 0 and not os.path.exists(a.data), r)

    def clean(self):
        for c in self.clusters:
            if self.failed and os.path.exists(c.data + "/bulkhead.log"):
                with open(c.data + "/bulkhead.log", encoding="utf-8", errors="replace") as f:
                    print("--- %s\n%s" % (c.data, f.read()[-3000:]))
            c.down("--purge")
        for m in self.mounts:
            self.within(5, lambda m=m: subprocess.run(["umount", m], capture_output=True, check=False).returncode == 0)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--dir", required=True)
    s = Suite(p.parse_args().dir)
    try:
        s.play()
    finally:
        s.clean()
    print("%d passed, %d failed" % (s.passed, s.failed))
    sys.exit(1 if s.failed else 0)


main()
