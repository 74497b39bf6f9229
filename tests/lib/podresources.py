"""PodResources v1 List through upstream's gRPC client (grpcio), with stubs made from api/proto by grpcio-tools."""
import atexit, importlib, os, shutil, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_stubs = None


def stubs():
    global _stubs
    if _stubs is None:
        from grpc_tools import protoc
        out = tempfile.mkdtemp(prefix="bulkhead-pb-")
        atexit.register(shutil.rmtree, out, True)
        proto = os.path.join(ROOT, "api", "proto")
        if protoc.main(["protoc", "-I" + proto, "--python_out=" + out, os.path.join(proto, "podresources.proto")]):
            raise AssertionError("podresources.proto does not compile")
        sys.path.insert(0, out)
        _stubs = importlib.import_module("podresources_pb2")
    return _stubs


def list_devices(socket):
    """{pod: [(driver, device), …]} of pods in every namespace."""
    import grpc
    pb = stubs()
    with grpc.insecure_channel("unix://" + socket) as ch:
        call = ch.unary_unary("/v1.PodResourcesLister/List", request_serializer=lambda m: m.SerializeToString(),
                              response_deserializer=pb.ListPodResourcesResponse.FromString)
        answer = call(pb.ListPodResourcesRequest(), timeout=10)
    out = {}
    for pod in answer.pod_resources:
        devices = out.setdefault(pod.name, [])
        for c in pod.containers:
            for d in c.dynamic_resources:
                devices += [(x.driver_name, x.device_name) for x in d.claim_resources]
    return out
