# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/, run as their heads say."""

import os
import re
import signal
import subprocess
import unittest

from errand_driver import ERRAND, Sandbox, sanitized

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(ERRAND)), "examples")


class Examples(unittest.TestCase):
    def setUp(self):
        self.box = Sandbox(self)  # looks for left processes at the end

    def run_example(self, name, *arguments):
        return subprocess.run([os.path.join(EXAMPLES, name), *arguments], cwd=self.box.project, env=self.box.environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)

    def test_start_and_wait(self):
        done = self.run_example("start_and_wait", "seq 9", "exit 3", "sleep 0.1; echo done; sleep 100 &", " ")
        self.assertEqual(done.stderr, "start_and_wait:  : command must not be blank\n")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"^bg-1: seq 9: completed \(exit code 0\)\n5\n6\n7\n8\n9\n"
                                      r"bg-2: exit 3: failed \(exit code 3\)\n"
                                      r"bg-3: .*: completed \(exit code 0\); 1 process still running: \d+ sleep 100\n"
                                      r"done\n$")
        self.assertEqual(self.run_example("start_and_wait", "true", "true").returncode, 0)

    def test_supervisor_streams_and_starts_what_failed_once_more(self):
        gate = self.box.path("gate")
        run = subprocess.Popen([os.path.join(EXAMPLES, "supervisor"),
                                f"echo one; until [ -e {gate} ]; do sleep 0.02; done; echo two; printf unfinished",
                                "echo again; exit 4", "echo waits; sleep 1000 & sleep 1000"],
                               cwd=self.box.project, env=self.box.environment(), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, text=True)
        self.addCleanup(run.kill)
        lines = []

        def until(count):
            while len(lines) < count:
                line = run.stdout.readline()
                self.assertTrue(line, lines)
                lines.append(line.rstrip("\n"))

        until(6)
        self.assertEqual(sorted(lines), ["bg-1| one", "bg-2 failed (exit code 4)", "bg-2| again", "bg-3| waits",
                                         "bg-4 failed (exit code 4)", "bg-4| again"])
        with open(gate, "w", encoding="utf-8"):
            pass
        until(9)
        self.assertEqual(lines[6:], ["bg-1| two", "bg-1| unfinished", "bg-1 completed (exit code 0)"])
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.communicate(timeout=60)[0], "")
        self.assertEqual(run.returncode, 0)

    def test_service_survives_its_tasks_floods(self):
        done = self.run_example("service", "2", self.box.path("files"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        tasks = re.findall(r"^bg-\d: cancelled by user, printed (\d+) bytes, (\d+) of them kept$", done.stdout, re.M)
        self.assertEqual(len(tasks), 3, done.stdout)
        for printed, kept in tasks:
            self.assertGreater(int(printed), 1024 * 1024)
            self.assertLessEqual(int(kept), 16384)
        beats, memory = map(int, re.search(r"^(\d+) beats, (\d+) KiB more memory$", done.stdout, re.M).groups())
        self.assertGreater(beats, 1)
        if not sanitized():
            self.assertLess(memory, 64 * 1024)
        sizes = [os.path.getsize(self.box.path("files", name)) for name in os.listdir(self.box.path("files"))]
        self.assertEqual(len(sizes), 3)
        self.assertLessEqual(max(sizes), 1024 * 1024)


if __name__ == "__main__":
    unittest.main()
