# shellcheck shell=bash
# The Debian package: built in a copy of the tree, checked with lintian, and unpacked
# and run on the fabric.

deb=$CHECK_DIR/deb

# The package, for the installed UCX. Its build runs the tests that load the module.
build_package() {
    rm -rf "$deb" && mkdir -p "$deb" && cp -a "$CHECK_SRC" "$deb/uct-vqp" && cd "$deb/uct-vqp" &&
        UCX_SRC=$CHECK_UCX DEB_BUILD_OPTIONS="parallel=$CHECK_JOBS noautodbgsym" \
            dpkg-buildpackage -us -uc -b
}

# Lintian prints nothing: no error, no warning, no override that is not needed
no_complaint() {
    lintian --allow-root --fail-on error,warning "$deb"/uct-vqp_*.changes \
        >"$deb/lintian" 2>&1
    status=$?
    cat "$deb/lintian"
    [ $status = 0 ] && ! [ -s "$deb/lintian" ]
}

# It depends on the UCX that it was built for, and has what a user needs
content() {
    local file version
    version=$(dpkg-query -W -f '${Version}' libucx-dev)
    dpkg-deb -f "$deb"/uct-vqp_*.deb Depends | tee "$deb/depends"
    grep -qF "libucx0 (= $version)" "$deb/depends" || return 1
    dpkg-deb -x "$deb"/uct-vqp_*.deb "$deb/root" || return 1
    for file in usr/bin/vqp-run usr/bin/vqp-top usr/share/man/man1/vqp-top.1.gz \
                'usr/lib/*/ucx/libuct_vqp.so.0' \
                'usr/lib/*/uct_vqp/libvqp_preload.so' 'usr/lib/*/uct_vqp/vqp-probe' \
                'usr/lib/*/uct_vqp/vqp-accept' \
                usr/share/man/man1/vqp-run.1.gz \
                usr/share/man/man7/uct_vqp.7.gz usr/share/doc/uct-vqp/README.md.gz \
                usr/share/doc/uct-vqp/docs/config.md.gz; do
        compgen -G "$deb/root/$file" >/dev/null || {
            echo "no $file"
            return 1
        }
    done
}

# vqp-top of the package, beside stock ucx_perftest with the module of the package
# shellcheck disable=SC2016 # the inner shell expands
beside_traffic() {
    rm -rf "$deb/telemetry" && mkdir "$deb/telemetry" && on_fabric gcc -- bash -c '
        bin=$1 dir=$2
        . "$3/test/lib/perftest.sh"
        perftest_find
        UCX_VQP_TELEMETRY=$dir UCX_TLS=vqp "$bin/vqp-run" "${perftest[@]}" -l \
            -d "${RXE_DEVS%% *}:1" -x vqp -t am_bw -D bcopy -s 1024 -n 1000000000 &
        traffic=$!
        trap "kill $traffic" EXIT
        until "$bin/vqp-top" --json "$dir" | grep -q "\"rate\":[1-9]"; do
            kill -0 $traffic || exit 1
            sleep 0.1
        done
        "$bin/vqp-top" --once "$dir"' bash "$deb/root/usr/bin" "$deb/telemetry" \
            "$CHECK_SRC" >"$deb/top"
    status=$?
    cat "$deb/top"
    [ $status = 0 ] && grep -q ucx_perftest "$deb/top"
}

# The unpacked package, on devices
on_devices() {
    on_fabric gcc -- "$deb/root/usr/bin/vqp-run" ucx_info -d -t vqp >"$deb/ports"
    cat "$deb/ports"
    grep -qE '^# *Transport: *vqp' "$deb/ports"
}

if need "Debian package" debhelper dh && need "Debian package" lintian lintian; then
    if dpkg-query -W libucx-dev ucx-utils >/dev/null 2>&1; then
        run "Debian package: dpkg-buildpackage" build_package &&
            run "Debian package: content" content &&
            run "Debian package: on devices" on_devices &&
            run "Debian package: traffic, and vqp-top beside it" beside_traffic &&
            run "Debian package: lintian" no_complaint
    else
        result skip "Debian package" "UCX is not installed as a package"
    fi
fi
