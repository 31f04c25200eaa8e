dnl VQP_CHECK_UCX: the installed UCX, its internal headers, and the build
dnl configuration that decides its structure layouts.
dnl
dnl A transport module uses headers that UCX does not install, so two things
dnl are needed: the installed libraries (--with-ucx=PREFIX) and the sources of
dnl exactly that version (--with-ucx-src=DIR). What config.h said when the
dnl libraries were built is queried from them (ucx_info -b).
dnl
dnl Sets UCX_CPPFLAGS, UCX_LIBS, UCX_INFO, VQP_UCX_VERSION, VQP_UCX_PREFIX,
dnl VQP_UCX_SRC, VQP_UCX_LIBDIR, VQP_UCX_FUNCTIONS, VQP_UCX_REVISION.

m4_define([vqp_ucx_min], [1.13])

dnl Functions of libuct, each added by the commit that added a member to a structure which
dnl a transport fills and which has no visible size. src/uct/vqp_guard.c has the same list,
dnl with the structures; contrib/guard-check.sh compares them.
m4_define([vqp_ucx_functions], [uct_md_mem_attach uct_ep_connect_to_ep_v2 dnl
uct_ep_is_connected uct_rkey_compare uct_rkey_unpack_v2 uct_iface_mem_element_pack dnl
uct_iface_query_v2 uct_ep_get_device_ep uct_md_mem_elem_pack uct_md_mem_query_v2 uct_ep_put_sgl_zcopy dnl
uct_ep_outstanding_purge uct_ep_get_sgl_zcopy uct_md_mem_elem_release])

AC_DEFUN([VQP_CHECK_UCX], [
    AC_ARG_WITH([ucx],
        [AS_HELP_STRING([--with-ucx=PREFIX],
            [where UCX is installed @<:@pkg-config decides@:>@])],
        [], [with_ucx=yes])
    AC_ARG_WITH([ucx-src],
        [AS_HELP_STRING([--with-ucx-src=DIR],
            [the sources of the installed UCX @<:@./ucx-src, then
             SRCDIR/ucx-src; contrib/get-ucx-src.sh gets them@:>@])],
        [], [with_ucx_src=yes])

    AS_CASE([$with_ucx],
        [no], [AC_MSG_ERROR([uct_vqp is a part of UCX: --without-ucx can not work])],
        [yes|''], [_VQP_UCX_BY_PKG_CONFIG],
        [_VQP_UCX_BY_PREFIX])
    _VQP_UCX_VERSION
    _VQP_UCX_SRC
    _VQP_UCX_CONFIG_H
    _VQP_UCX_TRY
    _VQP_UCX_FUNCTIONS

    # make distcheck configures once more
    VQP_DISTCHECK_FLAGS="--with-ucx=$with_ucx --with-ucx-src=$VQP_UCX_SRC"
    AC_SUBST([VQP_DISTCHECK_FLAGS])

    AC_SUBST([UCX_CPPFLAGS])
    AC_SUBST([UCX_LIBS])
    AC_SUBST([UCX_INFO])
    AC_SUBST([VQP_UCX_VERSION])
    AC_SUBST([VQP_UCX_REVISION])
    AC_SUBST([VQP_UCX_PREFIX])
    AC_SUBST([VQP_UCX_LIBDIR])
    AC_SUBST([VQP_UCX_SRC])
])

dnl The distribution's UCX
AC_DEFUN([_VQP_UCX_BY_PKG_CONFIG], [
    PKG_CHECK_EXISTS([ucx], [],
        [AC_MSG_ERROR([pkg-config does not find UCX. On Debian: apt-get install libucx-dev ucx-utils. Elsewhere: --with-ucx=PREFIX (UCX >= vqp_ucx_min)])])
    VQP_UCX_PREFIX=`$PKG_CONFIG --variable=prefix ucx`
    VQP_UCX_LIBDIR=`$PKG_CONFIG --variable=libdir ucx`
    AC_PATH_PROG([UCX_INFO], [ucx_info], [], [$VQP_UCX_PREFIX/bin:$PATH])
])

dnl UCX under an own prefix
AC_DEFUN([_VQP_UCX_BY_PREFIX], [
    VQP_UCX_PREFIX=$with_ucx
    AS_IF([test -r "$VQP_UCX_PREFIX/include/uct/api/uct.h"], [],
        [AC_MSG_ERROR([$VQP_UCX_PREFIX/include has no UCX headers (wanted: uct/api/uct.h)])])
    VQP_UCX_LIBDIR=
    for vqp_dir in "$VQP_UCX_PREFIX/lib" "$VQP_UCX_PREFIX/lib64" \
                   "$VQP_UCX_PREFIX"/lib/*-linux-gnu; do
        AS_IF([test -z "$VQP_UCX_LIBDIR" && test -e "$vqp_dir/libuct.so"],
              [VQP_UCX_LIBDIR=$vqp_dir])
    done
    AS_IF([test -n "$VQP_UCX_LIBDIR"], [],
        [AC_MSG_ERROR([no libuct.so below $VQP_UCX_PREFIX])])
    AC_PATH_PROG([UCX_INFO], [ucx_info], [], [$VQP_UCX_PREFIX/bin])
])

dnl What the installed library says it is: refuse what is too old
AC_DEFUN([_VQP_UCX_VERSION], [
    AS_IF([test -n "$UCX_INFO"], [],
        [AC_MSG_ERROR([ucx_info is missing; it prints how the installed UCX was built. On Debian: apt-get install ucx-utils])])
    AC_MSG_CHECKING([the version of the installed UCX])
    VQP_UCX_VERSION=`LD_LIBRARY_PATH=$VQP_UCX_LIBDIR:$LD_LIBRARY_PATH $UCX_INFO -v | $SED -n '/ersion/{s/^.*ersion:* *\(@<:@0-9@:>@@<:@0-9.@:>@*\).*$/\1/p;q;}'`
    AS_IF([test -n "$VQP_UCX_VERSION"], [],
        [AC_MSG_ERROR([$UCX_INFO -v names no version])])
    AC_MSG_RESULT([$VQP_UCX_VERSION])
    # no library of UCX has it; 0000000: UCX does not know it either
    VQP_UCX_REVISION=`LD_LIBRARY_PATH=$VQP_UCX_LIBDIR:$LD_LIBRARY_PATH $UCX_INFO -v | $SED -n 's/^.* revision \(@<:@0-9a-f@:>@*\).*$/\1/p'`
    AS_VERSION_COMPARE([$VQP_UCX_VERSION], vqp_ucx_min,
        [AC_MSG_ERROR([UCX $VQP_UCX_VERSION is too old: at least vqp_ucx_min is needed])])
])

dnl The sources that belong to it: refuse another version
AC_DEFUN([_VQP_UCX_SRC], [
    AC_MSG_CHECKING([for the sources of UCX $VQP_UCX_VERSION])
    AS_CASE([$with_ucx_src],
        [yes|no|''],
            [VQP_UCX_SRC=
             for vqp_dir in ucx-src "$srcdir/ucx-src"; do
                 AS_IF([test -z "$VQP_UCX_SRC" && test -r "$vqp_dir/src/uct/base/uct_iface.h"],
                       [VQP_UCX_SRC=$vqp_dir])
             done],
        [VQP_UCX_SRC=$with_ucx_src])
    AS_IF([test -n "$VQP_UCX_SRC" && test -r "$VQP_UCX_SRC/src/uct/base/uct_iface.h"],
        [VQP_UCX_SRC=`cd "$VQP_UCX_SRC" && pwd`],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([UCX's internal headers are needed (src/uct/base/uct_iface.h). Run contrib/get-ucx-src.sh, or give --with-ucx-src=DIR with the sources of UCX $VQP_UCX_VERSION])])
    AC_MSG_RESULT([$VQP_UCX_SRC])

    vqp_src_version=
    for vqp_part in major minor patch; do
        vqp_num=`$SED -n "s/^def@&t@ine(.ucx_ver_$vqp_part., *\(@<:@0-9@:>@*\)).*/\1/p" "$VQP_UCX_SRC/configure.ac" 2>/dev/null`
        vqp_src_version="$vqp_src_version${vqp_src_version:+.}$vqp_num"
    done
    AS_IF([test "x$vqp_src_version" = "x$VQP_UCX_VERSION"], [],
        [AC_MSG_ERROR([the sources in $VQP_UCX_SRC are UCX $vqp_src_version, but UCX $VQP_UCX_VERSION is installed: their layouts may differ])])
])

dnl ucx-config/config.h: how the installed library was configured
AC_DEFUN([_VQP_UCX_CONFIG_H], [
    AC_MSG_CHECKING([how the installed UCX was built])
    AS_MKDIR_P([ucx-config])
    { echo '/* Made by configure from: ucx_info -b */'
      LD_LIBRARY_PATH=$VQP_UCX_LIBDIR:$LD_LIBRARY_PATH $UCX_INFO -b | $GREP '^#define'
    } > ucx-config/config.h.new
    AS_IF([$GREP '^#define UCS_MAX_LOG_LEVEL' ucx-config/config.h.new >/dev/null], [],
        [AC_MSG_ERROR([$UCX_INFO -b does not print the build configuration])])
    AS_IF([cmp -s ucx-config/config.h.new ucx-config/config.h],
        [rm -f ucx-config/config.h.new],
        [mv ucx-config/config.h.new ucx-config/config.h])
    AC_MSG_RESULT([ucx-config/config.h])

    # -isystem: warnings are for our code, not for UCX's headers
    vqp_here=`pwd`
    UCX_CPPFLAGS="-DUCX_SHARED_LIB"
    UCX_CPPFLAGS="$UCX_CPPFLAGS -isystem $vqp_here/ucx-config"
    UCX_CPPFLAGS="$UCX_CPPFLAGS -isystem $VQP_UCX_SRC/src"
    UCX_LIBS="-luct -lucs"
    # not /usr/include: it must stay behind the folders of libstdc++
    AS_CASE([$with_ucx],
        [yes|''|/usr|/usr/], [],
        [UCX_CPPFLAGS="$UCX_CPPFLAGS -isystem $VQP_UCX_PREFIX/include"
         UCX_LIBS="-L$VQP_UCX_LIBDIR $UCX_LIBS"])
])

dnl Do headers, configuration and libraries fit together?
AC_DEFUN([_VQP_UCX_TRY], [
    AC_MSG_CHECKING([whether UCX's internal headers and libraries work])
    vqp_save_CPPFLAGS=$CPPFLAGS
    vqp_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS -DHAVE_CONFIG_H $UCX_CPPFLAGS"
    LIBS="$UCX_LIBS $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
            #include <uct/base/uct_iface.h>
            #include <uct/base/uct_md.h>
            #include <uct/api/version.h>
            #if UCT_API < UCT_VERSION(1, 13)
            #error too old
            #endif
        ]], [[uct_component_register((uct_component_t*)0)]])],
        [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([a test program with uct/base/uct_iface.h and -luct did not link; config.log has the error])])
    CPPFLAGS=$vqp_save_CPPFLAGS
    LIBS=$vqp_save_LIBS
])

dnl Which functions of the list the sources declare, as :NAME:NAME:. The installed library
dnl has the same ones, or the guard refuses it when the module is loaded.
AC_DEFUN([_VQP_UCX_FUNCTIONS], [
    AC_MSG_CHECKING([whether the sources and the installed UCX are of one commit])
    VQP_UCX_FUNCTIONS=:
    vqp_differs=
    vqp_save_LIBS=$LIBS
    LIBS="$UCX_LIBS $LIBS"
    for vqp_name in vqp_ucx_functions; do
        vqp_declares="do not declare"
        AS_IF([cat "$VQP_UCX_SRC"/src/uct/api/*.h "$VQP_UCX_SRC"/src/uct/api/v2/*.h \
                   "$VQP_UCX_SRC"/src/uct/base/*.h 2>/dev/null |
               $GREP "\(^\|@<:@^a-z_0-9@:>@\)$vqp_name(" >/dev/null],
            [VQP_UCX_FUNCTIONS=$VQP_UCX_FUNCTIONS$vqp_name:
             vqp_declares="declare"])
        AC_LINK_IFELSE([AC_LANG_SOURCE([[
                char $vqp_name(void);
                int main(void) { return $vqp_name(); }
            ]])],
            [vqp_has="has"],
            [vqp_has="lacks"])
        AS_CASE([$vqp_declares/$vqp_has],
            [declare/lacks|"do not declare/has"],
                [vqp_differs="they $vqp_declares $vqp_name, and libuct $vqp_has it"])
    done
    LIBS=$vqp_save_LIBS
    AS_IF([test -n "$vqp_differs"],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([the sources in $VQP_UCX_SRC are of another commit than the installed UCX $VQP_UCX_VERSION: $vqp_differs. The module would be refused when it is loaded: give --with-ucx-src=DIR with the sources that UCX was built from])])
    AC_MSG_RESULT([nothing says no])
])
