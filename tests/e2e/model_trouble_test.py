# SPDX-License-Identifier: Apache-2.0
"""A model that answers garbage, drops the stream, calls what does not exist: clear errors, and the session goes on."""

import threading
import unittest

from errand_driver import Sandbox, poll
from model_server import (ModelServer, drop, error, garbage, half_tool, reply, text, tool, wait)


class Trouble(unittest.TestCase):
    def setUp(self):
        self.box = Sandbox(self)
        self.server = ModelServer()
        self.server.__enter__()
        self.addCleanup(lambda: self.server.__exit__(None, None, None))

    def start(self, **more):
        return self.box.pipe("--model", "anthropic:test-model", "--permission-mode", "bypass",
                             env={**self.server.env(), **more})

    def goes_on(self, run):
        self.server.push(reply(text("Here I am."), when="are you there"))
        run.line("are you there?")
        run.expect(r"Here I am\.")
        self.assertEqual(run.end(), 0)
        self.assertEqual(self.server.violations, [])

    def test_garbage(self):
        self.server.push(garbage(b"<html>this is no model</html>", "text/html"))
        run = self.start()
        run.line("hello")
        run.expect(r"anthropic: ")
        self.goes_on(run)

    def test_a_refused_key(self):
        self.server.push(error(401, "invalid x-api-key", "authentication_error"))
        run = self.start()
        run.line("hello")
        run.expect(r"invalid x-api-key")
        self.goes_on(run)
        self.assertNotIn("sk-ant-test", run.text + run.stderr())

    def test_a_stream_that_drops_is_tried_again_and_a_half_call_never_runs(self):
        self.server.push(reply(text("I will"), half_tool("bash", '{"command": "touch ran'), drop()))
        self.server.push(reply(text("It is done.")))
        run = self.start()
        run.line("hello")
        run.expect(r"It is done\.")
        run.line("!test -e ran && echo it ran || echo it did not run")
        run.expect("^it did not run$")
        self.goes_on(run)

    def test_an_overloaded_server_is_tried_again(self):
        self.server.push(error(529, "overloaded", "overloaded_error", retry_after=0))
        self.server.push(reply(text("Now it works.")))
        run = self.start()
        run.line("hello")
        run.expect(r"Now it works\.")
        self.goes_on(run)

    def test_an_unknown_tool_and_broken_json(self):
        self.server.push(reply(tool("teleport", {"to": "Mars"}, id="call-1"), tool("bash", raw='{"command": "touch ran', id="call-2")))
        self.server.push(reply(text("I see.")))
        run = self.start()
        run.line("hello")
        run.expect(r"I see\.")
        results = self.server.requests[1].tool_results()
        self.assertTrue(results["call-1"][1])
        self.assertIn("teleport", results["call-1"][0])
        self.assertTrue(results["call-2"][1])
        self.assertIn("JSON", results["call-2"][0])
        run.line("!test -e ran && echo it ran || echo it did not run")
        run.expect("^it did not run$")
        self.goes_on(run)

    def test_nobody_listens(self):
        run = self.box.pipe("--model", "anthropic:test-model",
                            env={"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_API_KEY": "sk-ant-secret"})
        run.line("!echo the session is there")
        run.expect("^the session is there$")
        run.line("hello")
        run.expect(r"anthropic: ")
        run.kill()
        self.assertNotIn("sk-ant-secret", run.text)


class ControlC(unittest.TestCase):
    """Ctrl+C in every phase leaves a legal history (the server refuses any other) and no process."""

    def setUp(self):
        self.box = Sandbox(self)
        self.server = ModelServer()
        self.server.__enter__()
        self.addCleanup(lambda: self.server.__exit__(None, None, None))

    def start(self):
        run = self.box.terminal("--model", "anthropic:test-model", "--permission-mode", "bypass", env=self.server.env())
        run.expect(">")
        return run

    def goes_on(self, run):
        self.server.push(reply(text("Here I am."), when="are you there"))
        run.line("are you there?")
        run.expect(r"Here I am\.")
        run.line("/quit")
        self.assertEqual(run.wait(), 0)
        self.assertEqual(self.server.violations, [])

    def test_while_connecting(self):
        held = self.server.push(reply(text("late"), hold=threading.Event()))
        run = self.start()
        run.line("hello")
        held.wait_started()
        run.type("\x03")
        run.expect("(?i)abort|interrupt")
        self.goes_on(run)

    def test_while_streaming(self):
        never = threading.Event()
        self.server.push(reply(text("The beginning of a long answer"), wait(never)))
        run = self.start()
        run.line("hello")
        run.expect("The beginning of a long answer")
        run.type("\x03")
        run.expect("(?i)abort|interrupt")
        self.goes_on(run)

    def test_while_a_tool_call_streams(self):
        never = threading.Event()
        self.server.push(reply(text("I call"), half_tool("bash", '{"command": "touch ran'), wait(never)))
        run = self.start()
        run.line("hello")
        run.expect("I call")
        run.type("\x03")
        run.expect("(?i)abort|interrupt")
        self.goes_on(run)

    def test_in_a_tool(self):
        self.server.push(reply(tool("bash", {"command": "setsid sleep 1000 & sleep 1001"}), tool("bash", {"command": "touch ran"})))
        run = self.start()
        run.line("hello")
        poll(lambda: len([c for c in self.box.processes().values() if c.startswith("sleep")]) == 2)
        run.type("\x03")
        run.expect("(?i)abort|interrupt")
        poll(lambda: not [c for c in self.box.processes().values() if c.startswith("sleep")])
        self.goes_on(run)
        results = {}
        for message in self.server.requests[-1].messages:
            if isinstance(message["content"], list):
                results.update({p["tool_use_id"]: p for p in message["content"] if p["type"] == "tool_result"})
        self.assertEqual(len(results), 2)

    def test_a_background_task_goes_on(self):
        never = threading.Event()
        self.server.push(reply(tool("background_bash", {"command": "sleep 1000"})))
        self.server.push(reply(text("It runs"), wait(never)))
        run = self.start()
        run.line("hello")
        run.expect("It runs")
        run.type("\x03")
        run.expect("(?i)abort|interrupt")
        run.line("/bg")
        run.expect(r"bg-1  \[RUNNING\]  sleep 1000")
        run.line("/bg stop all")
        run.expect(r"bg-1 stopped: 1 process ended\.")
        self.goes_on(run)


class NoModel(unittest.TestCase):
    def test_without_a_model_everything_that_needs_none_works(self):
        box = Sandbox(self)
        run = box.pipe()
        run.line("hello?")
        run.expect(r"(?i)model")
        run.line("!echo hi")
        run.expect("^hi$")
        run.line("!sleep 1000 &")
        run.line("/bg")
        run.expect(r"^  bg-1  \[RUNNING\]  sleep 1000$")
        run.line("/bg stop all")
        run.expect(r"^bg-1 stopped: 1 process ended\.$")
        run.line("/help")
        run.expect("/bg")
        self.assertEqual(run.end(), 0)


if __name__ == "__main__":
    unittest.main()
