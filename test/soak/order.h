/*
 * Many senders, one receiver: each sender is an interface of its own, a peer
 * that the receiver has a connection with. It sends batches: a put, a fence,
 * and active messages of several sizes and kinds. The receiver looks at the
 * order, the bytes and the puts, and counts.
 */
#ifndef VQP_SOAK_ORDER_H
#define VQP_SOAK_ORDER_H

/* Runs it, prints a line. @return the exit status: 0, 1 if a promise was
 * broken, 2 if the arguments are wrong. */
int order_main(int argc, char **argv);

#endif
