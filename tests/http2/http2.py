#!/usr/bin/env python3
"""HTTP/2 on the API port: curl, nghttp and h2load. http2.py [PART]: only the parts whose name holds that."""
import base64, json, os, re, subprocess, sys, threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from suite import DIR, Apiserver, check, play, run, until  # noqa: E402

api = Apiserver()
KUBECONFIG = open(os.path.join(api.data, "admin.kubeconfig")).read()
SERVER = re.search(r"server: *\"?(https://[^\s\"]+)", KUBECONFIG).group(1)
CMS = SERVER + "/api/v1/namespaces/default/configmaps"


def pem(key):
    path = os.path.join(DIR, key)
    with open(path, "wb") as f:
        f.write(base64.b64decode(re.search(key + r": *\"?([A-Za-z0-9+/=]+)", KUBECONFIG).group(1)))
    return path


CA, CERT, KEY = pem("certificate-authority-data"), pem("client-certificate-data"), pem("client-key-data")
CURL = ["curl", "-sS", "--http2", "--cacert", CA, "--cert", CERT, "--key", KEY, "--max-time", "60"]
JSON = ["-H", "Content-Type: application/json"]


def cm(name, value="v"):
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}})


def curl(*args, stdin=None):
    """Protocol version, status and body."""
    out = run(*CURL, "-w", "\n%{http_version} %{http_code}", *args, stdin=stdin)
    body, _, last = out.rpartition("\n")
    version, status = last.split()
    return version, int(status), body


def chosen():
    """h2 where the client offers it, HTTP/1.1 else"""
    check(curl(SERVER + "/version")[:2] == ("2", 200), "curl --http2")
    out = run(*[a if a != "--http2" else "--http1.1" for a in CURL], "-w", " %{http_version}", SERVER + "/version")
    check(out.endswith(" 1.1"), "curl --http1.1", out[-20:])
    head = run(*CURL, "-D", "-", "-o", "/dev/null", SERVER + "/api/v1/namespaces/default").lower()
    check("content-type: application/json" in head and "content-length:" in head and "date:" in head, "headers", head)
    check("connection:" not in head and "transfer-encoding:" not in head, "no header of HTTP/1.1", head)


def objects():
    """create, read, replace, delete, errors"""
    check(curl(*JSON, "-d", cm("a"), CMS)[1] == 201, "create")
    v, status, body = curl(CMS + "/a")
    check(status == 200 and json.loads(body)["data"] == {"k": "v"}, "get", body)
    check(curl(*JSON, "-X", "PUT", "-d", cm("a", "w"), CMS + "/a")[1] == 200, "put")
    check(curl(*JSON, "-d", cm("a"), CMS)[1] == 409, "create again")
    check(curl(CMS + "/none")[1] == 404, "get of nothing")
    check(curl(*JSON, "-d", "{", CMS)[1] == 400, "no JSON")
    big = os.path.join(DIR, "big")
    with open(big, "w") as f:
        f.write(cm("big", "x" * 900000))
    check(curl(*JSON, "--data-binary", "@" + big, CMS)[1] == 201, "a large body")
    check(len(json.loads(curl(CMS + "/big")[2])["data"]["k"]) == 900000, "a large answer")
    check(curl("-X", "DELETE", CMS + "/big")[1] == 200, "delete")
    out = run(*[a for a in CURL if a not in ("--cert", CERT, "--key", KEY)], "-w", "%{http_code}", "-o", "/dev/null", CMS)
    check(out in ("401", "403"), "nobody may not", out)


def limits():
    """bodies and headers that are too large"""
    big = os.path.join(DIR, "toobig")
    with open(big, "w") as f:
        f.write("x" * (4 << 20))
    out = run("nghttp", "-v", "--no-verify-peer", "--cert", CERT, "--key", KEY, "-d", big, "-H", "content-type: application/json", CMS, ok=False)
    check(":status: 413" in out.stdout + out.stderr, "413", (out.stdout + out.stderr)[-500:])
    r = run(*CURL, "-H", "X-Long: " + "y" * 70000, SERVER + "/version", ok=False)
    check(r.returncode != 0 or "400" in r.stdout or "431" in r.stdout, "headers beyond the limit", r)
    check(curl(SERVER + "/version")[1] == 200, "the server goes on")
    check(curl(SERVER + "/" + "z" * 20000)[1] == 414, "a long path")


def watching():
    """a watch beside other requests, on one connection"""
    lines = []
    w = subprocess.Popen([*CURL, "-N", CMS + "?watch=1"], stdout=subprocess.PIPE, text=True)

    def read():
        for line in w.stdout:
            lines.append(json.loads(line))

    t = threading.Thread(target=read)
    t.start()
    until("the first event", lambda: lines)
    for i in range(20):
        check(curl(*JSON, "-d", cm("w-%d" % i), CMS)[1] == 201, "create")
    until("twenty events", lambda: len([e for e in lines if e["object"]["metadata"]["name"].startswith("w-")]) == 20)
    names = [e["object"]["metadata"]["name"] for e in lines if e["object"]["metadata"]["name"].startswith("w-")]
    check(names == ["w-%d" % i for i in range(20)], "in order", names)
    w.terminate()
    w.wait()
    t.join()
    out = run(*CURL, "-N", CMS + "?watch=1&timeoutSeconds=1&resourceVersion=" + lines[-1]["object"]["metadata"]["resourceVersion"])
    check(out == "", "a watch ends in order", out)


def many():
    """h2load: many streams on few connections, reads and writes"""
    out = run("h2load", "-n", "4000", "-c", "4", "-m", "100", SERVER + "/version", timeout=120)
    check("4000 succeeded, 0 failed, 0 errored" in out and "Application protocol: h2" in out, "4,000 requests on 4 connections", out)
    body = os.path.join(DIR, "gen")
    with open(body, "w") as f:
        f.write(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}}))
    # h2load shows no certificate: the port refuses each request, and stays there for them all.
    out = run("h2load", "-n", "2000", "-c", "2", "-m", "250", "-d", body, "-H", "content-type: application/json", CMS, timeout=120)
    check("2000 done" in out and "0 errored" in out and re.search(r"status codes: 0 2xx, 0 3xx, 2000 4xx, 0 5xx", out), "2,000 refused writes", out)


try:
    status = play([chosen, objects, limits, watching, many], *sys.argv[1:2])
finally:
    ended = api.stop()
if ended != 0:
    print("the API server ended with status %s: %s" % (ended, api.process.tail()))
    status = 1
sys.exit(status)
