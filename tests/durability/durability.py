#!/usr/bin/env python3
"""Crashes and broken disks against acknowledged writes. durability.py [PART]: only the parts whose name holds that."""
import json, os, random, shutil, signal, ssl, subprocess, sys, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from suite import DIR, LONG, Apiserver, check, http_error, play, run, until  # noqa: E402

SEED = int(os.environ.get("BH_SEED") or random.randrange(1 << 32))
WRITERS = 64
NS = "/api/v1/namespaces/default/configmaps"


def body(name, value, size=0):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": str(value), **({"pad": "x" * size} if size else {})}}


class Book:
    """What was acknowledged, and what is uncertain because no answer came."""

    def __init__(self):
        self.lock = threading.Lock()
        self.acked = {}    # name -> (value, resourceVersion); value None: deleted
        self.maybe = {}    # name -> value of the write without an answer
        self.writes = {}   # resourceVersion -> (name, value)

    def ack(self, name, value, rv):
        with self.lock:
            self.acked[name] = (value, rv)
            self.maybe.pop(name, None)
            if rv:
                other = self.writes.setdefault(rv, (name, value))
                check(other == (name, value), "a version belongs to one write", (rv, other, name, value))

    def unsure(self, name, value):
        with self.lock:
            self.maybe[name] = value

    def settle(self, items):
        """Compares with a list of the server, and takes what turned out of the uncertain writes."""
        have = {o["metadata"]["name"]: (int(o["data"]["v"]), int(o["metadata"]["resourceVersion"])) for o in items if "v" in (o.get("data") or {})}
        for name, (value, rv) in list(self.acked.items()):
            got = have.get(name)
            wanted = [value] + ([self.maybe[name]] if name in self.maybe else [])
            check((got[0] if got else None) in wanted, "%s: an acknowledged write is there" % name, "%s, acknowledged %s (version %s), uncertain %s"
                  % (got, value, rv, self.maybe.get(name, "nothing")))
            if got:
                check(got[1] >= rv if got[0] != value else got[1] == rv or not rv, "%s: its version" % name, (got, rv))
        for name, (value, rv) in have.items():
            check(name in self.acked or name in self.maybe, "%s: nothing is there that nobody wrote" % name)
            self.acked[name] = (value, rv)
        for name, value in self.maybe.items():
            if name not in have:
                self.acked.pop(name, None)
        self.maybe = {}


def writer(api, book, stop, seed, tag):
    """Creates, updates and deletes its own objects, one after the other, until the server is gone."""
    rnd, conn, value = random.Random(seed), api.client.connect(10), 0
    try:
        while not stop.is_set():
            value += 1
            name = "%s-%d" % (tag, rnd.randrange(6))
            with book.lock:
                exists = book.acked.get(name, (None, 0))[0] is not None
            verb = "POST" if not exists else rnd.choice(("PUT", "PUT", "PUT", "DELETE"))
            want = None if verb == "DELETE" else value
            book.unsure(name, want)
            status, got = api.client.ask(verb, NS if verb == "POST" else NS + "/" + name, None if verb == "DELETE" else body(name, value), conn)
            check(status in (200, 201), "%s %s is done" % (verb, name), (status, got))
            book.ack(name, want, 0 if verb == "DELETE" else int(got["metadata"]["resourceVersion"]))
    except (OSError, ssl.SSLError, http_error):
        pass
    finally:
        conn.close()


class Watcher(threading.Thread):
    """One watch from the first version on, resumed where it ended whenever the server goes away."""

    def __init__(self, api, rv):
        super().__init__(daemon=True)
        self.api, self.rv, self.events, self.stop, self.wrong, self.resumed = api, rv, [], False, None, 0
        self.start()

    def run(self):
        while not self.stop:
            try:
                conn = self.api.client.connect(5)
                conn.request("GET", "%s?watch=1&resourceVersion=%d&timeoutSeconds=60" % (NS, self.rv), headers={"Accept": "application/json"})
                r = conn.getresponse()
                if r.status != 200:
                    self.wrong = self.wrong or "status %d: %s" % (r.status, r.read()[:300])
                    return
                self.resumed += 1
                while not self.stop:
                    line = r.readline()
                    if not line or not line.endswith(b"\n"):
                        break
                    e = json.loads(line)
                    if e["type"] == "ERROR":
                        self.wrong = self.wrong or line
                        return
                    rv = int(e["object"]["metadata"]["resourceVersion"])
                    if rv <= self.rv:
                        self.wrong = self.wrong or "version %d after %d" % (rv, self.rv)
                    self.rv = rv
                    self.events.append((e["type"], e["object"]["metadata"]["name"], rv, (e["object"].get("data") or {}).get("v")))
            except (OSError, ssl.SSLError, http_error):
                pass
            time.sleep(0.02)


def listing(api):
    got = api.client.get(NS)
    return got["items"], int(got["metadata"]["resourceVersion"])


def killed_under_load():
    """SIGKILL in the middle of 64 parallel writers"""
    rounds = 50 if LONG else 10
    rnd = random.Random(SEED)
    api, book = Apiserver("kill"), Book()
    items, rv = listing(api)
    first, last = rv, rv
    w = Watcher(api, rv)
    total = 0
    for n in range(rounds):
        stop = threading.Event()
        seeds = [rnd.randrange(1 << 30) for _ in range(WRITERS)]
        before = len(book.writes)
        ts = [threading.Thread(target=writer, args=(api, book, stop, seeds[i], "w%d" % i)) for i in range(WRITERS)]
        [t.start() for t in ts]
        until("the writers", lambda: len(book.writes) > before + 50)
        time.sleep(rnd.uniform(0.05, 0.5))
        api.kill()
        stop.set()
        [t.join() for t in ts]
        api.start()
        items, rv = listing(api)
        check(rv >= last, "the version of a list never goes back", (rv, last))
        check(not book.writes or rv >= max(book.writes), "nor behind an acknowledged write", rv)
        last = rv
        book.settle(items)
        total += len(book.writes) - before
    check(total > rounds * 50, "there was load", total)
    until("the watch to catch up", lambda: w.wrong or w.rv >= last, 20)
    w.stop = True
    check(not w.wrong, "the watch resumes", w.wrong)
    check(w.resumed >= rounds, "it was interrupted each time", w.resumed)
    seen = {}
    for kind, name, rv, value in w.events:
        check(rv not in seen, "no event twice", rv)
        seen[rv] = (name, int(value) if value else None)
    lost = [rv for rv, (name, value) in book.writes.items() if seen.get(rv) != (name, value)]
    check(not lost, "no acknowledged write without its event", [(rv, book.writes[rv], seen.get(rv)) for rv in lost[:5]])
    # The whole history once more in one go has to be the same.
    again = Watcher(api, first)
    until("the history", lambda: again.wrong or again.rv >= last, 30)
    again.stop = True
    check(not again.wrong and again.events == w.events, "history read anew is what the interrupted watch saw",
          (again.wrong, len(again.events), len(w.events)))
    state = {}
    for kind, name, rv, value in w.events:
        state.pop(name, None) if kind == "DELETED" else state.__setitem__(name, (int(value), rv))
    want = {o["metadata"]["name"]: (int(o["data"]["v"]), int(o["metadata"]["resourceVersion"])) for o in items if "v" in (o.get("data") or {})}
    check(state == want, "the events add up to the list")
    print("         %d rounds, %d acknowledged writes, %d events, seed %d" % (rounds, len(book.writes), len(w.events), SEED))
    check(api.stop() == 0, "it ends in order")


def is_refusal(status, got):
    return status >= 500 and isinstance(got, dict) and got.get("kind") == "Status" and got.get("status") == "Failure" and got.get("code") == status


def full_disk():
    """a full disk: refused, still readable, and fine again when there is room"""
    disk = os.path.join(DIR, "disk")
    os.mkdir(disk)
    run("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", disk)
    api = None
    try:
        filler = os.path.join(disk, "filler")
        with open(filler, "wb") as f:
            f.write(b"x" * (8 << 20))
        api, book = Apiserver("full", data=os.path.join(disk, "api")), Book()
        refusals = []
        for i in range(400):
            status, got = api.client.ask("POST", NS, body("f%d" % i, i, 60000))
            if status == 201:
                book.ack("f%d" % i, i, int(got["metadata"]["resourceVersion"]))
            else:
                refusals.append((status, got))
                if len(refusals) >= 5:
                    break
        check(len(book.acked) >= 20, "there was room for a while", (len(book.acked), refusals[:1]))
        check(len(refusals) >= 5, "then there was none")
        check(all(is_refusal(*r) for r in refusals), "refused with a Status", refusals[0])
        check("disk" in refusals[0][1]["message"] or "full" in refusals[0][1]["message"] or "storage" in refusals[0][1]["message"],
              "that says why", refusals[0][1]["message"])
        check(api.process.alive(), "the server goes on")
        items, rv = listing(api)
        book.settle(items)
        for name in list(book.acked)[:3]:
            check(api.client.get(NS + "/" + name)["data"]["v"] == str(book.acked[name][0]), "reads go on")
        os.unlink(filler)
        status, got = api.client.ask("POST", NS, body("after", 7))
        check(status == 201, "with room again writes work", (status, got))
        book.ack("after", 7, int(got["metadata"]["resourceVersion"]))
        status, got = api.client.ask("DELETE", NS + "/f0")
        check(status == 200, "deletes too", (status, got))
        book.ack("f0", None, 0)
        api.kill()
        api.start()
        book.settle(listing(api)[0])
        status, got = api.client.ask("POST", NS, body("later", 8))
        check(status == 201, "and after a restart", (status, got))
        book.ack("later", 8, int(got["metadata"]["resourceVersion"]))
        # Full at the start: it comes up, or ends and says why; nothing gets lost.
        api.kill()
        free = shutil.disk_usage(disk).free
        with open(filler, "wb") as f:
            f.write(b"x" * max(0, free - 4096))
        api.start(wait=False)
        time.sleep(2)
        if not api.process.alive():
            print("         with a full disk the server does not start: %s" % api.process.tail().strip().split("\n")[-1][:200])
        else:
            api.process.end(signal.SIGKILL)
        os.unlink(filler)
        api.start()
        book.settle(listing(api)[0])
        print("         %d writes acknowledged, refused: %s" % (len(book.acked), refusals[0][1]["message"]))
    finally:
        if api:
            api.kill()
        run("umount", "-l", disk, ok=False)


def failing_fsync():
    """fsync that fails: refused, never acknowledged"""
    if not shutil.which("strace"):
        print("         NOT RUN: no strace")
        return
    api, book = Apiserver("fsync"), Book()
    for i in range(5):
        status, got = api.client.ask("POST", NS, body("s%d" % i, i))
        book.ack("s%d" % i, i, int(got["metadata"]["resourceVersion"]))
    conn = api.client.connect()
    tracer = subprocess.Popen(["strace", "-f", "-q", "-p", str(api.process.pid), "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO",
                               "-o", os.path.join(DIR, "strace")], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        def refused():
            status, got = api.client.ask("POST", NS, body("x%d" % int(time.time() * 1000), 1), conn)
            if status == 201:
                book.ack(got["metadata"]["name"], 1, int(got["metadata"]["resourceVersion"]))
                if tracer.poll() is not None:
                    return ("no strace", tracer.stderr.read())
            return (status, got) if status != 201 else None
        first = until("a refusal", refused, 10)
        if first[0] == "no strace":
            print("         NOT RUN: strace cannot trace here: %s" % first[1])
            return
        check(is_refusal(*first), "refused with a Status", first)
        for i in range(10):
            status, got = api.client.ask("PUT", NS + "/s%d" % (i % 5), body("s%d" % (i % 5), 100 + i), conn)
            check(is_refusal(status, got), "no write is acknowledged", (status, got))
            book.maybe["s%d" % (i % 5)] = 100 + i
        items, _ = listing(api)
        check(all(int(o["data"]["v"]) < 100 for o in items if "v" in (o.get("data") or {})), "nobody sees what was refused")
    finally:
        if tracer.poll() is None:
            tracer.terminate()
            tracer.wait()
    status, got = api.client.ask("PUT", NS + "/s0", body("s0", 200), conn)
    check(status == 200, "when fsync works again, so do writes", (status, got))
    book.ack("s0", 200, int(got["metadata"]["resourceVersion"]))
    book.maybe = {}
    book.settle([o for o in listing(api)[0] if o["metadata"]["name"] in book.acked])
    api.kill()
    api.start()
    book.settle([o for o in listing(api)[0] if o["metadata"]["name"] in book.acked])
    print("         refused: %s" % first[1]["message"])
    api.stop()


print("seed %d" % SEED)
sys.exit(play([killed_under_load, full_disk, failing_fsync], *sys.argv[1:2]))
