/*
 * The rules of a script that happen at a time: a QP goes to ERR, a port goes
 * down and up, its GIDs have other indexes, a path is another.
 */
#ifndef FAB_FAULT_TIME_H
#define FAB_FAULT_TIME_H

#include "fab_script.h"

/**
 * Those of these rules that have a time come into force; the ones before do no
 * more. A port that would have come up again does so now, and a changed value
 * ends.
 *
 * @return 0, or an errno: no thread could be started.
 */
int fab_fault_time_set(const fab_fault_rule_t *rules, int count);

/**
 * Do what one of them says, or end it.
 *
 * @return 0 or an errno.
 */
int fab_fault_time_act(const fab_fault_rule_t *rule, bool undo);

/** A kill rule: end this process, if it is the one that the rule means, now or at
 *  that @a part of the message that this thread sends. */
void fab_fault_kill(const fab_fault_rule_t *rule, uint32_t part);

/* How often one of them happened, since then */
uint64_t fab_fault_time_hits(void);

#endif
