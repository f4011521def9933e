#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The test server is as strict as the API that it stands for: what the API refuses, it refuses and records."""

import copy
import http.client
import json
import threading
import unittest

import model_server as ms

TOOLS = [{"name": "bash", "description": "runs", "input_schema": {"type": "object"}}]
USE = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "x"}


def user(*content):
    return {"role": "user", "content": list(content)}


def assistant(*content):
    return {"role": "assistant", "content": list(content)}


def said(text):
    return {"type": "text", "text": text}


def body(*messages, **more):
    return {"model": "m", "max_tokens": 9, "stream": True, "tools": TOOLS, "messages": list(messages), **more}


def post(server, data, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        named = {"content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": "k"}
        if headers is not None:
            named = headers
        connection.request("POST", "/v1/messages", json.dumps(data), named)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def events(text):
    return [json.loads(line[6:]) for line in text.replace("\r\n", "\n").split("\n") if line.startswith("data: ")]


class Strictness(unittest.TestCase):
    def refused(self, data, part):
        with ms.ModelServer() as server:
            status, answer = post(server, data)
            self.assertEqual(status, 400, part)
            self.assertEqual(json.loads(answer)["error"]["type"], "invalid_request_error")
            self.assertTrue(any(part in one for one in server.violations), (part, server.violations))

    def test_legal_history_passes(self):
        with ms.ModelServer() as server:
            server.push(ms.reply(ms.thinking("hm", "sig"), ms.tool("bash", {"command": "ls"}, id="t1")), "done")
            self.assertEqual(post(server, body(user(said("go"))))[0], 200)
            thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
            history = body(user(said("go")), assistant(thought, USE), user(RESULT, said("<task-notification>")))
            self.assertEqual(post(server, history)[0], 200)
            self.assertEqual(server.violations, [])
            self.assertEqual(server.requests[1].tool_results(), {"t1": ("x", False)})
            self.assertEqual(server.requests[1].newest_user_text(), "x\n<task-notification>")

    def test_illegal_histories_are_refused(self):
        go = user(said("go"))
        changed = copy.deepcopy(USE)
        changed["input"] = "ls"
        cases = [
            (body(), "at least one message"),
            (body(assistant(said("a")), go), "first message"),
            (body(go, user(said("b"))), "alternate"),
            (body(go, assistant(said("b"))), "the last message must use"),
            (body(user(said(""))), "must be non-empty"),
            (body(user(said(" \n"))), "non-whitespace"),
            (body(user()), "non-empty content"),
            (body(go, assistant(USE), go), "without `tool_result`"),
            (body(go, assistant(USE), user(said("a"), RESULT)), "must come first"),
            (body(go, assistant(USE), user(RESULT, RESULT)), "single result"),
            (body(go, assistant(said("a")), user(RESULT)), "unexpected `tool_use_id`"),
            (body(go, assistant(USE), user(RESULT), assistant(USE), user(RESULT)), "ids must be unique"),
            (body(go, assistant(changed), user(RESULT)), "valid dictionary"),
            (body(go, assistant(USE), user(RESULT), tools=[]), "must define tools"),
            (body(go, assistant(USE), user({**RESULT, "content": "", "is_error": True})), "content cannot be empty"),
            (body(go, assistant({"type": "thinking", "thinking": "x", "signature": "forged"}), go), "Invalid `signature`"),
            (body(go, assistant({"type": "redacted_thinking", "data": "forged"}), go), "Invalid `data`"),
            (body(user({"type": "task_notification"})), "does not match any"),
            (body(go, max_tokens=0), "max_tokens"),
            (body(go, stream=False), "stream"),
            (body(go, surprise=1), "Extra inputs"),
            (body(go, tools=TOOLS + TOOLS), "names must be unique"),
            (body(go, tools=[{"name": "a b", "input_schema": {"type": "object"}}]), "should match pattern"),
            (body(go, tools=[{"name": "a", "input_schema": {}}]), "input_schema"),
            (body(user(*[{**said("x"), "cache_control": {"type": "ephemeral"}} for _ in range(5)])), "maximum of 4"),
        ]
        for data, part in cases:
            with self.subTest(part):
                self.refused(data, part)

    def test_headers(self):
        with ms.ModelServer() as server:
            data = body(user(said("go")))
            self.assertEqual(post(server, data, {"content-type": "application/json"})[0], 401)
            self.assertEqual(post(server, data, {"content-type": "application/json", "x-api-key": "k"})[0], 400)


class Replies(unittest.TestCase):
    def test_stream_is_the_same_however_it_is_cut(self):
        seen = []
        for options in ({}, {"chunk": 1}, {"chunk": 5, "crlf": True}):
            with ms.ModelServer(**options) as server:
                server.push(ms.reply(ms.text("Grüße"), ms.tool("bash", {"command": "ls"}, id="t1")))
                status, answer = post(server, body(user(said("go"))))
                self.assertEqual(status, 200)
                seen.append([e for e in events(answer) if e["type"] != "message_start"])
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(seen[0], seen[2])
        deltas = [e["delta"] for e in seen[0] if e["type"] == "content_block_delta"]
        self.assertEqual("".join(d.get("text", "") for d in deltas), "Grüße")
        self.assertEqual(json.loads("".join(d.get("partial_json", "") for d in deltas)), {"command": "ls"})
        self.assertEqual(seen[0][-2]["delta"]["stop_reason"], "tool_use")

    def test_which_reply(self):
        with ms.ModelServer() as server:
            server.push("plain", ms.reply("noticed", when="<task-notification>"), ms.reply("always", when="ping", repeat=True))
            for says, expected in (("a <task-notification>", "noticed"), ("ping", "always"), ("ping", "always"),
                                   ("x", "plain"), ("x", "(no reply left)")):
                answer = events(post(server, body(user(said(says))))[1])
                text = "".join(e["delta"].get("text", "") for e in answer if e["type"] == "content_block_delta")
                self.assertEqual(text, expected)
            self.assertEqual(server.unscripted, 1)

    def test_errors_and_broken_streams(self):
        with ms.ModelServer() as server:
            data = body(user(said("go")))
            server.push(ms.error(429, "slow down", retry_after=3))
            status, answer = post(server, data)
            self.assertEqual((status, json.loads(answer)["error"]["type"]), (429, "rate_limit_error"))
            server.push(ms.reply("half", ms.drop()))
            with self.assertRaises(http.client.IncompleteRead):
                post(server, data)
            server.push(ms.reply("half", ms.drop(clean=True)))
            self.assertEqual(events(post(server, data)[1])[-1]["type"], "content_block_stop")
            server.push(ms.reply("half", ms.stream_error()))
            self.assertEqual(events(post(server, data)[1])[-1]["error"]["type"], "overloaded_error")
            server.push(ms.garbage("<html>", "text/html", 502))
            self.assertEqual(post(server, data), (502, "<html>"))

    def test_gates_and_a_client_that_leaves(self):
        gate, hold = threading.Event(), threading.Event()
        with ms.ModelServer() as server:
            gated = server.push(ms.reply("one", ms.wait(gate), "two", hold=hold))
            result = []
            thread = threading.Thread(target=lambda: result.append(post(server, body(user(said("go"))))))
            thread.start()
            gated.wait_started()
            self.assertFalse(gated.finished.is_set())
            hold.set()
            gate.set()
            thread.join(30)
            gated.wait_finished()
            self.assertEqual(result[0][0], 200)
            left = server.push(ms.silence())
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            connection.request("POST", "/v1/messages", json.dumps(body(user(said("go")))), {
                "content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": "k"})
            left.wait_started()
            connection.close()
            left.wait_aborted()


if __name__ == "__main__":
    unittest.main()
