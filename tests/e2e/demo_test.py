#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`errand demo`: the mission's conversation on real processes, on a pipe and in a terminal, leaving nothing."""

import os
import signal
import unittest

from errand_driver import Sandbox

TRANSCRIPT = [
    r"Only the model is a script",
    r"^> Run all the tests",
    r"^\[Agent\] I run the tests in the background",
    r'^\[Tool\] background_bash\(command="sh run-tests\.sh"\)\nBackground task started: bg-1$',
    r'^\[Tool\] bash\(command="grep -rn TODO src"\)\n(src/.*TODO.*\n)+',
    r"^> /bg$\nBackground tasks \(1\):\n  bg-1  \[\w+\]  sh run-tests\.sh",
    r"^> /bg output bg-1$\n=== bg-1 \(\w+\) ===\ncompiling\n",
    r"^🔔 bg-1 - completed \(exit code 0\)$",
    r"6 suites passed$",
    r"^\[Agent\] All tests passed \(exit code 0\)\.$",
    r"^> Start the dev server",
    r'^\[Tool\] background_bash\(command="sh dev\.sh", description="dev server"\)\nBackground task started: bg-2$',
    r"hello from the dev server$",
    r"dev server on http://127\.0\.0\.1:\d+/$\n^GET / HTTP/1\.0$",
    r"^> /bg output bg-2$\n=== bg-2 \(RUNNING\) ===$",
    r"^> Good, stop it\.$",
    r"Task bg-2 stopped: 1 process ended\.$",
    r"^  bg-1  \[COMPLETED\]  sh run-tests\.sh  exit=0\n  bg-2  \[CANCELLED\]  sh dev\.sh$",
]


class DemoTest(unittest.TestCase):
    def setUp(self):
        self.box = Sandbox(self)

    def left(self):
        return os.listdir(self.box.path("tmp")) + os.listdir(self.box.state)

    def test_on_a_pipe(self):
        run = self.box.pipe("demo")
        for pattern in TRANSCRIPT:
            run.expect(pattern)
        run.expect(r"^> /quit$")
        self.assertEqual(run.end(), 0)
        self.assertEqual(run.stderr(), "")
        self.assertEqual(self.left(), [])
        self.box.wait_gone()

    def test_in_a_terminal(self):
        run = self.box.tmux("demo", columns=120, rows=100)
        self.assertEqual(run.wait(120), 0)
        for pattern in TRANSCRIPT:
            run.expect(pattern, history=True)
        run.kill()
        self.assertEqual(self.left(), [])
        self.box.wait_gone()

    def test_interrupted_it_leaves_nothing(self):
        for end, code in ((lambda run: run.type("\x03"), 130), (lambda run: run.signal(signal.SIGTERM), 143),
                          (lambda run: run.hang_up(), 129)):
            run = self.box.terminal("demo")
            run.expect(r"Background task started: bg-1")
            end(run)
            self.assertEqual(run.wait(), code)
            self.assertEqual(self.left(), [])
            self.box.wait_gone()

    def test_without_a_compiler_it_says_what_to_install(self):
        run = self.box.pipe("demo", env={"PATH": self.box.path("bin")})
        self.assertEqual(run.end(), 1)
        self.assertRegex(run.stderr(), r"^errand: demo: no C compiler \(cc, gcc or clang\) in PATH")


if __name__ == "__main__":
    unittest.main()
