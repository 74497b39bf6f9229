#!/bin/sh
# `make demo`: the story on the cluster of `make up`, which stays up afterwards.
set -eu
cd "$(dirname "$0")/../.."
command -v python3 >/dev/null && [ -x build/venv/bin/kubectl ] || {
    tools/install-deps.sh test
    python3 -m venv build/venv
    build/venv/bin/pip install -q --disable-pip-version-check -r tests/requirements.txt
}
export BULKHEAD="$PWD/build/bulkhead" KUBECTL="$PWD/build/venv/bin/kubectl"
exec build/venv/bin/python3 tests/story/story.py --keep
