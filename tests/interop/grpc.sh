#!/bin/sh
# gRPC against grpcio, a client and server that this project did not write.
#   tests/interop/grpc.sh BUILD-DIR      makes BUILD-DIR/grpc-venv when it is missing (needs PyPI), then runs the tests
# Exits 77 when grpcio cannot be installed.
set -eu
build=${1:-build}
venv=$build/grpc-venv
if ! "$venv/bin/python" -c 'import grpc' 2>/dev/null; then
    python3 -m venv "$venv" && "$venv/bin/pip" install -q 'grpcio>=1.60' || { echo "SKIP: no grpcio" >&2; exit 77; }
fi
BH_GRPC_PYTHON=$venv/bin/python exec "$build/net_test" grpc_interop
