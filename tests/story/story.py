#!/usr/bin/env python3
"""The story of README, played and checked step by step: `make demo`, and a test.

    story.py [--data DIR] [--port N] [--kubelet-root DIR] [--keep] [--processes]

Every step asserts what it shows; the first that does not hold ends the story with exit status 1. The cluster is started by `bulkhead up
--background` (one that runs already is used as it is) and left running with --keep. With --processes every role is a process of its own that
knows the others over HTTPS alone: API server, scheduler, controller manager, kubelet, driver. kubectl and grpcio are upstream's.
"""
import argparse, json, os, re, signal, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "lib"))
import podresources  # noqa: E402

BULKHEAD = os.environ.get("BULKHEAD", os.path.join(ROOT, "build", "bulkhead"))
KUBECTL = os.environ.get("KUBECTL", os.path.join(ROOT, "build", "venv", "bin", "kubectl"))
IMAGE = "localhost/bulkhead-demo:1"
DRIVER = "gpu.bulkhead.dev"
META = "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/gpu/gpu/%s-metadata.json" % DRIVER
SHOW = ("ls /dev/bulkhead | tr '\\n' ' '; echo; for d in /dev/bulkhead/*; do stat -c '%%F %%t:%%T' $d; done; "
        "echo uuid=$BULKHEAD_VISIBLE_DEVICES; tr -d '\\n ' < %s; echo; "
        "i=0; while true; do echo tick $i; i=$((i+1)); sleep 0.2; done" % META)
began = time.time()


def say(text):
    print("%7.2f s  %s" % (time.time() - began, text), flush=True)


def check(cond, what, detail=""):
    if not cond:
        raise AssertionError("%s%s" % (what, ": " + str(detail) if detail != "" else ""))


def run(*cmd, ok=True, stdin=None):
    r = subprocess.run(cmd, input=stdin, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if ok and r.returncode:
        raise AssertionError("%s: exit status %d: %s%s" % (" ".join(cmd), r.returncode, r.stdout, r.stderr))
    return r.stdout


def until(what, fn, seconds=30):
    end, last = time.time() + seconds, None
    while True:
        try:
            last = fn()
            if last:
                return last
        except AssertionError as e:
            last = e
        if time.time() > end:
            raise AssertionError("waited %d s for %s; last seen: %s" % (seconds, what, last))
        time.sleep(0.05)


class Story:
    def __init__(self, args):
        self.a = args
        self.kubeconfig = os.path.join(args.data, "kubeconfig")
        self.scope = ["--data-dir", args.data]

    def kubectl(self, *cmd, **kw):
        return run(KUBECTL, "--kubeconfig", self.kubeconfig, "--cache-dir", os.path.join(self.a.data, "kubectl-cache"), *cmd, **kw)

    def get(self, *cmd):
        return json.loads(self.kubectl("get", *cmd, "-o", "json"))

    def pods(self):
        return {p["metadata"]["name"]: p for p in self.get("pods")["items"]}

    def bulkhead(self, *cmd, **kw):
        return run(BULKHEAD, *cmd, *self.scope, **kw)

    def up(self):
        cmd = [BULKHEAD, "up", "--background", "--data-dir", self.a.data, "--kubelet-root", self.a.kubelet_root]
        if self.a.port:
            cmd += ["--port", str(self.a.port)]
        return run(*cmd)

    who = "the server was"

    def server_pid(self):
        return int(open(os.path.join(self.a.data, "bulkhead.pid")).read())

    def kill(self):
        pid = self.server_pid()
        os.kill(pid, 9)
        until("the end of the server", lambda: not os.path.exists("/proc/%d" % pid))

    def down(self):
        run(BULKHEAD, "down", "--purge", "--data-dir", self.a.data, "--kubelet-root", self.a.kubelet_root, ok=False)

    # -- objects

    def template(self, name, tolerate=False):
        exactly = {"deviceClassName": DRIVER, "selectors": [{"cel": {
            "expression": 'device.capacity["%s"].memory.compareTo(quantity("40Gi")) >= 0' % DRIVER}}]}
        if tolerate:
            exactly["tolerations"] = [{"operator": "Exists", "effect": e} for e in ("NoExecute", "NoSchedule")]
        return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name},
                "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}}

    def pod(self, name, template="one-gpu"):
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "demo"}},
                "spec": {"terminationGracePeriodSeconds": 1,
                         "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
                         "containers": [{"name": "main", "image": IMAGE, "command": ["/bin/sh", "-c", SHOW],
                                         "resources": {"claims": [{"name": "gpu"}]}}]}}

    def create(self, *objs):
        self.kubectl("create", "-f", "-", stdin="\n---\n".join(json.dumps(o) for o in objs))

    # -- what is seen

    def device_of(self, pod):
        """Allocated device of a pod, through its claim."""
        p = self.pods()[pod]
        name = p["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
        claim = self.get("resourceclaims", name)
        return claim["status"]["allocation"]["devices"]["results"][0]["device"]

    def running(self, names):
        pods = self.pods()
        for n in names:
            s = pods.get(n, {}).get("status", {})
            if s.get("phase") != "Running" or not s.get("containerStatuses", [{}])[0].get("ready"):
                return None
        return pods

    def identity(self, names):
        """What must not change while a neighbour breaks, or the server is killed: container id, restarts, process id."""
        pods = self.pods()
        out = {}
        for n in names:
            c = pods[n]["status"]["containerStatuses"][0]
            out[n] = (c["containerID"], c["restartCount"], self.pid_of(c["containerID"]))
        return out

    def pid_of(self, container_id):
        cid = container_id.split("://", 1)[1]
        return int(open(os.path.join(self.a.data, "runtime", "containers", cid, "pid")).read())

    def log(self, pod):
        return self.kubectl("logs", pod)

    # -- the steps

    def step0(self):
        self.up()
        say("the cluster is up: HTTPS on 127.0.0.1:%d, one node, eight simulated GPUs" % (self.a.port or 6443))
        archive = os.path.join(self.a.data, "demo-image.tar")
        run(sys.executable, os.path.join(ROOT, "tools", "busybox-image.py"), archive, IMAGE)
        self.bulkhead("image", "import", archive)
        self.kubectl("delete", "pods,resourceclaimtemplates,devicetaintrules", "--all", "--wait=false", ok=False)
        until("an empty namespace", lambda: not self.get("pods")["items"] and not self.get("resourceclaims")["items"])

    def step1(self):
        names = ["pod-%d" % i for i in range(8)]
        t = time.time()
        self.create(self.template("one-gpu"), self.template("debug-gpu", tolerate=True), *[self.pod(n) for n in names])
        until("eight running pods", lambda: self.running(names))
        say("1. eight pods with one GPU each are running, %.2f s after they were created" % (time.time() - t))
        slices = self.get("resourceslices")["items"]
        uuids = {d["name"]: d["attributes"]["uuid"]["string"] for s in slices for d in s["spec"]["devices"]}
        self.devices = {}
        for n in names:
            log = until("the log of " + n, lambda: len(self.log(n).split("\n")) > 6 and self.log(n)).split("\n")
            dev = self.device_of(n)
            check(log[0].split() == [dev], "%s sees exactly its device" % n, log[0])
            check(log[1] == "character special file 1:3", "%s: a device node of type c, 1:3" % n, log[1])
            check(log[2] == "uuid=" + uuids[dev], "%s: the uuid in its environment" % n, log[2])
            meta = json.loads(log[3])
            got = meta["requests"][0]["devices"][0]
            check(got["name"] == dev and got["attributes"]["uuid"]["string"] == uuids[dev], "%s: the metadata file" % n, log[3])
            self.devices[dev] = n
        check(sorted(self.devices) == ["gpu-%d" % i for i in range(8)], "every device is given once", self.devices)
        say("   each sees only its own device node, uuid and metadata")

    def step2(self):
        out = self.kubectl("get", "pods,resourceclaims,resourceslices,deviceclasses,nodes")
        for word in ("pod/pod-0", "resourceclaim.resource.k8s.io/pod-0-gpu-", "allocated,reserved", "deviceclass.resource.k8s.io/" + DRIVER,
                     "resourceslice.resource.k8s.io/", "node/", "Ready"):
            check(word in out, "kubectl get prints %r" % word, out)
        say("2. kubectl get pods,resourceclaims,resourceslices,deviceclasses,nodes:")
        print("\n".join("             " + line for line in out.rstrip().split("\n")))
        claim = self.get("resourceclaims")["items"][0]
        check(claim["status"]["allocation"]["devices"]["results"][0]["driver"] == DRIVER, "a claim shows its device", claim)
        check(claim["status"]["reservedFor"][0]["name"].startswith("pod-"), "a claim shows its pod", claim)

    def evicted(self, victim, uid, what, t):
        """The pod of that uid is marked, then goes; the others keep running untouched."""
        seen = {}

        def gone():
            p = self.pods().get(victim)
            if p and p["metadata"]["uid"] == uid:
                seen.update({c["type"]: c for c in p["status"].get("conditions", [])})
                if "deletionTimestamp" in p["metadata"]:
                    seen.setdefault("deleting", time.time() - t)
                return False
            return True
        until("%s to be evicted" % victim, gone)
        c = seen.get("DisruptionTarget", {})
        check(c.get("status") == "True" and c.get("reason") == "DeletionByDeviceTaintManager", "DisruptionTarget condition", seen)
        check(c["message"].startswith("Device Taint manager: deleting due to NoExecute taint") and what in c["message"],
              "the condition names taint and device", c["message"])
        ev = [e for e in self.get("events")["items"] if e["involvedObject"].get("uid") == uid
              and e["reason"] == "DeviceTaintManagerEviction"]
        check(ev and ev[0]["message"].startswith("Marking for deletion"), "the event of the eviction", ev)
        return c["message"], seen.get("deleting", 0)

    def step3(self):
        victim = self.devices["gpu-3"]
        others = [n for d, n in self.devices.items() if d != "gpu-3"]
        before, uid = self.identity(others), self.pods()[victim]["metadata"]["uid"]
        t = time.time()
        self.bulkhead("device", "fault", "gpu-3", "--xid", "79")
        message, _ = self.evicted(victim, uid, "gpu-3", t)
        say("3. GPU 3 broke (XID 79): %s was evicted, gone after %.2f s" % (victim, time.time() - t))
        say("   %s" % message)
        check(self.identity(others) == before, "the other seven keep container and process", self.identity(others))
        say("   the other seven run on: same containers, same processes, no restart")
        # Once more through a rule made with kubectl.
        second = self.devices["gpu-5"]
        uid = self.pods()[second]["metadata"]["uid"]
        rest = [n for n in others if n != second]
        before = self.identity(rest)
        t = time.time()
        self.create({"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": {"name": "gpu-5-out"},
                     "spec": {"deviceSelector": {"driver": DRIVER, "device": "gpu-5"},
                              "taint": {"key": "example.com/maintenance", "value": "fan", "effect": "NoExecute"}}})
        message, _ = self.evicted(second, uid, "gpu-5", t)
        check(self.identity(rest) == before, "the other six keep container and process", self.identity(rest))
        say("   the same through a DeviceTaintRule on GPU 5: %s was evicted, gone after %.2f s" % (second, time.time() - t))
        self.kubectl("delete", "devicetaintrule", "gpu-5-out")
        # What a taint would do, without doing it.
        would = self.bulkhead("device", "taint", "gpu-6", "example.com/look:NoExecute", "--dry-run=server")
        who = self.devices["gpu-6"]
        check(re.search(r"^default/%s +\S+ +\S+ +at once$" % who, would, re.M), "a dry run says who would go", would)
        check(not self.get("devicetaintrules")["items"], "a dry run changes nothing")
        self.still = lambda: check(self.running([who]), "%s runs on after a dry run" % who)
        self.create(self.pod(second))
        until("%s on GPU 5 again" % second, lambda: self.running([second]))
        check(self.device_of(second) == "gpu-5", "the freed device is used again", self.device_of(second))
        self.left = others

    def step4(self):
        self.create(self.pod("late"))

        def pending():
            p = self.pods()["late"]
            c = [c for c in p["status"].get("conditions", []) if c["type"] == "PodScheduled"]
            return c and c[0]["status"] == "False" and c[0]
        c = until("the scheduler's word on the pod", pending)
        m = c["message"]
        check(c["reason"] == "Unschedulable" and m.startswith("0/1 nodes are available"), "upstream's words first", m)
        check("gpu-3" in m and "xid" in m and "gpu" in m, "then device, taint and request", m)
        check(len(m) <= 1024, "at most 1,024 bytes", len(m))
        ev = until("the event", lambda: [e for e in self.get("events")["items"] if e["involvedObject"]["name"] == "late"
                                         and e["reason"] == "FailedScheduling"])
        check("gpu-3" in ev[0]["message"], "the event names the device", ev[0]["message"])
        say("4. a new pod stays Pending: %s" % m)
        why = run(BULKHEAD, "device", "explain", "pod", "late", *self.scope, ok=False)
        check("1 has a taint that is not tolerated: %s/xid=79:NoExecute (gpu-3)" % DRIVER in why and "7 are in use by pod default/" in why,
              "explain says why, device by device", why)
        check(re.search(r"^smallest change: tolerate the taint .*; then it fits on node ", why, re.M), "and what would help", why)
        say("   bulkhead device explain pod late: %s" % next(x for x in why.splitlines() if x.startswith("smallest change")))
        self.still()
        self.create(self.pod("debug", "debug-gpu"))
        until("the debug pod", lambda: self.running(["debug"]))
        check(self.device_of("debug") == "gpu-3", "the debug pod runs on GPU 3", self.device_of("debug"))
        say("   a debug pod that tolerates the taint runs on GPU 3")
        self.kubectl("delete", "pod", "debug", "--wait=true")

    def step5(self):
        before = self.identity(self.left)
        prepared = self.prepared()
        allocations = {c["metadata"]["uid"]: c["status"].get("allocation") for c in self.get("resourceclaims")["items"]}
        slices = {s["metadata"]["uid"] for s in self.get("resourceslices")["items"]}
        t = time.time()
        self.kill()
        time.sleep(0.5)
        self.up()
        say("5. %s killed with SIGKILL and started again, ready %.2f s after the kill" % (self.who, time.time() - t))
        until("running pods", lambda: self.running(self.left))
        check(self.identity(self.left) == before, "same containers, same processes, no restarts", self.identity(self.left))
        now = {c["metadata"]["uid"]: c["status"].get("allocation") for c in self.get("resourceclaims")["items"]}
        check(all(now.get(u) == a for u, a in allocations.items()), "allocations are known", now)
        check(self.prepared() == prepared, "nothing was prepared twice", (prepared, self.prepared()))
        check({s["metadata"]["uid"] for s in self.get("resourceslices")["items"]} == slices, "slices were not withdrawn")
        time.sleep(1)
        for n in self.left:
            ticks = [int(x.split()[1]) for x in self.log(n).split("\n") if x.startswith("tick ")]
            check(ticks == list(range(len(ticks))), "no log line of %s is lost" % n, ticks[:5])
        say("   containers, processes, allocations, logs: all untouched; nothing was prepared twice")

    def prepared(self):
        """The CDI specs with their times: a claim that is prepared again writes its own anew."""
        cdi = os.path.join(self.a.data, "cdi")
        return {f: os.stat(os.path.join(cdi, f)).st_mtime_ns for f in sorted(os.listdir(cdi))}

    def step6(self):
        socket = os.path.join(self.a.kubelet_root, "pod-resources", "kubelet.sock")
        got = podresources.list_devices(socket)
        want = {n: [(DRIVER, self.device_of(n))] for n in self.left}
        check({n: got.get(n) for n in want} == want, "PodResources maps every pod to its device", got)
        say("6. PodResources List (grpcio): %s" % ", ".join("%s=%s" % (n, d[0][1]) for n, d in sorted(got.items()) if d))

    def step7(self):
        # A device has to prove itself first, as long as the health policy says.
        policy = os.path.join(self.a.data, "driver", "health-policy.yaml")
        self.kubectl("-n", "kube-system", "create", "configmap", "gpu-health-policy", "--from-literal=policy.yaml=healthyFor: 1h")
        until("the driver to read its health policy", lambda: os.path.exists(policy))
        self.bulkhead("device", "clear", "gpu-3")
        until("the driver to watch GPU 3", lambda: "cleared" in open(os.path.join(self.a.data, "driver", "health.json")).read())
        check("xid=79" in self.bulkhead("device", "list"), "the taint stays while the device is watched")
        say("7. the fault is cleared; the health policy wants an hour without one, the taint stays")
        t = time.time()
        self.kubectl("-n", "kube-system", "delete", "configmap", "gpu-health-policy")
        until("the pending pod", lambda: self.running(["late"]))
        check(self.device_of("late") == "gpu-3", "the pending pod got GPU 3", self.device_of("late"))
        say("   without the policy: the pending pod runs on GPU 3, %.2f s later" % (time.time() - t))

    def play(self):
        for i in range(8):
            getattr(self, "step%d" % i)()
        say("the end")


class Processes(Story):
    """The same, with five processes in place of one. Certificates and kubeconfigs are those that `up` makes."""
    who = "all five processes were"

    def __init__(self, args):
        super().__init__(args)
        self.a.port = self.a.port or 6443
        self.running_now, self.wrong = {}, False

    def path(self, *parts):
        return os.path.join(self.a.data, *parts)

    def spawn(self, name, *args):
        with open(self.path(name + ".log"), "ab") as log:
            p = subprocess.Popen([BULKHEAD, name, *args], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.running_now[name] = p
        if os.environ.get("DIR"):  # tests/lib/suite.sh ends what lies there
            open(os.path.join(os.environ["DIR"], "pids", str(p.pid)), "w").close()

    def up(self):
        if not os.path.exists(self.path("kubeconfig")):
            super().up()
            run(BULKHEAD, "down", "--data-dir", self.a.data, "--kubelet-root", self.a.kubelet_root)
        pki = lambda name: self.path("pki", name)  # noqa: E731
        node = re.search(r"system:node:([^/\s,]+)", run("openssl", "x509", "-noout", "-subject", "-in", pki("kubelet.crt"))).group(1)
        self.spawn("apiserver", "--data-dir", self.path("store-of-its-own"), "--bind-address", "127.0.0.1", "--secure-port", str(self.a.port),
                   "--client-ca-file", pki("ca.crt"), "--tls-cert-file", pki("apiserver.crt"), "--tls-private-key-file", pki("apiserver.key"),
                   "--authorization-mode", "Node,RBAC", "--disable-admission-plugins", "ServiceAccount",
                   "--kubelet-certificate-authority", pki("ca.crt"), "--kubelet-client-certificate", pki("apiserver-kubelet-client.crt"),
                   "--kubelet-client-key", pki("apiserver-kubelet-client.key"))
        # They may come before the server does, and have to wait for it.
        self.spawn("scheduler", "--kubeconfig", self.path("scheduler.kubeconfig"), "--leader-elect=false")
        self.spawn("controller-manager", "--kubeconfig", self.path("controller-manager.kubeconfig"), "--leader-elect=false")
        self.spawn("kubelet", "--kubeconfig", self.path("kubelet.kubeconfig"), "--root-dir", self.a.kubelet_root, "--data-dir", self.a.data,
                   "--hostname-override", node, "--node-ip", "127.0.0.1", "--address", "127.0.0.1", "--port", str(self.a.port + 1),
                   "--tls-cert-file", pki("kubelet-serving.crt"), "--tls-private-key-file", pki("kubelet-serving.key"), "--client-ca-file", pki("ca.crt"))
        self.spawn("gpu-driver", "--simulate", "8", "--kubeconfig", self.path("driver.kubeconfig"), "--node-name", node,
                   "--kubelet-root", self.a.kubelet_root, "--data-dir", self.path("driver"), "--cdi-dir", self.path("cdi"))
        until("the API server", lambda: run(KUBECTL, "--kubeconfig", self.kubeconfig, "get", "--raw", "/readyz") == "ok")
        if not self.kubectl("get", "deviceclass", DRIVER, "--ignore-not-found"):
            self.create({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": DRIVER},
                         "spec": {"selectors": [{"cel": {"expression": 'device.driver == "%s"' % DRIVER}}]}})

        def ready():
            for name, p in self.running_now.items():
                if p.poll() is not None:
                    raise SystemExit("%s ended with status %d: %s" % (name, p.returncode, open(self.path(name + ".log")).read()[-2000:]))
            nodes = self.get("nodes")["items"]
            return (sum(len(s["spec"]["devices"]) for s in self.get("resourceslices")["items"]) == 8 and len(nodes) == 1 and
                    any(c["type"] == "Ready" and c["status"] == "True" for c in nodes[0]["status"].get("conditions", [])))
        until("a node with eight devices", ready, 60)

    def kill(self):
        for p in self.running_now.values():
            p.kill()
        for p in self.running_now.values():
            p.wait()

    def down(self):
        for p in reversed(list(self.running_now.values())):
            p.send_signal(signal.SIGTERM)
        for name, p in self.running_now.items():
            try:
                if p.wait(10):
                    log = open(self.path(name + ".log"), errors="replace").read()
                    print("%s ended with status %d: %s" % (name, p.returncode, log[max(log.find("ERROR: "), len(log) - 20000):]))
                    self.wrong = True
            except subprocess.TimeoutExpired:
                print("%s did not end" % name)
                p.kill()
                p.wait()
                self.wrong = True
        super().down()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data", default=os.environ.get("DATA") or "/var/lib/bulkhead")
    p.add_argument("--port", type=int, default=int(os.environ.get("PORT") or 0))
    p.add_argument("--kubelet-root", default=os.environ.get("KUBELET_ROOT") or "/var/lib/kubelet")
    p.add_argument("--keep", action="store_true")
    p.add_argument("--processes", action="store_true")
    a = p.parse_args()
    a.data = os.path.abspath(a.data)
    story, status = (Processes if a.processes else Story)(a), 1
    try:
        story.play()
        status = 0
    except AssertionError as e:
        print("\nNOT AS IT SHOULD BE: %s" % e, file=sys.stderr)
    finally:
        if not a.keep:
            story.down()
    return 1 if getattr(story, "wrong", False) else status


sys.exit(main())
