#!/bin/sh
# `make bench`: a table, and build/bench.json with one object a line. Arguments select cases: cluster api scheduler.
set -eu
cd "$(dirname "$0")/.."
ninja -C build/release bench >/dev/null
exec build/release/bench "$PWD/build/bulkhead" build/bench.json "$@"
