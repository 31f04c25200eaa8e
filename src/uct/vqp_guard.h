/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The version guard compares the running UCX with the one this module was
 * compiled for. UCX has no such check, and internal structures differ between
 * its versions and configurations: a mismatch leads to a crash.
 */
#ifndef UCT_VQP_GUARD_H
#define UCT_VQP_GUARD_H

/**
 * Compare the libuct and libucs of this process with those compiled for:
 * - the version: of libucp, where it is loaded, and by symbols that came or went with
 *   each version;
 * - sizes of structures that the libraries reveal, and offsets that stand in their
 *   tables of options: they depend on the build configuration and on the commit;
 * - functions that were added together with a member of a structure without a visible size
 *   (the operations of a memory domain, and those of an interface that are no API): whether
 *   the library has them, and the headers that configure found declare them. So two
 *   commits of one version are told apart, if such a member was added between them.
 *
 * A library has no revision, and its build id changes with each rebuild: neither is
 * compared. A rebuild of the same sources, also with patches to functions, passes. What
 * passes unseen is a change of a structure in none of these ways, for example two members
 * that change places.
 *
 * Calls no function of UCX but ucp_get_version*, and reads no structure before
 * its size was verified; safe in an ELF constructor, with any libuct. Patch
 * releases (1.13.0 and 1.13.1) count as one version.
 *
 * @return 1 when they match, else 0 after one line on stderr that names both.
 */
int uct_vqp_guard_check(void);

#endif
