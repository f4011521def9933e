# SPDX-License-Identifier: Apache-2.0
"""An ended task's output that is only in its file, and another file stands there: it is not taken for the task's."""

import glob
import os
import unittest

from errand_driver import Sandbox


class ReplacedOutput(unittest.TestCase):
    def test_another_file_in_its_place_is_not_shown(self):
        box = Sandbox(self)
        run = box.pipe(env={"ERRAND_MAX_OUTPUT_CHARS": str(4 * 1024 * 1024)})
        for number in (1, 2, 3):  # all ended ones together may keep 4 MiB in memory
            run.line("/bg run seq 1000000 1500000")
            run.expect(rf"bg-{number} - completed \(exit code 0\)")
        run.line("/bg output bg-1 2")
        run.expect(r"^1499999\n1500000$")
        path, = glob.glob(os.path.join(box.state, "errand/projects/*/*/tasks/bg-1.output"))
        size = os.path.getsize(path)
        os.rename(path, path + ".away")
        with open(path, "w", encoding="ascii") as file:
            file.write("stranger\n" * (size // 9 + 1))
        run.line("/bg output bg-1 2")
        run.expect(r"^\(gone: its file can no longer be read\)$")
        os.replace(path + ".away", path)
        run.line("/bg output bg-1 2")
        run.expect(r"^1499999\n1500000$")
        self.assertEqual(run.end(), 0)
        self.assertNotIn("stranger", run.text)


if __name__ == "__main__":
    unittest.main()
