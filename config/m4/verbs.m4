dnl VQP_CHECK_VERBS: libibverbs. Sets VERBS_CPPFLAGS, VERBS_LIBS,
dnl VQP_VERBS_VERSION.

AC_DEFUN([VQP_CHECK_VERBS], [
    AC_ARG_WITH([verbs],
        [AS_HELP_STRING([--with-verbs=PREFIX],
            [where libibverbs is installed @<:@the system's@:>@])],
        [], [with_verbs=yes])
    VERBS_CPPFLAGS=
    VERBS_LIBS="-libverbs"
    AS_CASE([$with_verbs],
        [no], [AC_MSG_ERROR([libibverbs is needed])],
        [yes|''], [],
        [VERBS_CPPFLAGS="-isystem $with_verbs/include"
         for vqp_dir in "$with_verbs/lib" "$with_verbs/lib64" \
                        "$with_verbs"/lib/*-linux-gnu; do
             AS_IF([test -e "$vqp_dir/libibverbs.so"],
                   [VERBS_LIBS="-L$vqp_dir -libverbs"])
         done])

    vqp_save_CPPFLAGS=$CPPFLAGS
    vqp_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $VERBS_CPPFLAGS"
    LIBS="$VERBS_LIBS $LIBS"
    AC_MSG_CHECKING([for libibverbs with ibv_query_gid_ex])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
            #include <stddef.h>
            #include <infiniband/verbs.h>
        ]], [[struct ibv_gid_entry e;
              return ibv_query_gid_ex(NULL, 1, 0, &e, 0)]])],
        [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([libibverbs of rdma-core >= 32 is needed. On Debian: apt-get install libibverbs-dev])])
    vqp_verbs_defs=
    AC_MSG_CHECKING([for ibv_reg_dmabuf_mr])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
            #include <stddef.h>
            #include <infiniband/verbs.h>
        ]], [[return ibv_reg_dmabuf_mr(NULL, 0, 1, 0, -1, 0) != NULL]])],
        [AC_MSG_RESULT([yes])
         vqp_verbs_defs="$vqp_verbs_defs -DVQP_IB_HAVE_DMABUF"],
        [AC_MSG_RESULT([no])])
    AC_CHECK_MEMBER([struct ibv_port_attr.active_speed_ex],
        [vqp_verbs_defs="$vqp_verbs_defs -DVQP_IB_HAVE_SPEED_EX"], [],
        [[#include <infiniband/verbs.h>]])
    CPPFLAGS=$vqp_save_CPPFLAGS
    LIBS=$vqp_save_LIBS
    VERBS_CPPFLAGS="$VERBS_CPPFLAGS $vqp_verbs_defs"

    VQP_VERBS_VERSION=`$PKG_CONFIG --modversion libibverbs 2>/dev/null || echo unknown`
    AC_SUBST([VERBS_CPPFLAGS])
    AC_SUBST([VERBS_LIBS])
])
