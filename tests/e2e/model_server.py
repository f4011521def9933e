#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A loopback server that speaks the wire format of the Messages API, scripted from Python.

It listens on 127.0.0.1 on a port of the kernel's choice, streams replies as the real API does (SSE over HTTP/1.1,
chunked), records every request, and is as strict as the real API: a request that the API would refuse is answered with
400 invalid_request_error and recorded in `violations`, which a test should find empty at its end.

    from model_server import ModelServer, reply, text, tool, thinking, wait, error

    with ModelServer() as server:
        server.push(reply(text("I start it."), tool("background_bash", {"command": "make test"})))
        server.push(reply(text("It runs.")))
        server.push(reply(text("The tests failed."), when="<task-notification>"))
        env = {**os.environ, **server.env()}          # ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY
        ...                                           # run errand
        requests = server.wait_requests(3)            # blocks until there are three, or raises after 60 s
        assert "<task-notification>" in requests[2].newest_user_text()
        assert server.violations == []

Which reply a request gets: the first unused one whose `when` (a regular expression, re.search with DOTALL) matches the
newest user message, else the first unused one without `when`, else the text "(no reply left)", which is counted in
`server.unscripted`. `ModelServer(script=callable)`: the callable gets the Request and returns a reply or None (then the
queue decides). Replies may be pushed while the server runs; each is used once, or without end with `repeat=True`.

Replies
    reply(*parts, stop_reason=None, usage={...}, when=None, repeat=False, hold=None)
        stop_reason: by default "tool_use" when a tool part is present, else "end_turn". hold: a threading.Event that is
        waited for before anything, the status line included, is sent.
    error(status, message=None, type=None, retry_after=None, when=None)     an HTTP error with the API's JSON body
    garbage(data, content_type="text/event-stream", status=200)             these bytes, whatever they are
    silence()                                                               no answer until the client leaves

Parts of a reply
    text("...", pieces=3)                     streamed in `pieces` deltas (default: some)
    tool("bash", {"command": "ls"}, id=None, pieces=None, raw=None)
        the input is streamed as partial_json fragments; raw: this text instead of the input (broken JSON)
    thinking("...", signature="sig")          with thinking_delta and signature_delta events
    redacted("data")                          a redacted_thinking block
    wait(event)  pause(seconds)               between blocks; ends early when the client leaves
    stream_error(type="overloaded_error")     an in-stream error event; the stream ends
    drop(clean=False)                         the stream ends here: the connection is cut, or (clean) the body ends
                                              properly but without message_stop
    half_tool("bash", '{"comm', id=None)      a tool_use whose block never ends (put drop() or stop_reason behind it)
    raw_event("event: ping\\ndata: {}\\n\\n")   any text

A reply object tells how far it is: `.started`, `.finished`, `.aborted` (the client left before the end) are
threading.Event objects; `.wait_started()` etc. raise after 60 s.

ModelServer(chunk=N): what is streamed is cut into chunks of N bytes, each sent by itself; chunk=1 splits everything.
ModelServer(crlf=True): lines end in CRLF. ModelServer(pings=True): pings and comments between the events.

Requests: `server.requests` is a list of Request: `.body` (parsed JSON), `.headers` (lower-case names), `.path`,
`.messages`, `.system_text()`, `.newest_user_text()` (texts and tool results of the last user message), `.tool_results()`
(of the last message: {tool_use_id: (text, is_error)}), `.violations`, `.status` (what it was answered with).

Standalone: `model_server.py [--port N] [--script FILE] [--log FILE]` prints its URL and serves until SIGTERM or SIGINT.
The script is a JSON list of replies: {"text", "tools": [{"name", "input"}], "thinking", "when", "error", "message",
"retry_after", "drop": true, "garbage", "stop_reason"}; the log gets one JSON line a request.
"""

import argparse
import itertools
import json
import re
import select
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DEADLINE = 60.0
KEY = "sk-ant-test-0123456789abcdef"
_ids = itertools.count(1)


class _Gone(Exception):
    """The client closed its connection, or the server is being closed."""


class _Cut(Exception):
    """The reply wants the connection cut."""


def _pieces(data, count):
    if not data:
        return [""]
    count = max(1, min(count or min(4, len(data)), len(data)))
    size = -(-len(data) // count)
    return [data[i:i + size] for i in range(0, len(data), size)]


def _event(name, data):
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


# --- parts -----------------------------------------------------------------------------------------------------------
# A part is a function of the stream: it sends what it has to.

def _block(start, deltas, stop=True):
    def send(stream):
        index = stream.next_index()
        stream.event("content_block_start", {"type": "content_block_start", "index": index, "content_block": start})
        for delta in deltas:
            stream.event("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta})
        if stop:
            stream.event("content_block_stop", {"type": "content_block_stop", "index": index})
    return send


def text(value, pieces=None):
    return _block({"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in _pieces(value, pieces)])


def tool(name, input=None, id=None, pieces=None, raw=None):
    data = raw if raw is not None else json.dumps(input if input is not None else {}, ensure_ascii=False)
    start = {"type": "tool_use", "id": id or f"toolu_{next(_ids):08d}", "name": name, "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": p} for p in ["", *_pieces(data, pieces)]]
    send = _block(start, deltas)
    send.is_tool = True
    return send


def half_tool(name, partial, id=None):
    start = {"type": "tool_use", "id": id or f"toolu_{next(_ids):08d}", "name": name, "input": {}}
    return _block(start, [{"type": "input_json_delta", "partial_json": partial}], stop=False)


def thinking(value, signature=None, pieces=None):
    signature = signature or f"sig-{next(_ids):08d}"
    deltas = [{"type": "thinking_delta", "thinking": p} for p in _pieces(value, pieces)]
    deltas += [{"type": "signature_delta", "signature": signature}]
    inner = _block({"type": "thinking", "thinking": "", "signature": ""}, deltas)

    def send(stream):
        stream.server.remember_thinking(signature, value)
        inner(stream)
    return send


def redacted(data):
    def send(stream):
        stream.server.remember_thinking(data, None)
        _block({"type": "redacted_thinking", "data": data}, [])(stream)
    return send


def wait(event):
    return lambda stream: stream.wait_for(event)


def pause(seconds):
    return lambda stream: stream.wait_for(threading.Event(), seconds)


def raw_event(data):
    return lambda stream: stream.send(data)


def stream_error(type="overloaded_error", message="Overloaded"):
    def send(stream):
        stream.event("error", {"type": "error", "error": {"type": type, "message": message}})
        stream.ended = True
    return send


def drop(clean=False):
    def send(stream):
        stream.ended = True
        if not clean:
            raise _Cut()
    return send


# --- replies ---------------------------------------------------------------------------------------------------------

class Reply:
    def __init__(self, serve, when=None, repeat=False, hold=None):
        self._serve = serve
        self.when = re.compile(when, re.DOTALL) if when is not None else None
        self.repeat = repeat
        self.hold = hold
        self.started = threading.Event()
        self.finished = threading.Event()
        self.aborted = threading.Event()

    def _wait(self, event, what, timeout):
        if not event.wait(timeout):
            raise AssertionError(f"the reply was not {what} within {timeout} s")

    def wait_started(self, timeout=DEADLINE):
        self._wait(self.started, "started", timeout)

    def wait_finished(self, timeout=DEADLINE):
        self._wait(self.finished, "finished", timeout)

    def wait_aborted(self, timeout=DEADLINE):
        self._wait(self.aborted, "aborted", timeout)


def reply(*parts, stop_reason=None, usage=None, when=None, repeat=False, hold=None):
    parts = [text(p) if isinstance(p, str) else p for p in parts]
    is_tool = any(getattr(p, "is_tool", False) for p in parts)
    reason = stop_reason or ("tool_use" if is_tool else "end_turn")
    counts = {"input_tokens": 25, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 15}
    counts.update(usage or {})

    def serve(stream):
        stream.begin(200, {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"})
        stream.event("message_start", {"type": "message_start", "message": {
            "id": f"msg_{next(_ids):08d}", "type": "message", "role": "assistant", "model": stream.request.body["model"],
            "content": [], "stop_reason": None, "stop_sequence": None, "usage": {**counts, "output_tokens": 1}}})
        for part in parts:
            part(stream)
            if stream.ended:
                return
        stream.event("message_delta", {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None},
                                       "usage": {"output_tokens": counts["output_tokens"]}})
        stream.event("message_stop", {"type": "message_stop"})
    return Reply(serve, when, repeat, hold)


_ERROR_TYPES = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
                404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 500: "api_error",
                529: "overloaded_error"}


def error(status, message=None, type=None, retry_after=None, when=None, repeat=False):
    kind = type or _ERROR_TYPES.get(status, "api_error")
    body = {"type": "error", "error": {"type": kind, "message": message or kind.replace("_", " ")},
            "request_id": f"req_{next(_ids):08d}"}

    def serve(stream):
        headers = {"content-type": "application/json"}
        if retry_after is not None:
            headers["retry-after"] = str(retry_after)
        stream.begin(status, headers)
        stream.send(json.dumps(body))
    return Reply(serve, when, repeat)


def garbage(data, content_type="text/event-stream", status=200, when=None):
    def serve(stream):
        stream.begin(status, {"content-type": content_type})
        stream.send(data)
    return Reply(serve, when)


def silence(when=None):
    return Reply(lambda stream: stream.wait_for(threading.Event(), None), when)


# --- requests --------------------------------------------------------------------------------------------------------

def _content_text(content):
    if isinstance(content, str):
        return content
    return "\n".join(p.get("text", "") for p in content if isinstance(p, dict) and p.get("type") == "text")


class Request:
    def __init__(self, path, headers, body):
        self.path = path
        self.headers = headers
        self.body = body
        self.violations = []
        self.status = None
        self.reply = None
        self.time = time.monotonic()

    @property
    def messages(self):
        return self.body.get("messages", []) if isinstance(self.body, dict) else []

    def system_text(self):
        return _content_text(self.body.get("system", ""))

    def newest_user_text(self):
        for message in reversed(self.messages):
            if message.get("role") != "user":
                continue
            content = message["content"]
            if isinstance(content, str):
                return content
            parts = []
            for part in content:
                if part.get("type") == "text":
                    parts.append(part["text"])
                elif part.get("type") == "tool_result":
                    parts.append(_content_text(part.get("content", "")))
            return "\n".join(parts)
        return ""

    def tool_results(self):
        if not self.messages or isinstance(self.messages[-1]["content"], str):
            return {}
        return {p["tool_use_id"]: (_content_text(p.get("content", "")), bool(p.get("is_error")))
                for p in self.messages[-1]["content"] if p.get("type") == "tool_result"}


_FIELDS = {"model", "messages", "max_tokens", "system", "tools", "tool_choice", "stream", "temperature", "top_p", "top_k",
           "stop_sequences", "metadata", "thinking", "service_tier"}
_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,128}$")


class _Check:
    """What the real API refuses, with its words where they are known."""

    def __init__(self, body, thoughts):
        self.problems = []
        self.caches = 0
        self.thoughts = thoughts
        self.body = body
        self.top()
        if isinstance(body.get("messages"), list):
            self.messages(body["messages"])
        if self.caches > 4:
            self.bad(f"A maximum of 4 blocks with cache_control may be provided. Found {self.caches}.")

    def bad(self, problem):
        self.problems.append(problem)

    def cache(self, where, part):
        control = part.get("cache_control")
        if control is None:
            return
        self.caches += 1
        if not isinstance(control, dict) or control.get("type") != "ephemeral":
            self.bad(f"{where}.cache_control: must be of type ephemeral")
        if part.get("type") in ("thinking", "redacted_thinking"):
            self.bad(f"{where}.cache_control: not permitted on {part['type']} blocks")

    def top(self):
        body = self.body
        for field in sorted(set(body) - _FIELDS):
            self.bad(f"{field}: Extra inputs are not permitted")
        if not isinstance(body.get("model"), str) or not body.get("model"):
            self.bad("model: Field required")
        if type(body.get("max_tokens")) is not int or body["max_tokens"] < 1:
            self.bad("max_tokens: Field required")
        if body.get("stream") is not True:
            self.bad("stream: this server only streams")
        if not isinstance(body.get("messages"), list):
            self.bad("messages: Field required")
        system = body.get("system", [])
        if isinstance(system, list):
            for i, part in enumerate(system):
                self.text(f"system.{i}", part)
        names = set()
        for i, spec in enumerate(body.get("tools", [])):
            where = f"tools.{i}"
            if not _NAME.match(str(spec.get("name", ""))):
                self.bad(f"{where}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
            if spec.get("name") in names:
                self.bad("tools: Tool names must be unique.")
            names.add(spec.get("name"))
            schema = spec.get("input_schema")
            if not isinstance(schema, dict) or schema.get("type") != "object":
                self.bad(f"{where}.custom.input_schema.type: Field required")
            for field in sorted(set(spec) - {"name", "description", "input_schema", "cache_control", "type"}):
                self.bad(f"{where}.custom.{field}: Extra inputs are not permitted")
            self.cache(where, spec)

    def text(self, where, part):
        if part.get("type") != "text" or not isinstance(part.get("text"), str):
            self.bad(f"{where}: not a text block")
        elif not part["text"]:
            self.bad("messages: text content blocks must be non-empty")
        elif not part["text"].strip():
            self.bad("messages: text content blocks must contain non-whitespace text")
        self.cache(where, part)

    def messages(self, messages):
        if not messages:
            self.bad("messages: at least one message is required")
            return
        if messages[0].get("role") != "user":
            self.bad("messages: first message must use the \"user\" role")
        if messages[-1].get("role") != "user":
            self.bad("messages: the last message must use the \"user\" role")
        open_uses, seen = [], set()
        previous = None
        for i, message in enumerate(messages):
            where, role, content = f"messages.{i}", message.get("role"), message.get("content")
            if set(message) - {"role", "content"}:
                self.bad(f"{where}: Extra inputs are not permitted")
            if role not in ("user", "assistant"):
                self.bad(f"{where}.role: must be user or assistant")
            if role == previous:
                self.bad("messages: roles must alternate between \"user\" and \"assistant\"")
            previous = role
            if isinstance(content, str):
                content = [{"type": "text", "text": content}]
            if not isinstance(content, list) or not content:
                self.bad(f"{where}: all messages must have non-empty content")
                content = []
            answered = self.results(where, role, content, open_uses)
            missing = [use for use in open_uses if use not in answered]
            if missing:
                self.bad(f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                         + ", ".join(missing))
            open_uses = []
            for j, part in enumerate(content):
                self.part(f"{where}.content.{j}", role, part, open_uses, seen)
        if open_uses:
            self.bad("messages: the last message has unanswered `tool_use` blocks")

    def results(self, where, role, content, open_uses):
        answered, other = [], False
        for j, part in enumerate(content):
            if part.get("type") != "tool_result":
                other = True
                continue
            use = part.get("tool_use_id")
            if role != "user":
                self.bad(f"{where}.content.{j}: `tool_result` blocks can only be in `user` messages")
            if other:
                self.bad(f"{where}.content.{j}: `tool_result` blocks must come first")
            if use not in open_uses:
                self.bad(f"{where}.content.{j}: unexpected `tool_use_id` found in `tool_result` blocks: {use}")
            if use in answered:
                self.bad(f"{where}.content.{j}: each `tool_use` must have a single result: {use}")
            answered.append(use)
        return answered

    def part(self, where, role, part, open_uses, seen):
        kind = part.get("type")
        if kind == "text":
            self.text(where, part)
            return
        self.cache(where, part)
        if kind == "tool_use":
            if role != "assistant":
                self.bad(f"{where}: `tool_use` blocks can only be in `assistant` messages")
            if not isinstance(part.get("input"), dict):
                self.bad(f"{where}.tool_use.input: Input should be a valid dictionary")
            if not _NAME.match(str(part.get("id", ""))):
                self.bad(f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
            if part.get("id") in seen:
                self.bad("messages: `tool_use` ids must be unique")
            if not self.body.get("tools"):
                self.bad("tools: requests with tool_use or tool_result blocks must define tools")
            seen.add(part.get("id"))
            open_uses.append(part.get("id"))
        elif kind == "tool_result":
            content = part.get("content", "")
            if isinstance(content, list):
                for k, inner in enumerate(content):
                    if inner.get("type") == "text":
                        self.text(f"{where}.content.{k}", inner)
            if part.get("is_error") and not content:
                self.bad(f"{where}: content cannot be empty if `is_error` is true")
        elif kind == "thinking":
            known = self.thoughts.get(part.get("signature"))
            if role != "assistant" or known is None or known != part.get("thinking"):
                self.bad(f"{where}: Invalid `signature` in `thinking` block")
        elif kind == "redacted_thinking":
            if role != "assistant" or part.get("data") not in self.thoughts:
                self.bad(f"{where}: Invalid `data` in `redacted_thinking` block")
        elif kind == "image":
            if role != "user" or not isinstance(part.get("source"), dict):
                self.bad(f"{where}: not an image block")
        else:
            self.bad(f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags")


# --- the server ------------------------------------------------------------------------------------------------------

class _Stream:
    """One answer on its way: chunked, cut as the server was told, and aware of a client that leaves."""

    def __init__(self, server, handler, request):
        self.server = server
        self.handler = handler
        self.request = request
        self.ended = False
        self._index = -1

    def next_index(self):
        self._index += 1
        return self._index

    def begin(self, status, headers):
        self.request.status = status
        self.handler.send_response(status)
        for name, value in headers.items():
            self.handler.send_header(name, value)
        self.handler.send_header("transfer-encoding", "chunked")
        self.handler.send_header("request-id", f"req_{next(_ids):08d}")
        self.handler.end_headers()
        self.handler.wfile.flush()

    def event(self, name, data):
        if self.server.pings and name != "message_start":
            self.send(": a comment\n\n" + _event("ping", {"type": "ping"}))
        self.send(_event(name, data))

    def send(self, data):
        if isinstance(data, str):
            if self.server.crlf:
                data = data.replace("\n", "\r\n")
            data = data.encode("utf-8", "surrogatepass")
        size = self.server.chunk or len(data) or 1
        for i in range(0, len(data), size):
            piece = data[i:i + size]
            try:
                self.handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.handler.wfile.flush()
            except OSError as gone:
                raise _Gone() from gone

    def wait_for(self, event, timeout=DEADLINE):
        """Until the event is set or the time is over (None: for ever); _Gone when the client leaves meanwhile."""
        end = None if timeout is None else time.monotonic() + timeout
        while not event.wait(0.01):
            if self.server.closing.is_set() or self._client_left():
                raise _Gone()
            if end is not None and time.monotonic() >= end:
                return

    def _client_left(self):
        connection = self.handler.connection
        readable, _, _ = select.select([connection], [], [], 0)
        if not readable:
            return False
        try:
            return connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self._refuse(404, "not_found_error", "Not Found")

    def _refuse(self, status, kind, message):
        data = json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        owner = self.server.owner
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            body = json.loads(data.decode("utf-8"))
        except ValueError:
            body = None
        request = Request(self.path, headers, body)
        refusal = owner.check(request)
        if refusal is not None:
            request.status = refusal[0]
            owner.record(request)
            self._refuse(*refusal)
            return
        answer = owner.choose(request)
        request.reply = answer
        owner.record(request)
        answer.started.set()
        stream = _Stream(owner, self, request)
        try:
            if answer.hold is not None:
                stream.wait_for(answer.hold)
            answer._serve(stream)
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()
            answer.finished.set()
        except _Cut:
            self.close_connection = True
            answer.finished.set()
        except (_Gone, OSError):
            self.close_connection = True
            answer.aborted.set()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):  # a client that leaves is no fault of the test
            super().handle_error(request, client_address)


class ModelServer:
    def __init__(self, script=None, *, chunk=None, crlf=False, pings=False, port=0):
        self.chunk = chunk
        self.crlf = crlf
        self.pings = pings
        self.closing = threading.Event()
        self.requests = []
        self.unscripted = 0
        self._script = script if callable(script) else None
        self._replies = [] if script is None or callable(script) else list(script)
        self._thoughts = {}
        self._changed = threading.Condition()
        self._http = _Http(("127.0.0.1", port), _Handler)
        self._http.owner = self
        self.port = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def env(self):
        """The variables that make errand use this server."""
        return {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": KEY, "no_proxy": "127.0.0.1"}

    def push(self, *replies):
        """Adds replies to the queue (a plain string is a text reply); returns the last one."""
        with self._changed:
            for one in replies:
                self._replies.append(reply(one) if isinstance(one, str) else one)
            return self._replies[-1]

    @property
    def violations(self):
        with self._changed:
            return [f"request {i + 1}: {v}" for i, r in enumerate(self.requests) for v in r.violations]

    def wait_requests(self, count, timeout=DEADLINE):
        """The recorded requests, once there are at least `count`."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.requests) >= count, timeout):
                raise AssertionError(f"{len(self.requests)} requests within {timeout} s, expected {count}")
            return list(self.requests)

    def wait_request(self, predicate, timeout=DEADLINE):
        """The first recorded request that satisfies the predicate."""
        def found():
            return next((r for r in self.requests if predicate(r)), None)
        with self._changed:
            if not self._changed.wait_for(lambda: found() is not None, timeout):
                raise AssertionError(f"no such request within {timeout} s among {len(self.requests)}")
            return found()

    # Called by the handler's threads.

    def record(self, request):
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()

    def remember_thinking(self, signature, value):
        with self._changed:
            self._thoughts[signature] = value

    def check(self, request):
        if request.path.split("?")[0] != "/v1/messages":
            return 404, "not_found_error", "Not Found"
        if not request.headers.get("x-api-key") and not request.headers.get("authorization"):
            return 401, "authentication_error", "x-api-key header is required"
        if "anthropic-version" not in request.headers:
            request.violations.append("anthropic-version: header is required")
        if not request.headers.get("content-type", "").startswith("application/json"):
            request.violations.append("content-type: must be application/json")
        if not isinstance(request.body, dict):
            request.violations.append("The request body is not valid JSON")
        else:
            with self._changed:
                request.violations += _Check(request.body, self._thoughts).problems
        if request.violations:
            return 400, "invalid_request_error", request.violations[0]
        return None

    def choose(self, request):
        if self._script is not None:
            answer = self._script(request)
            if answer is not None:
                return reply(answer) if isinstance(answer, str) else answer
        newest = request.newest_user_text()
        with self._changed:
            chosen = next((r for r in self._replies if r.when is not None and r.when.search(newest)), None)
            chosen = chosen or next((r for r in self._replies if r.when is None), None)
            if chosen is None:
                self.unscripted += 1
                return reply(text("(no reply left)"))
            if not chosen.repeat:
                self._replies.remove(chosen)
            return chosen


# --- standalone ------------------------------------------------------------------------------------------------------

def _reply_from_json(entry):
    when = entry.get("when")
    if "error" in entry:
        return error(entry["error"], entry.get("message"), retry_after=entry.get("retry_after"), when=when)
    if "garbage" in entry:
        return garbage(entry["garbage"], when=when)
    parts = []
    if "thinking" in entry:
        parts.append(thinking(entry["thinking"]))
    if "text" in entry:
        parts.append(text(entry["text"]))
    parts += [tool(one["name"], one.get("input", {})) for one in entry.get("tools", [])]
    if entry.get("drop"):
        parts.append(drop())
    return reply(*parts, stop_reason=entry.get("stop_reason"), when=when)


def main():
    parser = argparse.ArgumentParser(description="A loopback server with the Messages API's wire format.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", help="JSON list of replies")
    parser.add_argument("--log", help="one JSON line a request")
    options = parser.parse_args()
    replies = []
    if options.script:
        with open(options.script, encoding="utf-8") as script:
            replies = [_reply_from_json(entry) for entry in json.load(script)]
    done = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: done.set())
    with ModelServer(replies, port=options.port) as server:
        print(server.url, flush=True)
        logged = 0
        while not done.wait(0.05):
            if options.log and len(server.requests) > logged:
                with open(options.log, "a", encoding="utf-8") as log:
                    for request in server.requests[logged:]:
                        log.write(json.dumps({"status": request.status, "violations": request.violations,
                                              "body": request.body}) + "\n")
                        logged += 1


if __name__ == "__main__":
    main()
