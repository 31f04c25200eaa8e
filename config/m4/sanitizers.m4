dnl VQP_CHECK_SANITIZERS: --enable-asan, -ubsan, -tsan, -gcov. Sets VQP_SAN_FLAGS
dnl (for compiling and linking) and VQP_SANITIZERS (their names).

AC_DEFUN([_VQP_SANITIZER], [
    AC_ARG_ENABLE([$1], [AS_HELP_STRING([--enable-$1], [$2])],
                  [], [enable_$1=no])
    AS_IF([test "x$enable_$1" = xyes],
          [VQP_SAN_FLAGS="$VQP_SAN_FLAGS $3"
           VQP_SANITIZERS="$VQP_SANITIZERS${VQP_SANITIZERS:+ }$1"])
])

AC_DEFUN([VQP_CHECK_SANITIZERS], [
    VQP_SAN_FLAGS=
    VQP_SANITIZERS=
    _VQP_SANITIZER([asan], [find invalid memory accesses and leaks],
                   [-fsanitize=address -fno-omit-frame-pointer])
    _VQP_SANITIZER([ubsan], [find undefined behaviour; it is fatal],
                   [-fsanitize=undefined -fno-sanitize-recover=undefined])
    _VQP_SANITIZER([tsan], [find data races], [-fsanitize=thread])
    _VQP_SANITIZER([gcov], [count which lines the tests run], [--coverage])
    AS_IF([test "x$enable_asan$enable_tsan" = xyesyes],
          [AC_MSG_ERROR([--enable-asan and --enable-tsan exclude each other])])
    AS_IF([test -n "$VQP_SAN_FLAGS"],
        [vqp_save_CFLAGS=$CFLAGS
         CFLAGS="$CFLAGS $VQP_SAN_FLAGS"
         AC_MSG_CHECKING([whether $CC supports$VQP_SAN_FLAGS])
         AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
             [AC_MSG_RESULT([yes])],
             [AC_MSG_RESULT([no])
              AC_MSG_ERROR([$CC can not link with$VQP_SAN_FLAGS])])
         CFLAGS=$vqp_save_CFLAGS])
    AC_SUBST([VQP_SAN_FLAGS])
    AC_SUBST([VQP_SANITIZERS])
    AM_CONDITIONAL([HAVE_SANITIZERS], [test -n "$VQP_SAN_FLAGS"])
])
