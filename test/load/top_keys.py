"""The keys of vqp-top, on a terminal of their own: top_keys.py VQP-TOP DIRECTORY.

DIRECTORY has the files of two processes with a connection of four paths each. Each step
waits for what it expects on the screen: a slow machine only makes it take longer.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

LIMIT = 120


def run_job(states, command):
    """As a shell does: the command has a process group of its own, and the terminal.
    Its pid and what becomes of it are lines of the pipe; the terminal is taken back."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execv(command[0], command)
    os.write(states, b"%d\n" % pid)
    while True:
        status = os.waitpid(pid, os.WUNTRACED)[1]
        os.tcsetpgrp(0, os.getpgrp())
        if not os.WIFSTOPPED(status):
            os.write(states, b"ended %d\n" % status)
            os._exit(0)
        os.write(states, b"stopped by %d\n" % os.WSTOPSIG(status))


class Terminal:
    def __init__(self, rows, columns, *command, job=False):
        self.states, states = os.pipe()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(0, termios.TIOCSWINSZ, size)
            if job:
                run_job(states, command)
            os.execv(command[0], command)
        os.close(states)
        self.end = time.monotonic() + LIMIT
        self.text = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def key(self, text):
        os.write(self.fd, text.encode())

    def read(self):
        """More output; False at its end."""
        left = self.end - time.monotonic()
        assert left > 0, "time is over; the screen has: " + repr(self.text[-2000:])
        if select.select([self.fd], [], [], left)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return False
            self.text += data.decode()
            return bool(data)
        return True

    def screen(self, wanted):
        """Wait for a complete screen that is as wanted(lines) says."""
        while True:
            screens = self.text.split("\033[H\033[2J")
            for screen in reversed(screens[1:-1]):
                lines = screen.replace("\r", "").split("\n")
                if wanted(lines):
                    self.text = "\033[H\033[2J".join(["", screens[-1]])
                    return lines
            assert self.read(), "the program has ended"

    def state(self):
        """The next line of run_job()."""
        line = b""
        while not line.endswith(b"\n"):
            left = self.end - time.monotonic()
            assert left > 0 and select.select([self.states], [], [], left)[0], line
            line += os.read(self.states, 1)
        return line.decode().strip()

    def shown(self):
        """Wait for the first table, which a long delay lets stay."""
        while "UP" not in self.text:
            assert self.read()

    def is_raw(self):
        return not termios.tcgetattr(self.fd)[3] & (termios.ICANON | termios.ECHO)

    def status(self):
        while self.read():
            pass
        return os.waitpid(self.pid, 0)[1]


def pids(lines):
    return [int(m[1]) for m in (re.match(r" *(\d+) .*\bLIVE\b", line) for line in lines) if m]


def main(program, directory):
    top = Terminal(40, 200, program, "-d", "0.05", directory)
    lines = top.screen(lambda lines: len(pids(lines)) == 2)
    assert top.is_raw(), "the terminal still waits for lines"

    # sorting: by rate the client is first
    first_pids = pids(lines)
    wanted = {"p": sorted(first_pids), "r": first_pids}
    for key in "prpr":
        top.key(key)
        top.screen(lambda lines: pids(lines) == wanted[key])

    top.key("h")
    top.screen(lambda lines: lines[1].startswith("q quit"))
    top.key("?")
    top.screen(lambda lines: lines[1] == "")

    # moving: the names of the columns stay
    first = lines[4]
    top.key("\033[B")
    moved = top.screen(lambda lines: re.match(" +0 UP", lines[4]))
    assert moved[3].split()[0] == "PATH", moved
    top.key("\033[6~")
    top.screen(lambda lines: re.match(" +3 UP", lines[4]) and lines[5] == "")
    top.key("\033[5~")
    top.screen(lambda lines: len(pids(lines)) == 2 and lines[4].split()[1] == first.split()[1])

    # the size of the window
    top.resize(7, 50)
    small = top.screen(lambda lines: lines[-1] == "...")
    assert len(small) == 7 and max(map(len, small)) == 50, small

    top.key("q")
    assert top.status() == 0, "q: not an end with status 0"

    # a long time between refreshes: a key refreshes at once, and makes it shorter
    top = Terminal(40, 200, program, "-d", "1000", directory)
    top.shown()
    for key in " bd":
        top.key(key)
        top.screen(lambda lines: True)
    for _ in range(15):
        top.key("+")
        top.screen(lambda lines: True)
    for _ in range(5):
        top.screen(lambda lines: True)
    top.key("q")
    assert top.status() == 0

    # a signal ends it, and the terminal is as before
    for number in (signal.SIGTERM, signal.SIGINT):
        top = Terminal(40, 200, program, "-d", "1000", directory)
        top.shown()
        assert top.is_raw()
        os.kill(top.pid, number)
        assert os.WTERMSIG(os.waitpid(top.pid, 0)[1]) == number
        assert not top.is_raw(), "a signal leaves the terminal as it was set"

    # stopped, the terminal is the shell's; in the foreground it is the table's again
    top = Terminal(40, 200, program, "-d", "1000", directory, job=True)
    pid = int(top.state())
    top.shown()
    assert top.is_raw()
    os.kill(pid, signal.SIGTSTP)
    assert top.state() == "stopped by %d" % signal.SIGTSTP
    assert not top.is_raw(), "stopped, it keeps the terminal as it was set"
    # in the background it leaves the terminal alone, and a signal still ends it
    os.kill(pid, signal.SIGCONT)
    os.kill(pid, signal.SIGTERM)
    assert top.state() == "ended %d" % signal.SIGTERM
    assert not top.is_raw()
    top.status()

    # a job that is continued in the foreground
    top = Terminal(40, 200, program, "-d", "1000", directory)
    top.shown()
    os.kill(top.pid, signal.SIGTSTP)  # nobody could continue it: it is not stopped
    top.key(" ")
    top.screen(lambda lines: True)
    assert top.is_raw()
    os.kill(top.pid, signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(top.pid, os.WUNTRACED)[1])
    settings = termios.tcgetattr(top.fd)
    settings[3] |= termios.ICANON | termios.ECHO
    termios.tcsetattr(top.fd, termios.TCSANOW, settings)
    os.kill(top.pid, signal.SIGCONT)
    while not top.is_raw():
        assert time.monotonic() < top.end
        time.sleep(0.01)
    top.key("q")
    assert top.status() == 0

    # without a table there are no keys
    top = Terminal(40, 200, program, "--json", "-n", "2", "-d", "0.3", directory)
    top.read()
    assert not top.is_raw(), "--json sets the terminal"
    assert top.status() == 0


main(*sys.argv[1:])
