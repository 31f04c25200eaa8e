#!/bin/bash
# check.sh: everything that must hold for a change: builds with gcc, clang and
# sanitizers, the form of the sources, unit tests, loading, installing, and the
# suite on real Soft-RoCE. Works on a copy of the tree, in build-check/.
# shellcheck disable=SC2016,SC2317 # "run" calls functions; inner shells expand
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
work=$top/build-check
install=yes
only=
jobs=$(nproc)
steps="sources layer scripts gcc clang sanitizers refuse options install dist rxe"

usage() {
    cat <<EOF
Usage: contrib/check.sh [--no-install] [--only STEP[,STEP]...] [--dir DIR]

Builds and tests everything; about 8 minutes on two cores, the first time about
15, for the packages and the kernel of the virtual machine. The last line is
"N passed, N failed, N skipped"; the status is 1 when something failed. A skip
says its reason.

  --no-install  install no package; fail when one is missing
  --only STEPS  of: $steps
  --dir DIR     where to build [$work]
EOF
}

while [ $# -gt 0 ]; do
    case $1 in
        --no-install) install=no ;;
        --only) only=,${2:?--only wants steps},; shift ;;
        --dir) work=${2:?--dir wants a directory}; shift ;;
        -h|--help) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
    shift
done

passed=0
failed=0
skipped=0

# result ok|FAIL|skip NAME [REASON]
result() {
    case $1 in
        ok) passed=$((passed + 1)) ;;
        FAIL) failed=$((failed + 1)) ;;
        skip) skipped=$((skipped + 1)) ;;
    esac
    printf '%-4s %s%s\n' "$1" "$2" "${3:+ ($3)}"
}

finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
    exit
}

wanted() {
    [ -z "$only" ] || [[ $only == *,$1,* ]]
}

# run NAME COMMAND...: one case; its output is in a log, shown when it fails
run() {
    local name=$1 log start
    shift
    log=$work/log/${name//[ \/]/_}.log
    start=$SECONDS
    if "$@" >"$log" 2>&1 </dev/null; then
        result ok "$name" "$((SECONDS - start)) s"
        return 0
    fi
    result FAIL "$name" "see $log"
    tail -n 25 "$log" | sed 's/^/    /'
    return 1
}

# The tests of a `make check`, one result each
harvest() {
    local prefix=$1 dir=$2 trs name reason
    for trs in "$dir"/*.trs "$dir"/*/*.trs "$dir"/*/*/*.trs; do
        [ -e "$trs" ] || continue
        name=${trs#"$dir"/}
        name=${name%.trs}
        [ "$name" != contrib/layer-check.sh ] || continue # a step of its own
        reason=$(tail -n 3 "${trs%.trs}.log" | grep -v '^\(PASS\|FAIL\|SKIP\) ' |
                 tail -n 1)
        case $(sed -n 's/^:test-result: *//p' "$trs") in
            PASS*) result ok "$prefix: $name" ;;
            SKIP*) result skip "$prefix: $name" "${reason#skip: }" ;;
            *) result FAIL "$prefix: $name" "see ${trs%.trs}.log"
               tail -n 25 "${trs%.trs}.log" | sed 's/^/    /' ;;
        esac
    done
}

# build NAME CONFIGURE-ARGUMENT...: out of tree; status 0 when built
build() {
    local name=$1
    shift
    mkdir -p "$work/$name"
    run "$name: configure" env -C "$work/$name" "$work/src/configure" \
        --enable-werror --with-ucx-src="$ucx_src" "$@" &&
        run "$name: make" make -C "$work/$name" -s -j"$jobs"
}

# tests NAME MAKE-ARGUMENT...: make check of a build
tests() {
    local name=$1
    shift
    # its status says what harvest finds
    make -C "$work/$name" -s -j"$jobs" check "$@" \
        >"$work/log/$name-check.log" 2>&1 </dev/null
    if ls "$work/$name"/*.trs >/dev/null 2>&1; then
        harvest "$name" "$work/$name"
    else
        result FAIL "$name: make check" "see $work/log/$name-check.log"
        tail -n 25 "$work/log/$name-check.log" | sed 's/^/    /'
    fi
}

# A copy of the tree as it is now, without what builds left in it
copy_tree() {
    mkdir -p "$work/src" || return 1
    if git -C "$top" rev-parse --git-dir >/dev/null 2>&1; then
        (cd "$top" && git ls-files -z -co --exclude-standard |
            xargs -0 sh -c 'for f; do [ ! -e "$f" ] || printf "%s\0" "$f"; done' sh |
            tar -c --null -T - | tar -x -C "$work/src")
    else
        (cd "$top" && tar -c --exclude='./build*' --exclude=./ucx-src . |
            tar -x -C "$work/src")
    fi
}

get_sources() {
    if [ -e "$top/ucx-src/configure.ac" ]; then
        ucx_src=$top/ucx-src
        return
    fi
    ucx_src=$work/ucx-src
    "$top/contrib/get-ucx-src.sh" -o "$ucx_src"
}

# refusal WHAT TEXT CONFIGURE-ARGUMENT...: configure ends with TEXT
refusal() {
    local what=$1 text=$2 log
    shift 2
    log=$work/log/refuse-${what// /_}.log
    mkdir -p "$work/refuse"
    if env -C "$work/refuse" "$work/src/configure" -C "$@" >"$log" 2>&1; then
        result FAIL "configure refuses $what" "it went through"
    elif grep -q -- "error: .*$text" "$log"; then
        result ok "configure refuses $what"
    else
        result FAIL "configure refuses $what" "no '$text' in $log"
    fi
}

step_refuse() {
    local version
    for version in 1.12.1 9.9.9; do
        printf '#!/bin/sh\necho "# Version %s"\n' "$version" \
            >"$work/ucx_info-$version"
        chmod +x "$work/ucx_info-$version"
    done
    refusal "an old UCX" "UCX 1.12.1 is too old" \
        UCX_INFO="$work/ucx_info-1.12.1" --with-ucx-src="$ucx_src"
    refusal "sources of another UCX" "but UCX 9.9.9 is installed" \
        UCX_INFO="$work/ucx_info-9.9.9" --with-ucx-src="$ucx_src"
    refusal "to go without sources" "get-ucx-src.sh" \
        --with-ucx-src="$work/nothing"
    refusal "a prefix without UCX" "has no UCX headers" \
        --with-ucx="$work/nothing"
}

# Installed, moved elsewhere, run from there, uninstalled
install_and_move() {
    local prefix=$work/prefix moved=$work/moved
    rm -rf "$prefix" "$moved" "$work/install"
    mkdir -p "$work/install" && cd "$work/install" || return 1
    "$work/src/configure" -q --with-ucx-src="$ucx_src" --prefix="$prefix" \
        >/dev/null && make -s -j"$jobs" install || return 1
    cp -a "$prefix" "$moved" && make -s uninstall || return 1
    if find "$prefix" ! -type d | grep .; then
        echo "make uninstall left these"
        return 1
    fi
    make -s test/load/list_components || return 1
    find "$moved" ! -type d
    "$moved/bin/vqp-run" test/load/list_components | grep -x vqp || return 1
    PKG_CONFIG_PATH=$moved/lib/pkgconfig pkg-config --variable=module uct_vqp
}

# The Soft-RoCE suite prints lines like ours, and counts like ours
step_rxe() {
    local log=$work/log/rxe.log counts status
    local passed_rxe failed_rxe skipped_rxe
    "$work/src/test/rxe/run" --timeout 60 -- true >"$log" 2>&1
    status=$?
    if [ $status -ne 0 ]; then
        case $install$status in
            no126) result skip "rxe" "$(tail -n 1 "$log")"; return ;;
        esac
        result FAIL "rxe: a machine with Soft-RoCE" "$(tail -n 1 "$log")"
        return
    fi
    run "rxe: test_verbs" make -C "$work/gcc" -s check-rxe-verbs
    make -C "$work/gcc" -s check-rxe-suite 2>&1 </dev/null | tee "$log" |
        grep -E '^(ok|FAIL|skip) '
    counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" |
             tail -n 1)
    if [ -z "$counts" ]; then
        result FAIL "rxe: the suite ended early" "see $log"
        tail -n 25 "$log" | sed 's/^/    /'
        return
    fi
    read -r passed_rxe _ failed_rxe _ skipped_rxe _ <<<"$counts"
    passed=$((passed + passed_rxe))
    failed=$((failed + failed_rxe))
    skipped=$((skipped + skipped_rxe))
}

# ---- what to do ----

if [ "$install" = yes ]; then
    "$top/contrib/install-deps.sh" || {
        result FAIL "packages" "install-deps.sh failed"
        finish
    }
elif ! missing=$("$top/contrib/install-deps.sh" --missing --build-only); then
    result FAIL "packages" "missing: $(echo "$missing" | paste -sd' ')"
    finish
fi

[ ! -e "$work" ] || [ -d "$work/log" ] || {
    echo "check.sh: $work exists and is not mine" >&2
    exit 2
}
rm -rf "$work"
mkdir -p "$work/log" || exit 2

run "sources: a copy of the tree" copy_tree || finish
run "sources: UCX" get_sources || finish
[ -e "$work/ucx-src" ] && ucx_src=$work/ucx-src || ucx_src=$top/ucx-src
run "sources: autogen" "$work/src/autogen.sh" || finish

wanted layer && run "layer check" "$work/src/contrib/layer-check.sh"

if wanted scripts; then
    if command -v shellcheck >/dev/null; then
        run "scripts: shellcheck" env -C "$work/src" sh -c \
            'shellcheck -x $(grep -rlE "^#!/bin/(ba)?sh" autogen.sh .ci contrib test)'
    else
        result skip "scripts: shellcheck" "shellcheck is not installed"
    fi
fi

built=
if wanted gcc || wanted options || wanted dist || wanted rxe; then
    build gcc CC=gcc CXX=g++ && built=yes
    [ -n "$built" ] && wanted gcc && tests gcc
fi
if wanted clang; then
    if command -v clang >/dev/null && command -v clang++ >/dev/null; then
        build clang CC=clang CXX=clang++ && tests clang
    else
        result skip "clang" "clang is not installed"
    fi
fi
if wanted sanitizers; then
    build sanitizers --enable-debug --enable-asan --enable-ubsan &&
        tests sanitizers TESTS=test_core check_PROGRAMS=test_core
fi
wanted refuse && step_refuse
if [ -n "$built" ]; then
    wanted options && run "options: docs/config.md is current" \
        "$work/src/contrib/gen-config-doc.sh" --check "$work/gcc"
    wanted install && run "install, move, uninstall" install_and_move
    wanted dist && run "dist: make distcheck" make -C "$work/gcc" -s distcheck \
        DISTCHECK_CONFIGURE_FLAGS=--without-gtest # they run from this tree
    wanted rxe && step_rxe
fi
finish
