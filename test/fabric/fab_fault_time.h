/*
 * The rules of a script that happen at a time: a QP goes to ERR, a port goes
 * down and up.
 */
#ifndef FAB_FAULT_TIME_H
#define FAB_FAULT_TIME_H

#include "fab_script.h"

/**
 * Those of these rules that have a time come into force; the ones before do no
 * more. A port that would have come up again does so now.
 *
 * @return 0, or an errno: no thread could be started.
 */
int fab_fault_time_set(const fab_fault_rule_t *rules, int count);

/* How often one of them happened, since then */
uint64_t fab_fault_time_hits(void);

#endif
