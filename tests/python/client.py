#!/usr/bin/env python3
"""The official Python client. client.py [PART]: only the parts whose name holds that."""
import json, os, sqlite3, sys, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from suite import Apiserver, Cluster, check, play, pod, until  # noqa: E402
from kinds import BODIES, LABEL  # noqa: E402
import kubernetes  # noqa: E402
from kubernetes import client, config, watch  # noqa: E402
from kubernetes.client.exceptions import ApiException  # noqa: E402

api = Apiserver()


def connect(kubeconfig):
    c = client.Configuration()
    config.load_kube_config(kubeconfig, client_configuration=c)
    return client.ApiClient(c)


conn = connect(os.path.join(api.data, "admin.kubeconfig"))
core = client.CoreV1Api(conn)


def refused(status, reason, fn, *args, **kw):
    """The Status of a request that has to be refused."""
    try:
        fn(*args, **kw)
    except ApiException as e:
        body = json.loads(e.body)
        check(e.status == status and body["reason"] == reason and body["kind"] == "Status" and body["code"] == status,
              "%d %s" % (status, reason), (e.status, body))
        return body
    check(False, "%s is refused with %d %s" % (fn.__name__, status, reason))


def namespace(name):
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
    return name


def cm(name, data=None, **meta):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, **meta), data=data or {"a": "1"})


def typed():
    """typed objects there and back"""
    p = client.V1Pod(metadata=client.V1ObjectMeta(name="typed", labels={"a": "b"}, annotations={"x": "y"}), spec=client.V1PodSpec(
        containers=[client.V1Container(name="c", image="i", resources=client.V1ResourceRequirements(limits={"cpu": "1500m", "memory": "1Gi"}),
                                       ports=[client.V1ContainerPort(container_port=80)])], tolerations=[client.V1Toleration(key="k", operator="Exists")]))
    got = core.create_namespaced_pod("default", p)
    check(got.metadata.uid and got.metadata.creation_timestamp.tzinfo and got.metadata.generation == 1, "metadata is filled", got.metadata)
    c = got.spec.containers[0]
    check(c.resources.limits == {"cpu": "1500m", "memory": "1Gi"} and c.resources.requests == c.resources.limits, "requests default to limits", c.resources)
    check(c.ports[0].protocol == "TCP" and got.spec.restart_policy == "Always" and got.spec.termination_grace_period_seconds == 30, "defaults")
    check(got.status.phase == "Pending" and got.status.qos_class == "Guaranteed", "status", got.status)
    same = core.read_namespaced_pod("typed", "default")
    check(same == got, "read equals created")
    items = core.list_namespaced_pod("default", label_selector="a=b", field_selector="metadata.name=typed").items
    check(len(items) == 1 and items[0].spec == got.spec, "list with selectors")
    r = client.ResourceV1Api(conn).create_namespaced_resource_claim("default", client.ResourceV1ResourceClaim(
        metadata=client.V1ObjectMeta(name="typed"), spec=client.V1ResourceClaimSpec(devices=client.V1DeviceClaim(requests=[
            client.V1DeviceRequest(name="r", exactly=client.V1ExactDeviceRequest(device_class_name="c.example.com"))]))))
    check(r.spec.devices.requests[0].exactly.count == 1 and r.spec.devices.requests[0].exactly.allocation_mode == "ExactCount", "claim defaults", r.spec)
    check(client.VersionApi(conn).get_code().minor.startswith("36"), "version")


def each_kind():
    """every discovered kind from create to delete, with the dynamic client"""
    dyn = kubernetes.dynamic.DynamicClient(conn)
    seen, without = [], []
    for group in dyn.resources.search():
        verbs = getattr(group, "verbs", None) or []
        if "create" not in verbs or "delete" not in verbs or "/" in (group.name or "/"):
            continue
        key = (group.group_version, group.kind)
        if key[1].endswith("List"):
            continue
        if key not in BODIES:
            without.append("%s %s" % key)
            continue
        name = "kind-" + group.kind.lower()
        if group.kind == "DeviceClass":
            name += ".example.com"
        body = dict(json.loads(json.dumps(BODIES[key])), apiVersion=key[0], kind=key[1], metadata={"name": name})
        ns = {"namespace": "default"} if group.namespaced else {}
        try:
            made = group.create(body=body, **ns)
            check(made.kind == key[1] and made.apiVersion == key[0] and made.metadata.uid, "%s %s: create" % key)
            check(group.get(name=name, **ns).metadata.uid == made.metadata.uid, "%s %s: get" % key)
            check(any(o.metadata.name == name for o in group.get(**ns).items), "%s %s: list" % key)
            if "patch" in verbs:
                got = group.patch(name=name, body=LABEL, content_type="application/merge-patch+json", **ns)
                check(got.metadata.labels.changed == "yes", "%s %s: patch" % key)
            if "update" in verbs:
                again = group.get(name=name, **ns).to_dict()
                again["metadata"]["labels"] = {"replaced": "yes"}
                got = group.replace(body=again, **ns)
                labels = dict(got.metadata.labels.to_dict())
                labels.pop("kubernetes.io/metadata.name", None)
                check(labels == {"replaced": "yes"} and got.metadata.resourceVersion != made.metadata.resourceVersion, "%s %s: update" % key)
                check(group.replace(body=got.to_dict(), **ns).metadata.resourceVersion == got.metadata.resourceVersion, "%s %s: no change, no version" % key)
            group.delete(name=name, body={"gracePeriodSeconds": 0, "propagationPolicy": "Background"}, **ns)
            if key[1] != "Namespace":
                try:
                    o = group.get(name=name, **ns)
                    check(o.metadata.finalizers, "%s %s: gone, or a finalizer holds it" % key, o.to_dict())
                except kubernetes.dynamic.exceptions.NotFoundError:
                    check(True, "gone")
        except ApiException as e:
            check(False, "%s %s: %s %s %s" % (key + (e.status, e.reason, e.body)))
        seen.append("%s %s" % key)
    check(len(seen) >= 13, "at least the kinds of the first days", seen)
    print("         %d kinds: %s" % (len(seen), ", ".join(seen)))
    if without:
        print("         no body known for: %s" % ", ".join(without))


def chunks():
    """limit and continue"""
    ns = namespace("chunks")
    for i in range(25):
        core.create_namespaced_config_map(ns, cm("c%02d" % i))
    names, token, pages, versions = [], None, 0, set()
    while True:
        r = core.list_namespaced_config_map(ns, limit=10, _continue=token, field_selector="metadata.name!=kube-root-ca.crt")
        names += [o.metadata.name for o in r.items]
        versions.add(r.metadata.resource_version)
        pages += 1
        if pages == 1:
            core.create_namespaced_config_map(ns, cm("c00-later"))
            core.delete_namespaced_config_map("c24", ns)
        token = r.metadata._continue
        if not token:
            break
    check(names == ["c%02d" % i for i in range(25)], "all pages show one moment", names)
    check(pages == 3 and len(versions) == 1, "one resourceVersion", versions)
    r = core.list_namespaced_config_map(ns, limit=10)
    check(r.metadata.remaining_item_count == 15, "remainingItemCount", r.metadata)
    refused(400, "BadRequest", core.list_namespaced_config_map, ns, limit=10, _continue="nonsense")
    exact = core.list_namespaced_config_map(ns, resource_version=list(versions)[0], resource_version_match="Exact")
    check([o.metadata.name for o in exact.items] == ["c%02d" % i for i in range(25)], "a list of a past version", len(exact.items))


def watches():
    """watch, resume by resourceVersion, bookmarks, 410 and what to do then"""
    ns = namespace("watches")
    rv = core.list_namespaced_config_map(ns).metadata.resource_version
    for i in range(5):
        core.create_namespaced_config_map(ns, cm("w%d" % i))
    core.patch_namespaced_config_map("w0", ns, {"data": {"a": "2"}})
    core.delete_namespaced_config_map("w1", ns)
    want = [("ADDED", "w%d" % i) for i in range(5)] + [("MODIFIED", "w0"), ("DELETED", "w1")]
    got, at = [], rv
    while len(got) < len(want):  # two events at a time, each watch resumes where the last one ended
        w, n = watch.Watch(), 0
        for e in w.stream(core.list_namespaced_config_map, ns, resource_version=at, timeout_seconds=5):
            got.append((e["type"], e["object"].metadata.name))
            at, n = e["object"].metadata.resource_version, n + 1
            if n == 2 or len(got) == len(want):
                w.stop()
        check(n > 0, "a resumed watch goes on", got)
    check(got == want, "resumed watches give every event once", got)
    # Across a restart of the server too.
    core.create_namespaced_config_map(ns, cm("w9"))
    api.kill()
    api.start()
    fresh = client.CoreV1Api(connect(os.path.join(api.data, "admin.kubeconfig")))
    for e in watch.Watch().stream(fresh.list_namespaced_config_map, ns, resource_version=at, timeout_seconds=5):
        check((e["type"], e["object"].metadata.name) == ("ADDED", "w9"), "history survives a restart", e["type"])
        break
    # Bookmarks.
    marks = []
    for e in watch.Watch().stream(fresh.list_namespaced_config_map, ns, allow_watch_bookmarks=True, timeout_seconds=3, resource_version="0",
                                  send_initial_events=True, resource_version_match="NotOlderThan"):
        marks.append((e["type"], e["raw_object"]["metadata"].get("annotations")))
        if e["type"] == "BOOKMARK":
            break
    check(marks[-1] == ("BOOKMARK", {"k8s.io/initial-events-end": "true"}), "the first events, then a bookmark", marks)
    # 410: history that is compacted. The server never forgets so soon, so its store is told while it is down.
    page = fresh.list_namespaced_config_map(ns, limit=2)
    fresh.create_namespaced_config_map(ns, cm("w9-later"))
    api.stop()
    db = sqlite3.connect(os.path.join(api.data, "state.db"))
    newest = db.execute("SELECT max(rev) FROM log").fetchone()[0]
    db.execute("INSERT OR REPLACE INTO meta(name, n) VALUES('compacted', ?)", (newest,))
    db.commit()
    db.close()
    api.start()
    fresh = client.CoreV1Api(connect(os.path.join(api.data, "admin.kubeconfig")))
    try:
        for e in watch.Watch().stream(fresh.list_namespaced_config_map, ns, resource_version=at, timeout_seconds=5):
            check(False, "no event of forgotten history", e)
        check(False, "a watch of forgotten history ends with 410")
    except ApiException as e:
        check(e.status == 410 and "Expired" in e.reason, "410 Expired", (e.status, e.reason))
    body = refused(410, "Expired", fresh.list_namespaced_config_map, ns, limit=2, _continue=page.metadata._continue)
    check("The provided continue parameter is too old" in body["message"] or "continue" in body["message"], "the continue token is told too old", body)
    r = fresh.list_namespaced_config_map(ns)
    check(any(o.metadata.name == "w9" for o in r.items), "the way on: list again")
    fresh.create_namespaced_config_map(ns, cm("w10"))
    for e in watch.Watch().stream(fresh.list_namespaced_config_map, ns, resource_version=r.metadata.resource_version, timeout_seconds=5):
        check(e["object"].metadata.name == "w10", "and watch from there")
        break


def writing():
    """patch, conflict, generateName, dry run, finalizers, preconditions"""
    ns = namespace("writing")
    a = core.create_namespaced_config_map(ns, cm("a"))
    core.patch_namespaced_config_map("a", ns, {"data": {"b": "2"}})
    core.patch_namespaced_config_map("a", ns, [{"op": "add", "path": "/data/c", "value": "3"}])
    check(core.read_namespaced_config_map("a", ns).data == {"a": "1", "b": "2", "c": "3"}, "strategic and JSON patch")
    a.data = {"lost": "update"}
    body = refused(409, "Conflict", core.replace_namespaced_config_map, "a", ns, a)
    check(body["message"].startswith('Operation cannot be fulfilled on configmaps "a": the object has been modified'), "a stale replace", body["message"])
    refused(409, "Conflict", core.patch_namespaced_config_map, "a", ns, {"metadata": {"resourceVersion": a.metadata.resource_version}, "data": {"x": "y"}})
    refused(409, "AlreadyExists", core.create_namespaced_config_map, ns, cm("a"))
    names = {core.create_namespaced_config_map(ns, client.V1ConfigMap(metadata=client.V1ObjectMeta(generate_name="gen-"))).metadata.name for _ in range(10)}
    check(len(names) == 10 and all(n.startswith("gen-") and len(n) == 9 for n in names), "generateName", names)
    dry = core.create_namespaced_config_map(ns, cm("dry"), dry_run="All")
    check(dry.metadata.uid and dry.metadata.name == "dry", "a dry run answers as if")
    refused(404, "NotFound", core.read_namespaced_config_map, "dry", ns)
    core.delete_namespaced_config_map("a", ns, dry_run="All")
    core.read_namespaced_config_map("a", ns)
    core.create_namespaced_config_map(ns, cm("fin", finalizers=["example.com/f"]))
    core.delete_namespaced_config_map("fin", ns)
    f = core.read_namespaced_config_map("fin", ns)
    check(f.metadata.deletion_timestamp and f.metadata.finalizers == ["example.com/f"], "a finalizer holds it")
    f.metadata.finalizers = None
    core.replace_namespaced_config_map("fin", ns, f)
    refused(404, "NotFound", core.read_namespaced_config_map, "fin", ns)
    wrong = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="00000000-0000-0000-0000-000000000000"))
    refused(409, "Conflict", core.delete_namespaced_config_map, "a", ns, body=wrong)
    core.delete_collection_namespaced_config_map(ns, label_selector="none=such")
    core.delete_collection_namespaced_config_map(ns)
    left = [o.metadata.name for o in core.list_namespaced_config_map(ns).items if o.metadata.name != "kube-root-ca.crt"]
    check(left == [], "deletecollection", left)
    body = refused(422, "Invalid", core.create_namespaced_pod, ns, {"metadata": {"name": "p"}, "spec": {"containers": []}})
    check([(c["field"], c["reason"]) for c in body["details"]["causes"]] == [("spec.containers", "FieldValueRequired")], "causes", body)
    refused(404, "NotFound", core.create_namespaced_config_map, "no-such-ns", cm("a"))


def bindings():
    """binding and eviction"""
    ns = namespace("bindings")
    for n in ("b0", "b1", "b2"):
        core.create_namespaced_pod(ns, client.V1Pod(metadata=client.V1ObjectMeta(name=n, labels={"b": "b"}), spec=client.V1PodSpec(
            containers=[client.V1Container(name="c", image="i")])))
    b = client.V1Binding(metadata=client.V1ObjectMeta(name="b0"), target=client.V1ObjectReference(kind="Node", api_version="v1", name="n7"))
    core.create_namespaced_pod_binding("b0", ns, b, _preload_content=False)
    p = core.read_namespaced_pod("b0", ns)
    check(p.spec.node_name == "n7" and any(c.type == "PodScheduled" and c.status == "True" for c in p.status.conditions), "bound", p.status)
    body = refused(409, "Conflict", core.create_namespaced_pod_binding, "b0", ns, b)
    check('is already assigned to node "n7"' in body["message"], "bound once", body["message"])
    ev = client.V1Eviction(metadata=client.V1ObjectMeta(name="b1", namespace=ns))
    core.create_namespaced_pod_eviction("b1", ns, ev)
    refused(404, "NotFound", core.read_namespaced_pod, "b1", ns)
    client.PolicyV1Api(conn).create_namespaced_pod_disruption_budget(ns, {"metadata": {"name": "none"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"b": "b"}}}})
    core.create_namespaced_pod_eviction("b2", ns, client.V1Eviction(metadata=client.V1ObjectMeta(name="b2", namespace=ns)))  # a pending pod disturbs nobody
    core.patch_namespaced_pod_status("b0", ns, {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
    body = refused(429, "TooManyRequests", core.create_namespaced_pod_eviction, "b0", ns, client.V1Eviction(metadata=client.V1ObjectMeta(name="b0", namespace=ns)))
    check("disruption budget" in body["message"], "a budget forbids it", body["message"])


def thousand():
    """1,000 creates from 32 threads, watched"""
    ns = namespace("thousand")
    rv = core.list_namespaced_config_map(ns).metadata.resource_version
    n, threads, versions, errors = 1000, 32, [], []
    lock = threading.Lock()

    def work(first):
        mine = client.CoreV1Api(connect(os.path.join(api.data, "admin.kubeconfig")))
        for i in range(first, n, threads):
            try:
                got = mine.create_namespaced_config_map(ns, cm("t%04d" % i, {"n": str(i)}))
                with lock:
                    versions.append(int(got.metadata.resource_version))
            except Exception as e:
                errors.append(e)
    t = time.time()
    ts = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    [x.start() for x in ts]
    [x.join() for x in ts]
    check(not errors, "no create failed", errors[:3])
    check(len(set(versions)) == n, "each write has a version of its own")
    took = time.time() - t
    seen = []
    for e in watch.Watch().stream(core.list_namespaced_config_map, ns, resource_version=rv, timeout_seconds=20):
        if e["object"].metadata.name.startswith("t"):
            seen.append(int(e["object"].metadata.resource_version))
            if len(seen) == n:
                break
    check(seen == sorted(versions), "a watch gives all, in the order of their versions")
    check(len(core.list_namespaced_config_map(ns, limit=2000).items) >= n, "a list has all")
    print("         %.1f s" % took)


def metrics():
    """metrics as a monitor reads them: with the parser of Prometheus' own client"""
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError:
        print("         (skipped: no prometheus_client here, see tests/requirements.txt)")
        return
    ns = namespace("metrics")
    stream = watch.Watch().stream(core.list_namespaced_config_map, ns, timeout_seconds=5)
    core.create_namespaced_config_map(ns, cm("counted"))
    check(next(stream)["object"].metadata.name == "counted", "an event comes")
    text, status, headers = conn.call_api("/metrics", "GET", auth_settings=["BearerToken"], response_type="str", _preload_content=True)
    check(headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", "the type of the text", headers)
    families = {m.name: m for m in text_string_to_metric_families(text)}
    want = {"apiserver_request": "counter", "apiserver_request_duration_seconds": "histogram", "apiserver_response_sizes": "histogram",
            "apiserver_current_inflight_requests": "gauge", "apiserver_longrunning_requests": "gauge", "apiserver_watch_events": "counter",
            "apiserver_watch_events_sizes": "histogram", "apiserver_storage_objects": "gauge", "apiserver_resource_objects": "gauge",
            "kubernetes_build_info": "gauge", "process_cpu_seconds": "counter", "process_resident_memory_bytes": "gauge", "process_start_time_seconds": "gauge"}
    for name, kind in want.items():
        check(name in families and families[name].type == kind and families[name].samples, "%s is a %s" % (name, kind), sorted(families))

    def value(family, sample, **labels):
        return sum(s.value for s in families[family].samples if s.name == sample and all(s.labels.get(k) == v for k, v in labels.items()))
    check(value("apiserver_request", "apiserver_request_total", verb="POST", resource="configmaps", code="201", scope="resource", component="apiserver") >= 1, "creations are counted")
    check(value("apiserver_longrunning_requests", "apiserver_longrunning_requests", verb="WATCH", resource="configmaps", scope="namespace") >= 1, "watches are counted")
    check(value("apiserver_watch_events", "apiserver_watch_events_total", resource="configmaps", version="v1") >= 1, "events are counted")
    check(value("apiserver_storage_objects", "apiserver_storage_objects", resource="configmaps") >= 1, "objects are counted")
    for m in families.values():
        rows = {}
        for s in m.samples:
            if s.name.endswith("_bucket"):
                rows.setdefault(tuple(sorted((k, v) for k, v in s.labels.items() if k != "le")), []).append((float(s.labels["le"]), s.value))
        check(all(a[1] <= b[1] for r in rows.values() for a, b in zip(sorted(r), sorted(r)[1:])), "buckets of %s only grow" % m.name)


def log_streams():
    """logs of running pods: read, follow"""
    c = Cluster()
    try:
        c.image()
        mine = client.CoreV1Api(connect(os.path.join(c.data, "kubeconfig")))
        mine.create_namespaced_pod("default", pod("talk", "i=0; while [ $i -lt 30 ]; do echo line $i; i=$((i+1)); sleep 0.05; done", restartPolicy="Never"))
        until("the pod to run", lambda: mine.read_namespaced_pod("talk", "default").status.phase in ("Running", "Succeeded"), 40)
        lines = []
        for line in watch.Watch().stream(mine.read_namespaced_pod_log, name="talk", namespace="default"):
            lines.append(line)
        check(lines == ["line %d" % i for i in range(30)], "follow gives all lines and ends", lines)
        until("the end of the pod", lambda: mine.read_namespaced_pod("talk", "default").status.phase == "Succeeded")
        check(mine.read_namespaced_pod_log("talk", "default", tail_lines=2) == "line 28\nline 29\n", "tail")
        mine.create_namespaced_pod("default", pod("evicted"))
        until("the pod to run", lambda: mine.read_namespaced_pod("evicted", "default").status.phase == "Running", 40)
        mine.create_namespaced_pod_eviction("evicted", "default", client.V1Eviction(metadata=client.V1ObjectMeta(name="evicted", namespace="default")))

        def gone():
            try:
                mine.read_namespaced_pod("evicted", "default")
            except ApiException as e:
                return e.status == 404
        until("the evicted pod to go", gone, 20)
        check(True, "eviction")
    finally:
        c.down()


def reconnect():
    """(the typed client again, after the restarts above)"""
    global conn, core
    conn = connect(os.path.join(api.data, "admin.kubeconfig"))
    core = client.CoreV1Api(conn)
    check(core.list_namespace().items, "namespaces")


try:
    status = play([typed, each_kind, chunks, writing, bindings, thousand, watches, reconnect, metrics, log_streams], *sys.argv[1:2])
finally:
    ended = api.stop()
if ended != 0:
    print("the API server ended with status %s: %s" % (ended, api.process.tail()))
    status = 1
sys.exit(status)
