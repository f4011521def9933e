#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tasks have running, as people and models see it: processes, ports, CPU and memory, survivors and their limit."""

import re
import socket
import unittest

from errand_driver import Sandbox, poll
from model_server import ModelServer, reply, text, tool

# Listens on a port of the kernel's choice (or the one given), writes it into the file "port"; deaf to SIGTERM, as some
# servers are; a child of it holds the socket as well.
SERVER = """import os, signal, socket, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
server = socket.socket()
server.bind(("127.0.0.1", int(sys.argv[1])))
server.listen()
child = os.fork()
if child:
    with open("port.new", "w") as file:
        file.write(str(server.getsockname()[1]))
    os.rename("port.new", "port")
time.sleep(1000)
"""


def can_listen(port):
    with socket.socket() as mine:
        try:
            mine.bind(("127.0.0.1", port))
            mine.listen()
        except OSError:
            return False
    return True


class ProcessesTest(unittest.TestCase):
    def setUp(self):
        self.box = Sandbox(self)
        self.box.write("server.py", SERVER)

    def read_port(self):
        try:
            with open(self.box.path("project", "port"), encoding="ascii") as file:
                return int(file.read())
        except FileNotFoundError:
            return None

    def settle(self, run):
        run.line("!echo settled")
        run.expect("^settled$")

    def test_show_names_processes_and_ports_cpu_and_memory(self):
        run = self.box.pipe(env={"ERRAND_STOP_GRACE_MS": "200"})
        self.settle(run)
        run.line("/bg run python3 server.py 0; true")
        port = poll(self.read_port)
        run.line("/bg show bg-1")
        run.expect(r"^bg-1 \[RUNNING\]\n  command:     python3 server\.py 0; true\n  folder:      .*\n  started:     .*\n"
                   r"  running for: .*\n  output:      0 bytes\n  output file: .*/bg-1\.output\n  processes:   3\n"
                   rf"    \d+ \S*bash -c python3 server\.py 0; true\n    \d+ \S*python3 server\.py 0 :{port}\n"
                   rf"    \d+ \S*python3 server\.py 0 :{port}\n"
                   r"  cpu:         \d+(\.\d)? m?s \(sampled\)\n  memory:      \d+\.\d MiB at its peak \(sampled\)$")
        run.line("/bg stop bg-1")
        run.expect(r"^bg-1 stopped: 3 processes ended\.$")
        self.assertTrue(can_listen(port))
        run.line("/bg show bg-1")
        run.expect(r"^bg-1 \[CANCELLED\]\n(?s:.*?)\n  finished:    .*, after .*\n(?s:.*?)\n  processes:   none\n  cpu:         [1-9]")
        self.assertEqual(run.end(), 0)

    def test_the_same_server_again_and_again(self):
        run = self.box.pipe(env={"ERRAND_STOP_GRACE_MS": "200"})
        self.settle(run)
        run.line("/bg run setsid python3 server.py 0 & until [ -e port ]; do sleep 0.02; done")
        port = poll(self.read_port)
        for number in range(1, 4):
            run.expect(rf"^🔔 bg-{number} - completed \(exit code 0\); 2 processes still running: "
                       rf"\d+ \S*python3 server\.py \d+ :{port}, \d+ \S*python3 server\.py \d+ :{port}$")
            run.line("/bg")
            run.expect(rf"^  bg-{number}  \[COMPLETED\]  .*  exit=0  \(2 still running\)$")
            run.line(f"/bg stop bg-{number}")
            run.expect(rf"^bg-{number} had already finished \(COMPLETED\); 2 remaining processes ended\.$")
            self.assertTrue(can_listen(port))
            run.line(f"/bg run rm port; setsid python3 server.py {port} & until [ -e port ]; do sleep 0.02; done")
        run.expect(r"^🔔 bg-4 - completed ")
        run.line("/quit")
        run.end()
        self.box.wait_gone()
        self.assertTrue(can_listen(port))

    def test_too_many_tasks_with_survivors(self):
        run = self.box.pipe(env={"ERRAND_MAX_SURVIVOR_TASKS": "2"})
        self.settle(run)
        for number in (1, 2):
            run.line("/bg run sleep 1000 & true")
            run.expect(f"^🔔 bg-{number} - completed")
        run.line("/bg run true")
        run.expect(r"^(.*)2 ended tasks still have processes running; stop some: bg-1, bg-2$")
        run.line("!sleep 1000 & echo by the shell")  # what runs in the foreground is never refused
        run.expect("by the shell")
        run.line("!true &")
        run.expect(r"3 ended tasks still have processes running; stop some: bg-1, bg-2, bg-3$")
        run.line("/bg stop all")
        run.expect_all(*(rf"^bg-{number} had already finished \(COMPLETED\); 1 remaining process ended\.$" for number in (1, 2, 3)))
        run.line("/bg run true")
        run.expect(r"^🔔 bg-4 - completed \(exit code 0\)$")
        self.assertEqual(run.end(), 0)

    def test_no_limit(self):
        run = self.box.pipe(env={"ERRAND_MAX_SURVIVOR_TASKS": "0"})
        self.settle(run)
        for number in range(1, 23):
            run.line("/bg run sleep 1000 & true")
            run.expect(f"^🔔 bg-{number} - completed")
        run.line("/quit")
        run.end()

    def test_a_model_sees_survivors_and_their_limit(self):
        server = ModelServer()
        server.__enter__()
        self.addCleanup(lambda: server.__exit__(None, None, None))
        run = self.box.pipe("--model", "anthropic:test-model", "--permission-mode", "bypass",
                            env={**server.env(), "ERRAND_MAX_SURVIVOR_TASKS": "1", "ERRAND_START_WINDOW_MS": "5000"})

        def call(turn, name, **arguments):
            before = len(server.requests)
            server.push(reply(tool(name, arguments, id=f"call-{turn}"), when=f"turn {turn} "))
            server.push(reply(text(f"seen {turn}."), when=".*"))
            run.line(f"turn {turn} now")
            run.expect(rf"seen {turn}\.")
            return server.requests[before + 1].tool_results()[f"call-{turn}"]

        value, error = call(1, "background_bash",
                            command="setsid python3 server.py 0 & until [ -e port ]; do sleep 0.02; done; echo up")
        port = self.read_port()
        running = rf"Still running: \d+ \S*python3 server\.py 0 :{port}, \d+ \S*python3 server\.py 0 :{port}\n"
        self.assertRegex(value, r"\ABackground task bg-1 has ended\.\nTask bg-1 is COMPLETED\.\nExit code: 0\n" + running +
                         r"\nOutput:\nup\Z")
        self.assertFalse(error)
        self.assertRegex(call(2, "background_output", task_id="bg-1")[0],
                         r"\ATask bg-1 is COMPLETED\.\nExit code: 0\n" + running + r"\nOutput:\nup\Z")
        self.assertRegex(call(3, "background_list")[0], r"(?m)^  bg-1  \[COMPLETED\]  .*  exit=0  \(2 still running\)$")
        self.assertEqual(call(4, "background_bash", command="true"),
                         ("1 ended tasks still have processes running; stop some: bg-1", True))
        self.assertEqual(call(5, "background_stop", task_id="bg-1"),
                         ("Task bg-1 had already finished (COMPLETED); 2 remaining processes ended.", False))
        self.assertTrue(can_listen(port))
        self.assertEqual(server.violations, [])
        run.end()


if __name__ == "__main__":
    unittest.main()
