# SPDX-License-Identifier: Apache-2.0
"""Texts that people and models read, byte for byte, through the binary."""

import os
import re
import unittest

from errand_driver import Sandbox, poll
from model_server import ModelServer, reply, text, tool


class Commands(unittest.TestCase):
    """hosts.md, 1: what /bg answers."""

    USAGE = ("usage: /bg [list | show <id> | output <id> [lines] [-f] | stop <id>|all | notifications | run <command> | "
             "wait [<id>...] [time] | watch <id> <regex>]")

    def setUp(self):
        self.box = Sandbox(self)
        self.run_ = self.box.pipe()

    def ask(self, line):
        """What one line answers, whole: a marker behind it shows where it ends."""
        self.run_.line(line)
        self.run_.line("!echo the-end-of-it")
        found = self.run_.expect(r"(?s)(.*?)^the-end-of-it$")
        return found.group(1).strip("\n")

    def settle(self):
        self.run_.line("!echo settled")
        self.run_.expect("^settled$")

    def test_nothing_yet(self):
        self.settle()
        self.assertEqual(self.ask("/bg"), "No background tasks.")
        self.assertEqual(self.ask("/bg list"), "No background tasks.")
        self.assertEqual(self.ask("/bg notifications"), "No pending notifications.")
        self.assertEqual(self.ask("/bg show bg-9"), "bg-9: no such task (known: none)")
        self.assertEqual(self.ask("/bg nonsense"), self.USAGE)
        self.assertEqual(self.ask("/bg stop"), self.USAGE)
        self.assertEqual(self.ask("/bg show"), self.USAGE)
        self.assertEqual(self.run_.end(), 0)

    def test_lists_and_stops_with_one_process(self):
        self.settle()
        self.run_.line("/bg run sleep 1000")
        self.settle()
        self.assertEqual(self.ask("/bg"), "Background tasks (1):\n  bg-1  [RUNNING]  sleep 1000")
        self.assertEqual(self.ask("/bg output bg-1"), "=== bg-1 (RUNNING) ===\n(none yet)")
        self.assertEqual(self.ask("/bg output bg-9"), "bg-9: no such task (known: bg-1)")
        self.run_.line("/bg stop bg-1")
        self.run_.expect_all(r"^bg-1 stopped: 1 process ended\.$", r"^🔔 bg-1 - cancelled by user$")
        self.settle()
        self.assertEqual(self.ask("/bg stop bg-1"), "bg-1 has already finished (CANCELLED); nothing to stop.")
        self.assertEqual(self.ask("/bg"), "Background tasks (1):\n  bg-1  [CANCELLED]  sleep 1000")
        self.assertEqual(self.run_.end(), 0)

    def test_lists_and_stops_with_two_processes(self):
        self.settle()
        self.run_.line("/bg run sleep 1000; true")
        poll(lambda: [c for c in self.box.processes().values() if c == "sleep 1000"])
        self.run_.line("/bg stop bg-1")
        self.run_.expect(r"^bg-1 stopped: 2 processes ended\.$")
        self.assertEqual(self.run_.end(), 0)

    def test_ends_and_survivors(self):
        self.settle()
        self.run_.line("/bg run exit 2")
        self.run_.expect(r"^🔔 bg-1 - failed \(exit code 2\)$")
        self.run_.line("/bg run kill -9 $$")
        self.run_.expect(r"^🔔 bg-2 - failed \(signal 9 \(SIGKILL\)\)$")
        self.run_.line("/bg run sleep 1000 & sleep 1001 & exit 0")
        self.run_.expect(r"^🔔 bg-3 - completed \(exit code 0\); 2 processes still running: \d+ sleep 100[01], \d+ sleep 100[01]$")
        self.run_.line("/bg run true # " + "x" * 60)
        self.run_.expect(r"^🔔 bg-4 - completed \(exit code 0\)$")
        self.settle()
        self.assertEqual(self.ask("/bg"),
                         "Background tasks (4):\n"
                         "  bg-1  [FAILED]  exit 2  exit=2\n"
                         "  bg-2  [FAILED]  kill -9 $$  signal=9\n"
                         "  bg-3  [COMPLETED]  sleep 1000 & sleep 1001 & exit 0  exit=0  (2 still running)\n"
                         "  bg-4  [COMPLETED]  true # " + "x" * 43 + "...  exit=0")
        self.assertEqual(self.ask("/bg stop bg-3"), "bg-3 had already finished (COMPLETED); 2 remaining processes ended.")
        self.assertEqual(self.ask("/bg stop bg-3"), "bg-3 has already finished (COMPLETED); nothing to stop.")
        self.assertEqual(self.run_.end(), 0)

    def test_a_missing_shell_command_and_a_blank_one(self):
        self.settle()
        self.assertEqual(self.ask("/bg run    "), self.USAGE)
        self.assertEqual(self.ask("!  &"), "usage: !cmd | !cmd &")
        self.assertEqual(self.ask("!  "), "usage: !cmd | !cmd &")
        self.run_.line("/bg run no-such-command-xyz")
        self.run_.expect(r"^🔔 bg-1 - failed \(exit code 127\)$")
        self.assertEqual(self.run_.end(), 0)

    def test_notices_without_utf8_and_with_no_color(self):
        for env in ({"NO_COLOR": "1"}, {"LANG": "C", "LC_ALL": "C"}):
            run = self.box.pipe(env=env)
            run.line("/bg run true")
            run.expect(r"^\* bg-1 - completed \(exit code 0\)$")
            self.assertEqual(run.end(), 0)
        self.assertEqual(self.run_.end(), 0)


class Tools(unittest.TestCase):
    """agent.md, 3: what the tools answer to the model."""

    def setUp(self):
        self.box = Sandbox(self)
        self.server = ModelServer()
        self.server.__enter__()
        self.addCleanup(lambda: self.server.__exit__(None, None, None))
        self.run_ = self.box.pipe("--model", "anthropic:test-model", "--permission-mode", "bypass", env=self.server.env())
        self.turn = 0

    def call(self, name, **arguments):
        """The result of one tool call: (text, is_error)."""
        self.turn += 1
        before = len(self.server.requests)
        self.server.push(reply(tool(name, arguments, id=f"call-{self.turn}"), when=f"turn {self.turn} "))
        self.server.push(reply(text(f"seen {self.turn}."), when=".*"))
        self.run_.line(f"turn {self.turn} now")
        self.run_.expect(f"seen {self.turn}\\.")
        return self.server.requests[before + 1].tool_results()[f"call-{self.turn}"]

    def tearDown(self):
        self.assertEqual(self.server.violations, [])

    def started(self, command, **more):
        value, error = self.call("background_bash", command=command, **more)
        self.assertFalse(error, value)
        return re.match(r"Background task started: (bg-\d+)\n", value).group(1)

    def test_a_task_that_ends_within_the_window(self):
        self.assertEqual(self.call("background_bash", command="echo hi"),
                         ("Background task bg-1 has ended.\nTask bg-1 is COMPLETED.\nExit code: 0\n\nOutput:\nhi", False))
        self.assertEqual(self.call("background_bash", command="echo bad; exit 7"),
                         ("Background task bg-2 has ended.\nTask bg-2 is FAILED.\nExit code: 7\n\nOutput:\nbad", True))

    def test_output_of_every_state(self):
        self.assertEqual(self.call("background_output", task_id="bg-9"), ("task not found: bg-9 (known: none)", True))
        self.call("background_bash", command="kill -9 $$")
        self.call("background_bash", command="true", cwd="/no/such/folder")
        self.assertEqual(self.call("background_output", task_id="bg-1"),
                         ("Task bg-1 is FAILED.\nSignal: 9 (SIGKILL)\n\nOutput:\n(none yet)", True))
        self.assertEqual(self.call("background_output", task_id="bg-2"),
                         ('Task bg-2 is FAILED.\nError: could not start: chdir "/no/such/folder": No such file or directory\n\n'
                          "Output:\n(none yet)", True))
        self.assertEqual(self.call("background_output", task_id="bg-9"), ("task not found: bg-9 (known: bg-1, bg-2)", True))
        self.started("echo one; echo two; echo three; sleep 1000")
        value, error = self.call("background_output", task_id="bg-3", tail_lines=2)
        self.assertRegex(value, r"\ATask bg-3 is RUNNING\.\nRunning for \d+ s, last output \d+ s ago\.\n\nOutput:\ntwo\nthree\Z")
        self.assertFalse(error)
        value, _ = self.call("background_bash", command="seq 100000")
        self.assertTrue(value.startswith("Background task bg-4 has ended.\nTask bg-4 is COMPLETED.\nExit code: 0\n"
                                         "(output was truncated; showing tail)\n\nOutput:\n"), value[:300])
        self.assertTrue(value.endswith("\n99999\n100000"))

    def test_survivors(self):
        value, error = self.call("background_bash", command="sleep 1000 & echo hi")
        self.assertRegex(value, r"\ABackground task bg-1 has ended\.\nTask bg-1 is COMPLETED\.\nExit code: 0\n"
                                r"Still running: \d+ sleep 1000\n\nOutput:\nhi\Z")
        self.assertFalse(error)
        self.assertEqual(self.call("background_stop", task_id="bg-1"),
                         ("Task bg-1 had already finished (COMPLETED); 1 remaining process ended.", False))
        self.assertEqual(self.call("background_stop", task_id="bg-1"),
                         ("Task bg-1 has already finished (COMPLETED); nothing to stop.", False))

    def test_stop_with_one_and_two_processes(self):
        one = self.started("sleep 1000")
        two = self.started("sleep 1001; true")
        self.assertEqual(self.call("background_stop", task_id=one), (f"Task {one} stopped: 1 process ended.", False))
        self.assertEqual(self.call("background_stop", task_id=two), (f"Task {two} stopped: 2 processes ended.", False))
        self.assertEqual(self.call("background_stop", task_id=two),
                         (f"Task {two} has already finished (CANCELLED); nothing to stop.", False))
        self.assertEqual(self.call("background_stop", task_id="bg-77"),
                         ("task not found: bg-77 (known: bg-1, bg-2)", True))

    def test_refusals(self):
        self.assertEqual(self.call("background_bash", command="   "), ("command must not be blank", True))
        for _ in range(5):
            self.started("sleep 1000")
        self.assertEqual(self.call("background_bash", command="sleep 1"),
                         ("max concurrent background tasks (5) reached; wait for existing tasks to finish or stop them", True))

    def test_arguments_missing_wrong_and_unknown(self):
        for name, arguments in (("background_bash", {}), ("background_output", {}), ("background_stop", {}), ("bash", {}),
                                ("read", {}), ("grep", {}), ("background_bash", {"command": 7}),
                                ("background_output", {"task_id": "bg-1", "tail_lines": "many"}),
                                ("background_list", {"surprise": 1}), ("no_such_tool", {"x": 1})):
            value, error = self.call(name, **arguments)
            self.assertTrue(error, (name, arguments, value))
            wanted = {"background_output": "task_id", "background_stop": "task_id", "read": "path", "grep": "pattern"}
            if not arguments:
                self.assertIn(wanted.get(name, "command"), value)

    def test_bash(self):
        self.assertEqual(self.call("bash", command="printf 'a\\nb\\n'")[0].splitlines()[-2:], ["a", "b"])
        value, error = self.call("bash", command="echo oops >&2; exit 3")
        self.assertTrue(error)
        self.assertIn("oops", value)
        self.assertIn("3", value)
        value, error = self.call("bash", command="sleep 1000", timeout_ms=300)
        self.assertTrue(error)
        self.assertIn("timed out", value)
        self.assertEqual([c for c in self.box.processes().values() if c.startswith("sleep")], [])
        os.mkdir(os.path.join(self.box.project, "sub"))
        value, _ = self.call("bash", command="cd sub")
        self.assertIn(os.path.join(self.box.project, "sub"), value)
        value, _ = self.call("bash", command="pwd")
        self.assertIn(os.path.join(self.box.project, "sub"), value)
        value, error = self.call("bash", command="sleep 1000 & echo started")
        self.assertFalse(error)
        self.assertIn("started", value)
        self.assertIn("bg-1", value)
        self.assertEqual(self.call("background_stop", task_id="bg-1"),
                         ("Task bg-1 had already finished (COMPLETED); 1 remaining process ended.", False))


if __name__ == "__main__":
    unittest.main()
