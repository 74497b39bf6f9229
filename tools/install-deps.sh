#!/bin/sh
# Installs the Debian packages of tools/packages.txt that are missing. Usage: install-deps.sh build | test
set -eu
cd "$(dirname "$0")/.."
case "${1:-build}" in
build) want='^build ' ;;
test) want='^(build|test) ' ;;
*) echo "usage: $0 build|test" >&2; exit 2 ;;
esac
missing=
for p in $(grep -E "$want" tools/packages.txt | cut -d' ' -f2); do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
    echo "missing packages:$missing" >&2
    echo "run as root: apt-get install -y$missing" >&2
    exit 1
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || true
# shellcheck disable=SC2086 # the list is words
exec apt-get install -y -qq --no-install-recommends $missing >/dev/null
