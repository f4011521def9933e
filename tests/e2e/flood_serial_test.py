# SPDX-License-Identifier: Apache-2.0
"""Three floods: memory flat, files within their caps, /bg answers, another task's end is seen."""

import os
import time
import unittest

from errand_driver import Sandbox, sanitized

SECONDS = 10
CAP = 4 * 1024 * 1024


def rss_kb(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


class Flood(unittest.TestCase):
    def test_three_floods(self):
        box = Sandbox(self)
        run = box.pipe(env={"ERRAND_MAX_OUTPUT_FILE_BYTES": str(CAP)})
        run.line("!echo ready")
        run.expect("^ready$")
        before = rss_kb(run.pid)
        for _ in range(3):
            run.line("/bg run yes")
        for number in (1, 2, 3):
            run.expect(f"bg-{number}")
        end = time.monotonic() + SECONDS
        ended = 3
        most = 0
        while time.monotonic() < end:
            run.line("/bg")
            run.expect(r"^Background tasks \((\d+)\):$")
            run.line("/bg run echo hi")
            ended += 1
            run.expect(rf"bg-{ended} - completed \(exit code 0\)")
            most = max(most, rss_kb(run.pid))
        self.assertGreater(ended, 4)
        if not sanitized():
            self.assertLess(most - before, 64 * 1024)
        run.line("/bg stop all")
        for number in (1, 2, 3):
            run.expect(rf"^bg-{number} stopped: 1 process ended\.$")
        self.assertEqual(run.end(), 0)
        sizes = [os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(box.state) for name in names
                 if name.endswith(".output")]
        self.assertEqual(len(sizes), ended)
        self.assertLessEqual(max(sizes), CAP)


if __name__ == "__main__":
    unittest.main()
