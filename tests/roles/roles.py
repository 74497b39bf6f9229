"""`bulkhead controller-manager` as a process of its own, beside `bulkhead apiserver`.

    BULKHEAD=build/bulkhead python3 roles.py --dir SCRATCH

Ends with "N passed, N failed"; exit status 1 when a step failed.
"""
import argparse, http.client, json, os, signal, socket, ssl, subprocess, sys, time

BULKHEAD = os.environ.get("BULKHEAD", "build/bulkhead")
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
MAPS = "/api/v1/namespaces/default/configmaps"


class Api:
    def __init__(self, port, token):
        self.port, self.token = port, token

    def call(self, method, path, body=None):
        """Status and object; (0, None) when there is no server."""
        try:
            c = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=ssl._create_unverified_context())
            c.request(method, path, json.dumps(body) if body is not None else None,
                      {"Authorization": "Bearer " + self.token, "Content-Type": "application/json"})
            r = c.getresponse()
            text = r.read()
            c.close()
            return r.status, json.loads(text) if text[:1] == b"{" else None
        except (OSError, http.client.HTTPException):
            return 0, None

    def holder(self):
        return (self.call("GET", LEASE)[1] or {}).get("spec", {}).get("holderIdentity", "")


class Suite:
    def __init__(self, top):
        self.top, self.procs, self.passed, self.failed = top, [], 0, 0
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.api = Api(self.port, "t-admin")
        self.write("tokens.csv", 't-admin,admin,u1,"system:masters"\nt-ctl,system:kube-controller-manager,u2\n')
        self.write("kubeconfig", "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
                   "clusters:\n- name: k\n  cluster:\n    server: https://127.0.0.1:%d\n    insecure-skip-tls-verify: true\n"
                   "users:\n- name: u\n  user:\n    token: t-ctl\n"
                   "contexts:\n- name: c\n  context:\n    cluster: k\n    user: u\n" % self.port)

    def path(self, name):
        return os.path.join(self.top, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def start(self, log, *argv):
        with open(self.path(log), "ab") as f:
            p = subprocess.Popen([BULKHEAD, *argv], stdin=subprocess.DEVNULL, stdout=f, stderr=f)
        self.procs.append(p)
        return p

    def server(self):
        return self.start("apiserver.log", "apiserver", "--data-dir", self.path("data"), "--secure-port", str(self.port),
                          "--token-auth-file", self.path("tokens.csv"), "--authorization-mode=Node,RBAC",
                          "--disable-admission-plugins=ServiceAccount")

    def controllers(self, name, *more):
        return self.start(name + ".log", "controller-manager", "--kubeconfig", self.path("kubeconfig"), *more)

    def end(self, p, sig=signal.SIGTERM, seconds=15):
        if p.poll() is None:
            p.send_signal(sig)
        try:
            return p.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def check(self, what, ok):
        self.passed, self.failed = self.passed + bool(ok), self.failed + (not ok)
        print("%s %s" % ("ok  " if ok else "FAIL", what), flush=True)
        return ok

    def within(self, seconds, fn):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            got = fn()
            if got:
                return got
            time.sleep(0.1)
        return None

    def collects(self, tag):
        """Whether somebody deletes what lost its owner."""
        _, o = self.api.call("POST", MAPS, {"metadata": {"name": "owner-" + tag}})
        ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner-" + tag, "uid": o["metadata"]["uid"]}
        self.api.call("POST", MAPS, {"metadata": {"name": "dependent-" + tag, "ownerReferences": [ref]}})
        self.api.call("DELETE", MAPS + "/owner-" + tag)
        return self.within(10, lambda: self.api.call("GET", MAPS + "/dependent-" + tag)[0] == 404)

    def arguments(self):
        def says(argv, status, word):
            r = subprocess.run([BULKHEAD, "controller-manager", *argv], capture_output=True, text=True, timeout=20,
                               env={k: v for k, v in os.environ.items() if k != "KUBECONFIG"})
            self.check("%s: status %d and '%s'" % (" ".join(argv) or "no arguments", status, word),
                       r.returncode == status and word in r.stderr)
        says([], 1, "--kubeconfig")
        says(["--kubeconfig", self.path("missing")], 1, "missing")
        says(["--kubeconfig", self.path("kubeconfig"), "--controllers", "*,no-such"], 2, "no-such")
        says(["--kubeconfig", self.path("kubeconfig"), "--node-monitor-grace-period", "soon"], 2, "soon")
        says(["--kubeconfig", self.path("kubeconfig"), "--leader-elect=maybe"], 2, "maybe")
        says(["--no-such-flag"], 2, "no-such-flag")
        says(["word"], 2, "word")

    def play(self):
        self.arguments()
        a = self.controllers("a")
        time.sleep(2)
        self.check("the controllers wait for an API server", a.poll() is None)
        srv = self.server()
        first = self.within(20, self.api.holder)
        if not self.check("they lead when it comes", first):
            return
        self.check("and work", self.collects("a"))
        b = self.controllers("b")
        time.sleep(4)
        self.check("a second one stands by", b.poll() is None and self.api.holder() == first)
        a.kill()
        a.wait()
        began = time.monotonic()
        second = self.within(40, lambda: self.api.holder() not in ("", first) and self.api.holder())
        took = time.monotonic() - began
        self.check("and takes over %.0f s after the first was killed" % took, second and 8 < took < 22)
        self.check("and works", self.collects("b"))
        began = time.monotonic()
        self.check("SIGTERM ends it with status 0", self.end(b) == 0)
        self.check("within two seconds", time.monotonic() - began < 2.5)
        self.check("and gives the lease back", self.api.holder() == "")
        c = self.controllers("c")
        third = self.within(4, self.api.holder)
        self.check("so the next one leads at once", third)
        self.end(srv, signal.SIGKILL)
        time.sleep(1)
        srv = self.server()
        self.within(10, lambda: self.api.holder())
        self.check("a server that comes back finds it leading", c.poll() is None and self.api.holder() == third)
        self.check("and working", self.collects("c"))
        self.end(srv, signal.SIGKILL)
        began = time.monotonic()
        status = self.within(20, lambda: c.poll() is not None and "ended %d" % c.poll())
        took = time.monotonic() - began
        self.check("without a server it stops before its lease is over (%.0f s)" % took, status == "ended 1" and took < 14)
        srv = self.server()
        d = self.controllers("d", "--leader-elect=false", "--controllers=garbage-collector-controller")
        self.within(10, lambda: self.api.call("GET", "/readyz")[0] == 200)
        self.check("without election it works at once", self.collects("d"))
        self.check("SIGTERM ends it", self.end(d) == 0)
        self.check("SIGTERM ends the server", self.end(srv) == 0)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--dir", required=True)
    s = Suite(p.parse_args().dir)
    try:
        s.play()
    finally:
        for p in s.procs:
            s.end(p, signal.SIGKILL)
        if s.failed:
            for f in sorted(os.listdir(s.top)):
                if f.endswith(".log"):
                    print("--- %s\n%s" % (f, open(s.path(f), encoding="utf-8", errors="replace").read()[-3000:]))
    print("%d passed, %d failed" % (s.passed, s.failed))
    sys.exit(1 if s.failed else 0)


main()
