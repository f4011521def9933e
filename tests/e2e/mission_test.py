# SPDX-License-Identifier: Apache-2.0
"""The conversation of the mission over the real wire format: what the model is told, when, and what is recorded."""

import json
import os
import unittest
from datetime import datetime

from errand_driver import Sandbox, poll
from model_server import ModelServer, reply, text, tool


class Mission(unittest.TestCase):
    def setUp(self):
        self.box = Sandbox(self)
        self.server = ModelServer()
        self.server.__enter__()
        self.addCleanup(lambda: self.server.__exit__(None, None, None))
        self.fifo = self.box.path("project", "go")
        os.mkfifo(self.fifo)

    def start(self, **more):
        return self.box.pipe("--model", "anthropic:test-model", "--permission-mode", "bypass",
                             env={**self.server.env(), **more})

    def release(self, what="go\n"):
        with open(self.fifo, "w", encoding="utf-8") as fifo:
            fifo.write(what)

    def records(self):
        files = self.box.session_files()
        self.assertEqual(len(files), 1, files)
        with open(files[0], encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def finish(self, run):
        self.assertEqual(run.end(), 0, run.stderr())
        self.assertEqual(self.server.violations, [])
        self.assertEqual(self.server.unscripted, 0)

    def test_the_conversation_of_the_mission(self):
        self.box.write("src/main/AgentLoop.kt", "fun loop() {\n  // TODO s11 streaming\n}\n")
        self.server.push(reply(text("I run the tests in the background and look for TODO meanwhile."),
                               tool("background_bash", {"command": "cat go; echo test output; exit 2"}),
                               tool("grep", {"pattern": "TODO", "path": "src/main"})))
        self.server.push(reply(text("bg-1 runs; one TODO found.")))
        self.server.push(reply(text("The tests failed: exit code 2."), when="<task-notification>"))
        self.server.push(reply(text("As I said: they failed."), when="did they pass"))
        run = self.start()
        run.line("run the tests, and is there a TODO in src/main?")
        run.expect(r"bg-1 runs; one TODO found\.")
        results = self.server.wait_requests(2)[1].tool_results()
        started, found = (value for value, error in results.values())
        self.assertIn("Background task started: bg-1", started)
        self.assertIn("AgentLoop.kt:2:", found)
        self.assertIn("TODO s11 streaming", found)
        run.line("/bg")
        run.expect(r"^Background tasks \(1\):\n  bg-1  \[RUNNING\]  cat go; echo test output; exit 2$")
        self.release()
        run.expect(r"🔔 bg-1 - failed \(exit code 2\)")
        run.expect(r"The tests failed: exit code 2\.")

        told = self.server.wait_requests(3)[2].messages[-1]
        self.assertEqual(told["role"], "user")
        session = self.box.session_files()[0][:-len(".jsonl")]
        part = told["content"][-1]
        self.assertEqual(part["type"], "text")
        before, duration = part["text"].split("<duration-ms>")
        self.assertEqual(before,
                         "A background agent completed a task:\n"
                         "<task-notification>\n"
                         "<task-id>bg-1</task-id>\n"
                         "<task-type>shell</task-type>\n"
                         f"<output-file>{session}/tasks/bg-1.output</output-file>\n"
                         "<status>failed</status>\n"
                         '<summary>Background command "cat go; echo test output; exit 2" failed with exit code 2</summary>\n'
                         "<exit-code>2</exit-code>\n")
        number, rest = duration.split("</duration-ms>\n")
        self.assertGreaterEqual(int(number), 0)
        self.assertEqual(rest, "<tail>\ngo\ntest output\n</tail>\n</task-notification>")

        run.line("did they pass?")
        run.expect(r"As I said: they failed\.")
        self.finish(run)
        self.assertEqual(len(self.server.requests), 4)
        with open(f"{session}/tasks/bg-1.output", "rb") as file:
            self.assertEqual(file.read(), b"go\ntest output\n")

        records = self.records()
        self.assertEqual(records[0]["type"], "session")
        kinds = [record["type"] for record in records]
        self.assertEqual(kinds.count("task_start"), 1)
        self.assertEqual(kinds.count("task_end"), 1)
        meta = [r for r in records if r["type"] == "message" and "isMeta" in json.dumps(r)]
        self.assertEqual(len(meta), 1)
        self.assertIn('"isMeta": true', json.dumps(meta[0]))
        self.assertLess(kinds.index("task_start"), kinds.index("task_end"))
        self.assertLess(kinds.index("task_end"), records.index(meta[0]))
        settled = [r for r in records if r["type"] == "notification"]
        self.assertEqual(len(settled), 1)

    def test_an_idle_prompt_is_woken_by_the_end_of_a_task(self):
        self.server.push(reply(text("ok"), tool("background_bash", {"command": "cat go"})))
        self.server.push(reply(text("Started.")))
        self.server.push(reply(text("It is done."), when="<task-notification>"))
        run = self.start()
        run.line("go")
        run.expect("Started")
        self.release()
        run.expect(r"🔔 bg-1 - completed \(exit code 0\)")
        run.expect("It is done")
        self.finish(run)

    def test_two_tasks_released_together_share_one_request_100_times_out_of_100(self):
        run = self.start(ERRAND_START_WINDOW_MS="0")
        self.server.push(reply(text("told."), when="<task-notification>", repeat=True))
        together = 0
        for number in range(300):
            before = len(self.server.requests)
            go = self.box.path("project", f"go{number}")
            os.mkfifo(go)
            wait = {"command": f"read line < go{number}"}
            self.server.push(reply(tool("background_bash", wait), tool("background_bash", wait)))
            self.server.push(reply(text(f"started {number}.")))
            run.line("two")
            run.expect(f"started {number}\\.")
            # Both readers wait in open(2) until a writer comes, and both end by its end of file.
            poll(lambda n=number: sum(f"go{n}" in c and "read line" in c for c in self.box.processes().values()) >= 2)
            with open(go, "w", encoding="utf-8"):
                pass

            def told():
                return [p["text"] for r in self.server.requests[before + 2:] for p in r.messages[-1]["content"]
                        if p["type"] == "text" and "<task-notification>" in p["text"]]

            poll(lambda: len(told()) == 2)
            for _ in self.server.requests[before + 2:]:
                run.expect(r"told\.")
            first, second = (datetime.fromisoformat(r["finished_at"].replace("Z", "+00:00")).timestamp()
                             for r in [r for r in self.records() if r["type"] == "task_end"][-2:])
            if abs(first - second) > 0.04:
                continue  # a busy machine ended them apart
            self.assertEqual(len(self.server.requests) - before, 3, number)
            together += 1
            if together == 100:
                break
        self.assertEqual(together, 100)
        self.finish(run)
        meta = [r for r in self.records() if r["type"] == "message" and '"isMeta": true' in json.dumps(r)]
        self.assertEqual(len(meta), 2 * (number + 1))

    def test_a_stopped_task_appears_in_no_request(self):
        self.server.push(reply(tool("background_bash", {"command": "sleep 1000"}),
                               tool("background_bash", {"command": "sleep 1001"})))
        self.server.push(reply(text("Started.")))
        self.server.push(reply(tool("background_stop", {"task_id": "bg-2"}), when="stop the second"))
        self.server.push(reply(text("Stopped it.")))
        self.server.push(reply(text("Bye."), when="anything else"))
        run = self.start()
        run.line("go")
        run.expect(r"Started\.")
        run.line("/bg stop bg-1")
        run.expect_all(r"^bg-1 stopped: 1 process ended\.$", r"^🔔 bg-1 - cancelled by user$")
        run.line("stop the second")
        run.expect("Stopped it")
        run.line("anything else?")
        run.expect("Bye")
        self.finish(run)
        for request in self.server.requests:
            self.assertNotIn("<task-notification>", json.dumps(request.messages))
        records = self.records()
        self.assertEqual([r for r in records if r["type"] == "message" and '"isMeta": true' in json.dumps(r)], [])
        self.assertEqual(len([r for r in records if r["type"] == "task_end"]), 2)

    def test_an_end_that_a_tool_result_has_shown_is_not_told_again(self):
        self.server.push(reply(tool("background_bash", {"command": "cat go; sleep 0.4"})))
        self.server.push(reply(text("Started.")))
        self.server.push(reply(tool("bash", {"command": "echo go > go; sleep 1"}), when="look"))
        self.server.push(reply(tool("background_output", {"task_id": "bg-1"})))
        self.server.push(reply(text("It has ended.")))
        run = self.start()
        run.line("go")
        run.expect("Started")
        run.line("look")
        run.expect("It has ended")
        self.finish(run)
        self.assertEqual(len(self.server.requests), 5)
        self.assertEqual([r for r in self.records() if r["type"] == "message" and '"isMeta": true' in json.dumps(r)], [])


if __name__ == "__main__":
    unittest.main()
