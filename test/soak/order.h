/*
 * Many senders, one receiver: each sender is an interface of its own, a peer
 * connected to the receiver. It sends batches: a put, a fence,
 * and active messages of several sizes and kinds. The receiver checks the
 * order, the bytes and the puts.
 */
#ifndef VQP_SOAK_ORDER_H
#define VQP_SOAK_ORDER_H

/* Runs it, prints a line. @return the exit status: 0, 1 if a check failed, 2 if
 * the arguments are wrong. */
int order_main(int argc, char **argv);

#endif
