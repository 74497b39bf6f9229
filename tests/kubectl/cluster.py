#!/usr/bin/env python3
"""kubectl and objects that somebody acts on: logs, garbage collection, namespaces, devices. On a cluster of `bulkhead up`."""
import os, re, subprocess, sys, threading, time, json

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from suite import BULKHEAD, DIR, IMAGE, Cluster, check, play, pod, run, until  # noqa: E402

c = Cluster()
c.image()
k = c.kubectl


def make(*objs, ns="default"):
    k("create", "-n", ns, "-f", "-", stdin="\n---\n".join(json.dumps(o) for o in objs))


def running(*names, ns="default"):
    for n in names:
        k("wait", "-n", ns, "--for=condition=Ready", "pod/" + n, "--timeout=40s")


def logs():
    """logs, -f, --tail, --since, --timestamps, --previous, -c, --all-containers"""
    talk = pod("talk", "for i in 0 1 2 3 4; do echo line $i; done; echo oops >&2; sleep 1; i=5; while true; do echo line $i; i=$((i+1)); sleep 0.3; done")
    crash = pod("crash", "if [ -e /data/second ]; then echo second life; while true; do sleep 1; done; else touch /data/second; echo first life; exit 3; fi",
                volumes=[{"name": "d", "emptyDir": {}}])
    crash["spec"]["containers"][0]["volumeMounts"] = [{"name": "d", "mountPath": "/data"}]
    two = pod("two", "echo from main; while true; do sleep 1; done")
    two["spec"]["containers"].append({"name": "side", "image": IMAGE, "command": ["/bin/sh", "-c", "echo from side; while true; do sleep 1; done"]})
    make(talk, crash, two)
    running("talk", "two")
    out = until("output", lambda: k("logs", "talk"))
    check(out.startswith("line 0\nline 1\nline 2\nline 3\nline 4\noops\n"), "standard output and error in order", out)
    until("more", lambda: "line 7\n" in k("logs", "talk"))
    tail = k("logs", "talk", "--tail=2").strip().split("\n")
    check(len(tail) == 2 and tail[0].startswith("line "), "--tail", tail)
    check(k("logs", "talk", "--tail=0") == "", "--tail=0")
    check("line 0\n" not in k("logs", "talk", "--since=1s") and "line" in k("logs", "talk", "--since=2s"), "--since")
    stamped = k("logs", "talk", "--timestamps", "--tail=1")
    check(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(Z|[+-]\d\d:\d\d) line \d+\n$", stamped), "--timestamps", stamped)
    check(len(k("logs", "talk", "--limit-bytes=9")) == 9, "--limit-bytes")
    f = subprocess.Popen(k.base + ["logs", "-f", "talk", "--tail=1"], stdout=subprocess.PIPE, text=True)
    lines = []
    t = threading.Thread(target=lambda: lines.extend(f.stdout))
    t.start()
    until("the talk", lambda: int(k("logs", "talk", "--tail=1").split()[1]) > 20)
    k("delete", "pod", "talk", "--wait=true")
    check(f.wait(20) == 0, "logs -f ends when the container ends")
    t.join()
    n = [int(x.split()[1]) for x in lines]
    check(len(n) > 3 and n == list(range(n[0], n[0] + len(n))), "logs -f: every line once, in order", n)
    until("the second life", lambda: k("get", "pod", "crash", "-o", "jsonpath={.status.containerStatuses[0].restartCount}") == "1")
    until("its words", lambda: k("logs", "crash") == "second life\n")
    check(k("logs", "crash", "--previous") == "first life\n", "--previous")
    term = k.json("get", "pod", "crash")["status"]["containerStatuses"][0]["lastState"]["terminated"]
    check(term["exitCode"] == 3 and term["reason"] == "Error", "the last state says how it ended", term)
    check('previous terminated container "main" in pod "two" not found' in k.fails("logs", "two", "--previous", "-c", "main"), "--previous without one")
    check(k("logs", "two", "-c", "side") == "from side\n", "-c")
    check(sorted(k("logs", "two", "--all-containers").split("\n")) == ["", "from main", "from side"], "--all-containers")
    check("Defaulted container" in run(*k.base, "logs", "two", ok=False).stderr, "the default container is named")
    check("from main" in k("logs", "-l", "app=two", "-c", "main"), "-l")
    check("is not valid for pod" in k.fails("logs", "two", "-c", "absent"), "an unknown container")


def describe_running():
    """describe and get of running pods, nodes, claims"""
    template = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "one"},
                "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.bulkhead.dev"}}]}}}}
    p = pod("user", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])
    p["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    make(template, p)
    running("user")
    out = k("describe", "pod", "user")
    for want in (r"^Status: +Running$", r"Container ID: +\S+://\S+", r"Ready +True", r"Scheduled .*Successfully assigned default/user to", r"Started +\d+s"):
        check(re.search(want, out, re.M), "describe pod: " + want, out)
    node = k("get", "nodes", "-o", "name").strip()
    out = k("describe", node)
    check(re.search(r"Ready +True", out) and "default" in out and "user" in out, "describe node lists its pods", out)
    claim = k("get", "resourceclaims", "-o", "name").strip()
    out = k("describe", claim)
    check(re.search(r"Driver: +gpu.bulkhead.dev", out) and re.search(r"Device: +gpu-\d", out), "describe resourceclaim shows the device", out)
    check(re.search(r"^user-gpu-\S+ +allocated,reserved", k("get", "resourceclaims", "--no-headers"), re.M), "its row")
    check(re.search(r" Ready +", k("get", "nodes", "--no-headers")), "the node is Ready")
    out = k("events", "--for", "pod/user")
    check("Scheduled" in out and "Started" in out, "kubectl events", out)
    check("gpu.bulkhead.dev" in k("get", "resourceslices"), "slices")


def volumes():
    """persistent volumes: a pod with a claim runs, its data outlives it, what is in use stays"""
    where = os.path.join(DIR, "local-volume")
    os.mkdir(where)
    os.chmod(where, 0o777)
    node = k("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
    make({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner",
          "volumeBindingMode": "WaitForFirstConsumer"},
         {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": {
             "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local", "local": {"path": where},
             "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                 {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}}}},
         {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {
             "accessModes": ["ReadWriteOnce"], "storageClassName": "local", "resources": {"requests": {"storage": "500Mi"}}}})

    def user(name, words):
        p = pod(name, words, volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
        p["spec"]["containers"][0]["volumeMounts"] = [{"name": "d", "mountPath": "/data"}]
        return p

    until("the volume to be available", lambda: "Available" in k("get", "pv", "disk", "--no-headers"))
    check(re.search(r"^data +Pending .* local ", k("get", "pvc", "data", "--no-headers")), "the claim waits", k("get", "pvc"))
    check("waiting for first consumer to be created before binding" in k("describe", "pvc", "data"), "and says for what")
    make(user("writer", "echo kept > /data/file; while true; do sleep 1; done"))
    running("writer")
    check(re.search(r"^data +Bound +disk +1Gi +RWO +local ", k("get", "pvc", "data", "--no-headers")), "bound", k("get", "pvc"))
    check(re.search(r"^disk +1Gi +RWO +Retain +Bound +default/data +local ", k("get", "pv", "disk", "--no-headers")), "both sides", k("get", "pv"))
    out = k("describe", "pv", "disk")
    check(re.search(r"^Claim: +default/data$", out, re.M) and "LocalVolume" in out, "describe pv", out)
    until("the file", lambda: os.path.exists(os.path.join(where, "file")))
    k("delete", "pvc", "data", "--wait=false")
    check(re.search(r"^data +Terminating ", k("get", "pvc", "data", "--no-headers")), "a claim in use is protected")
    make(user("late", "true"))
    until("its reason", lambda: 'persistentvolumeclaim "data" is being deleted' in k("describe", "pod", "late"))
    k("delete", "pod", "late", "writer", "--grace-period=1")
    k("wait", "--for=delete", "pvc/data", "--timeout=20s")
    until("the volume to be released", lambda: "Released" in k("get", "pv", "disk", "--no-headers"))
    # An administrator gives the volume away again: to a claim that has to be there already.
    k("patch", "pv", "disk", "--type=json", "-p", '[{"op":"remove","path":"/spec/claimRef"}]')
    make({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "local", "resources": {"requests": {"storage": "500Mi"}}}},
        user("reader", "cat /data/file; while true; do sleep 1; done"))
    running("reader")
    until("its words", lambda: k("logs", "reader") == "kept\n")
    # What the node cannot mount, it says.
    make({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "far"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "far", "nfs": {"server": "s", "path": "/p"}}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "far"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "far", "resources": {"requests": {"storage": "1Gi"}}}},
        pod("abroad", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "far"}}]))
    until("the refusal", lambda: 'persistent volume "far": only file systems on hostPath and local volumes are supported' in k("describe", "pod", "abroad"))
    k("delete", "pod", "reader", "abroad", "--grace-period=1")


def plugin():
    """kubectl device: the plugin"""
    os.makedirs(os.path.join(DIR, "bin"))
    os.symlink(BULKHEAD, os.path.join(DIR, "bin", "kubectl-device"))
    env = {"PATH": os.path.join(DIR, "bin") + ":" + os.environ["PATH"], "KUBECONFIG": k.kubeconfig}
    out = run(*k.base[:1], "device", "list", env=env)
    check(out.count("gpu-") >= 8 and "NAME" not in out.split("\n")[1], "kubectl device list", out)
    check("kubectl-device" in run(*k.base[:1], "plugin", "list", env=env), "kubectl plugin list")
    out = run(*k.base[:1], "device", "explain", "pod", "user", env=env)
    device = re.search(r"^claim default/user-gpu-\S+: has gpu.bulkhead.dev/\S+/(gpu-\d)$", out, re.M)
    check(device, "kubectl device explain names the devices of a pod that has them", out)
    out = run(*k.base[:1], "device", "taint", device.group(1), "example.com/try:NoExecute", "--dry-run=server", env=env)
    check(re.search(r"^default/user +\S+ +user-gpu-\S+ +at once$", out, re.M), "kubectl device taint --dry-run=server says who would go", out)
    check(not k("get", "devicetaintrules", "--no-headers").strip(), "and changes nothing")
    check("usage: bulkhead device taint" in run(*k.base[:1], "device", "taint", "--help", env=env), "help is printed, not refused")
    r = run(*k.base[:1], "device", "nonsense", env=env, ok=False)
    check(r.returncode == 2, "an unknown command is status 2", r)


def owned(name, owner, uid, block=False):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "blockOwnerDeletion": block, "controller": True}]}}


def cascades():
    """delete --cascade=background, foreground, orphan"""
    for mode in ("background", "foreground", "orphan"):
        make({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": mode}})
        uid = k("get", "cm", mode, "-o", "jsonpath={.metadata.uid}")
        make(owned(mode + "-child", mode, uid, mode == "foreground"))
        k("delete", "cm", mode, "--cascade=" + mode)
        check("not found" in k.fails("get", "cm", mode), "the owner is gone (%s)" % mode)
        if mode == "orphan":
            refs = k("get", "cm", "orphan-child", "-o", "jsonpath={.metadata.ownerReferences}")
            check(refs == "", "the orphan has no owner", refs)
            time.sleep(1)
            k("get", "cm", "orphan-child")
        else:
            until("the child to go", lambda: k("get", "cm", mode + "-child", "--ignore-not-found") == "", 20)
            check(True, mode)


def grace():
    """delete of pods: grace period, --now, --force"""
    slow = pod("slow", "trap 'echo bye; sleep 2; exit 0' TERM; while true; do sleep 0.1; done", terminationGracePeriodSeconds=20)
    stubborn = pod("stubborn", "trap '' TERM; while true; do sleep 0.1; done", terminationGracePeriodSeconds=600)
    forced = pod("forced", "trap '' TERM; while true; do sleep 0.1; done", terminationGracePeriodSeconds=600)
    make(slow, stubborn, forced)
    running("slow", "stubborn", "forced")
    k("delete", "pod", "slow", "--wait=false")
    check(re.search(r" Terminating ", k("get", "pod", "slow", "--no-headers")), "Terminating while it ends")
    k("wait", "--for=delete", "pod/slow", "--timeout=20s")
    t = time.time()
    k("delete", "pod", "stubborn", "--grace-period=1")
    check(time.time() - t < 15, "--grace-period=1 kills after a second", time.time() - t)
    t = time.time()
    k("delete", "pod", "forced", "--grace-period=0", "--force")
    check(time.time() - t < 10, "--force does not wait", time.time() - t)
    pids = os.path.join(c.data, "runtime", "containers")
    until("the containers to go", lambda: not [d for d in os.listdir(pids) if "forced" in open(os.path.join(pids, d, "config.json"), errors="replace").read()]
          if os.path.isdir(pids) else True, 20)


def namespaces():
    """delete ns takes everything in it"""
    k("create", "ns", "gone")
    make(pod("in-it"), {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}, ns="gone")
    running("in-it", ns="gone")
    k("delete", "ns", "gone", "--timeout=40s")
    check("not found" in k.fails("get", "ns", "gone"), "the namespace is gone")
    check(k("get", "pods", "-A", "--field-selector=metadata.namespace=gone", "-o", "name") == "", "and its pods")
    e = k.fails("create", "-n", "gone", "cm", "y")
    check('namespaces "gone" not found' in e, "nothing can be made in it", e)


try:
    status = play([logs, describe_running, volumes, plugin, cascades, grace, namespaces], *sys.argv[1:2])
finally:
    c.down()
sys.exit(status)
