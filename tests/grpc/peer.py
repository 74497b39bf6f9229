#!/usr/bin/env python3
"""The other side of the gRPC interop tests, on grpcio: `serve PATH` or `call PATH`.

Messages are raw bytes. Methods of service t.T: Echo (unary), Fail (NOT_FOUND with an odd message), Hold (never answers
before it is cancelled), Count (three replies).
"""
import concurrent.futures
import sys
import threading

import grpc

ODD = "no such thing: 100%\n\u00e4"


def raw(x):
    return x


class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        def echo(req, ctx):
            return req

        def fail(req, ctx):
            ctx.abort(grpc.StatusCode.NOT_FOUND, ODD)

        def hold(req, ctx):
            gone = threading.Event()
            ctx.add_callback(gone.set)
            gone.wait(10)
            return b""

        def count(req, ctx):
            for _ in range(3):
                yield req

        unary = {"/t.T/Echo": echo, "/t.T/Fail": fail, "/t.T/Hold": hold}
        if details.method in unary:
            return grpc.unary_unary_rpc_method_handler(unary[details.method], raw, raw)
        if details.method == "/t.T/Count":
            return grpc.unary_stream_rpc_method_handler(count, raw, raw)
        return None


def serve(path):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8), options=[
        ("grpc.max_receive_message_length", 32 << 20), ("grpc.max_send_message_length", 32 << 20)])
    server.add_generic_rpc_handlers((Handler(),))
    server.add_insecure_port("unix:" + path)
    server.start()
    print("serving", flush=True)
    server.wait_for_termination()


def expect(what, got, want):
    if got != want:
        print(f"{what}: got {got!r}, want {want!r}", flush=True)
        sys.exit(1)


def fails(call, *args, **kw):
    try:
        call(*args, **kw)
    except grpc.RpcError as e:
        return e
    print("the call did not fail", flush=True)
    sys.exit(1)


def call(path):
    options = [("grpc.max_receive_message_length", 32 << 20), ("grpc.max_send_message_length", 32 << 20)]
    with grpc.insecure_channel("unix:" + path, options=options) as ch:
        def unary(m):
            return ch.unary_unary("/t.T/" + m, raw, raw)

        expect("echo", unary("Echo")(b"hello", timeout=5), b"hello")
        expect("empty", unary("Echo")(b"", timeout=5), b"")
        big = bytes(5 << 20)
        expect("large", unary("Echo")(big, timeout=20) == big, True)
        e = fails(unary("Echo"), bytes((16 << 20) + 1), timeout=20)
        expect("too large", e.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        e = fails(unary("Fail"), b"x", timeout=5)
        expect("code", e.code(), grpc.StatusCode.NOT_FOUND)
        expect("message", e.details(), ODD)
        e = fails(unary("Nope"), b"x", timeout=5)
        expect("unknown method", e.code(), grpc.StatusCode.UNIMPLEMENTED)
        e = fails(unary("Hold"), b"x", timeout=0.2)
        expect("deadline", e.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        f = unary("Hold").future(b"x")
        f.cancel()
        expect("stream", list(ch.unary_stream("/t.T/Count", raw, raw)(b"ab", timeout=5)), [b"ab"] * 3)
        fs = [unary("Echo").future(b"%d" % i, timeout=20) for i in range(200)]
        expect("many", [f.result() for f in fs], [b"%d" % i for i in range(200)])
        # The standard client compresses nothing by default; asked to, it must get a clear refusal.
        e = fails(unary("Echo"), b"x" * 1000, timeout=5, compression=grpc.Compression.Gzip)
        expect("compressed", e.code(), grpc.StatusCode.UNIMPLEMENTED)
        expect("still serving", unary("Echo")(b"x", timeout=5), b"x")
    print("ok", flush=True)


if __name__ == "__main__":
    {"serve": serve, "call": call}[sys.argv[1]](sys.argv[2])
