"""What suites that start servers share: checks that are counted, servers, kubectl.

A suite is a list of functions; each checks several things and prints what. The first check that fails ends its function, not the suite; the
suite fails in the end. Everything that is started lives below $DIR, which suite.sh made and takes away.
"""
import json, os, random, re, signal, socket, ssl, subprocess, sys, time, traceback, urllib.error, urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BULKHEAD = os.environ.get("BULKHEAD", os.path.join(ROOT, "build", "bulkhead"))
KUBECTL = os.path.join(os.environ.get("VENV", os.path.join(ROOT, "build", "venv")), "bin", "kubectl")
DIR = os.environ["DIR"]
LONG = os.environ.get("MODE") == "long"
IMAGE = "localhost/bulkhead-demo:1"
began = time.time()
count = {"ok": 0, "failed": 0}


class Failed(Exception):
    pass


class Missing(Exception):
    """What a part checks is not there at all yet: said loudly, and no failure."""


def check(cond, what, detail=""):
    if not cond:
        raise Failed("%s%s" % (what, ": %s" % (detail,) if detail != "" else ""))
    count["ok"] += 1


def say(text):
    print("%6.1f s  %s" % (time.time() - began, text), flush=True)


def play(parts, only=None):
    """Runs each function whose name holds `only`; returns the exit status."""
    for part in parts:
        if only and only not in part.__name__:
            continue
        before = count["ok"]
        try:
            part()
            say("ok      %s: %s (%d checks)" % (part.__name__, (part.__doc__ or "").strip().split("\n")[0], count["ok"] - before))
        except Missing as e:
            say("MISSING %s: %s" % (part.__name__, e))
        except Exception as e:
            count["failed"] += 1
            say("FAILED  %s: %s" % (part.__name__, e if isinstance(e, Failed) else traceback.format_exc()))
    print("%d checks held, %d parts failed" % (count["ok"], count["failed"]))
    return 1 if count["failed"] or not (count["ok"] or only) else 0


def until(what, fn, seconds=30, pause=0.05):
    end, last = time.time() + seconds, None
    while True:
        try:
            last = fn()
            if last:
                return last
        except Failed as e:
            last = e
        if time.time() > end:
            raise Failed("waited %d s for %s; last seen: %s" % (seconds, what, str(last)[:2000]))
        time.sleep(pause)


def run(*cmd, ok=True, stdin=None, env=None, timeout=60):
    """Standard output; with ok=False the whole result, whatever the exit status."""
    r = subprocess.run(cmd, input=stdin, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout,
                       env=dict(os.environ, **env) if env else None)
    if ok and r.returncode:
        raise Failed("%s: exit status %d: %s%s" % (" ".join(cmd), r.returncode, r.stdout, r.stderr))
    return r.stdout if ok else r


class Process:
    """A program of ours, its output in a file. suite.sh ends what is left."""

    def __init__(self, name, *args):
        self.name, self.log = name, os.path.join(DIR, name + ".log")
        with open(self.log, "ab") as f:
            self.p = subprocess.Popen([BULKHEAD, *args], stdin=subprocess.DEVNULL, stdout=f, stderr=f)
        self.pid = self.p.pid
        open(os.path.join(DIR, "pids", str(self.pid)), "w").close()

    def alive(self):
        return self.p.poll() is None

    def end(self, sig=signal.SIGTERM, seconds=30):
        if self.alive():
            self.p.send_signal(sig)
        status = self.p.wait(seconds)
        pidfile = os.path.join(DIR, "pids", str(self.pid))
        if os.path.exists(pidfile):
            os.unlink(pidfile)
        return status

    def tail(self):
        return open(self.log, errors="replace").read()[-3000:]


class Client:
    """The API in JSON over HTTPS with a client certificate of a kubeconfig; standard library only."""

    def __init__(self, kubeconfig):
        import base64, tempfile, http.client
        text = open(kubeconfig).read()
        self.server = re.search(r"server: *\"?(https://[^\s\"]+)", text).group(1)
        self.port = int(self.server.rsplit(":", 1)[1])
        self.ctx = ssl.create_default_context(cadata=base64.b64decode(re.search(r"certificate-authority-data: *(\S+)", text).group(1)).decode())
        self.ctx.check_hostname = False
        with tempfile.NamedTemporaryFile(dir=DIR) as f:
            for key in ("client-certificate-data", "client-key-data"):
                f.write(base64.b64decode(re.search(key + r": *(\S+)", text).group(1)))
            f.flush()
            self.ctx.load_cert_chain(f.name)
        self.http = http.client

    def connect(self, timeout=30):
        return self.http.HTTPSConnection("127.0.0.1", self.port, context=self.ctx, timeout=timeout)

    def ask(self, method, path, body=None, conn=None, headers=None, timeout=30):
        """Status and decoded body. conn: a connection to use again."""
        c = conn or self.connect(timeout)
        c.request(method, path, json.dumps(body) if body is not None else None,
                  dict({"Content-Type": "application/json", "Accept": "application/json"}, **(headers or {})))
        r = c.getresponse()
        data = r.read()
        if not conn:
            c.close()
        return r.status, json.loads(data) if data[:1] in (b"{", b"[") else data.decode()

    def get(self, path):
        status, body = self.ask("GET", path)
        if status != 200:
            raise Failed("GET %s: %s %s" % (path, status, body))
        return body


class Kubectl:
    def __init__(self, kubeconfig):
        self.kubeconfig = kubeconfig
        self.base = [KUBECTL, "--kubeconfig", kubeconfig, "--cache-dir", os.path.join(DIR, "kubectl-cache")]

    def __call__(self, *cmd, **kw):
        return run(*self.base, *cmd, **kw)

    def fails(self, *cmd, **kw):
        """Standard error of a command that has to fail."""
        r = run(*self.base, *cmd, ok=False, **kw)
        if r.returncode == 0:
            raise Failed("kubectl %s: succeeded: %s" % (" ".join(cmd), r.stdout))
        return r.stderr

    def json(self, *cmd, **kw):
        return json.loads(self(*cmd, "-o", "json", **kw))


def answers(client):
    try:
        return client.ask("GET", "/readyz", timeout=5)[0] == 200
    except (OSError, ssl.SSLError, http_error):
        return False


import http.client  # noqa: E402
http_error = http.client.HTTPException


class Apiserver:
    """`bulkhead apiserver` alone, on a free port that stays its own over restarts."""

    def __init__(self, name="api", data=None, flags=()):
        self.name, self.flags, self.port = name, list(flags), 0
        self.data = data or os.path.join(DIR, name)
        self.start()

    def start(self, wait=True):
        kubeconfig = os.path.join(self.data, "admin.kubeconfig")
        if not self.port and os.path.exists(kubeconfig):
            os.unlink(kubeconfig)
        self.process = Process(self.name, "apiserver", "--data-dir", self.data, "--secure-port", str(self.port),
                               "--bind-address", "127.0.0.1", "--disable-admission-plugins=ServiceAccount", *self.flags)
        if wait:
            self.wait()

    def wait(self):
        kubeconfig = os.path.join(self.data, "admin.kubeconfig")

        def ready():
            if not self.process.alive():
                raise Failed("the API server ended: " + self.process.tail())
            if not os.path.exists(kubeconfig):
                return False
            self.client = Client(kubeconfig)
            return answers(self.client)
        until("the API server", ready)
        self.port = self.client.port
        self.kubectl = Kubectl(kubeconfig)

    def stop(self):
        return self.process.end()

    def kill(self):
        return self.process.end(signal.SIGKILL)


def free_ports(n=3):
    """The first of n ports in a row that nobody holds, below the range that the kernel gives to clients."""
    while True:
        first, held = random.randrange(20000, 29990), []
        try:
            for i in range(n):
                s = socket.socket()
                held.append(s)
                s.bind(("0.0.0.0", first + i))
            return first
        except OSError:
            pass
        finally:
            for s in held:
                s.close()


class Cluster:
    """`bulkhead up --background`: one node that runs pods."""

    def __init__(self, name="cluster", devices=8):
        self.name, self.port, self.devices = name, free_ports(), devices
        self.data, self.kubelet_root = os.path.join(DIR, name, "data"), os.path.join(DIR, name, "kubelet")
        self.up()
        self.client = Client(os.path.join(self.data, "kubeconfig"))
        self.kubectl = Kubectl(os.path.join(self.data, "kubeconfig"))

    def up(self, ok=True):
        """Standard output of `up`; with ok=False its whole result."""
        r = run(BULKHEAD, "up", "--background", "--data-dir", self.data, "--kubelet-root", self.kubelet_root,
                "--port", str(self.port), "--devices", str(self.devices), ok=False, timeout=90)
        if ok and r.returncode:
            log = os.path.join(self.data, "bulkhead.log")
            raise Failed("up: status %d: %s\n%s" % (r.returncode, r.stderr, open(log).read()[-3000:] if os.path.exists(log) else ""))
        return r.stdout if ok else r

    def pid(self):
        return int(open(os.path.join(self.data, "bulkhead.pid")).read())

    def image(self):
        """A small image with busybox, imported."""
        archive = os.path.join(DIR, "image.tar")
        if not os.path.exists(archive):
            run(sys.executable, os.path.join(ROOT, "tools", "busybox-image.py"), archive, IMAGE)
        self.bulkhead("image", "import", archive)

    def bulkhead(self, *cmd, **kw):
        return run(BULKHEAD, *cmd, "--data-dir", self.data, **kw)

    def down(self, purge=True):
        """Stops it; a sanitizer's word in its log is a failure of the suite."""
        log = os.path.join(self.data, "bulkhead.log")
        if os.path.exists(log):
            run(BULKHEAD, "down", "--data-dir", self.data, "--kubelet-root", self.kubelet_root)
            found = re.search(r"^.*(ERROR: \w+Sanitizer|runtime error:).*$", open(log, errors="replace").read(), re.M | re.S)
            if found:
                count["failed"] += 1
                say("FAILED  %s: %s" % (self.name, found.group(0)[-4000:]))
        return run(BULKHEAD, "down", *(["--purge"] if purge else []), "--data-dir", self.data, "--kubelet-root", self.kubelet_root)


def pod(name, command="while true; do sleep 1; done", **spec):
    """A pod of one busybox container that runs a shell command."""
    labels = spec.pop("labels", {"app": name})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
            "spec": dict({"terminationGracePeriodSeconds": 1,
                          "containers": [{"name": "main", "image": IMAGE, "command": ["/bin/sh", "-c", command]}]}, **spec)}
