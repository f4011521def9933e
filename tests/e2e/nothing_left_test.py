# SPDX-License-Identifier: Apache-2.0
"""Every process that a task starts belongs to it, and is gone when it is stopped or the session ends, by any road."""

import os
import signal
import subprocess
import unittest

from errand_driver import Sandbox, alive, poll

ESCAPES = ('setsid sleep 1000 & nohup sleep 1000 & (trap "" TERM HUP; sleep 1000) & '
           '(setsid bash -c "setsid sleep 1000 & exit" &); sleep 1000')


class NothingLeft(unittest.TestCase):
    def setUp(self):
        self.box = Sandbox(self)
        # The user's own processes: same command, not ours, with and without our folder as theirs.
        self.strangers = [subprocess.Popen(["sleep", "1000"], cwd=self.box.project) for _ in range(2)]
        self.addCleanup(self.end_strangers)

    def end_strangers(self):
        for stranger in self.strangers:
            self.assertIsNone(stranger.poll(), "a process of the user was ended")
            stranger.kill()
            stranger.wait()

    def sleeps(self):
        return [pid for pid, command in self.box.processes().items() if command.startswith("sleep 1000")]

    def keepers(self):
        """Keepers that have children of their own: not the zygote, not a spare one."""
        found = []
        for pid in self.box.processes():
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                    name = file.read().strip()
                with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
                    children = file.read().split()
            except OSError:
                continue
            if name == "errand-keeper" and children:
                found.append(pid)
        return found

    def start(self, run, what=ESCAPES):
        run.line(f"/bg run {what}")
        run.expect("bg-1")
        poll(lambda: len(self.sleeps()) >= 5, message=lambda: f"five sleeps, but: {self.box.processes()}")

    def test_stop(self):
        run = self.box.pipe()
        self.start(run)
        run.line("/bg stop bg-1")
        run.expect(r"^bg-1 stopped: (\d+) processes ended\.$")
        self.assertEqual(self.sleeps(), [])
        self.assertEqual(run.end(), 0)

    def test_end_of_input_waits_but_quit_ends(self):
        run = self.box.pipe()
        self.start(run)
        run.line("/quit")
        self.assertEqual(run.end(), 0)
        self.assertEqual(self.sleeps(), [])
        self.box.wait_gone()  # the zygote and a spare keeper, which end when they see errand gone

    def by_signal(self, number, codes):
        run = self.box.pipe()
        self.start(run)
        run.signal(number)
        self.assertIn(run.process.wait(60), codes)
        self.box.wait_gone()

    def test_sigterm(self):
        self.by_signal(signal.SIGTERM, (143, -signal.SIGTERM))

    def test_sigint(self):
        self.by_signal(signal.SIGINT, (130,))

    def test_sighup(self):
        self.by_signal(signal.SIGHUP, (129, -signal.SIGHUP))

    def test_sigkill(self):
        self.by_signal(signal.SIGKILL, (-signal.SIGKILL,))

    def test_a_closed_terminal(self):
        run = self.box.terminal()
        run.expect(">")
        self.start(run)
        run.hang_up()
        run.wait()
        self.box.wait_gone()

    def test_sigkill_in_a_terminal(self):
        run = self.box.terminal()
        run.expect(">")
        self.start(run)
        run.signal(signal.SIGKILL)
        run.wait()
        self.box.wait_gone()

    def test_sigkill_of_the_keeper(self):
        run = self.box.pipe()
        self.start(run)
        keepers = self.keepers()
        self.assertEqual(len(keepers), 1, self.box.processes())
        os.kill(keepers[0], signal.SIGKILL)
        run.expect(r"🔔 bg-1 - failed \(keeper lost\)")
        poll(lambda: not self.sleeps(), message="no sleep left")
        run.line("!echo later launches work")
        run.expect("^later launches work$")
        self.assertEqual(run.end(), 0)

    def test_sigkill_of_the_keeper_and_of_errand(self):
        run = self.box.pipe()
        self.start(run)
        os.kill(self.keepers()[0], signal.SIGKILL)
        run.signal(signal.SIGKILL)
        self.box.wait_gone()

    def test_sigkill_of_the_zygote_then_of_errand(self):
        run = self.box.pipe()
        self.start(run)
        keeper = self.keepers()[0]
        with open(f"/proc/{keeper}/stat", encoding="utf-8") as file:
            zygote = int(file.read().rsplit(")", 1)[1].split()[1])
        with open(f"/proc/{zygote}/comm", encoding="utf-8") as file:
            self.assertEqual(file.read().strip(), "errand-zygote")
        os.kill(zygote, signal.SIGKILL)
        run.line("!echo later launches work")
        run.expect("^later launches work$")
        self.assertGreaterEqual(len(self.sleeps()), 5)
        run.signal(signal.SIGKILL)
        self.box.wait_gone()

    def zygote(self):
        with open(f"/proc/{self.keepers()[0]}/stat", encoding="utf-8") as file:
            return int(file.read().rsplit(")", 1)[1].split()[1])

    def test_a_stopped_keeper_is_woken_by_the_stop_and_counts_what_it_ends(self):
        run = self.box.pipe()
        self.start(run)
        os.kill(self.keepers()[0], signal.SIGSTOP)
        run.line("/bg stop bg-1")
        run.expect(r"^bg-1 stopped: 5 processes ended\.$")
        self.assertEqual(self.sleeps(), [])
        self.assertEqual(run.end(), 0)

    def test_a_stopped_zygote_does_not_outlive_the_session(self):
        for leave in ("/quit", signal.SIGTERM, signal.SIGKILL):
            with self.subTest(leave):
                run = self.box.pipe()
                self.start(run)
                os.kill(self.zygote(), signal.SIGSTOP)
                run.line(leave) if leave == "/quit" else run.signal(leave)
                run.process.wait(60)
                self.box.wait_gone()

    def test_an_aborted_foreground_command_leaves_nothing(self):
        run = self.box.terminal()
        run.expect(">")
        run.line("!" + ESCAPES)
        poll(lambda: len(self.sleeps()) >= 5, message=lambda: f"five sleeps, but: {self.box.processes()}")
        run.type("\x03")
        poll(lambda: not self.sleeps(), message="no sleep left")
        run.line("!echo still here")
        run.expect("^still here$")
        run.line("/quit")
        self.assertEqual(run.wait(), 0)


class Survivors(unittest.TestCase):
    def setUp(self):
        self.box = Sandbox(self)

    def test_a_command_that_leaves_a_process_ends_at_once_and_the_process_stays_its_own(self):
        run = self.box.pipe()
        run.line("/bg run sleep 100 & echo hi")
        run.expect(r"🔔 bg-1 - completed \(exit code 0\); 1 process still running: (\d+) sleep 100$")
        run.line("/bg output bg-1")
        run.expect(r"^=== bg-1 \(COMPLETED\) ===\nhi$")
        run.line("/bg")
        run.expect(r"^  bg-1  \[COMPLETED\]  sleep 100 & echo hi  exit=0  \(1 still running\)$")
        sleep = [pid for pid, command in self.box.processes().items() if command == "sleep 100"]
        self.assertEqual(len(sleep), 1)
        run.line("/bg stop bg-1")
        run.expect(r"^bg-1 had already finished \(COMPLETED\); 1 remaining process ended\.$")
        self.assertFalse(alive(sleep[0]))
        self.assertEqual(run.end(), 0)

    def test_what_a_survivor_prints_is_in_the_record(self):
        run = self.box.pipe()
        run.line("/bg run (sleep 1; echo late) & echo early")
        run.expect(r"🔔 bg-1 - completed \(exit code 0\); 2 processes still running: ")

        def shown():
            run.line("/bg output bg-1")
            run.line("!echo end")
            return run.expect(r"(?s)=== bg-1 \(COMPLETED\) ===\n(.*?)^end$").group(1)
        poll(lambda: "early\nlate\n" in shown(), message="both lines")

        def listed():
            run.line("/bg")
            return run.expect(r"^  bg-1  \[COMPLETED\]  (.*)$").group(1)
        poll(lambda: listed() == "(sleep 1; echo late) & echo early  exit=0", message=listed)
        self.assertEqual(run.end(), 0)


if __name__ == "__main__":
    unittest.main()
