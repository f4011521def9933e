#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The REPL as a user has it, in a pseudo-terminal: start to prompt, memory there, and keys and /bg during floods.

    repl_bench.py ERRAND FOLDER

Idle and flooded take turns; medians are compared. Prints rows of the table of bench/run.
"""
import os
import pty
import re
import select
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import termios
import time

import fcntl

ESCAPES = re.compile(rb"\x1b\[[0-9;?<>=]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_=>]")
PROMPT = re.compile(rb"(^|[\r\n])\s*(>|\xe2\x9d\xaf|\xe2\x80\xba) ?$")
PROMPT_ANYWHERE = re.compile(rb"(^|[\r\n])\s*(>|\xe2\x9d\xaf|\xe2\x80\xba) ?")
DEADLINE = 30.0


class Repl:
    """One errand in a terminal of its own. `text` is what it printed since the last `forget`, escapes removed."""

    def __init__(self, program, folder):
        self.text = b""
        self.raw = b""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        env = {k: v for k, v in os.environ.items() if not k.startswith(("ERRAND_", "ANTHROPIC_", "OPENAI_"))}
        env.update(XDG_STATE_HOME=folder + "/state", XDG_CONFIG_HOME=folder + "/config", TERM="xterm-256color",
                   LANG="C.UTF-8")
        self.begin = time.monotonic()
        self.child = subprocess.Popen([program], stdin=slave, stdout=slave, stderr=slave, env=env,
                                      cwd=folder + "/project", start_new_session=True,
                                      preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.master = master

    def read_some(self, timeout):
        if not select.select([self.master], [], [], timeout)[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            data = b""
        if not data:
            raise SystemExit(f"bench: errand ended: {self.text[-500:]!r}")
        if b"\x1b[c" in data:  # who asks what terminal this is gets the usual answer
            os.write(self.master, b"\x1b[?62;22c")
        if b"\x1b[6n" in data:
            os.write(self.master, b"\x1b[1;1R")
        self.raw += data
        self.text = ESCAPES.sub(b"", self.raw)
        return True

    def until(self, pattern):
        """Seconds from the call until the text holds the pattern."""
        begin = time.monotonic()
        while not re.search(pattern, self.text):
            self.read_some(1.0)
            if time.monotonic() - begin > DEADLINE:
                raise SystemExit(f"bench: {pattern!r} did not come; the screen had {self.text[-500:]!r}")
        return time.monotonic() - begin

    def settle(self):
        """Until nothing has come for a while."""
        while self.read_some(0.15):
            pass

    def type(self, keys):
        self.raw = self.text = b""
        os.write(self.master, keys)

    def end(self):
        if self.child.poll() is None:
            os.close(self.master)  # the terminal is closed: errand ends, and every task with it
            try:
                self.child.wait(20)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()


def tree(pid):
    """The process, and those of its descendants that are keepers: what counts as the host."""
    pids, todo = [pid], [pid]
    while todo:
        parent = todo.pop()
        for thread in os.listdir(f"/proc/{parent}/task"):
            with open(f"/proc/{parent}/task/{thread}/children", encoding="ascii") as f:
                for child in f.read().split():
                    try:
                        if "keeper" not in os.readlink(f"/proc/{child}/exe"):
                            continue
                    except OSError:
                        continue
                    pids.append(int(child))
                    todo.append(int(child))
    return pids


def memory_mb(pid, field):
    kib = 0
    for one in tree(pid):
        with open(f"/proc/{one}/smaps_rollup", encoding="ascii") as f:
            kib += sum(int(line.split()[1]) for line in f if line.startswith(field + ":"))
    return kib / 1024


def row(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def ms(seconds):
    return f"{seconds * 1000:.1f} ms"


def start_and_memory(program, folder):
    times, pss, rss = [], [], []
    for _ in range(21):
        repl = Repl(program, folder)
        repl.until(PROMPT_ANYWHERE)
        times.append(time.monotonic() - repl.begin)
        repl.settle()
        pss.append(memory_mb(repl.child.pid, "Pss"))
        rss.append(memory_mb(repl.child.pid, "Rss"))
        repl.end()
    start = statistics.median(times[1:])
    peer = "Claude Code is not on this machine"
    if shutil.which("claude"):
        peer = "Claude Code: not driven by this bench"
    row("REPL: start to prompt, p50 of 20", peer, ms(start), "-", "<= 50 ms", "yes" if start <= 0.05 else "no")
    p, r = statistics.median(pss), statistics.median(rss)
    row("REPL: memory at the prompt, PSS (RSS)", peer, f"{p:.1f} MB ({r:.1f} MB)", "-", "<= 25 MB", "yes" if p <= 25 else "no")


def bg_and_keys(program, folder):
    quiet_bg, quiet_key, loud_bg, loud_key = [], [], [], []

    def measure(repl, bg, key, count):
        for _ in range(count):
            repl.settle()
            repl.type(b"/bg")
            key.append(repl.until(rb"/bg"))
            repl.type(b"\r")
            bg.append(repl.until(rb"Background tasks \(3\):[^$]*bg-3"))

    for _ in range(3):
        for bg, key, command in ((quiet_bg, quiet_key, b"sleep 1000"), (loud_bg, loud_key, b"yes")):
            repl = Repl(program, folder)
            repl.until(PROMPT_ANYWHERE)
            repl.settle()
            for number in (b"1", b"2", b"3"):
                repl.type(b"/bg run " + command + b"\r")
                repl.until(b"bg-" + number)
            time.sleep(0.5)  # the floods reach their pace
            measure(repl, bg, key, 10)
            repl.end()
    for what, quiet, loud in (("/bg during 3 floods, p50 of 30", quiet_bg, loud_bg),
                              ("keys during 3 floods, p50 of 30", quiet_key, loud_key)):
        more = statistics.median(loud) - statistics.median(quiet)
        row(what, "idle " + ms(statistics.median(quiet)), ms(statistics.median(loud)), "+ " + ms(more), "+ <= 50 ms",
            "yes" if more <= 0.05 else "no")


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    program, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.makedirs(folder + "/project", exist_ok=True)
    start_and_memory(program, folder)
    bg_and_keys(program, folder)


main()
