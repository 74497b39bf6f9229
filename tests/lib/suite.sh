# What suites that start servers share; sourced in the directory of the suite.
#
# Makes $DIR, and takes away what is left at the end, whatever happened: clusters (DIR/NAME/data with DIR/NAME/kubelet), the processes
# whose ids lie in DIR/pids, mounts below DIR, and DIR itself.
: "${BULKHEAD:?the program to test}" "${PYTHON:?an interpreter with tests/requirements.txt}"
: "${VENV:=$(dirname "$(dirname "$PYTHON")")}" "${MODE:=check}"
DIR=$(mktemp -d "/tmp/bulkhead-$(basename "$PWD").XXXXXX")
export BULKHEAD PYTHON VENV MODE DIR
mkdir "$DIR/pids"

suite_end() {
    trap - EXIT INT TERM
    for p in "$DIR"/pids/*; do
        pid=${p##*/}
        # The number may belong to somebody else by now.
        case $(readlink "/proc/$pid/exe" 2>/dev/null) in */bulkhead | */bulkhead\ *) kill -9 "$pid" 2>/dev/null || : ;; esac
    done
    for d in "$DIR"/*/data; do
        [ -d "$d" ] && "$BULKHEAD" down --purge --data-dir "$d" --kubelet-root "${d%/data}/kubelet" >/dev/null 2>&1 || :
    done
    grep -o " $DIR[^ ]* " /proc/mounts | sort -r | while read -r m; do umount -l "$m" || :; done
    rm -rf --one-file-system "$DIR"
}
trap suite_end EXIT
trap 'exit 143' INT TERM
