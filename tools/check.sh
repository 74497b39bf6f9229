#!/bin/bash
# Every test of the project. Ends with "N passed, N failed"; exit status 1 on any failure.
#
#   check.sh             what `make check` runs: about 15 minutes on two cores
#   check.sh --long      longer: more seeds, longer fuzzing, whole replays
#   check.sh --interop   only the suites with clients and servers that this project did not write
#
# A step is a name and a command; exit 77 means skipped (loudly).
set -u
cd "$(dirname "$0")/.."
mode=${1:-check}
case $mode in check | --long | --interop) ;; *) echo "usage: $0 [--long|--interop]" >&2; exit 2 ;; esac
B=build
LOGS=$B/check-logs
passed=0 failed=0 skipped=0
mkdir -p $LOGS
# Sanitizers of this age do not stand the address layout of newer kernels.
NOASLR="setarch $(uname -m) -R"

step() { # step NAME COMMAND…
    local name=$1 start=$SECONDS rc
    shift
    "$@" >"$LOGS/$name.log" 2>&1
    rc=$?
    if [ $rc = 0 ]; then
        passed=$((passed + 1))
        echo "ok      $name ($((SECONDS - start)) s)"
    elif [ $rc = 77 ]; then
        skipped=$((skipped + 1))
        echo "SKIPPED $name: $(tail -n 1 "$LOGS/$name.log")"
    else
        failed=$((failed + 1))
        echo "FAILED  $name (status $rc, $((SECONDS - start)) s), the end of $LOGS/$name.log:"
        tail -n 40 "$LOGS/$name.log" | sed 's/^/        /'
    fi
}

setup() { # setup DIR CC CXX OPTIONS…
    local dir=$1 cc=$2 cxx=$3
    shift 3
    [ -f "$dir/build.ninja" ] || CC=$cc CXX=$cxx meson setup "$dir" "$@"
}

build_asan() {
    setup $B/asan clang-14 clang++-14 --buildtype=debugoptimized -Doptimization=1 -Db_sanitize=address,undefined -Db_lundef=false -Dfuzz=true -Dwerror=true &&
        ninja -C $B/asan
}
build_tsan() {
    setup $B/tsan gcc g++ --buildtype=debugoptimized -Db_sanitize=thread &&
        ninja -C $B/tsan base_test net_test store_test
}
build_release_tests() { ninja -C $B/release; }

unit() { # unit BUILD MODULE
    ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
        TSAN_OPTIONS=halt_on_error=1 $NOASLR timeout 600 "$B/$1/$2_test"
}

fuzz() { # fuzz TARGET SECONDS: the corpus, then a while of new input
    local seeds=tests/corpus/${1%_fuzz} work
    work=$(mktemp -d)
    ASAN_OPTIONS=detect_leaks=1 $NOASLR "$B/asan/$1" -max_total_time="$2" -rss_limit_mb=2048 -timeout=20 \
        -artifact_prefix="$LOGS/" -print_final_stats=1 "$work" $([ -d "$seeds" ] && echo "$seeds")
    local rc=$?
    rm -rf "$work"
    # libFuzzer leaves with 77 when it found something, which means "skipped" to a step.
    [ $rc = 0 ]
}

format() { find src -name '*.c' -o -name '*.h' | xargs clang-format-14 --dry-run --Werror; }
venv() { # a Python with the clients that tests use
    [ -x $B/venv/bin/python3 ] || python3 -m venv $B/venv || return 1
    $B/venv/bin/pip install -q --disable-pip-version-check -r tests/requirements.txt
}

if [ "$mode" != --interop ]; then
    step lint tools/lint.py
    step format format
    step build-release build_release_tests
    step build-asan build_asan
    step build-tsan build_tsan
    step headers tools/lint.py --headers $B/release
    for t in $B/asan/*_test; do
        m=$(basename "$t" _test)
        step "unit-asan-$m" unit asan "$m"
    done
    for m in base net store; do
        step "unit-tsan-$m" unit tsan "$m"
    done
    seconds=4
    [ "$mode" = --long ] && seconds=120
    for f in $B/asan/*_fuzz; do
        step "fuzz-$(basename "$f")" fuzz "$(basename "$f")" $seconds
    done
fi
if [ "$mode" != --interop ]; then
    seeds=5
    [ "$mode" = --long ] && seeds=500
    step sim timeout 2400 $B/release/control_plane_sim --random $seeds
fi
step venv venv
limit=900
[ "$mode" = --long ] && limit=3600 # the whole of the scheduling cases alone takes a quarter of an hour
for t in tests/*/run; do
    suite=$(basename "$(dirname "$t")")
    # The first line after the shebang says to which modes a suite belongs: "# modes: check long interop".
    want=${mode#--}
    sed -n 2p "$t" | grep -qw "$want" || continue
    step "suite-$suite" env BULKHEAD="$PWD/$B/bulkhead" PYTHON="$PWD/$B/venv/bin/python3" VENV="$PWD/$B/venv" MODE="$want" \
        timeout $limit "$t"
done
[ $skipped = 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
