#!/usr/bin/env python3
"""kubectl and objects that nothing runs: against `bulkhead apiserver` alone. objects.py [PART]: only the parts whose name holds that."""
import json, os, re, stat, subprocess, sys, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from suite import DIR, Apiserver, Missing, check, play, pod, run, until  # noqa: E402

api = Apiserver()
k = api.kubectl


def cm(name, data=None, **meta):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": dict({"name": name}, **meta), "data": data or {"a": "1", "b": "2"}}


def text(*objs):
    return "\n---\n".join(json.dumps(o) for o in objs)


def create_and_replace():
    """create, create twice, replace, replace --force"""
    check(k("create", "-f", "-", stdin=text(cm("one"))) == "configmap/one created\n", "create says so")
    check("Error from server (AlreadyExists): error when creating \"STDIN\": configmaps \"one\" already exists"
          in k.fails("create", "-f", "-", stdin=text(cm("one"))), "a second create is refused in upstream's words")
    check(k("replace", "-f", "-", stdin=text(cm("one", {"c": "3"}))) == "configmap/one replaced\n", "replace")
    check(k.json("get", "cm", "one")["data"] == {"c": "3"}, "replaced whole")
    uid = k.json("get", "cm", "one")["metadata"]["uid"]
    stale = dict(cm("one"), metadata={"name": "one", "resourceVersion": "1"})
    check("the object has been modified; please apply your changes to the latest version" in k.fails("replace", "-f", "-", stdin=text(stale)),
          "replace of a stale version is a conflict")
    check("configmap/one replaced" in k("replace", "--force", "-f", "-", stdin=text(cm("one"))), "replace --force")
    check(k.json("get", "cm", "one")["metadata"]["uid"] != uid, "replace --force makes a new object")
    k("create", "configmap", "lit", "--from-literal=x=y")
    check(k("get", "cm", "lit", "-o", "jsonpath={.data.x}") == "y", "create configmap --from-literal")
    k("create", "secret", "generic", "sec", "--from-literal=p=w")
    check(k.json("get", "secret", "sec")["data"] == {"p": "dw=="} and k.json("get", "secret", "sec")["type"] == "Opaque", "create secret")


def many_in_one_file():
    """a file of several documents, a kind: List, a directory"""
    out = k("create", "-f", "-", stdin=text(cm("m1"), cm("m2"), cm("m3")))
    check(out.split("\n")[:3] == ["configmap/m%d created" % i for i in (1, 2, 3)], "three documents", out)
    lst = {"apiVersion": "v1", "kind": "List", "items": [cm("l1"), cm("l2"), {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "l3"}}]}
    out = k("create", "-f", "-", stdin=text(lst))
    check(out == "configmap/l1 created\nconfigmap/l2 created\nsecret/l3 created\n", "kind: List", out)
    lst["items"][0]["data"] = {"z": "26"}
    out = k("apply", "-f", "-", stdin=text(lst))
    check(out.startswith("configmap/l1 configured\n"), "apply of a kind: List", out)
    d = os.path.join(DIR, "files")
    os.mkdir(d)
    for n in ("d1", "d2"):
        with open(os.path.join(d, n + ".yaml"), "w") as f:
            f.write("# a comment\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata:\n  text: |\n    two\n    lines\n" % n)
    check(k("create", "-f", d) == "configmap/d1 created\nconfigmap/d2 created\n", "a directory")
    check(k("get", "cm", "d1", "-o", "jsonpath={.data.text}") == "two\nlines\n", "YAML block text")
    bad = json.dumps(dict(cm("bad"), nonsense=1))
    check('unknown field "nonsense"' in k.fails("create", "-f", "-", stdin=bad), "an unknown field in a List or not")
    out = k.fails("create", "-f", "-", stdin=text({"apiVersion": "v1", "kind": "List", "items": [json.loads(bad)]}))
    check('unknown field "nonsense"' in out, "an unknown field inside a List", out)


def openapi_protobuf():
    """/openapi/v2 in protobuf is what kubectl reads"""
    for accept in ("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"):
        c = api.client.connect()
        c.request("GET", "/openapi/v2", headers={"Accept": accept})
        r = c.getresponse()
        body = r.read()
        check(r.status == 200 and r.getheader("Content-Type") == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", "its media type",
              r.getheader("Content-Type"))
        check(body[:5] == b"\n\x032.0", "field 1 is the swagger version", body[:8])
        c.close()
    status, doc = api.client.ask("GET", "/openapi/v2")
    check(status == 200 and doc["swagger"] == "2.0" and "io.k8s.api.resource.v1.ResourceClaim" in doc["definitions"], "JSON as before")


def client_side_apply():
    """apply: create, unchanged, configured, pruned field, --prune"""
    def apply(o, *flags):
        return k("apply", *flags, "-f", "-", stdin=text(o))
    check(apply(cm("ap")) == "configmap/ap created\n", "first")
    check(apply(cm("ap")) == "configmap/ap unchanged\n", "again")
    check("kubectl.kubernetes.io/last-applied-configuration" in k.json("get", "cm", "ap")["metadata"]["annotations"], "the last applied form is kept")
    k("patch", "cm", "ap", "--type=merge", "-p", '{"data":{"other":"kept"}}')
    check(apply(cm("ap", {"a": "9"})) == "configmap/ap configured\n", "changed")
    check(k.json("get", "cm", "ap")["data"] == {"a": "9", "other": "kept"}, "what left the file is pruned, what others set stays")
    p = pod("applied")
    p["spec"]["containers"].append({"name": "side", "image": "x"})
    check(apply(p) == "pod/applied created\n", "a pod")
    p["spec"]["containers"][0]["image"] = "other:2"
    check(apply(p) == "pod/applied configured\n", "strategic merge by container name")
    got = [(c["name"], c["image"]) for c in k.json("get", "pod", "applied")["spec"]["containers"]]
    check(got == [("main", "other:2"), ("side", "x")], "only that container changed", got)
    del p["spec"]["containers"][1]
    check("may not add or remove containers" in k.fails("apply", "-f", "-", stdin=text(p)), "pods keep their containers")
    for n in ("p1", "p2"):
        apply(cm(n, labels={"set": "s"}))
    out = k("apply", "-f", "-", "--prune", "-l", "set=s", "--prune-allowlist=core/v1/ConfigMap", stdin=text(cm("p1", labels={"set": "s"})))
    check("configmap/p2 pruned" in out, "--prune", out)
    check("diff" in run(*k.base, "diff", "-f", "-", stdin=text(cm("ap", {"a": "10"})), ok=False).stdout, "kubectl diff shows the change")


def server_side_apply():
    """apply --server-side: owners, conflict, force"""
    def apply(o, *flags, **kw):
        return k("apply", "--server-side", *flags, "-f", "-", stdin=text(o), **kw)
    if "415" in run(*k.base, "apply", "--server-side", "-f", "-", stdin=text(cm("ssa0")), ok=False).stderr:
        raise Missing("the server knows no server-side apply")
    check(apply(cm("ssa", {"a": "1"}), "--field-manager=m1") == "configmap/ssa serverside-applied\n", "applied")
    e = k.fails("apply", "--server-side", "--field-manager=m2", "-f", "-", stdin=text(cm("ssa", {"a": "2"})))
    check('conflict with "m1"' in e and ".data.a" in e, "a conflict names manager and field", e)
    apply(cm("ssa", {"a": "2"}), "--field-manager=m2", "--force-conflicts")
    m = {x["manager"]: x["operation"] for x in k.json("get", "cm", "ssa", "--show-managed-fields")["metadata"]["managedFields"]}
    check(m == {"m2": "Apply"}, "forced: the field has a new owner", m)


def patches():
    """patch: strategic, merge, json; --subresource"""
    k("create", "-f", "-", stdin=text(pod("pat")))
    k("patch", "pod", "pat", "-p", '{"spec":{"containers":[{"name":"main","image":"s:1"}]}}')
    k("patch", "pod", "pat", "--type=merge", "-p", '{"metadata":{"labels":{"m":"1","app":null}}}')
    k("patch", "pod", "pat", "--type=json", "-p", '[{"op":"add","path":"/metadata/labels/j","value":"1"},{"op":"test","path":"/metadata/labels/m","value":"1"}]')
    o = k.json("get", "pod", "pat")
    check(o["spec"]["containers"][0]["image"] == "s:1", "strategic")
    check(o["metadata"]["labels"] == {"m": "1", "j": "1"}, "merge and json", o["metadata"]["labels"])
    e = k.fails("patch", "pod", "pat", "--type=json", "-p", '[{"op":"test","path":"/metadata/labels/m","value":"2"}]')
    check("the server rejected our request" in e.lower() or "test" in e.lower(), "a test that does not hold", e)
    k("patch", "pod", "pat", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Running"}}')
    check(k("get", "pod", "pat", "--no-headers").split()[2] == "Running", "status subresource, seen in the table")
    check(k("patch", "pod", "pat", "-p", '{}') == "pod/pat patched (no change)\n", "a patch without change")


def edit_label_annotate():
    """edit through a script, label, annotate"""
    k("create", "-f", "-", stdin=text(cm("ed")))
    ed = os.path.join(DIR, "editor.sh")
    with open(ed, "w") as f:
        f.write("#!/bin/sh\nsed -i 's/a: \"1\"/a: \"edited\"/' \"$1\"\n")
    os.chmod(ed, 0o755)
    check(k("edit", "cm", "ed", env={"EDITOR": ed}) == "configmap/ed edited\n", "edit")
    check(k.json("get", "cm", "ed")["data"]["a"] == "edited", "what the editor wrote")
    check("Edit cancelled, no changes made" in run(*k.base, "edit", "cm", "ed", env={"EDITOR": "true"}, ok=False).stderr, "no change")
    check(k("label", "cm", "ed", "x=1") == "configmap/ed labeled\n", "label")
    check("already has a value (1), and --overwrite is false" in k.fails("label", "cm", "ed", "x=2"), "without --overwrite")
    k("label", "cm", "ed", "x=2", "--overwrite")
    k("annotate", "cm", "ed", "note=hello")
    m = k.json("get", "cm", "ed")["metadata"]
    check(m["labels"] == {"x": "2"} and m["annotations"] == {"note": "hello"}, "both", m)
    k("label", "cm", "ed", "x-")
    check("labels" not in k.json("get", "cm", "ed")["metadata"], "label removed")


def outputs():
    """get in every form, sorting, selectors"""
    k("create", "ns", "out")
    pods = [pod("o%d" % i, labels={"n": str(i), "even": str(i % 2 == 0).lower()}) for i in range(4)]
    for i, p in enumerate(pods):
        p["spec"]["nodeName"] = "node-%d" % (i % 2)
        p["spec"]["priority"] = 0
    k("create", "-n", "out", "-f", "-", stdin=text(*pods))
    g = lambda *a: k("get", "pods", "-n", "out", *a)  # noqa: E731
    lines = g().split("\n")
    check(lines[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"], "columns", lines[0])
    check(lines[1].split()[:4] == ["o0", "0/1", "Pending", "0"], "a row", lines[1])
    wide = g("-o", "wide").split("\n")
    check(wide[0].split()[-7:] == ["IP", "NODE", "NOMINATED", "NODE", "READINESS", "GATES"] or wide[0].split()[5:] == ["IP", "NODE", "NOMINATED", "NODE", "READINESS", "GATES"], "-o wide", wide[0])
    check("node-1" in wide[2], "-o wide shows the node", wide[2])
    check(g("-o", "name") == "".join("pod/o%d\n" % i for i in range(4)), "-o name")
    check(json.loads(g("-o", "json"))["kind"] == "List", "-o json")
    check(re.search(r"^  kind: Pod$", g("-o", "yaml"), re.M), "-o yaml")
    check(g("-o", "custom-columns=N:.metadata.name,NODE:.spec.nodeName").split("\n")[2].split() == ["o1", "node-1"], "-o custom-columns")
    check(g("-o", "jsonpath={range .items[*]}{.metadata.name}={.spec.nodeName} {end}") == "o0=node-0 o1=node-1 o2=node-0 o3=node-1 ", "-o jsonpath")
    check(g("-o", "go-template={{range .items}}{{.metadata.name}},{{end}}") == "o0,o1,o2,o3,", "-o go-template")
    check(g("--sort-by={.metadata.labels.n}", "-o", "name") == "".join("pod/o%d\n" % i for i in range(4)), "--sort-by")
    check(g("--sort-by=.metadata.name", "--no-headers").split("\n")[0].startswith("o0"), "--sort-by in a table")
    check(g("-l", "even=true", "-o", "name") == "pod/o0\npod/o2\n", "-l =")
    check(g("-l", "n in (1,2),even!=true", "-o", "name") == "pod/o1\n", "-l in, !=")
    check(g("-l", "!absent", "-o", "name").count("\n") == 4, "-l !key")
    check(g("--field-selector", "spec.nodeName=node-1,status.phase=Pending", "-o", "name") == "pod/o1\npod/o3\n", "--field-selector")
    check('field label not supported: "spec.nonsense"' in k.fails("get", "pods", "-n", "out", "--field-selector", "spec.nonsense=1")
          or "not supported" in k.fails("get", "pods", "-n", "out", "--field-selector", "spec.nonsense=1"), "an unknown field selector")
    check(g("--show-labels").split("\n")[1].endswith("even=true,n=0"), "--show-labels")
    check(g("-L", "n").split("\n")[2].split()[-1] == "1", "-L")
    check("out" in k("get", "pods", "-A").split("\n")[1].split()[0] or "out " in k("get", "pods", "-A"), "-A has the namespace column")
    check(g("--chunk-size=1", "-o", "name").count("\n") == 4, "--chunk-size follows continue tokens")
    check("No resources found in default namespace." in run(*k.base, "get", "leases", ok=False).stderr, "an empty list")
    check('pods "absent" not found' in k.fails("get", "pod", "absent"), "not found")
    check('the server doesn\'t have a resource type "nonsense"' in k.fails("get", "nonsense"), "unknown type")
    check(k("get", "--raw", "/healthz") == "ok", "--raw")


def watching():
    """get --watch, --watch-only, wait --for"""
    k("create", "ns", "w")
    p = subprocess.Popen(k.base + ["get", "cm", "-n", "w", "--watch", "--output-watch-events"], stdout=subprocess.PIPE, text=True)
    seen = []
    t = threading.Thread(target=lambda: [seen.append(line.split()[:3]) for line in p.stdout])
    t.start()
    try:
        time.sleep(0.5)
        k("create", "-n", "w", "-f", "-", stdin=text(cm("x", {"d": "1"})))
        until("the watch to begin", lambda: ["ADDED", "x", "1"] in seen, 20)
        k("patch", "-n", "w", "cm", "x", "--type=merge", "-p", '{"data":{"e":"2"}}')
        k("delete", "-n", "w", "cm", "x")
        until("the events", lambda: ["DELETED", "x", "2"] in seen, 20)
        check([s for s in seen if "x" in s] == [["ADDED", "x", "1"], ["MODIFIED", "x", "2"], ["DELETED", "x", "2"]], "added, modified, deleted", seen)
    finally:
        p.kill()
        t.join()
    k("create", "-f", "-", stdin=text(pod("waited")))
    w = subprocess.Popen(k.base + ["wait", "--for=condition=Ready", "pod/waited", "--timeout=20s"], stdout=subprocess.PIPE, text=True)
    time.sleep(0.5)
    k("patch", "pod", "waited", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}')
    check(w.communicate(timeout=30)[0] == "pod/waited condition met\n", "wait --for=condition")
    check(k("wait", "--for=jsonpath={.status.phase}=Running", "pod/waited", "--timeout=10s") == "pod/waited condition met\n", "wait --for=jsonpath")
    check("timed out waiting" in k.fails("wait", "--for=condition=Nonsense", "pod/waited", "--timeout=1s"), "wait that times out")
    w = subprocess.Popen(k.base + ["wait", "--for=delete", "pod/waited", "--timeout=20s"], stdout=subprocess.PIPE, text=True)
    time.sleep(0.3)
    k("delete", "pod", "waited", "--grace-period=0", "--force")
    check("condition met" in w.communicate(timeout=30)[0], "wait --for=delete")
    k("create", "ns", "w2")
    check(k("wait", "--for=create", "ns/w2", "--timeout=5s") == "namespace/w2 condition met\n", "wait --for=create")


def describe_and_explain():
    """describe pod, node, resourceclaim; explain; api-resources; api-versions; version"""
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c1"},
             "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}]}}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"zone": "z"}}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    k("create", "-f", "-", stdin=text(claim, node, pod("desc", resourceClaims=[{"name": "g", "resourceClaimName": "c1"}])))
    out = k("describe", "pod", "desc")
    for want in (r"^Name: +desc$", r"^Namespace: +default$", r"^Status: +Pending$", r"^  main:$", r"^    Image: +localhost/bulkhead-demo:1$", r"^QoS Class: +BestEffort$"):
        check(re.search(want, out, re.M), "describe pod: " + want, out)
    out = k("describe", "node", "n1")
    check(re.search(r"^Taints: +k:NoSchedule$", out, re.M) and "zone=z" in out, "describe node", out)
    out = k("describe", "resourceclaim", "c1")
    check(re.search(r"Device Class Name: +gpu.example.com", out) and re.search(r"Count: +2", out), "describe resourceclaim", out)
    out = k("explain", "pod.spec")
    check("KIND:       Pod" in out and re.search(r"^  containers\t<\[\]Container> -required-$", out, re.M), "explain pod.spec", out[:600])
    out = k("explain", "resourceclaim.spec.devices")
    check("GROUP:      resource.k8s.io" in out and re.search(r"^  requests\t<\[\]DeviceRequest>", out, re.M), "explain resourceclaim.spec.devices", out[:600])
    out = k("explain", "devicetaintrule.spec", "--recursive", "--api-version=resource.k8s.io/v1beta2")
    check(re.search(r"^    effect\t<string>", out, re.M), "explain --recursive", out)
    out = k("api-resources", "--no-headers")
    for want in ("pods +po +v1 +true +Pod", "nodes +no +v1 +false +Node", "resourceclaims +resource.k8s.io/v1 +true +ResourceClaim",
                 "resourceslices +resource.k8s.io/v1 +false +ResourceSlice", "devicetaintrules +resource.k8s.io/v1beta2 +false +DeviceTaintRule"):
        check(re.search("^" + want, out, re.M), "api-resources: " + want, out)
    out = k("api-resources", "--api-group=resource.k8s.io", "-o", "name", "--namespaced=true").split()
    check(out == ["resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"], "api-resources with filters", out)
    out = k("api-versions").split()
    check("v1" in out and "resource.k8s.io/v1" in out and "coordination.k8s.io/v1" in out, "api-versions", out)
    v = k.json("version")
    check(v["serverVersion"]["minor"].startswith("36"), "version", v.get("serverVersion"))
    if re.search("^services ", k("api-resources", "--no-headers"), re.M):
        check("is running at" in k("cluster-info"), "cluster-info")


def dry_run_and_strict():
    """--dry-run=server, --validate"""
    check(k("create", "--dry-run=server", "-f", "-", stdin=text(cm("dry"))) == "configmap/dry created (server dry run)\n", "create")
    check("not found" in k.fails("get", "cm", "dry"), "nothing was made")
    k("create", "-f", "-", stdin=text(cm("dry")))
    k("delete", "cm", "dry", "--dry-run=server")
    check(k("apply", "--dry-run=server", "-f", "-", stdin=text(cm("dry", {"q": "1"}))).startswith("configmap/dry configured (server dry run)"), "apply")
    check(k.json("get", "cm", "dry")["data"] == {"a": "1", "b": "2"}, "nothing changed")
    typo = pod("typo")
    typo["spec"]["restartpolicy"] = "Never"
    e = k.fails("create", "--validate=strict", "-f", "-", stdin=text(typo))
    check('strict decoding error: unknown field "spec.restartpolicy"' in e, "--validate=strict", e)
    r = run(*k.base, "create", "--validate=warn", "-f", "-", stdin=text(typo), ok=False)
    check(r.returncode == 0 and 'Warning: unknown field "spec.restartpolicy"' in r.stderr, "--validate=warn", r.stderr)
    k("delete", "pod", "typo", "--grace-period=0", "--force")
    r = run(*k.base, "create", "--validate=ignore", "-f", "-", stdin=text(typo), ok=False)
    check(r.returncode == 0 and "Warning" not in r.stderr, "--validate=ignore", r.stderr)
    bad = pod("Bad_Name")
    e = k.fails("create", "-f", "-", stdin=text(bad))
    check('The Pod "Bad_Name" is invalid: metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain' in e, "a bad name", e)


def scheduling_kinds():
    """the kinds that scheduling uses: tables, describe, addresses, budgets"""
    tpl = {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "main", "image": "registry.local/app:1"}]}}
    for kind, name in (("ReplicaSet", "rs"), ("Deployment", "dep"), ("StatefulSet", "sts")):
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "w"}}, "template": tpl}
        out = k("apply", "-f", "-", stdin=text({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}))
        check(out == "%s.apps/%s created\n" % (kind.lower(), name), "apply of a " + kind, out)
        check(name in k("describe", kind.lower(), name), "describe of a " + kind)
    spec = {"selector": {"matchLabels": {"app": "w"}}, "template": dict(tpl, spec=dict(tpl["spec"], nodeSelector={"disk": "ssd"}))}
    k("apply", "-f", "-", stdin=text({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "ds"}, "spec": spec}))
    check(re.search(r"ds +0 +0 +0 +0 +0 +disk=ssd ", k("get", "ds")) and "Name:           ds" in k("describe", "ds", "ds"), "a daemon set")
    k("create", "-f", "-", stdin=text({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "es"}, "addressType": "IPv4",
                                       "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [{"port": 80}]}))
    check(re.search(r"es +IPv4 +80 +10\.1\.2\.3 ", k("get", "endpointslices")), "table of endpoint slices")
    k("create", "-f", "-", stdin=text({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "rc"}, "spec": {"template": tpl}}))
    check(re.search(r"rs +2 +0 +0 +\S+ +main +registry.local/app:1 +app=w", k("get", "rs", "-o", "wide")), "table of replica sets")
    check(re.search(r"rc +1 +0 +0 +\S+ +main +registry.local/app:1 +app=w", k("get", "rc", "-o", "wide")), "table of replication controllers")
    check(re.search(r"dep +0/2 +0 +0 ", k("get", "deploy")) and re.search(r"sts +0/2 ", k("get", "sts")), "tables of deployments and stateful sets")
    check(k("scale", "rs", "rs", "--replicas=5") == "replicaset.apps/rs scaled\n" and
          k("get", "sts/sts", "--subresource=scale", "-o", "jsonpath={.kind} {.spec.replicas} {.status.selector}") == "Scale 2 app=w",
          "scale of a workload")
    check("error: Expected replicas to be 2, was 5" in k.fails("scale", "rs", "rs", "--replicas=1", "--current-replicas=2"), "scale from a number that is not there")
    check(k.json("get", "rs", "rs")["spec"]["replicas"] == 5, "the scale is the replicas of the object")
    k("create", "service", "clusterip", "svc", "--tcp=80:8080")
    ip = k.json("get", "svc", "svc")["spec"]["clusterIP"]
    check(re.match(r"10\.96\.", ip) and re.search(r"svc +ClusterIP +%s +<none> +80/TCP" % re.escape(ip), k("get", "svc")), "a service has an address", ip)
    check("provided IP is already allocated" in k.fails("create", "service", "clusterip", "svc2", "--tcp=80:80", "--clusterip=" + ip), "an address is given once")
    check(k("get", "svc", "kubernetes", "-n", "default", "-o", "jsonpath={.spec.clusterIP}") == "10.96.0.1", "the API server's own service")
    k("create", "pdb", "budget", "--selector=app=w", "--min-available=1")
    check(re.search(r"budget +1 +N/A +0 ", k("get", "pdb")), "table of budgets")
    p = pod("guarded")
    p["metadata"]["labels"] = {"app": "w"}
    p["spec"]["nodeName"] = "nowhere"
    k("create", "-f", "-", stdin=text(p))
    k("patch", "pod", "guarded", "--subresource=status", "-p", '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}')
    body = json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "guarded"}})
    at = "/api/v1/namespaces/default/pods/guarded/eviction"
    check("Cannot evict pod as it would violate the pod's disruption budget" in k.fails("create", "--raw", at, "-f", "-", stdin=body),
          "an eviction that the budget refuses")
    k("delete", "pdb", "budget")
    check('"status":"Success"' in k("create", "--raw", at, "-f", "-", stdin=body), "an eviction that nothing refuses")
    k("create", "-f", "-", stdin=text({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "boxed"}, "handler": "box",
                                       "overhead": {"podFixed": {"cpu": "250m"}}, "scheduling": {"nodeSelector": {"pool": "boxes"}}}))
    p = pod("inside")
    p["spec"]["runtimeClassName"] = "boxed"
    k("create", "-f", "-", stdin=text(p))
    got = k.json("get", "pod", "inside")["spec"]
    check(got["overhead"] == {"cpu": "250m"} and got["nodeSelector"] == {"pool": "boxes"}, "what a runtime class adds to its pods", got)
    group = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "gang"},
             "spec": {"podGroupTemplateRef": {"workload": {"workloadName": "job", "podGroupTemplateName": "workers"}}, "schedulingPolicy": {"gang": {"minCount": 2}}}}
    check('PodGroup rejected: Workload "job" not found' in k.fails("create", "-f", "-", stdin=text(group)), "a group of no workload")
    k("create", "-f", "-", stdin=text({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload", "metadata": {"name": "job"},
                                       "spec": {"podGroupTemplates": [{"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}}]}}))
    k("create", "-f", "-", stdin=text(group))
    check(re.search(r"gang +Gang +job +Pending ", k("get", "podgroups")), "table of pod groups")
    k("delete", "podgroup", "gang", "--wait=false")
    check(k.json("get", "podgroup", "gang")["metadata"]["deletionTimestamp"], "a group waits for its controller")


def deletion():
    """delete: by name, label, --all, force"""
    k("create", "-f", "-", stdin=text(cm("del1", labels={"d": "x"}), cm("del2", labels={"d": "x"}), cm("del3")))
    check(k("delete", "cm", "del3") == 'configmap "del3" deleted from default namespace\n', "by name")
    out = k("delete", "cm", "-l", "d=x")
    check(sorted(out.strip().split("\n")) == ['configmap "del%d" deleted from default namespace' % i for i in (1, 2)], "by label", out)
    check("not found" in k.fails("delete", "cm", "del1"), "deleted twice")
    check(k("delete", "cm", "del1", "--ignore-not-found") == "", "--ignore-not-found")
    k("create", "-f", "-", stdin=text(pod("forced")))
    out = run(*k.base, "delete", "pod", "forced", "--force", "--grace-period=0", ok=False)
    check(out.returncode == 0 and "Immediate deletion does not wait" in out.stderr, "--force", out.stderr)
    check("not found" in k.fails("get", "pod", "forced"), "gone at once")
    k("delete", "cm", "--all")
    check(k("get", "cm", "-o", "name") == "" or k("get", "cm", "-o", "name") == "configmap/kube-root-ca.crt\n", "--all")


def rights():
    """auth can-i, --as"""
    if "could not find" in run(*k.base, "auth", "can-i", "create", "pods", ok=False).stderr:
        raise Missing("the server knows no access reviews")
    check(k("auth", "can-i", "create", "pods") == "yes\n", "the admin may")
    r = run(*k.base, "auth", "can-i", "create", "pods", "--as=nobody", ok=False)
    check(r.stdout == "no\n" and r.returncode == 1, "nobody may not", r)
    e = k.fails("get", "pods", "--as=nobody")
    check('User "nobody" cannot list resource "pods" in API group "" in the namespace "default"' in e, "refused in upstream's words", e)
    check("system:masters" in k("auth", "whoami"), "auth whoami")


try:
    status = play([create_and_replace, many_in_one_file, openapi_protobuf, client_side_apply, server_side_apply, patches, edit_label_annotate, outputs,
                   watching, describe_and_explain, dry_run_and_strict, scheduling_kinds, deletion, rights], *sys.argv[1:2])
finally:
    ended = api.stop()
if ended != 0:
    print("the API server ended with status %s: %s" % (ended, api.process.tail()))
    status = 1
sys.exit(status)
