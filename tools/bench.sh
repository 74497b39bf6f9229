#!/bin/sh
# `make bench`: a table, and build/bench.json with one object a line. Arguments select:
# cluster, api, scheduler, or a part of a scheduler case's name (make bench CASES='Basic 500nodes/api /network').
set -eu
cd "$(dirname "$0")/.."
ninja -C build/release bench >/dev/null
exec build/release/bench "$PWD/build/bulkhead" build/bench.json "$@"
