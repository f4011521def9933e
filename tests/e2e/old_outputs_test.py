# SPDX-License-Identifier: Apache-2.0
"""Old output files go at the next start, never those of a session that lives; and a state folder or a disk that cannot
take any output."""

import glob
import os
import shutil
import subprocess
import sys
import time
import unittest

from errand_driver import Sandbox, poll

DAY = 24 * 3600


def age(path, days):
    then = time.time() - days * DAY
    os.utime(path, (then, then))


class OldOutputs(unittest.TestCase):
    def setUp(self):
        self.box = Sandbox(self)

    def outputs(self):
        return sorted(glob.glob(os.path.join(self.box.state, "errand/projects/*/*/tasks/*.output")))

    def finished_session(self):
        before = set(self.outputs())
        run = self.box.pipe()
        run.line("!echo hello &")
        poll(lambda: set(self.outputs()) - before)
        self.assertEqual(run.end(), 0)
        return (set(self.outputs()) - before).pop()

    def test_old_files_go_at_a_start_and_those_of_a_live_session_stay(self):
        old, young = self.finished_session(), self.finished_session()
        live = self.box.pipe()
        live.line("!echo mine &")
        mine = (poll(lambda: set(self.outputs()) - {old, young})).pop()
        age(old, 8)
        age(young, 6)
        age(mine, 100)
        second = self.box.pipe()
        poll(lambda: not os.path.exists(old), message="the old file is removed")
        second.line("/tasks")
        self.assertEqual(second.end(), 0)
        self.assertEqual(self.outputs(), sorted([young, mine]))
        self.assertTrue(os.path.exists(os.path.dirname(os.path.dirname(old)) + ".jsonl"), "the conversation stays")
        self.assertEqual(live.end(), 0)

    def test_the_key_says_how_old(self):
        old = self.finished_session()
        age(old, 2)
        self.assertEqual(self.box.pipe(env={"ERRAND_OUTPUT_KEEP_DAYS": "3"}).end(), 0)
        self.assertEqual(self.outputs(), [old])
        run = self.box.pipe(env={"ERRAND_OUTPUT_KEEP_DAYS": "1"})
        poll(lambda: not self.outputs())
        self.assertEqual(run.end(), 0)

    def test_zero_days_is_at_the_sessions_end(self):
        run = self.box.pipe(env={"ERRAND_OUTPUT_KEEP_DAYS": "0"})
        run.line("!echo hello &")
        poll(self.outputs)
        run.line("!seq 30000")
        self.assertEqual(run.end(), 0)
        self.assertEqual(self.outputs(), [])

    def test_folders_and_files_are_private(self):
        path = self.finished_session()
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertEqual(os.stat(os.path.dirname(path)).st_mode & 0o777, 0o700)


class AfterAKill(unittest.TestCase):
    def test_the_file_of_a_killed_session_ends_with_the_head(self):
        box = Sandbox(self)
        run = box.pipe(env={"ERRAND_MAX_OUTPUT_FILE_BYTES": "131072"})
        run.line("/bg run seq 100000 199999; sleep 1000")
        head = 131072 - 65536 - 128
        path = poll(lambda: glob.glob(os.path.join(box.state, "errand/projects/*/*/tasks/bg-1.output")))[0]
        poll(lambda: os.path.getsize(path) >= head)
        run.kill()
        box.wait_gone()
        with open(path, "rb") as file:
            self.assertEqual(file.read(), b"".join(b"%d\n" % i for i in range(100000, 200000))[:head])


class NoPlaceForOutput(unittest.TestCase):
    def setUp(self):
        self.box = Sandbox(self)

    def works_in_memory(self, why):
        run = self.box.pipe()
        run.line("!echo in memory; seq 3")
        run.expect(r"^3$")
        run.line("/bg run echo task; exit 3")
        run.expect(r"bg-1.*exit code 3")
        run.line("/bg output bg-1")
        run.expect(r"^task$")
        run.line("/bg show bg-1")
        run.expect(r"file error: +" + why)
        self.assertEqual(run.end(), 0)
        return run

    def test_a_state_folder_that_is_a_file(self):
        shutil.rmtree(self.box.state, ignore_errors=True)
        with open(self.box.state, "w"):
            pass
        self.works_in_memory("mkdir: Not a directory")

    def test_a_full_disk_at_the_start(self):
        os.makedirs(self.box.state, exist_ok=True)
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", self.box.state], capture_output=True, text=True)
        if mount.returncode != 0:
            self.skipTest("cannot mount a small tmpfs here: " + mount.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", "-l", self.box.state])
        file = os.open(os.path.join(self.box.state, "full"), os.O_WRONLY | os.O_CREAT)
        try:
            while True:
                os.write(file, b"x" * 4096)
        except OSError:
            os.close(file)
        self.works_in_memory("(mkdir|open|write): No space left on device|free space below")


if __name__ == "__main__":
    unittest.main()
