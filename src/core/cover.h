/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Coverage points: rare branches that a test has to reach, each with a name. They
 * cost nothing unless VQP_ENABLE_COVER is defined, which only the simulator
 * does (test/sim); it counts them, and fails when one is never reached.
 * Pure: libc only.
 */
#ifndef VQP_CORE_COVER_H
#define VQP_CORE_COVER_H

#include <stdint.h>

/* Name, and what happens there */
#define VQP_COVER_POINTS(_) \
    _(TX_STALL_RECLAIM, "an AM refused for mirror bytes that have no CQE") \
    _(TX_STALL_REQUEST, "an AM refused, and credit is requested") \
    _(TX_STALL_WAIT, "an AM refused, and a credit update is due") \
    _(TX_FRAG_GROWS, "an AM split into larger frags, to fit the window") \
    _(TX_FRAG_GROWS_TAIL, "a tail AM split into larger frags, to fit the window") \
    _(TX_FRAGS_FEWER, "an AM committed shorter than begun, with fewer frags") \
    _(TX_IOV_EXT, "an op with more pieces than it holds itself") \
    _(TX_WRAP, "a record begins at offset 0, the rest of the ring is left") \
    _(TX_CREDIT_BYTES, "credit for bytes alone") \
    _(TX_CREDIT_FSNS, "credit for fsns alone") \
    _(TX_CREDIT_OLD, "credit without new information") \
    _(OPS_DRAIN, "a ring of ops takes none until it is empty") \
    _(OPS_GROW, "a ring of ops has more slots") \
    _(PACK_WAITING, "an AM joins one that waits for a path") \
    _(PACK_LOOKED, "an AM that waits for others goes, since none has come") \
    _(PACK_FULL, "an AM has enough others, and goes") \
    _(PACK_CREDIT, "an AM that waits for others goes, since credit has come") \
    _(RX_MORE, "a record that shares the immediate of the one before") \
    _(RINGS_GROWS, "a sender switches to a larger ring") \
    _(RINGS_SHRINKS, "a sender switches to the first ring") \
    _(RINGS_NO_MEMORY, "no memory for a larger ring") \
    _(RINGS_REFUSED, "no memory for the mirror of a ring that was offered") \
    _(RINGS_NEED_MIRROR, "a control record needs the mirror of ring 0") \
    _(RINGS_MIRROR_WAITS, "no memory for the mirror of ring 0") \
    _(RINGS_MIRROR_IDLE, "the mirror of ring 0 was given back") \
    _(RINGS_MIRROR_YIELDED, "an AM was not accepted until another connection has the mirror") \
    _(RINGS_MIRROR_KEPT, "a mirror that was asked for stays") \
    _(RINGS_MIRROR_TAKEN, "a mirror of ring 0 that is idle goes back, or to another connection") \
    _(RINGS_OFFER_REFUSED, "a ring that was offered comes back") \
    _(RINGS_WAITS, "a control record waits for room in the ring") \
    _(SEND_FAST_READ, "a get or an atomic goes the fast path") \
    _(SEND_FAST_AM, "an AM goes the fast path") \
    _(RX_NEXT_AM, "an immediate that is the next AM, with nothing ahead") \
    _(RX_CREDIT_KNOWN, "a record without new credit") \
    _(NOP_PROBE, "a nop on an idle connection") \
    _(NOP_FULL, "a write of a full packet probes a path") \
    _(VQP_FLUSHED, "a flushed completion without a known reason") \
    _(DISPATCH_GATHER_SPLIT, "a frag's border inside of a piece") \
    _(DISPATCH_FENCE_WAITS_RMA, "a fenced AM waits for puts to be dispatched") \
    _(DISPATCH_FENCE_WAITS_ROOM, "an AM's fence waits for room on a path") \
    _(DISPATCH_FENCE_READS, "an AM's fence behind READs") \
    _(DISPATCH_FENCE_EMPTY, "an AM's fence with nothing in front on any path") \
    _(DISPATCH_HELD_RMA, "a put behind a fence is held") \
    _(DISPATCH_AGAIN, "an AM goes after the puts it waited for, at once") \
    _(DISPATCH_TAIL_EMPTY, "a tail AM's immediate on a path that was posted") \
    _(DISPATCH_TAIL_NO_ROOM, "a tail AM waits for room for its immediate") \
    _(DISPATCH_AM_NO_PATH, "an AM's frag finds no path") \
    _(DISPATCH_RMA_NO_PATH, "a put's frag finds no path") \
    _(PATHCAP_GROWS, "paths ran empty while ops waited") \
    _(PATHCAP_AGES, "the bytes of a path are halved that nobody needs") \
    _(PATHCAP_SHRINKS, "paths do not run empty any more") \
    _(RATE_AWAY, "confirmed while nobody looked: no measurement yet") \
    _(SCHED_DEFERRED, "a frag waits for a busy path, with another one free") \
    _(TRIM_STALE, "an impossible count: that of the immediates is used") \
    _(TRIM_ATOMIC, "an atomic was executed, and its answer has not arrived") \
    _(LOST_WAITS, "an atomic that a flush waits for may be lost") \
    _(LOST_LATER, "a flush comes after an atomic that may be lost") \
    _(TRIM_FENCED, "an answer has arrived: a frag behind its fence was executed") \
    _(TRIM_AGAIN, "a path fails again before its replay has ended") \
    _(TRIM_KEPT, "a path fails, and frags have to be replayed") \
    _(TRIM_EXECUTED, "a path fails, and the peer has executed some frags") \
    _(REPLAY_MOVES_BIT, "a fence or tail AM continues on another path") \
    _(REPLAY_GIVEN_BACK, "the target of a replay has failed: frags return to their path") \
    _(REPLAY_HOLDS, "a nop waits for READs in place of a frag that has ended") \
    _(REPLAY_NO_PATH, "a replay finds no path") \
    _(REPLAY_TARGET_TAKEN, "a replay waits: the path that it would go to replays another one") \
    _(REPLAY_NO_ROOM, "a replay waits for room") \
    _(REPLAY_MOVES, "frags that wait move to a larger array") \
    _(REPLAY_SELF, "a replay on the path that failed") \
    _(PATH_DOWN, "a path is given up") \
    _(PATH_DOWN_READY, "a path is given up before the peer was known to be ready") \
    _(PATH_DOWN_CONNECT, "a path is given up before it was connected") \
    _(PATH_DOWN_BY_PEER, "a path is given up because of the peer's PATH_DOWN") \
    _(PATH_DESTROYED, "a path is given up, and its queue pair is destroyed") \
    _(PATH_RESPONDER, "the responder of a path has a fault") \
    _(PATH_DOWN_PROBE, "a path goes down again before its probe has come back") \
    _(SILENCE_WITHDRAWN, "a silent path has a completion before the peer gives it up") \
    _(SILENCE_OLD_ASK, "a question of the peer is over") \
    _(SILENCE_AGREED_BEFORE, "a question is withdrawn after this side has agreed to it") \
    _(SILENCE_NEVER_ASKED, "a question is withdrawn before progress has seen it") \
    _(PATH_SILENT, "a path takes no frags, because it is silent") \
    _(PATH_REQUESTS_MOVE, "the peer is requested to let a path leave") \
    _(ADD_NEEDED, "a path that is off is needed") \
    _(ADD_FAILED, "no queue pair could be created for a path that is off") \
    _(ADD_REFUSES, "the same, when the peer adds it") \
    _(ADD_REFUSED, "the peer does not add a path") \
    _(DROP_REQUESTED, "the peer is requested to drop a path") \
    _(DROP_IGNORED, "a path is not dropped: too few others are UP, or one is on trial") \
    _(DROP_UNDONE, "the same, after the peer agreed: it is rebuilt") \
    _(ELASTIC_TRIAL, "a path is added to find out whether it pays") \
    _(ELASTIC_PAYS, "it does") \
    _(ELASTIC_PAYS_NOT, "it does not") \
    _(ELASTIC_VOID, "another path fails during the trial") \
    _(ELASTIC_LENGTHENS, "a path is added for a short one without a measurement") \
    _(ELASTIC_NOT_LONGER, "that path replaces none, and is dropped") \
    _(ELASTIC_SWAP, "the path replaces one with a short send queue") \
    _(ELASTIC_SWAP_VOID, "another path has been added meanwhile") \
    _(ELASTIC_ASKS_AGAIN, "the peer has not dropped the short one") \
    _(ELASTIC_IDLE, "a path is dropped since none is used") \
    _(PATH_LEAVES, "a path is moved, and takes no more frags") \
    _(PATH_WAS_ASKED, "the peer has asked for a move before the path was UP here") \
    _(SLOW_ENDS, "a path that was slow is not slow any more") \
    _(SLOW_AGAIN, "a path is slow again soon after it was moved") \
    _(SLOW_REHASH, "the flow of a slow path is changed while the path is used") \
    _(SLOW_REHASH_FAILED, "that is not possible: the path is moved") \
    _(SILENCE_RESULT, "a path is not given up for its silence: a result is under way") \
    _(SILENCE_NOP, "a nop brings the CQE that a stalled path lacks") \
    _(SILENCE_WITNESS, "nops on idle paths, since one is stalled") \
    _(SILENCE_ADD, "a path is added, since all are stalled") \
    _(SILENCE_ENDS, "a path that was silent makes progress") \
    _(SILENCE_SUSPECT, "the first probe of a path that was silent comes back") \
    _(PATH_POST_FAILED, "a path is given up for a post that failed") \
    _(PATH_DRAIN_NOP, "a nop brings the last completion of a path") \
    _(PATH_UNKNOWN, "a vqp fails, since it is unknown whether a put was executed") \
    _(PATH_RETRIED, "a rebuild that has failed is tried again: the port is up") \
    _(PATH_NOT_REBUILT, "no new queue pair could be made") \
    _(REBUILD_LATER, "a rebuild waits, since the owner has many to do") \
    _(TURN_NEEDED, "a vqp without a path gets a queue pair before others do") \
    _(ADD_LATER, "the same for a path that is added") \
    _(PATH_NOT_CONNECTED, "a new queue pair could not be connected") \
    _(PATH_UNRESOLVED, "the address of the peer is not resolved yet") \
    _(PATH_UNRESOLVED_FIRST, "the same when the vqp is connected") \
    _(PATH_OLD_MESSAGE, "a path message of another epoch") \
    _(PATH_HELD_LONGER, "a path that flaps is rebuilt later") \
    _(PATH_PEER_BUSY, "the peer's process exists, and does not call progress") \
    _(PATH_REPEATS, "a path message is repeated") \
    _(RAILS_MOVES, "a path that does not come up is moved to other rails") \
    _(RAILS_LAST, "the same is not done: it is the last path of its rails") \
    _(RAILS_ASKED, "the peer decides on which rail the end of a path is") \
    _(RAILS_PEER_MOVES, "the peer has moved its end of a path to another rail") \
    _(RAILS_STRANDED, "a path takes a rail whose port is up: no path works") \
    _(RAILS_MISSED, "a path goes back to a rail that no path uses") \
    _(RAILS_BACK, "a path goes back to its first rails: atomics lack one") \
    _(PATH_OUTAGE, "no path came back in time") \
    _(ALIVE_PROGRESS, "a ping is not needed: the peer has sent or confirmed something") \
    _(ALIVE_ANSWERS, "a peer that is silent on all paths answers a ping") \
    _(ALIVE_HOST_ANSWERS, "only another process of the peer's host answers a ping") \
    _(ALIVE_DEAD, "a peer is found to be dead") \
    _(CONN_WITNESS, "another process of a silent peer's host is pinged too") \
    _(PATH_LACKS_RAIL, "the rail of the atomics did not come back in time") \
    _(PATH_FAIL_ALL, "a vqp fails while a path is not UP") \
    _(BATCH_FULL, "dispatch stops at a full batch") \
    _(CREDIT_NO_FSN, "a credit update waits for an fsn") \
    _(CREDIT_NO_PATH, "a credit update waits for a path") \
    _(CREDIT_REQUEST, "a credit update requests credit") \
    _(NOP_NO_ROOM, "a nop waits for a slot in the send queue") \
    _(DRAIN_NOP, "a failed sender needs the CQE of acknowledged frags") \
    _(NOTIFY_WAITS, "a notify waits for a path") \
    _(NOTIFY_PIPELINED, "two notifies in one dispatch") \
    _(CONFIRM_OUT_OF_ORDER, "an op ends before an older one") \
    _(CONFIRM_POST_RECLAIM, "an op that is waited for ends behind others") \
    _(CONFIRM_STALE, "a completion of nothing that is outstanding") \
    _(CONFIRM_ABANDON, "frags that were never posted are given up") \
    _(CONFIRM_ERROR, "an op ends with an error") \
    _(FAIL_UNPOSTED, "an op of a failed sender has no frag in flight") \
    _(FAIL_HALF_POSTED, "an op of a failed sender is half posted") \
    _(FAIL_SPRAY, "a sprayed AM of a failed sender lacks its notify") \
    _(FAIL_TAIL, "a tail AM of a failed sender lacks immediates") \
    _(FAIL_POSTED, "an op of a failed sender may still succeed") \
    _(BARRIER_CREDIT, "a barrier waits for a credit update") \
    _(WINDOW_AHEAD, "an immediate ahead of its order") \
    _(WINDOW_EDGE, "an immediate at the last place of the window") \
    _(WINDOW_LATE, "a late duplicate") \
    _(WINDOW_TWICE, "a duplicate of an immediate that waits") \
    _(WINDOW_OUTSIDE, "an immediate outside of the window") \
    _(WINDOW_MALFORMED, "an immediate with invalid flags") \
    _(WINDOW_WRAP, "24 bits of fsn wrap while immediates are ahead") \
    _(RX_BAD_RECORD, "an invalid record") \
    _(RX_BAD_WRAP, "a wrap that skips the whole ring") \
    _(RX_REQUESTED, "the peer requests credit") \
    _(VQP_USED_AFTER_CLOSE, "a vqp is used after its peer has ended in order") \
    _(VQP_POST_FAILED, "frags of a batch could not be posted") \
    _(VQP_DRAIN_POST_FAILED, "a drain nop could not be posted") \
    _(VQP_REPOST_FAILED, "receives could not be posted again") \
    _(VQP_BROKEN_DROPPED, "an immediate of a peer that broke the protocol") \
    _(VQP_GAP, "an immediate is missing for too long") \
    _(VQP_PASSIVE_PROBE, "a passive vqp checks its peer") \
    _(VQP_CREDIT_QUEUED, "credit is in an AM that waits for a path") \
    _(VQP_RESUMED, "resources may be available for refused requests") \
    _(VQP_RELEASE_WAITS, "a release waits for WRs that are outstanding") \
    _(VQP_FAIL_CLOSING, "a vqp fails while its endpoint closes") \
    _(VQP_PEER_CLOSED, "the peer ends, and nothing is waited for") \
    _(VQP_FLUSH_FAILED, "a flush of a failed vqp") \
    _(VQP_CANCEL, "what is under way is canceled") \
    _(VQP_PATH_DESTROYED, "a queue pair can not be moved to ERR") \
    _(VQP_CLOSE_CANCELS, "a close ends ops that are waited for") \
    _(VQP_CLOSE_WAITS, "a close waits for ops without a user") \
    _(CONN_NEW_WAITS, "a connection waits to send its REQ") \
    _(CONN_CROSSING, "a REQ arrives while the own one is unanswered") \
    _(CONN_ASKED_TWICE, "a REQ is repeated by a peer that is not proven") \
    _(CONN_ANSWER_ROTATES, "a duplicate is answered to another rail") \
    _(CONN_QPS_WAIT, "queue pairs can not be connected yet") \
    _(CONN_PROVES, "a peer wants a proof before it makes its side") \
    _(CONN_FIRST_IMM, "an immediate proves LIVE before the REP arrives") \
    _(CONN_BYE_READY, "a BYE proves LIVE") \
    _(CONN_BYE_TWICE, "a BYE that was answered") \
    _(CONN_BYE_STALE, "a BYE of an earlier close") \
    _(CONN_BYE_ACTIVE, "a BYE of a connection that is used here") \
    _(CONN_BYE_CROSSING, "both sides send BYE") \
    _(CONN_REVIVED, "a close is undone, since the peer uses the connection") \
    _(CONN_RST_RAILS, "a RST is sent to another rail too") \
    _(CONN_RST_CLOSING, "a RST answers a BYE") \
    _(CONN_RST_ACTIVE, "a RST of a connection in use") \
    _(CONN_PEER_LACKS, "the peer has no memory for a connection") \
    _(CONN_TIMEOUT, "no answer in time") \
    _(CONN_PEER_IS_BUSY, "no answer in time, but to other connections") \
    _(CONN_TIMER_LATE, "timers of connections are looked at late") \
    _(CONN_CLOSE_TIMEOUT, "no answer to a BYE in time") \
    _(CONN_CLOSE_EARLY, "closed before it is LIVE") \
    _(TABLE_ADOPT, "an endpoint adopts a passive connection") \
    _(TABLE_ADOPT_EARLY, "an endpoint adopts one that is not LIVE yet") \
    _(TABLE_ADOPT_ASKED, "an endpoint adopts one with an unproven peer") \
    _(TABLE_RENUMBER, "a connection gets another number, its own was used") \
    _(TABLE_REFUSED, "a proof is wanted, too many connections are unproven") \
    _(TABLE_TAKEN, "a number that another connection has") \
    _(TABLE_PEER_OVERWRITTEN, "the record of a peer is overwritten") \
    _(TABLE_LOOP, "a connection of an interface with itself") \
    _(TABLE_OLD_REQ, "a late copy of an old REQ") \
    _(PEER_GAP, "REQs overtake each other") \
    _(PEER_GAP_SHIFTED, "REQs overtake by more than the record holds") \
    _(PEER_GAP_FILLED, "a REQ that was overtaken arrives")

typedef enum {
#define VQP_COVER_ENUM(_name, _help) VQP_COVER_##_name,
    VQP_COVER_POINTS(VQP_COVER_ENUM)
#undef VQP_COVER_ENUM
    VQP_COVER_LAST
} vqp_cover_point_t;

#ifdef VQP_ENABLE_COVER
extern uint64_t vqp_cover_counts[VQP_COVER_LAST]; /* of the program that counts */
#  define vqp_cover(_name) ((void)++vqp_cover_counts[VQP_COVER_##_name])
#  define vqp_cover_if(_cond, _name) ((void)((_cond) && vqp_cover_count(_name)))
#  define vqp_cover_count(_name)     (++vqp_cover_counts[VQP_COVER_##_name])
#else
#  define vqp_cover(_name)           ((void)VQP_COVER_##_name)
#  define vqp_cover_if(_cond, _name) ((void)sizeof(_cond), vqp_cover(_name))
#endif

#endif
