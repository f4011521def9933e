# SPDX-License-Identifier: Apache-2.0
"""Faults of docs/pains.md that only show themselves through the whole program in a terminal."""

import unittest

from errand_driver import Sandbox


class Pains(unittest.TestCase):
    def setUp(self):
        self.box = Sandbox(self)

    def test_an_interactive_shell_or_a_reader_of_the_terminal_takes_nothing_from_the_prompt(self):
        run = self.box.tmux("--permission-mode", "bypass")
        run.expect(r"^>$")
        run.line("!sh -i -c 'echo in $((40+2))' 2>/dev/null")
        run.expect(r"^in 42$")
        run.line("!(cat </dev/tty) 2>/dev/null || echo no terminal; cat /dev/stdin; echo end")
        run.expect(r"^no terminal\nend$")
        run.line("/bg run sh -i -c 'echo background'")
        run.expect(r"bg-1 - ")
        run.type("still typing")
        run.expect(r"^> still typing$")

    def test_a_task_that_kills_its_parent_and_all_of_its_group_leaves_the_session_alive(self):
        run = self.box.pipe()
        run.line("/bg run kill -9 $PPID; kill -9 0; sleep 1000")
        run.expect(r"bg-1 - failed \(")
        run.line("!echo alive")
        run.expect(r"^alive$")
        self.assertEqual(run.end(), 0)


if __name__ == "__main__":
    unittest.main()
