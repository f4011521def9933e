#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every road out of the REPL leaves the terminal as it was and no process behind."""

import fcntl
import os
import signal
import struct
import subprocess
import termios
import unittest

from errand_driver import Sandbox, Terminal, poll, sanitized

# As nasty as tasks get: other sessions, ignored signals, double forks.
TREE = ('setsid sleep 1000 & nohup sleep 1000 >/dev/null & (trap "" TERM HUP; sleep 1000) & '
        '(setsid bash -c "setsid sleep 1000 & exit" &); sleep 1000')


class ExitTest(unittest.TestCase):
    def setUp(self):
        self.box = Sandbox(self)

    def sleeps(self):
        return [command for command in self.box.processes().values() if command == "sleep 1000"]

    def start_tree(self, run):
        run.line("/bg run " + TREE)
        run.expect(r"started: bg-1")
        poll(lambda: len(self.sleeps()) == 5, message=lambda: str(self.box.processes()))

    def test_signals_on_a_pipe(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)):
            with self.subTest(number):
                run = self.box.pipe()
                self.start_tree(run)
                run.signal(number)
                self.assertEqual(run.process.wait(60), code)
                self.box.wait_gone()

    def test_signals_in_a_terminal(self):
        for number, code in ((signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)):
            with self.subTest(number):
                run = self.box.terminal()
                run.expect(r"^> ")
                self.start_tree(run)
                run.signal(number)
                self.assertEqual(run.wait(), code)
                self.box.wait_gone()

    def test_a_closed_terminal(self):
        run = self.box.terminal()
        run.expect(r"^> ")
        self.start_tree(run)
        run.hang_up()
        self.assertEqual(run.wait(), 129)
        self.box.wait_gone()

    def test_a_signal_in_the_middle_of_a_users_command(self):
        run = self.box.pipe()
        run.line("!echo begun; " + TREE)
        run.expect("^begun$")
        run.signal(signal.SIGTERM)
        self.assertEqual(run.process.wait(60), 143)
        self.box.wait_gone()

    def test_the_terminals_modes_come_back(self):
        for leave in (lambda run: run.line("/quit"), lambda run: run.type("\x04"),
                      lambda run: run.signal(signal.SIGTERM), lambda run: run.signal(signal.SIGHUP),
                      *([] if sanitized() else [lambda run: run.signal(signal.SIGSEGV)])):
            run = self.box.terminal()
            run.expect(r"^> ")
            # The other side is held open, so that the modes can be read when errand has gone.
            number, = struct.unpack("i", fcntl.ioctl(run.fd, 0x80045430, bytes(4)))  # TIOCGPTN
            other = os.open(f"/dev/pts/{number}", os.O_RDWR | os.O_NOCTTY)
            cooked = termios.ICANON | termios.ECHO | termios.ISIG
            self.assertEqual(termios.tcgetattr(other)[3] & cooked, 0)
            leave(run)
            run.wait()
            self.assertEqual(termios.tcgetattr(other)[3] & cooked, cooked)
            os.close(other)

    def test_the_user_s_own_processes_are_left_alone(self):
        outside = subprocess.Popen(["sleep", "1000"])
        try:
            run = self.box.pipe()
            self.start_tree(run)
            run.line("/bg stop bg-1")
            run.expect(r"^bg-1 stopped: \d+ processes ended\.$")
            self.assertEqual(self.sleeps(), [])
            self.assertIsNone(outside.poll())
            self.assertEqual(run.end(), 0)
        finally:
            outside.kill()
            outside.wait()

    def test_suspend_and_continue(self):
        run = Terminal(["/bin/bash", "--norc", "-i"], self.box.environment(PS1="shell$ "), self.box.project, 100, 30)
        self.addCleanup(run.kill)
        run.expect(r"shell\$ ")
        run.line(self.box.errand)
        run.expect(r"^> ")
        run.line("!sleep 1000 &")
        run.expect(r"started: bg-1")
        run.type("half")
        run.expect(r"half")
        run.type("\x1a")
        run.expect(r"Stopped(.|\n)*shell\$ ")
        poll(lambda: self.sleeps() == ["sleep 1000"])
        run.line("fg")
        run.expect(r"> half")
        run.type("\x15")
        run.line("/bg stop bg-1")
        run.expect(r"bg-1 stopped: 1 process ended\.")
        run.line("/quit")
        run.expect(r"shell\$ ")
        run.line("exit")
        run.wait()


if __name__ == "__main__":
    unittest.main()
