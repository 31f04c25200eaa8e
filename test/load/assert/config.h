/*
 * UCX's configuration with the opposite setting of assertions: on where the installed UCX
 * has none, else off. For a module that the guard has to refuse, see ../guard.sh. It may be
 * included repeatedly, like the file that it stands for.
 */
#ifdef VQP_TEST_NO_ASSERT
#  undef ENABLE_ASSERT
#endif

#include_next <config.h>

#if defined(ENABLE_ASSERT) && !defined(VQP_TEST_ASSERT)
#  define VQP_TEST_NO_ASSERT
#  undef ENABLE_ASSERT
#elif !defined(VQP_TEST_NO_ASSERT)
#  define VQP_TEST_ASSERT
#  undef ENABLE_ASSERT
#  define ENABLE_ASSERT 1
#endif
