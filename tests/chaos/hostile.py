#!/usr/bin/env python3
"""Clients that nobody wants, against `bulkhead apiserver`. Whatever they do costs them an error, the server a bounded piece of memory, and
others nothing."""
import json, os, random, socket, ssl, struct, sys, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from suite import DIR, LONG, Apiserver, Failed, check, play, say, until  # noqa: E402

SEED = int(os.environ.get("CHAOS_SEED") or random.randrange(1 << 30))
TOKEN = "t-admin"
NS = "/api/v1/namespaces/default"
MAPS = NS + "/configmaps"
say("seed %d" % SEED)
with open(os.path.join(DIR, "tokens.csv"), "w") as f:
    f.write('%s,admin,u1,"system:masters"\n' % TOKEN)
api = Apiserver(flags=["--token-auth-file", os.path.join(DIR, "tokens.csv")])
tls = ssl._create_unverified_context()


def plain():
    return socket.create_connection(("127.0.0.1", api.port), timeout=20)


def dial():
    return tls.wrap_socket(plain())


def request(method, path, body=None, kind="application/json", accept="application/json", token=TOKEN, more=b""):
    b = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
    path = path if isinstance(path, bytes) else path.encode()
    token = token if isinstance(token, bytes) else token.encode()
    head = b"%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nAccept: %s\r\n" % (method.encode(), path, token, accept.encode())
    if b or method in ("POST", "PUT", "PATCH"):
        head += b"Content-Type: %s\r\nContent-Length: %d\r\n" % (kind.encode(), len(b))
    return head + more + b"\r\n" + b


def answer(s, seconds=20):
    """Status and body of one answer; (0, …) when the server only hung up."""
    s.settimeout(seconds)
    data = b""
    try:
        while b"\r\n\r\n" not in data:
            got = s.recv(65536)
            if not got:
                return 0, data
            data += got
        head, body = data.split(b"\r\n\r\n", 1)
        lines = head.lower().split(b"\r\n")
        length = next((int(x.split(b":")[1]) for x in lines if x.startswith(b"content-length:")), None)
        while length is not None and len(body) < length:
            got = s.recv(65536)
            if not got:
                break
            body += got
        return int(lines[0].split()[1]), body
    except (OSError, ValueError) as e:
        return 0, str(e).encode()


def once(raw, seconds=20):
    s = dial()
    try:
        s.sendall(raw)
    except OSError:
        pass
    r = answer(s, seconds)
    s.close()
    return r


def ask(method, path, body=None, **kw):
    status, data = once(request(method, path, body, **kw))
    return status, json.loads(data) if data[:1] == b"{" else data


def config(name, data=None, **meta):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": dict({"name": name}, **meta), "data": data or {"k": "v"}}


def rss_mib():
    for line in open("/proc/%d/status" % api.process.pid):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) // 1024
    raise Failed("the server is gone: " + api.process.tail())


def fds():
    return len(os.listdir("/proc/%d/fd" % api.process.pid))


def alive(what):
    check(api.process.alive(), "the server lives: " + what, api.process.tail())
    status, body = ask("GET", "/api/v1/namespaces/default")
    check(status == 200, "and answers: " + what, body)


def rubbish():
    """bytes that are no request, and requests that are no sense"""
    deep = 20000
    for name, raw in (("garbage", os.urandom(4000)), ("HTTP to the TLS port", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), ("nothing", b""),
                      ("an endless record", b"\x16\x03\x01\xff\xff" + b"\0" * 3000)):
        s = plain()
        s.sendall(raw)
        s.shutdown(socket.SHUT_WR)
        s.settimeout(15)
        try:
            while s.recv(4096):
                pass
        except OSError:
            pass
        s.close()
        alive("TLS: " + name)
    length = b"Content-Length: 5\r\n"
    post = b"POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n" % (MAPS.encode(), TOKEN.encode())
    raws = [
        ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0", (0, 400, 505)),
        ("two lengths", post + length + b"Content-Length: 6\r\n\r\n{}{}{}", (0, 400)),
        ("length and chunks", post + length + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", (0, 400)),
        ("a negative length", post + b"Content-Length: -1\r\n\r\n{}", (0, 400)),
        ("an overflowing length", post + b"Content-Length: 18446744073709551617\r\n\r\n{}", (0, 400, 413)),
        ("a bad chunk", post + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", (0, 400)),
        ("a huge chunk", post + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}", (0, 400, 413)),
        ("a huge header", b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 200000 + b"\r\n\r\n", (0, 400, 431)),
        ("many headers", b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X%d: y\r\n" % i for i in range(5000)) + b"\r\n", (0, 400, 431)),
        ("a huge target", b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", (0, 400, 414, 431)),
        ("NUL in a header", b"GET / HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n", (0, 400)),
        ("a body larger than all", post + b"Content-Length: 900000000\r\n\r\n" + b"x" * 100000, (413,)),
        ("invalid UTF-8 in the path", request("GET", b"/api/v1/namespaces/\xff\xfe/pods"), (0, 200, 400, 403, 404)),
        ("escaped NUL in the path", request("GET", "/api/v1/namespaces/a%00b/pods/%ff"), (400, 404)),
        ("dots in the path", request("GET", "/api/v1/../../etc/passwd"), (400, 403, 404)),
        ("a token of odd bytes", request("GET", "/api", token=b"\xff\x01\x7f'\"\\%n%s"), (0, 400, 401)),
        ("a token of 60 KiB", request("GET", "/api", token=b"x" * 60000), (0, 400, 401, 431)),
        ("invalid UTF-8 in the body", request("POST", MAPS, b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"u"},"data":{"k":"\xff\xfe"}}'), (201, 400, 409)),
        ("half a surrogate", request("POST", MAPS, b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s"},"data":{"k":"\\ud800"}}'), (201, 400, 409)),
        ("deep JSON", request("POST", MAPS, b'{"a":' * deep + b"1" + b"}" * deep), (400,)),
        ("deep arrays", request("POST", MAPS, b"[" * 200000), (400,)),
        ("deep YAML", request("POST", MAPS, b"a: " + b"[" * deep + b"]" * deep, kind="application/yaml"), (400,)),
        ("a YAML bomb", request("POST", MAPS, b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
            b"%c: &%c [%s]\n" % (98 + i, 98 + i, b",".join([b"*%c" % (97 + i)] * 9)) for i in range(9)), kind="application/yaml"), (400, 413)),
        ("a deep merge patch", request("PATCH", MAPS + "/kube-root-ca.crt", b'{"a":' * deep + b"1" + b"}" * deep, kind="application/merge-patch+json"), (400, 404)),
        ("a deep JSON patch", request("PATCH", "/api/v1/namespaces/default", json.dumps([{"op": "add", "path": "/a" * deep, "value": 1}]).encode(),
                                      kind="application/json-patch+json"), (400, 422)),
        ("a patch of many steps", request("PATCH", "/api/v1/namespaces/default", json.dumps([{"op": "copy", "from": "/metadata", "path": "/metadata/annotations"}] * 10001).encode(),
                                          kind="application/json-patch+json"), (400, 413, 422)),
        ("a patch that doubles", request("PATCH", "/api/v1/namespaces/default", json.dumps(
            [{"op": "add", "path": "/metadata/annotations", "value": {"a": "x" * 1000}}] +
            [{"op": "copy", "from": "/metadata", "path": "/metadata/x%d" % i} for i in range(60)]).encode(), kind="application/json-patch+json"), (200, 400, 413, 422)),
        ("a huge selector", request("GET", "/api/v1/pods?labelSelector=" + ",".join("k%d+in+(%s)" % (i, ",".join("v%d" % j for j in range(20))) for i in range(100))), (200, 400, 414)),
        ("a selector of brackets", request("GET", "/api/v1/pods?labelSelector=" + "(" * 10000), (400, 414)),
        ("an odd method", request("BREW", "/api/v1/pods"), (0, 400, 405, 501)),
    ]
    for name, raw, want in raws:
        before = time.time()
        status, body = once(raw)
        check(status in want, name, (status, body[:300]))
        check(time.time() - before < 10, name + " is answered at once", time.time() - before)
        alive(name)


def pipelined():
    """requests sent ahead are answered in order"""
    s = dial()
    s.sendall(b"".join(request("GET", "/api/v1/namespaces/%s" % n) for n in ("default", "absent", "kube-system") * 30))
    want, data = [b"200", b"404", b"200"] * 30, b""
    s.settimeout(20)
    while data.count(b"HTTP/1.1 ") < 90 or not data.endswith(b"}\n"):
        got = s.recv(65536)
        check(got, "all are answered", data.count(b"HTTP/1.1 "))
        data += got
    check([x[:3] for x in data.split(b"HTTP/1.1 ")[1:]] == want, "in order")
    s.close()


def leavers(seconds, seed, seen):
    r = random.Random(seed)
    kinds = ["/api/v1/pods", MAPS, "/api/v1/events", "/apis/events.k8s.io/v1/events", "/apis/resource.k8s.io/v1beta1/resourceslices", "/api/v1/namespaces"]
    forms = ["application/json", "application/vnd.kubernetes.protobuf", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io",
             "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"]
    end = time.time() + seconds
    while time.time() < end:
        try:
            s = dial()
            for _ in range(r.randrange(1, 6)):
                name, form = "c%d" % r.randrange(20), r.choice(forms)
                m = config(name, {"k": "v" * r.choice([1, 100, 5000])}, labels={"a": str(r.randrange(4))}, **({"finalizers": ["x.y/z"]} if r.random() < 0.2 else {}))
                raw = r.choice([
                    lambda: request("GET", r.choice(kinds), accept=form), lambda: request("GET", r.choice(kinds) + "?limit=3", accept=form),
                    lambda: request("GET", r.choice(kinds) + "?watch=1&timeoutSeconds=2" + r.choice(["", "&resourceVersion=5", "&labelSelector=a%3D1",
                                    "&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"]), accept=form),
                    lambda: request("POST", MAPS, m, accept=form), lambda: request("PUT", MAPS + "/" + name, m, accept=form),
                    lambda: request("PATCH", MAPS + "/" + name, {"metadata": {"finalizers": None}}, kind="application/merge-patch+json"),
                    lambda: request("DELETE", MAPS + "/" + name), lambda: request("DELETE", MAPS + "?labelSelector=a%3D2"),
                    lambda: request("GET", MAPS) * 5 + request("POST", MAPS, m) * 3 + request("DELETE", MAPS + "/" + name) * 3,
                    lambda: request("POST", MAPS, m)[:r.randrange(1, 300)]])()
                s.sendall(raw)
                seen[0] += 1
                if r.random() < 0.4:
                    time.sleep(r.random() * 0.03)
                    break
                s.settimeout(0.3)
                s.recv(r.choice([1, 100, 100000]))
            if r.random() < 0.5:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            s.close()
        except OSError:
            pass


def leaving():
    """clients that go in the middle of requests, lists and watches"""
    seen = [0]
    threads = [threading.Thread(target=leavers, args=(60 if LONG else 6, SEED + i, seen)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(seen[0] > 100, "there was a crowd", seen[0])
    alive("after %d requests" % seen[0])


def half_open():
    """connections that say nothing, or say it slowly"""
    before = fds()
    idle = [plain() for _ in range(300)]
    slow = [dial() for _ in range(50)]
    for s in slow:
        s.sendall(b"GET /api HTTP/1.1\r\nHo")
    alive("beside 350 silent connections")
    if LONG:  # the handshake has 10 s, a head 32 s
        until("the silent ones to be cut", lambda: fds() < before + 20, 60)
    for s in idle + slow:
        s.close()
    until("their descriptors to be closed", lambda: fds() < before + 20, 20)


def watches():
    """a thousand watches at once, all of them left without a word, again and again"""
    n, before = (1000 if LONG else 400), fds()
    for turn in range(3):
        all = []
        for i in range(n):
            s = dial()
            s.sendall(request("GET", MAPS + "?watch=1" + random.choice(["", "&labelSelector=a%3D1", "&fieldSelector=metadata.name%3Dw" + str(i)])))
            all.append(s)
        ask("POST", MAPS, config("w%d" % turn, labels={"a": "1"}))
        s = all[-1]
        ask("DELETE", MAPS + "/w%d" % turn)
        for s in all:
            s.close()
        until("the watches to be gone", lambda: fds() < before + 20, 30)
    alive("after the storm")


def never_reads():
    """a watcher that does not read is cut; those that read see all"""
    deaf, good, seen = dial(), dial(), [0]
    for s in (deaf, good):
        s.sendall(request("GET", MAPS + "?watch=1&fieldSelector=metadata.name%3Dbig"))
    rounds, size = 60, 900000

    def read():
        good.settimeout(60)
        tail = b""
        while seen[0] < rounds:
            got = good.recv(1 << 20)
            if not got:
                break
            seen[0] += (tail + got).count(b'{"type":"') - tail.count(b'{"type":"')
            tail = (tail + got)[-8:]
    t = threading.Thread(target=read)
    t.start()
    time.sleep(0.3)
    before = rss_mib()
    check(ask("POST", MAPS, config("big", {"k": "x" * size}))[0] == 201, "a large object")
    for i in range(rounds - 1):
        status, body = ask("PUT", MAPS + "/big", config("big", {"k": "%d" % i + "x" * size}))
        check(status == 200, "a write", body)
    t.join()
    check(seen[0] == rounds, "who reads sees every event", seen[0])
    # 32 MiB may wait for the deaf one, and the window holds 64 MiB of events; what is replaced meanwhile is a few objects.
    check(rss_mib() - before < 220, "memory is bounded", "%d MiB, then %d" % (before, rss_mib()))
    deaf.settimeout(20)
    got, end = 0, b""
    try:
        while end != b"0\r\n\r\n":
            data = deaf.recv(1 << 20)
            if not data:
                break
            got += len(data)
            end = (end + data)[-5:]
    except socket.timeout:
        raise Failed("the deaf watcher was not cut after %d bytes" % got)
    except OSError:
        pass
    check(got < rounds * size, "the deaf watcher did not get all", got)
    deaf.close()
    good.close()
    ask("DELETE", MAPS + "/big")


def one_object():
    """64 writers count on one object: no increment is lost"""
    ask("POST", MAPS, config("count", {"n": "0"}))
    won, each = [0], 10 if LONG else 3

    def write():
        s = dial()
        for _ in range(each):
            while True:
                s.sendall(request("GET", MAPS + "/count"))
                status, body = answer(s)
                o = json.loads(body)
                o["data"]["n"] = str(int(o["data"]["n"]) + 1)
                s.sendall(request("PUT", MAPS + "/count", o))
                status, body = answer(s)
                if status == 200:
                    won[0] += 1
                    break
                if status != 409:
                    raise Failed("%s %s" % (status, body))
        s.close()
    threads = [threading.Thread(target=write) for _ in range(64)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(ask("GET", MAPS + "/count")[1]["data"]["n"] == str(64 * each), "the sum", ask("GET", MAPS + "/count")[1]["data"])
    check(won[0] == 64 * each, "each writer won as often as it tried", won)


def paging():
    """a list in pages is one moment's list, whatever is deleted meanwhile"""
    n, label = 300, "?labelSelector=page%3D1"
    s = dial()
    for i in range(n):
        s.sendall(request("POST", MAPS, config("page-%03d" % i, labels={"page": "1"})))
        check(answer(s)[0] == 201, "an object")
    deleted, stop = [0], threading.Event()

    def delete():
        d = dial()
        for i in random.Random(SEED).sample(range(n), n // 2):
            if stop.is_set():
                break
            d.sendall(request("DELETE", MAPS + "/page-%03d" % i))
            answer(d)
            deleted[0] += 1
        d.close()
    t, names, token = None, [], ""
    while True:
        s.sendall(request("GET", MAPS + label + "&limit=7" + ("&continue=" + token if token else "")))
        status, body = answer(s)
        page = json.loads(body)
        check(status == 200, "a page", page)
        names += [x["metadata"]["name"] for x in page["items"]]
        if t is None:
            t = threading.Thread(target=delete)
            t.start()
        token = page["metadata"].get("continue")
        if not token:
            break
    stop.set()
    t.join()
    check(names == ["page-%03d" % i for i in range(n)], "all of the first moment, once and in order", (len(names), deleted[0]))
    check(ask("DELETE", MAPS + label)[0] == 200, "the rest goes")
    s.close()


def gone_twice():
    """deletions of an object that is on its way out are answered after it is written, with whole objects"""
    bad = []

    def work(k):
        s = dial()
        for i in range(15):
            name = "out%d" % (i % 3)
            s.sendall(request("POST", NS + "/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "finalizers": ["x.y/z"]},
                                                     "spec": {"containers": [{"name": "c", "image": "x"}]}}) +
                      request("DELETE", NS + "/pods/" + name) * 3 +
                      request("PATCH", NS + "/pods/" + name, {"metadata": {"finalizers": None}}, kind="application/merge-patch+json"))
            for _ in range(5):
                status, body = answer_rest(s)
                try:
                    o = json.loads(body)
                    if o["kind"] == "Pod" and (o["metadata"]["name"] != name or int(o["metadata"]["resourceVersion"]) == 0):
                        bad.append(o)
                except ValueError:
                    bad.append(body)
        s.close()
    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(not bad, "every answer is an object with its version", bad[:1])


def answer_rest(s):
    """One answer of several that may have arrived together."""
    buf = rest.pop(s, b"")
    s.settimeout(20)
    while b"\r\n\r\n" not in buf:
        buf += s.recv(65536)
    head, buf = buf.split(b"\r\n\r\n", 1)
    length = next(int(x.split(b":")[1]) for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:"))
    while len(buf) < length:
        buf += s.recv(65536)
    rest[s] = buf[length:]
    return int(head.split()[1]), buf[:length]


rest = {}


def memory():
    """after all that, the server is as small as before, and ends in order"""
    leavers_before = rss_mib()
    for turn in range(3):
        seen = [0]
        threads = [threading.Thread(target=leavers, args=(3, SEED + 100 + turn * 10 + i, seen)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    # A sanitizer keeps what was freed, and looks for leaks itself at the end.
    sanitized = "asan" in open("/proc/%d/maps" % api.process.pid).read()
    check(sanitized or rss_mib() - leavers_before < 40, "memory does not grow with the number of requests", "%d MiB, then %d" % (leavers_before, rss_mib()))
    check(api.stop() == 0, "exit status", api.process.tail())
    log = open(api.process.log, errors="replace").read()
    check("Sanitizer" not in log and "runtime error" not in log, "no sanitizer spoke", log[-3000:])


sys.exit(play([rubbish, pipelined, leaving, half_open, watches, never_reads, one_object, paging, gone_twice, memory], sys.argv[1] if len(sys.argv) > 1 else None))
