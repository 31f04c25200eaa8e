/*
 * The version guard compares the running UCX with the one this module was
 * compiled for. UCX has no such check, and internal structures differ between
 * its versions and configurations: a mismatch leads to a crash.
 */
#ifndef UCT_VQP_GUARD_H
#define UCT_VQP_GUARD_H

/**
 * Compare the libuct and libucs of this process with those compiled for, by
 * libucp's version where libucp is loaded, by symbols that came or went with
 * each version, and by the sizes of structures that the libraries reveal.
 *
 * Calls no function of UCX but ucp_get_version*, and reads no structure before
 * its size was verified; safe in an ELF constructor, with any libuct. Patch
 * releases (1.13.0 and 1.13.1) count as one version.
 *
 * @return 1 when they match, else 0 after one line on stderr that names both.
 */
int uct_vqp_guard_check(void);

#endif
