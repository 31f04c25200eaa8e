dnl VQP_CHECK_GTEST: googletest for the unit tests. Without it the module still
dnl builds, and `make check` skips the unit tests with a reason. Sets
dnl GTEST_CFLAGS, GTEST_LIBS, VQP_GTEST_TEXT and the conditional HAVE_GTEST.

AC_DEFUN([VQP_CHECK_GTEST], [
    AC_ARG_WITH([gtest],
        [AS_HELP_STRING([--without-gtest], [do not build the unit tests])],
        [], [with_gtest=check])
    vqp_have_gtest=no
    VQP_GTEST_TEXT="not used"
    AS_IF([test "x$with_gtest" != xno],
        [PKG_CHECK_MODULES([GTEST], [gtest_main],
            [vqp_have_gtest=yes
             VQP_GTEST_TEXT=`$PKG_CONFIG --modversion gtest_main`],
            [VQP_GTEST_TEXT="missing: no unit tests (apt-get install libgtest-dev)"
             AS_IF([test "x$with_gtest" = xyes],
                   [AC_MSG_ERROR([googletest is missing (apt-get install libgtest-dev)])])])])
    AM_CONDITIONAL([HAVE_GTEST], [test "x$vqp_have_gtest" = xyes])
])
