#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The REPL without a terminal: lines in, plain text out, each after the end of the one before it."""

import json
import os
import re
import resource
import signal
import subprocess
import unittest

from errand_driver import Sandbox, poll

USAGE = ("usage: /bg [list | show <id> | output <id> [lines] [-f] | stop <id>|all | notifications | run <command> | "
         "wait [<id>...] [time] | watch <id> <regex>]")


class PipeTest(unittest.TestCase):
    def setUp(self):
        self.box = Sandbox(self)

    def script(self, *turns):
        with open(self.box.path("script.json"), "w", encoding="utf-8") as file:
            json.dump({"turns": list(turns)}, file)
        return "--model", "scripted:" + self.box.path("script.json")

    def test_without_a_model_it_says_how_to_configure_one_and_works(self):
        run = self.box.pipe()
        run.line("hello")
        run.line("!echo from the shell")
        run.line("/bg run echo by hand")
        run.line("/bg")
        self.assertEqual(run.end(), 0)
        self.assertRegex(run.text, r"(?m)^No model is configured\.")
        self.assertRegex(run.text, r"(?m)^from the shell$")
        self.assertRegex(run.text, r"(?m)^Background task started: bg-1$")
        self.assertRegex(run.text, r"(?m)^Background tasks \(1\):\n  bg-1  \[(RUNNING|COMPLETED)\]  echo by hand")
        self.assertRegex(run.text, r"(?m)^🔔 bg-1 - completed \(exit code 0\)$")
        self.assertNotIn("> ", run.text)
        self.assertNotIn("\x1b", run.text)

    def test_the_texts_of_bg(self):
        run = self.box.pipe()
        for line in ("/bg", "/bg list", "/bg notifications", "/bg show bg-9", "/bg frob", "/bg stop all"):
            run.line(line)
        run.expect(r"^No background tasks\.\nNo background tasks\.\nNo pending notifications\.\n"
                   r"bg-9: no such task \(known: none\)\n")
        run.expect("^" + re.escape(USAGE) + "$")
        run.line("!sleep 1000 &")
        run.line("/bg run exit 2")
        run.expect(r"^Background task started: bg-1\nBackground task started: bg-2$")
        run.expect(r"^🔔 bg-2 - failed \(exit code 2\)$")
        run.line("/bg")
        run.expect(r"^Background tasks \(2\):\n  bg-1  \[RUNNING\]  sleep 1000\n  bg-2  \[FAILED\]  exit 2  exit=2\n")
        run.line("/bg show bg-9")
        run.expect(r"^bg-9: no such task \(known: bg-1, bg-2\)$")
        run.line("/bg stop bg-2")
        run.expect(r"^bg-2 has already finished \(FAILED\); nothing to stop\.$")
        run.line("/bg stop bg-1")
        # The notice comes when the task has ended, the answer when its processes are gone.
        run.expect(r"^(bg-1 stopped: 1 process ended\.\n🔔 bg-1 - cancelled by user|"
                   r"🔔 bg-1 - cancelled by user\nbg-1 stopped: 1 process ended\.)$")
        run.line("/bg output bg-1")
        run.expect(r"^=== bg-1 \(CANCELLED\) ===\n\(none yet\)$")
        self.assertEqual(run.end(), 0)

    def test_the_texts_of_bg_with_one_and_with_two_processes(self):
        run = self.box.pipe()
        for number, command in ((1, "exec sleep 1000"), (2, "sleep 1000; true")):
            run.line(f"/bg run {command}")
            run.expect(f"^Background task started: bg-{number}$")
            poll(lambda: sum("sleep 1000" in what and "keeper" not in what for what in self.box.processes().values()) >= number)
            run.line(f"/bg stop bg-{number}")
            run.expect(f"^bg-{number} stopped: {number} process{'es' if number > 1 else ''} ended\\.$")
        for number, command in ((3, "sleep 1000 & exit 0"), (4, "sleep 1000 & sleep 1000 & exit 3")):
            left, state = number - 2, "COMPLETED" if number == 3 else "FAILED"
            what = "completed (exit code 0)" if number == 3 else "failed (exit code 3)"
            run.line(f"/bg run {command}")
            some = "1 process still running" if left == 1 else "2 processes still running"
            run.expect("^🔔 " + re.escape(f"bg-{number} - {what}; {some}: ") + r"\d+ sleep 1000(, \d+ sleep 1000)?$")
            run.line("/bg")
            run.expect(re.escape(f"  bg-{number}  [{state}]  {command}  exit={left * 3 - 3}  ({left} still running)") + "$")
            run.line(f"/bg stop bg-{number}")
            run.expect(f"^bg-{number} had already finished \\({state}\\); "
                       f"{left} remaining process{'es' if left > 1 else ''} ended\\.$")
            run.line(f"/bg stop bg-{number}")
            run.expect(f"^bg-{number} has already finished \\({state}\\); nothing to stop\\.$")
        run.line("/bg run kill -9 $$")
        run.expect(r"^🔔 bg-5 - failed \(signal 9 \(SIGKILL\)\)$")
        run.line("/bg")
        run.expect(r"^  bg-5  \[FAILED\]  kill -9 \$\$  signal=9$")
        run.line("/bg run echo " + "x" * 46)
        run.line("/bg")
        run.expect(r"^  bg-6  \[\w+\]  echo x{45}\.\.\.")
        run.line("/bg output bg-6 3")
        run.expect(r"^=== bg-6 \((RUNNING|COMPLETED)\) ===$")
        self.assertEqual(run.end(), 0)

    def test_notices_have_a_star_without_colour_or_utf_8(self):
        for env in ({"NO_COLOR": "1"}, {"LANG": "C"}, {"LC_ALL": "C"}):
            run = self.box.pipe(env=env)
            run.line("!true &")
            self.assertEqual(run.end(), 0)
            self.assertRegex(run.text, r"(?m)^\* bg-1 - completed \(exit code 0\)$")

    def test_the_conversation_of_the_mission(self):
        run = self.box.pipe("--permission-mode", "bypass", *self.script(
            {"when": "tests", "text": "I run them.", "tools": [
                {"name": "background_bash", "input": {"command": "until [ -e go ]; do sleep 0.02; done; echo passed"}},
                {"name": "bash", "input": {"command": "echo found TODO"}}]},
            {"when": "Background task started: bg-1", "text": "They run."},
            {"when": "(?s)<task-id>bg-1</task-id>.*<exit-code>0", "text": "They passed."}))
        run.line("run the tests")
        run.expect(r"^\[Agent\] I run them\.\n"
                   r"\[Tool\] background_bash\(command=\"until \[ -e go \]; do sleep 0\.02; done; echo passed\"\)\n"
                   r"Background task started: bg-1\n"
                   r"\[Tool\] bash\(command=\"echo found TODO\"\)\n"
                   r"found TODO\n(.*\n)?"
                   r"\[Agent\] They run\.$")
        run.line("/bg")
        run.expect(r"^Background tasks \(1\):\n  bg-1  \[RUNNING\]  until ")
        self.box.write("go", "")
        run.expect(r"^🔔 bg-1 - completed \(exit code 0\)\n\[Agent\] They passed\.$")
        self.assertEqual(run.end(), 0)

    def test_each_line_waits_for_the_end_of_the_turn_before_it(self):
        run = self.box.pipe(*self.script({"text": "one", "delay_ms": 300}, {"text": "two", "delay_ms": 300}))
        for line in ("first", "/bg", "second", "/bg"):
            run.line(line)
        self.assertEqual(run.end(), 0)
        self.assertTrue(run.text.endswith("[Agent] one\nNo background tasks.\n[Agent] two\nNo background tasks.\n"), run.text)

    def test_at_the_end_of_the_input_it_waits_for_the_tasks_and_the_turns_that_they_start(self):
        run = self.box.pipe("--permission-mode", "bypass", *self.script(
            {"when": "go", "tools": [{"name": "background_bash", "input": {"command": "sleep 1; exit 3"}}]},
            {"when": "started: bg-1", "text": "waiting"},
            {"when": "failed with exit code 3", "text": "it failed"}))
        run.line("go")
        run.line("!sleep 2 &")
        self.assertEqual(run.end(), 0)
        self.assertRegex(run.text, r"(?m)^🔔 bg-1 - failed \(exit code 3\)\n\[Agent\] it failed$")
        self.assertRegex(run.text, r"(?m)^🔔 bg-2 - completed \(exit code 0\)$")

    def test_nobody_is_asked_and_no_line_is_an_answer(self):
        run = self.box.pipe(*self.script(
            {"when": "go", "tools": [{"name": "bash", "input": {"command": "touch made; rm -rf made"}}]},
            {"when": "denied", "text": "I may not."}, {"when": "^y$", "text": "why y?"}))
        run.line("go")
        run.line("y")
        self.assertEqual(run.end(), 0)
        self.assertIn("[Agent] I may not.\n", run.text)
        self.assertIn("[Agent] why y?\n", run.text)
        self.assertFalse(os.path.exists(os.path.join(self.box.project, "made")))

    def test_a_last_line_without_newline_counts(self):
        run = self.box.pipe()
        run.process.stdin.write(b"!echo last")
        self.assertEqual(run.end(), 0)
        self.assertRegex(run.text, r"(?m)^last$")

    def test_a_failing_command_says_how_it_ended(self):
        run = self.box.pipe()
        run.line("!exit 7")
        run.line("!kill -9 $$")
        self.assertEqual(run.end(), 0)
        self.assertRegex(run.text, r"(?m)^\(exit code 7\)$")
        self.assertRegex(run.text, r"(?m)^\(signal 9 \(SIGKILL\)\)$")

    def test_what_commands_print_cannot_drive_the_terminal(self):
        run = self.box.pipe()
        run.line(r"!printf '\033]0;owned\007\033[2Jclean\n'")
        self.assertEqual(run.end(), 0)
        self.assertIn("\nclean\n", run.text)
        self.assertNotIn("\x1b", run.text)
        self.assertNotIn("owned", run.text)

    def test_unknown_commands_and_help(self):
        run = self.box.pipe()
        for line in ("/frob x", "/help", "!", "!&"):
            run.line(line)
        self.assertEqual(run.end(), 0)
        self.assertRegex(run.text, r"(?m)^unknown command: /frob \(see /help\)$")
        self.assertRegex(run.text, r"(?m)^  /bg stop <id>\|all ")
        self.assertEqual(run.text.count("usage: !cmd | !cmd &"), 2)

    def test_an_escaped_ampersand_is_the_commands_own(self):
        run = self.box.pipe()
        run.line("!echo a \\&")
        run.expect(r"^a &$")
        self.assertEqual(run.end(), 0)
        self.assertNotIn("started", run.text)

    def test_quit_ends_what_runs_and_says_so(self):
        run = self.box.pipe()
        run.line("!sleep 1000 &")
        run.line("/quit")
        run.line("!echo never")
        run.read_all()
        self.assertEqual(run.process.wait(60), 0)
        self.assertRegex(run.text, r"(?m)^🔔 bg-1 - cancelled \(session ended\)$")
        self.assertNotIn("never", run.text)
        self.box.wait_gone()

    def test_a_reader_that_goes_away_ends_the_session(self):
        run = self.box.pipe()
        run.line("!sleep 1000 &")
        run.expect("started: bg-1")
        run.process.stdout.close()
        run.line("/bg")
        self.assertEqual(run.process.wait(60), 1)
        self.box.wait_gone()

    def test_a_signal_is_heard_while_the_reader_is_stalled(self):
        run = self.box.pipe()
        run.line("!yes | head -c 3000000")
        run.expect("^y$")
        run.signal(signal.SIGTERM)
        self.assertEqual(run.process.wait(60), 143)
        self.box.wait_gone()


class UsageTest(unittest.TestCase):
    def setUp(self):
        self.box = Sandbox(self)

    def check(self, arguments, code, stderr):
        run = self.box.pipe(*arguments)
        self.assertEqual(run.end(), code)
        self.assertRegex(run.stderr(), stderr)
        return run

    def test_closed_standard_descriptors_are_not_taken_for_others(self):
        self.box.write("lines", "!echo hi > made\n!sleep 0.1; exit 3 &\n!cat > other\n")
        for closed in ("<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"):
            with self.subTest(closed):
                given = "" if "<" in closed else "<lines"
                done = subprocess.run(["sh", "-c", f'exec "$0" {given} {closed}', self.box.errand],
                                      cwd=self.box.project, env=self.box.environment(), capture_output=True, text=True,
                                      stdin=subprocess.DEVNULL, timeout=60)
                self.assertEqual(done.returncode, 0, done)
                self.assertEqual(done.stderr, "")
                if given:
                    made = self.box.path("project", "made")
                    with open(made, encoding="ascii") as file:
                        self.assertEqual(file.read(), "hi\n")
                    os.remove(made)
                if closed == "2>&-":
                    self.assertTrue(done.stdout.endswith("(exit code 3)\n"), done.stdout)
                self.box.wait_gone()

    def test_the_name_of_a_folder_cannot_drive_the_terminal(self):
        folder = self.box.path("p\x1b]0;owned\x07\x1b[5;5Hq")
        os.makedirs(os.path.join(folder, ".errand"))
        run = self.box.terminal(cwd=folder)
        run.expect(r"p\\x1b\]0;owned\\x07\\x1b\[5;5Hq")
        run.line("/quit")
        self.assertEqual(run.wait(), 0)
        self.assertNotIn(b"\x1b]0;", run._bytes)
        with open(os.path.join(folder, ".errand", "config.toml"), "w", encoding="ascii") as file:
            file.write("nonsense = 1\n")
        run = self.box.pipe(cwd=folder)
        run.end()
        self.assertIn("p\\x1b]0;owned", run.stderr())
        self.assertNotIn("\x1b", run.stderr())

    def test_without_a_thread_to_be_had_it_says_so(self):
        def limited():
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(54321)
                os.setuid(54321)
            resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        os.chmod(self.box.folder, 0o755)
        os.chmod(self.box.bin, 0o755)
        done = subprocess.run([self.box.errand], cwd="/", preexec_fn=limited, text=True,
                              env=self.box.environment(XDG_CONFIG_HOME="/nowhere", XDG_STATE_HOME="/nowhere"),
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 1, done)
        self.assertRegex(done.stderr, r"(?m)^errand: cannot start: ")

    def test_wrong_usage(self):
        self.check(["--frob"], 2, r"^errand: --frob: unknown option")
        self.check(["mcp"], 2, r"^errand: mcp: unknown command")
        self.check(["-p", "x"], 2, r"^errand: -p: unknown option")
        self.check(["--permission-mode", "yolo"], 2, r'^errand: --permission-mode: "yolo" is not allowed; allowed: ')
        self.check(["--model", "gpt"], 2, r'^errand: --model: "gpt" is not allowed')
        self.check(["--model", "scripted:/nowhere.json"], 2, r"^errand: .*nowhere\.json")
        self.check(["--config", "/nowhere.toml"], 2, r'^errand: --config: cannot open "/nowhere.toml": No such file')

    def test_version_and_help(self):
        self.assertRegex(self.check(["--version"], 0, r"^$").text, r"^errand \d+\.\d+\.\d+\n$")
        self.assertIn("--permission-mode", self.check(["--help"], 0, r"^$").text)

    def test_a_bad_value_in_the_config_is_refused_with_its_line(self):
        path = self.box.path("config", "errand", "config.toml")
        os.makedirs(os.path.dirname(path))
        with open(path, "w", encoding="utf-8") as file:
            file.write("\nmax_concurrent_background = 0\n")
        self.check([], 2, r"^errand: .*config\.toml:2: max_concurrent_background: 0 is not allowed; allowed: 1\.\.10000")
        with open(path, "w", encoding="utf-8") as file:
            file.write("max_concurrent_background = 1\n")
        run = self.box.pipe()
        run.line("!sleep 1000 &")
        run.line("!true &")
        run.line("/quit")
        self.assertEqual(run.end(), 0)
        self.assertIn("max concurrent background tasks (1) reached; wait for existing tasks to finish or stop them", run.text)


if __name__ == "__main__":
    unittest.main()
