# shellcheck shell=bash
# What users meet: what configure refuses, make install, make dist.

# refusal WHAT TEXT CONFIGURE-ARGUMENT...: configure ends with TEXT
refusal() {
    local what=$1 text=$2 log
    shift 2
    log=$(log_of "refuse $what")
    mkdir -p "$CHECK_DIR/refuse"
    if env -C "$CHECK_DIR/refuse" "$CHECK_SRC/configure" -C "$@" >"$log" 2>&1; then
        result FAIL "configure refuses $what" "it went through"
    elif grep -q -- "error: .*$text" "$log"; then
        result ok "configure refuses $what"
    else
        result FAIL "configure refuses $what" "no '$text' in $log"
        tail_of "$log"
    fi
}

# another_ucx VERSION: a ucx_info of that version
another_ucx() {
    local program=$CHECK_DIR/ucx_info-$1
    printf '#!/bin/sh\necho "# Version %s"\n' "$1" >"$program"
    chmod +x "$program"
    echo "$program"
}

# another_commit: sources of the same version that declare one more function
another_commit() {
    local header=src/uct/api/uct.h
    rm -rf "$CHECK_DIR/commit" && cp -as "$CHECK_UCX" "$CHECK_DIR/commit" &&
        rm "$CHECK_DIR/commit/$header" &&
        { cat "$CHECK_UCX/$header"; echo 'void uct_md_mem_elem_release(void);'; } \
            >"$CHECK_DIR/commit/$header"
    echo "$CHECK_DIR/commit"
}

# Installed, moved elsewhere, run from there, uninstalled
install_and_move() {
    local prefix=$CHECK_DIR/prefix moved=$CHECK_DIR/moved
    rm -rf "$prefix" "$moved"
    mkdir -p "$CHECK_DIR/install" && cd "$CHECK_DIR/install" || return 1
    "$CHECK_SRC/configure" -q --with-ucx-src="$CHECK_UCX" --prefix="$prefix" \
        >/dev/null && make -s -j"$CHECK_JOBS" install || return 1
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

# Sources of UCX that are given, as a directory and as a tarball; others are refused
given_sources() {
    local get=$CHECK_SRC/contrib/get-ucx-src.sh given=$CHECK_DIR/given
    "$get" -o "$given" "$CHECK_UCX" &&
        [ -e "$given/src/uct/base/uct_iface.h" ] &&
        tar -C "$CHECK_DIR" -czf "$given.tar.gz" given && rm -r "$given" &&
        "$get" -o "$given" "$given.tar.gz" && [ -e "$given/configure.ac" ] || return
    ! "$get" --test "$CHECK_SRC" && ! "$get" --test "$CHECK_DIR/nothing"
}

run "get-ucx-src: a directory, a tarball, no sources" given_sources
refusal "an old UCX" "UCX 1.12.1 is too old" \
    UCX_INFO="$(another_ucx 1.12.1)" --with-ucx-src="$CHECK_UCX"
refusal "sources of another UCX" "but UCX 9.9.9 is installed" \
    UCX_INFO="$(another_ucx 9.9.9)" --with-ucx-src="$CHECK_UCX"
refusal "sources of another commit" "declare uct_md_mem_elem_release, .*--with-ucx-src" \
    --with-ucx-src="$(another_commit)"
refusal "to go without sources" "get-ucx-src.sh" \
    --with-ucx-src="$CHECK_DIR/nothing"
refusal "a prefix without UCX" "has no UCX headers" \
    --with-ucx="$CHECK_DIR/nothing"
run "install, move, uninstall" install_and_move
# the tests run from this tree
run "make distcheck" make -C "$CHECK_DIR/gcc" -s distcheck \
    DISTCHECK_CONFIGURE_FLAGS=--without-gtest ||
    harvest "distcheck" "$(echo "$CHECK_DIR"/gcc/uct_vqp-*/_build/sub)"
