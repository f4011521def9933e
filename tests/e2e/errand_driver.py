# SPDX-License-Identifier: Apache-2.0
"""Drives the real binary for end-to-end tests: on pipes, in a pseudo-terminal, in tmux.

    from errand_driver import Sandbox, poll

    class Test(unittest.TestCase):
        def setUp(self):
            self.box = Sandbox(self)                # removed, and looked at for left processes, at the test's end

        def test_something(self):
            run = self.box.pipe()                   # errand on pipes
            run.line("!echo hi")
            run.expect(r"^hi$")
            self.assertEqual(run.end(), 0)          # closes its input and waits

A sandbox has its own home, state, config and project folder, and copies of the binaries, so that everything it started
is found again: by the marker in its environment, or as a program of the sandbox. Nothing here sleeps to synchronise:
`poll` and `expect` try again until a deadline of ten times what is usual.
"""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import uuid

DEADLINE = 60.0
ERRAND = os.environ.get("ERRAND") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/errand")
_ESCAPES = re.compile(r"\x1b\[[0-9;?<>=]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_=>]|[\x00-\x08\x0e-\x1f]")


def poll(what, deadline=DEADLINE, message="condition"):
    """Calls `what` until it answers with something true, which is returned."""
    end = time.monotonic() + deadline
    while True:
        answer = what()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"timed out waiting for: {message() if callable(message) else message}")
        time.sleep(0.01)


def sanitized():
    """A build with AddressSanitizer or ThreadSanitizer: its memory and its crashes are not the product's."""
    with open(ERRAND, "rb") as file:
        program = file.read()
    return b"__asan_init" in program or b"__tsan_init" in program


def process(pid):
    """(parent, state, command) of a live process, else None. Zombies are answered with state Z."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            rest = file.read().rsplit(b")", 1)[1].split()
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
        return int(rest[1]), rest[0].decode(), command
    except (OSError, IndexError):
        return None


def alive(pid):
    found = process(pid)
    return found is not None and found[1] not in "ZX"


class Sandbox:
    def __init__(self, test=None, keep_environment=()):
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix="errand-e2e-"))
        self.marker = uuid.uuid4().hex
        self.project = self.path("project")
        self.state = self.path("state")
        self.config = self.path("config")
        self.bin = self.path("bin")
        for folder in (self.project, self.state, self.config, self.bin, self.path("home"), self.path("tmp")):
            os.makedirs(folder, mode=0o700)
        for name in ("errand", "errand-keeper"):
            shutil.copy2(os.path.join(os.path.dirname(ERRAND), name), self.bin)
        self.errand = os.path.join(self.bin, "errand")
        self.keep_environment = keep_environment
        self.runs = []
        self.test = test
        if test is not None:
            test.addCleanup(self.close)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.project, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def environment(self, **more):
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": self.path("home"), "LANG": "C.UTF-8",
               "TERM": "xterm-256color", "TMPDIR": self.path("tmp"), "XDG_STATE_HOME": self.state,
               "XDG_CONFIG_HOME": self.config, "ERRAND_MIN_FREE_BYTES": "0",  # a full machine fails other tests
               "ERRAND_TEST_MARK": self.marker}
        for name in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", *self.keep_environment):
            if name in os.environ:
                env[name] = os.environ[name]
        env.update({k: v for k, v in more.items() if v is not None})
        return env

    # --- runs ---

    def pipe(self, *args, env=None, cwd=None, program=None):
        run = Piped([program or self.errand, *args], self.environment(**(env or {})), cwd or self.project)
        self.runs.append(run)
        return run

    def terminal(self, *args, env=None, cwd=None, columns=100, rows=30):
        run = Terminal([self.errand, *args], self.environment(**(env or {})), cwd or self.project, columns, rows)
        self.runs.append(run)
        return run

    def tmux(self, *args, env=None, cwd=None, columns=100, rows=30):
        run = Tmux(self, [self.errand, *args], self.environment(**(env or {})), cwd or self.project, columns, rows)
        self.runs.append(run)
        return run

    # --- what is there ---

    def processes(self, but=()):
        """Every live process of this sandbox: {pid: command}. What the test runs by itself is named in `but`."""
        found = {}
        mark = f"ERRAND_TEST_MARK={self.marker}".encode()
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) in but:
                continue
            pid = int(name)
            ours = False
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    ours = mark in file.read().split(b"\0")
            except OSError:
                pass
            try:
                ours = ours or os.readlink(f"/proc/{pid}/exe").startswith(self.bin + "/")
            except OSError:
                pass
            if ours:
                what = process(pid)
                if what is not None and what[1] not in "ZX":
                    found[pid] = what[2]
        return found

    def wait_gone(self, but=(), deadline=DEADLINE):
        poll(lambda: not self.processes(but), deadline, lambda: f"no process left, but: {self.processes(but)}")

    def session_files(self):
        found = []
        for folder, _, names in os.walk(self.state):
            found += [os.path.join(folder, name) for name in names if name.endswith(".jsonl")]
        return sorted(found)

    def close(self):
        for run in self.runs:
            run.kill()
        try:
            self.wait_gone()
        finally:
            for pid in self.processes():
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            shutil.rmtree(self.folder, ignore_errors=True)


class _Reader:
    """What a run printed, and waiting in it. `text` is all; `seen` is how far `expect` has come."""

    def __init__(self):
        self.text = ""
        self.seen = 0
        self._bytes = b""

    def _descriptor(self):
        raise NotImplementedError

    def read_some(self, timeout=0.05):
        fd = self._descriptor()
        if fd is None:
            return False
        if not select.select([fd], [], [], timeout)[0]:
            return True
        try:
            data = os.read(fd, 65536)
        except OSError:  # a terminal whose other side is closed
            data = b""
        if not data:
            return False
        self._bytes += data
        self.text = self.clean(self._bytes.decode("utf-8", errors="replace"))
        return True

    @staticmethod
    def clean(text):
        return text

    def expect(self, pattern, deadline=DEADLINE):
        """Waits for the pattern in what comes after the last match; answers with the match."""
        expression = re.compile(pattern, re.M)
        end = time.monotonic() + deadline
        while True:
            match = expression.search(self.text, self.seen)
            if match:
                self.seen = match.end()
                return match
            if not self.read_some():
                match = expression.search(self.text, self.seen)
                if match:
                    self.seen = match.end()
                    return match
                raise AssertionError(f"it ended; {pattern!r} is not in:\n{self.text[self.seen:][-3000:]}")
            if time.monotonic() > end:
                raise AssertionError(f"timed out; {pattern!r} is not in:\n{self.text[self.seen:][-3000:]}")

    def expect_all(self, *patterns, deadline=DEADLINE):
        """Waits for all of them, in any order, in what comes after the last match."""
        begin = self.seen
        ends = []
        for pattern in patterns:
            self.seen = begin
            ends.append(self.expect(pattern, deadline).end())
        self.seen = max(ends)

    def read_all(self, deadline=DEADLINE):
        end = time.monotonic() + deadline
        while self.read_some():
            if time.monotonic() > end:
                raise AssertionError(f"timed out reading; so far:\n{self.text[-3000:]}")
        return self.text


class Piped(_Reader):
    def __init__(self, argv, env, cwd):
        super().__init__()
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, env=env,
                                        cwd=cwd, start_new_session=True)
        self.pid = self.process.pid

    def _descriptor(self):
        return self.process.stdout.fileno()

    def line(self, text):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def close_input(self):
        if not self.process.stdin.closed:
            self.process.stdin.close()

    def end(self, deadline=DEADLINE):
        """End of input; all output; the exit code (negative: the signal)."""
        self.close_input()
        self.read_all(deadline)
        return self.process.wait(deadline)

    def signal(self, number):
        os.kill(self.pid, number)

    def stderr(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.close_input()
        self.process.stdout.close()
        self.errors.close()


class Terminal(_Reader):
    """A pseudo-terminal whose output is read as a stream, escapes removed. For screens use Tmux."""

    def __init__(self, argv, env, cwd, columns, rows):
        super().__init__()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(cwd)
                os.execve(argv[0], argv, env)
            finally:
                os._exit(127)
        self.status = None
        self.resize(columns, rows)

    def resize(self, columns, rows):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @staticmethod
    def clean(text):
        return _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")

    def _descriptor(self):
        return self.fd

    def type(self, text):
        os.write(self.fd, text.encode())

    def line(self, text):
        self.type(text + "\r")

    def signal(self, number):
        os.kill(self.pid, number)

    def hang_up(self):
        """Closes the terminal, as a closed window does."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def wait(self, deadline=DEADLINE):
        """The exit code (negative: the signal); reads what comes meanwhile."""
        end = time.monotonic() + deadline
        while self.status is None:
            if self.fd is not None:
                self.read_some(0.01)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                raise AssertionError(f"it does not end; so far:\n{self.text[-3000:]}")
            elif self.fd is None:
                time.sleep(0.01)
        return self.status

    def kill(self):
        if self.status is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except OSError:
                pass
            self.wait()
        self.hang_up()


class Tmux:
    """A tmux server of its own: keys in, the screen out, as a person sees it."""

    def __init__(self, box, argv, env, cwd, columns, rows):
        self.socket = box.path("tmux.socket")
        # The server is the test's, so it does not carry the marker; what runs in it does.
        self.env = {k: v for k, v in os.environ.items() if k not in ("TMUX", "ERRAND_TEST_MARK")}
        config = box.path("tmux.conf")
        with open(config, "w", encoding="utf-8") as file:
            file.write("set -g remain-on-exit on\nset -g status off\nset -g escape-time 0\nset -g history-limit 5000\n")
        # tmux does not always learn how its pane ended; a shell round it does. A Ctrl+C typed just after errand has given
        # the terminal back must not end the shell before it has written that down.
        self._status = box.path(f"tmux-{uuid.uuid4().hex}.status")
        command = ["env", "-i", *[f"{k}={v}" for k, v in env.items() if k != "TERM"], "TERM=tmux-256color",
                   "sh", "-c", 'trap : INT; "$@"; echo $? >"$0.new"; mv "$0.new" "$0"', self._status, *argv]
        self._call("-f", config, "new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", cwd, *command)
        self.pid = int(self._call("display-message", "-p", "#{pane_pid}"))

    def _call(self, *args, check=True):
        done = subprocess.run(["tmux", "-S", self.socket, "-u", *args], env=self.env, capture_output=True, text=True)
        if check and done.returncode:
            raise AssertionError(f"tmux {args}: {done.stderr}")
        return done.stdout

    def keys(self, *names):
        """Key names of tmux: "C-c", "Enter", "Up"."""
        self._call("send-keys", *names)

    def type(self, text):
        self._call("send-keys", "-l", text)

    def line(self, text):
        self.type(text)
        self.keys("Enter")

    def screen(self, history=False):
        return self._call("capture-pane", "-p", *(["-S", "-5000"] if history else []))

    def expect(self, pattern, deadline=DEADLINE, history=False):
        expression = re.compile(pattern, re.M)
        return poll(lambda: expression.search(self.screen(history)), deadline,
                    lambda: f"{pattern!r} on the screen:\n{self.screen(history)}")

    def resize(self, columns, rows):
        self._call("resize-window", "-x", str(columns), "-y", str(rows))

    def status(self):
        """The exit code, 128 + the signal's number; None while it runs."""
        try:
            with open(self._status, encoding="ascii") as file:
                return int(file.read())
        except OSError:
            return None

    def wait(self, deadline=DEADLINE):
        poll(lambda: self.status() is not None, deadline, lambda: f"its end; the screen:\n{self.screen()}")
        return self.status()

    def kill(self):
        self._call("kill-server", check=False)


if __name__ == "__main__":
    sys.exit("this is a module")
