#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Waiting and watching through the binary: background_wait, /bg wait, /bg watch, /bg output -f."""

import json
import os
import re
import socket
import unittest

from errand_driver import Sandbox, poll
from model_server import ModelServer, reply, text, tool

UNTIL_GO = "until [ -e go ]; do sleep 0.02; done; "


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def server_command(port):
    return (UNTIL_GO + 'exec python3 -c \'import socket, time; s = socket.create_server(("127.0.0.1", %d)); '
            'print("up", flush=True); time.sleep(1000)\'' % port)


class Tool(unittest.TestCase):
    """The tool, as the model calls it."""

    def setUp(self):
        self.box = Sandbox(self)
        self.server = ModelServer()
        self.server.__enter__()
        self.addCleanup(lambda: self.server.__exit__(None, None, None))
        self.run_ = self.box.pipe("--model", "anthropic:test-model", "--permission-mode", "bypass", env=self.server.env())
        self.turn = 0

    def tearDown(self):
        self.assertEqual(self.server.violations, [])

    def begin(self, name, **arguments):
        """Lets the model call a tool; answer() gives the result."""
        self.turn += 1
        self.requests = len(self.server.requests)
        self.server.push(reply(tool(name, arguments, id=f"call-{self.turn}"), when=f"turn {self.turn} "))
        self.server.push(reply(text(f"seen {self.turn}."), when=".*"))
        self.run_.line(f"turn {self.turn} now")

    def answer(self):
        self.run_.expect(f"seen {self.turn}\\.")
        return self.server.requests[self.requests + 1].tool_results()[f"call-{self.turn}"]

    def call(self, name, **arguments):
        self.begin(name, **arguments)
        return self.answer()

    def start(self, command):
        value, _ = self.call("background_bash", command=command)
        self.assertIn("background_wait", value)
        return re.match(r"Background task started: (bg-\d+)\n", value).group(1)

    def test_a_pattern_that_was_printed_before_the_call_is_found(self):
        task = self.start("echo ready on 3000; touch printed; printf 'name? '; sleep 1000")
        poll(lambda: os.path.exists(os.path.join(self.box.project, "printed")))
        value, error = self.call("background_wait", task_ids=[task], until="pattern", pattern="ready on \\d+")
        self.assertRegex(value, r"\Abg-1: matched: ready on 3000\n\nTask bg-1 is RUNNING\.\n"
                                r"Running for \d+ s, last output \d+ s ago\.\Z")
        self.assertFalse(error)
        value, _ = self.call("background_wait", task_ids=[task], until="pattern", pattern="^name\\? $")
        self.assertTrue(value.startswith("bg-1: matched: name? \n"), value)

    def test_a_pattern_that_comes_in_a_flood_is_found(self):
        task = self.start(UNTIL_GO + "seq 1 300000; echo NEEDLE 7; seq 1 300000; sleep 1000")
        self.begin("background_wait", task_ids=[task], until="pattern", pattern="^NEEDLE \\d$", timeout_ms=60000)
        self.run_.expect(r"^\[Tool\] background_wait")
        self.box.write("go", "")
        self.assertTrue(self.answer()[0].startswith("bg-1: matched: NEEDLE 7\n"))

    def test_a_port_of_the_task_and_one_that_a_stranger_holds(self):
        port = free_port()
        task = self.start(server_command(port))
        self.begin("background_wait", task_ids=[task], until="port", port=port, timeout_ms=60000)
        self.run_.expect(r"^\[Tool\] background_wait")
        self.box.write("go", "")
        value, error = self.answer()
        self.assertTrue(value.startswith(f"bg-1: port {port} open, by one of its processes\n"), value)
        self.assertFalse(error)
        with socket.create_server(("127.0.0.1", 0)) as stranger:
            held = stranger.getsockname()[1]
            value, error = self.call("background_wait", task_ids=[task], until="port", port=held, timeout_ms=600000)
            self.assertTrue(value.startswith(f"bg-1: port {held} is already held by a process that is not the task's; "
                                             "still running\n"), value)
            self.assertFalse(error)
        self.assertEqual(self.call("background_stop", task_id=task)[0], "Task bg-1 stopped: 1 process ended.")
        with socket.create_server(("127.0.0.1", port)):  # after a stop its ports can be bound
            pass

    def test_quiet_and_time_over(self):
        task = self.start("echo one; sleep 1000")
        value, _ = self.call("background_wait", task_ids=[task], until="quiet", quiet_ms=300)
        self.assertTrue(value.startswith("bg-1: quiet for 0.3 s\n"), value)
        value, error = self.call("background_wait", task_ids=[task], timeout_ms=50)
        self.assertRegex(value, r"\Abg-1: timed out, still running\n\nTask bg-1 is RUNNING\.\n")
        self.assertFalse(error)

    def test_an_end_that_it_has_shown_is_not_told_again(self):
        task = self.start(UNTIL_GO + "echo bad; exit 7")
        self.begin("background_wait", task_ids=[task], timeout_ms=60000)
        self.run_.expect(r"^\[Tool\] background_wait")
        self.box.write("go", "")
        self.assertEqual(self.answer(), ("bg-1: failed (exit code 7)\n\nTask bg-1 is FAILED.\nExit code: 7\n\nOutput:\nbad", True))
        self.assertEqual(self.run_.end(), 0)
        for request in self.server.requests:
            self.assertNotIn("<task-notification>", json.dumps(request.messages))

    def test_arguments_that_are_wrong(self):
        self.assertEqual(self.call("background_wait", task_ids=["bg-9"]), ("task not found: bg-9 (known: none)", True))
        task = self.start("sleep 1000")
        self.assertEqual(self.call("background_wait", task_ids=[task], until="pattern", pattern="a("),
                         ("invalid pattern: missing ): a(", True))
        self.assertEqual(self.call("background_wait", task_ids=[task], until="port"),
                         ("missing required argument: port (integer) with until=port", True))


class Pipe(unittest.TestCase):
    """/bg on a pipe: each line waits for the one before it."""

    def setUp(self):
        self.box = Sandbox(self)
        self.run_ = self.box.pipe()

    def test_wait(self):
        self.run_.line("/bg wait")
        self.run_.expect(r"^No background task is running; nothing to wait for\.$")
        self.run_.line("/bg run " + UNTIL_GO + "exit 3")
        self.run_.line("/bg run sleep 1000")
        self.run_.line("/bg wait 50ms")
        self.run_.expect(r"^bg-1: timed out, still running\nbg-2: timed out, still running$")
        self.run_.line("/bg wait bg-1")
        self.run_.line("!echo the line behind it")
        self.assertFalse("behind" in self.run_.text)
        self.box.write("go", "")
        self.run_.expect_all(r"^bg-1: failed \(exit code 3\)$", r"^🔔 bg-1 - failed \(exit code 3\)$",
                             r"^the line behind it$")
        self.assertLess(self.run_.text.index("bg-1: failed"), self.run_.text.index("the line behind it"))
        self.run_.line("/bg wait bg-9 1s")
        self.run_.expect(r"^bg-9: no such task \(known: bg-1, bg-2\)$")
        self.run_.line("/bg stop bg-2")
        self.assertEqual(self.run_.end(), 0)

    def test_watch(self):
        self.run_.line("/bg run echo error: one; " + UNTIL_GO + "echo fine; echo error: two; exit 1")
        self.run_.line("/bg watch bg-1 error: .*")
        self.run_.expect(r"^error: one$")
        self.box.write("go", "")
        self.run_.expect(r"^error: two$")
        self.run_.expect(r"^=== bg-1 \(FAILED\) ===$")
        self.assertNotIn("fine", self.run_.text)
        self.run_.line("/bg watch bg-1 (")
        self.run_.expect(r"^invalid pattern: missing \): \($")
        self.assertEqual(self.run_.end(), 0)

    def test_output_f(self):
        self.run_.line("/bg run seq 1 30; " + UNTIL_GO + "echo new; printf rest")
        self.run_.line("/bg output bg-1 2 -f")
        self.run_.expect(r"^=== bg-1 \(RUNNING\) ===$")
        self.run_.expect(r"^30$")
        self.box.write("go", "")
        self.run_.expect(r"^new$")
        self.run_.expect(r"^rest\n(🔔 bg-1 - completed \(exit code 0\)\n)?=== bg-1 \(COMPLETED\) ===$")
        self.assertEqual(self.run_.end(), 0)

    def test_a_flood_is_followed_without_filling_memory(self):
        self.run_.line("/bg run " + UNTIL_GO + "seq 1 2000000; echo the end")
        self.run_.line("/bg output bg-1 -f")
        self.run_.expect(r"^=== bg-1 \(RUNNING\) ===$")
        self.box.write("go", "")
        self.run_.expect(r"^the end$")
        with open(f"/proc/{self.run_.pid}/status", encoding="utf-8") as file:
            peak = int(re.search(r"VmHWM:\s+(\d+) kB", file.read()).group(1))
        self.assertLess(peak, 400_000)
        self.assertEqual(self.run_.end(), 0)

    def test_what_never_comes_is_ended_with_the_program(self):
        self.run_.line("/bg run sleep 1000")
        self.run_.line("/bg watch bg-1 never")
        self.run_.expect(r"^Background task started: bg-1$")
        self.run_.signal(15)
        self.assertEqual(self.run_.end(), 128 + 15)


class Screen(unittest.TestCase):
    """/bg in a terminal: keys and notices go on; Ctrl+C ends what waits."""

    def setUp(self):
        self.box = Sandbox(self)
        self.run_ = self.box.tmux("--permission-mode", "bypass")
        self.run_.expect(r"^>$")

    def test_output_f_leaves_the_line_alone_and_ctrl_c_ends_it(self):
        run = self.run_
        run.line("/bg run echo one; " + UNTIL_GO + "echo two; sleep 1000")
        run.expect(r"^Background task started: bg-1$")
        run.line("/bg output bg-1 -f")
        run.expect(r"^=== bg-1 \(RUNNING\) ===\n(one\n)?")
        run.type("half a li")
        run.expect(r"^> half a li$")
        self.box.write("go", "")
        run.expect(r"^two\n> half a li$")
        run.keys("C-a")
        run.keys("C-k")
        run.line("!echo meanwhile; exit 3 &")
        run.expect(r"^🔔 bg-2 - failed \(exit code 3\)$")
        run.line("/bg")
        run.expect(r"^  bg-1  \[RUNNING\]  echo one")
        run.type("kept")
        run.expect(r"^> kept$")
        run.keys("C-c")
        run.expect(r"^\(no longer following bg-1\)\n> kept$")
        self.assertNotIn("again to quit", run.screen())
        run.keys("C-c")  # and then it is what it was: the line, then the way out
        run.expect(r"^>$")

    def test_watch_prints_what_matches_and_ctrl_c_ends_it(self):
        run = self.run_
        run.line("/bg run echo tick 1; echo other; " + UNTIL_GO + "echo tick 2; sleep 1000")
        run.line("/bg watch bg-1 tick")
        run.expect(r"^tick 1$")
        self.box.write("go", "")
        run.expect(r"^tick 2$")
        run.keys("C-c")
        run.expect(r"^\(no longer watching bg-1\)\n>$")
        self.assertNotRegex(run.screen(), r"(?m)^other$")
        run.line("/bg")
        run.expect(r"\[RUNNING\]")

    def test_wait_ends_with_its_task_or_with_ctrl_c(self):
        run = self.run_
        run.line("/bg run " + UNTIL_GO + "exit 4")
        run.line("/bg wait bg-1 1h")
        run.line("/bg wait")
        run.keys("C-c")
        run.expect(r"^bg-1: the wait was ended, still running\nbg-1: the wait was ended, still running\n>$")
        run.line("/bg wait bg-1")
        self.box.write("go", "")
        run.expect(r"^bg-1: failed \(exit code 4\)$")

    def test_ctrl_c_ends_the_models_wait_and_not_the_task(self):
        with open(self.box.path("script.json"), "w", encoding="utf-8") as file:
            json.dump({"turns": [
                {"when": "go", "tools": [{"name": "background_bash", "input": {"command": "sleep 1000"}},
                                         {"name": "background_wait", "input": {"task_ids": ["bg-1"], "timeout_ms": 600000}}]},
                {"when": "and", "text": "It is there."}]}, file)
        run = self.box.tmux("--permission-mode", "bypass", "--model", "scripted:" + self.box.path("script.json"))
        run.expect(r"^>$")
        run.line("go")
        run.expect(r"^\[Tool\] background_wait")
        run.keys("C-c")
        run.line("and")
        run.expect(r"^\[Agent\] It is there\.$")
        run.line("/bg")
        run.expect(r"^  bg-1  \[RUNNING\]  sleep 1000$")


if __name__ == "__main__":
    unittest.main()
