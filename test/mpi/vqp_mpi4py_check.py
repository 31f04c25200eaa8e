#!/usr/bin/env python3
"""vqp_mpi4py_check: what mpi4py sends, pickled objects and buffers, point to point,
collective and one-sided; each result is checked. Any number of ranks.

Prints a line per case and "N passed, N failed"; exit status 1 on failure."""

import array
import random
import sys

from mpi4py import MPI

COMM = MPI.COMM_WORLD
RANK = COMM.Get_rank()
SIZE = COMM.Get_size()
NEXT = (RANK + 1) % SIZE
PREV = (RANK - 1) % SIZE


def data(rank, length):
    """The bytes that this rank sends."""
    return random.Random(1000 * rank + length).randbytes(length)


def objects():
    """Pickled objects of growing size, around a ring."""
    for length in (0, 1, 100, 10000, 1000000):
        there = {"rank": RANK, "data": data(RANK, length), "list": [RANK] * 3}
        back = COMM.sendrecv(there, dest=NEXT, source=PREV)
        assert back == {"rank": PREV, "data": data(PREV, length),
                        "list": [PREV] * 3}, length


def buffers():
    """Buffers of all protocols, many at a time."""
    lengths = [1, 64, 4096, 70000, 1 << 20]
    sink = [bytearray(length) for length in lengths]
    requests = [COMM.Irecv([sink[i], MPI.BYTE], source=PREV, tag=i)
                for i in range(len(lengths))]
    requests += [COMM.Isend([data(RANK, lengths[i]), MPI.BYTE], dest=NEXT, tag=i)
                 for i in range(len(lengths))]
    MPI.Request.Waitall(requests)
    for i, length in enumerate(lengths):
        assert bytes(sink[i]) == data(PREV, length), length


def collectives():
    """Collectives of objects and of buffers."""
    assert COMM.allreduce(RANK) == SIZE * (SIZE - 1) // 2
    assert COMM.bcast([RANK, "x"] if RANK == 0 else None) == [0, "x"]
    assert COMM.alltoall([(RANK, i) for i in range(SIZE)]) == \
        [(i, RANK) for i in range(SIZE)]
    mine = array.array("d", [RANK + i for i in range(50000)])
    total = array.array("d", [0.0] * len(mine))
    COMM.Allreduce([mine, MPI.DOUBLE], [total, MPI.DOUBLE])
    assert all(total[i] == SIZE * (SIZE - 1) / 2 + SIZE * i
               for i in range(len(total)))


def windows():
    """Puts and gets between fences, and a counter under locks."""
    length = 200000
    win = MPI.Win.Allocate(length, comm=COMM)
    memory = win.tomemory()
    win.Fence()
    win.Put([data(RANK, length), MPI.BYTE], NEXT)
    win.Fence()
    assert bytes(memory) == data(PREV, length)
    sink = bytearray(length)
    win.Get([sink, MPI.BYTE], NEXT)
    win.Fence()
    assert bytes(sink) == data(RANK, length)
    memory[0:8] = bytes(8)
    win.Fence()
    one, old = array.array("q", [1]), array.array("q", [0])
    for _ in range(20):
        win.Lock(0)
        win.Fetch_and_op([one, MPI.INT64_T], [old, MPI.INT64_T], 0)
        win.Unlock(0)
    win.Fence()
    if RANK == 0:
        assert int.from_bytes(memory[0:8], sys.byteorder) == 20 * SIZE
    win.Free()


def main():
    """Runs all cases on all ranks. Returns how many failed."""
    passed = failed = 0
    for case in (objects, buffers, collectives, windows):
        error = 0
        try:
            case()
        except AssertionError as wrong:
            print(f"rank {RANK}: {case.__name__}: wrong data {wrong}",
                  file=sys.stderr)
            error = 1
        error = COMM.allreduce(error)
        passed += error == 0
        failed += error > 0
        if RANK == 0:
            print("FAIL" if error else "ok  ", case.__name__, flush=True)
    if RANK == 0:
        print(f"{passed} passed, {failed} failed", flush=True)
    return failed


sys.exit(main() > 0)
