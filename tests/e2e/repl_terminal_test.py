#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The REPL in a terminal: the line stays as it was whatever is printed above it; questions; leaving."""

import json
import os
import re
import time
import unittest

from errand_driver import Sandbox, poll


class ScreenTest(unittest.TestCase):
    """In tmux, as a person sees it."""

    def setUp(self):
        self.box = Sandbox(self)

    def start(self, *turns, columns=100, rows=30, mode="bypass", env=None):
        arguments = ["--permission-mode", mode]
        if turns:
            with open(self.box.path("script.json"), "w", encoding="utf-8") as file:
                json.dump({"turns": list(turns)}, file)
            arguments += ["--model", "scripted:" + self.box.path("script.json")]
        run = self.box.tmux(*arguments, columns=columns, rows=rows, env=env)
        run.expect(r"^>$")
        return run

    def lines(self, run, history=True):
        return [line for line in run.screen(history).split("\n") if line]

    def test_a_notice_arrives_while_one_types_and_the_line_is_left_as_it_was(self):
        run = self.start()
        run.line("!until [ -e go ]; do sleep 0.02; done &")
        run.expect(r"^Background task started: bg-1$")
        run.type("half a li")
        run.expect(r"^> half a li$")
        run.keys("Left", "Left")
        self.box.write("go", "")
        run.expect(r"^🔔 bg-1 - completed \(exit code 0\)\n> half a li$")
        run.type("X")
        run.expect(r"^> half a Xli$")
        run.keys("End")
        run.type("ne")
        run.expect(r"^🔔 bg-1 - completed \(exit code 0\)\n> half a Xline$")

    def test_fifty_notices_stand_once_and_in_order_above_a_line_of_several_rows(self):
        run = self.start(columns=40, rows=12, env={"ERRAND_MAX_CONCURRENT_BACKGROUND": "100"})
        line = "a line that is 测试 longer than one row of this terminal, and then some"
        run.line("/bg run true")
        run.type(line)
        text = "".join(line.split())
        poll(lambda: text in "".join(run.screen().split()), message=lambda: run.screen())
        for number in range(2, 52):
            run.keys("C-a")
            run.keys("C-k")
            run.line(f"/bg run sleep 0.0{number % 7}")
            run.type(line)
        # The last one started is not the last one to end.
        notice = re.compile(r"^🔔 bg-(\d+) - completed \(exit code 0\)$", re.M)
        poll(lambda: len(notice.findall(run.screen(True))) >= 51, message=lambda: run.screen(True))
        poll(lambda: "".join(run.screen().split()).endswith(text), message=lambda: run.screen())
        notices = notice.findall(run.screen(True))
        self.assertEqual(sorted(notices, key=int), [str(i) for i in range(1, 52)])
        self.assertEqual(len(notices), 51)

    def test_typing_while_the_model_works(self):
        run = self.start({"text": "slow answer", "delay_ms": 1500}, {"text": "second answer"})
        run.line("hello")
        run.type("second")
        run.expect(r"^> second$")
        run.keys("Enter")
        run.expect(r"^\(waiting\) second\n>$")
        run.expect(r"^> hello\n\[Agent\] slow answer\n> second\n\[Agent\] second answer\n>$")

    def test_bg_answers_while_the_model_works(self):
        run = self.start({"tools": [{"name": "bash", "input": {"command": "until [ -e go ]; do sleep 0.02; done"}}]},
                         {"text": "done"})
        run.line("hello")
        run.expect(r"^\[Tool\] bash")
        run.line("/bg")
        run.expect(r"^No background tasks\.$")
        self.box.write("go", "")
        run.expect(r"^\[Agent\] done$")

    def test_an_idle_prompt_wakes_the_model(self):
        run = self.start({"when": "go", "tools": [{"name": "background_bash", "input": {
                             "command": "until [ -e go ]; do sleep 0.02; done; exit 4"}}]},
                         {"when": "started: bg-1", "text": "It runs."},
                         {"when": "failed with exit code 4", "text": "It failed with 4."})
        run.line("go")
        run.expect(r"^\[Agent\] It runs\.$")
        run.type("I was typ")
        run.expect(r"^> I was typ$")
        self.box.write("go", "")
        run.expect(r"^🔔 bg-1 - failed \(exit code 4\)\n\[Agent\] It failed with 4\.\n> I was typ$")

    def test_resize(self):
        run = self.start(columns=80)
        run.type("a line that is longer than forty columns, so that it wraps")
        run.expect(r"^> a line that is longer than forty columns, so that it wraps$")
        run.resize(40, 20)
        run.line("")
        run.expect(r"^>$")
        run.type("one more, typed at forty columns, 测试 and wrapped")
        for columns in (61, 37, 90):
            run.resize(columns, 20)
            poll(lambda: "".join(run.screen().split()).endswith("onemore,typedatfortycolumns,测试andwrapped"),
                 message=lambda: run.screen())
        run.keys("C-u")
        run.line("!echo after the resize")
        run.expect(r"^after the resize$")
        self.assertEqual(run.screen(True).count("one more, typed"), 0, run.screen(True))

    def test_notices_between_resizes_stand_once_above_the_line(self):
        run = self.start(columns=80, rows=20, env={"ERRAND_MAX_CONCURRENT_BACKGROUND": "50"})
        line = "typed before the resizes, 测试 and long enough for two rows of a narrow terminal"
        for number in range(1, 13):
            run.line(f"/bg run until [ -e go{number % 4} ]; do sleep 0.05; done")
        run.type(line)
        text = ">" + "".join(line.split())
        whole = lambda: "".join(run.screen().split()).endswith(text)
        poll(whole, message=run.screen)
        for step, columns in enumerate((40, 97, 61, 120)):
            self.box.write(f"go{step}", "")
            run.resize(columns, 20)
            for number in range(1, 13):
                if number % 4 == step:
                    run.expect(f"bg-{number} - completed", history=True)
            poll(whole, message=run.screen)
        found = re.findall(r"🔔 bg-(\d+) - completed", run.screen(True))
        self.assertEqual(sorted(found, key=int), [str(i) for i in range(1, 13)], run.screen(True))

    def test_editing_keys_and_history(self):
        run = self.start()
        run.type("echo xhello")
        for _ in range(6):
            run.keys("Left")
        run.keys("Delete", "C-a")
        run.type("!")
        run.keys("Enter")
        run.expect(r"^> !echo hello\nhello$")
        run.keys("Up")
        run.expect(r"^hello\n> !echo hello$")
        run.keys("C-w")
        run.type("测试")
        run.keys("BSpace")
        run.type("é")
        run.keys("Enter")
        run.expect(r"^> !echo 测é\n测é$")

    def test_a_pasted_text_is_one_entry(self):
        run = self.start({"text": "got it"})
        run._call("set-buffer", "one\ntwo\nthree")
        run._call("paste-buffer", "-p")
        run.expect(r"^> one\n  two\n  three$")
        self.assertNotIn("got it", run.screen())
        run.keys("Enter")
        run.expect(r"^> one\n  two\n  three\n\[Agent\] got it$")

    def test_what_tasks_print_cannot_drive_the_terminal(self):
        run = self.start()
        run.line(r"!printf '\033[2J\033]0;owned\007\033[5;5Hplain\n'")
        run.expect(r"^plain$")
        self.assertIn("!printf", run.screen())

    def test_ctrl_c_ends_the_turn_and_its_command(self):
        run = self.start({"tools": [{"name": "bash", "input": {"command": "echo $$ > pid; sleep 1000"}}]},
                         {"text": "again"})
        run.line("go")
        pid = os.path.join(self.box.project, "pid")
        poll(lambda: os.path.exists(pid) and os.path.getsize(pid) > 0)
        run.keys("C-c")
        run.expect(r"^\(aborted\)$")
        poll(lambda: not any("sleep 1000" in command for command in self.box.processes().values()))
        run.line("and now")
        run.expect(r"^\[Agent\] again$")

    def test_escape_ends_the_turn_and_gives_queued_messages_back(self):
        run = self.start({"text": "never", "delay_ms": 60000}, {"text": "fine"})
        run.line("go")
        run.line("queued one")
        run.expect(r"^\(waiting\) queued one$")
        run.keys("Escape")
        run.expect(r"^\(aborted\)$")
        run.expect(r"^> queued one$")
        run.keys("Enter")
        run.expect(r"^\[Agent\] fine$")

    def test_ctrl_c_twice_quits(self):
        run = self.start()
        run.type("something")
        run.keys("C-c")
        run.expect(r"^>$")
        # Only quick ones count, and a loaded machine may be slow: try again.
        def quits():
            if run.status() is None:
                run.keys("C-c", "C-c")
            return run.status() is not None
        poll(quits)
        self.assertEqual(run.wait(), 0)

    def test_quitting_with_running_tasks_asks_once_and_says_what_ends(self):
        run = self.start()
        run.line("!sleep 1000 &")
        run.expect(r"started: bg-1$")
        for leave in (lambda: run.line("/quit"), lambda: run.keys("C-d")):
            leave()
            run.expect(r"^1 background task is running and will end with the session:\n  bg-1  sleep 1000\n"
                       r"Quit and end them\? \[y/N\]$")
            run.line("n")
            run.expect(r"^Quit and end them\? \[y/N\] n\n>$")
            run.keys("C-l")
            run.expect(r"\A>$")
        run.line("/quit")
        run.expect(r"Quit and end them")
        run.line("y")
        self.assertEqual(run.wait(), 0)
        run.expect(r"^🔔 bg-1 - cancelled \(session ended\)$")
        run.kill()
        self.box.wait_gone()

    def test_a_stop_that_is_under_way_when_one_quits_is_still_answered(self):
        run = self.start()
        run.line("!trap '' TERM; sleep 1000 &")
        run.expect(r"started: bg-1$")
        run.line("/bg stop bg-1")
        run.expect(r"^🔔 bg-1 - cancelled by user$")
        run.line("/quit")
        # It is ended, but not gone yet: so it may be asked about.
        poll(lambda: run.status() is not None or "[y/N]" in run.screen())
        if run.status() is None:
            run.line("y")
        self.assertEqual(run.wait(), 0)
        run.expect(r"^bg-1 stopped: [12] process(es)? ended\.$", history=True)

    def test_quitting_without_tasks_does_not_ask(self):
        run = self.start()
        run.keys("C-d")
        self.assertEqual(run.wait(), 0)


class PermissionTest(unittest.TestCase):
    def setUp(self):
        self.box = Sandbox(self)

    def start(self, command, *turns):
        with open(self.box.path("script.json"), "w", encoding="utf-8") as file:
            json.dump({"turns": [{"when": "^go", "tools": [{"name": "bash", "input": {"command": command}}]}, *turns]}, file)
        run = self.box.tmux("--model", "scripted:" + self.box.path("script.json"))
        run.expect(r"^>$")
        run.line("go")
        return run

    def made(self, name):
        return os.path.exists(os.path.join(self.box.project, name))

    def test_the_question_shows_command_folder_and_asker_and_yes_runs_it_once(self):
        run = self.start("touch made", {"text": "done"})
        run.expect(r"^\[Permission\] main asks: bash\n    touch made\n  in " + re.escape(self.box.project))
        self.assertFalse(self.made("made"))
        run.expect(r"^Allow\?")
        run.line("perhaps")
        run.expect(r"Please answer y, a or n")
        run.line("y")
        run.expect(r"^\[Agent\] done$")
        self.assertTrue(self.made("made"))

    def test_no_with_a_reason_reaches_the_model(self):
        run = self.start("touch made", {"when": "use the other folder", "text": "I see."})
        run.expect(r"^Allow\?")
        run.line("n use the other folder")
        run.expect(r"^\[Agent\] I see\.$")
        self.assertFalse(self.made("made"))

    def test_always_is_not_asked_again(self):
        run = self.start("touch one", {"tools": [{"name": "bash", "input": {"command": "touch one"}}]}, {"text": "twice"})
        run.expect(r"a = always for bash\(touch")
        run.line("a")
        run.expect(r"^\[Agent\] twice$")

    def test_the_half_typed_line_is_no_answer_and_comes_back(self):
        self.box.write("x", "")
        with open(self.box.path("script.json"), "w", encoding="utf-8") as file:
            json.dump({"turns": [{"delay_ms": 1500, "tools": [{"name": "bash", "input": {"command": "touch made"}}]},
                                 {"text": "done"}]}, file)
        run = self.box.tmux("--model", "scripted:" + self.box.path("script.json"))
        run.expect(r"^>$")
        run.line("go")
        run.type("yes I was")
        run.expect(r"^Allow\? y = once")
        self.assertFalse(self.made("made"))
        run.line("n")
        run.expect(r"^\[Agent\] done\n> yes I was$")
        self.assertFalse(self.made("made"))

    def test_only_a_whole_word_is_an_answer(self):
        run = self.start("touch made", {"text": "done"})
        for text in ("a test for it, please", "yes I was just writing", "y n"):
            run.expect(r"^Allow\?")
            run.line(text)
            run.expect(re.escape(text) + r"\n(.*\n)*Please answer y, a or n\.")
            run.keys("C-l")
        self.assertFalse(self.made("made"))
        run.line("n")
        run.expect(r"^\[Agent\] done$")
        self.assertFalse(self.made("made"))

    def test_a_question_that_comes_while_one_types_takes_no_key_before_a_pause(self):
        with open(self.box.path("script.json"), "w", encoding="utf-8") as file:
            json.dump({"turns": [{"when": "^go", "delay_ms": 200,
                                  "tools": [{"name": "bash", "input": {"command": "touch made"}}]},
                                 {"text": "done"}]}, file)
        for _ in range(20):
            run = self.box.terminal("--model", "scripted:" + self.box.path("script.json"))
            run.expect(r"^> ")
            run.line("go")
            longest, before = 0, time.monotonic()
            while "[Permission]" not in run.text:
                run.line("y")
                run.read_some(0.03)
                longest, before = max(longest, time.monotonic() - before), time.monotonic()
            run.line("y")
            longest = max(longest, time.monotonic() - before)
            if longest < 0.2:
                break
            run.kill()  # the test itself was stopped for so long that it may count as a pause
            if self.made("made"):
                os.remove(os.path.join(self.box.project, "made"))
        else:
            self.skipTest("the machine is too slow to type fast")
        run.expect(r"Allow\?")
        self.assertFalse(self.made("made"))
        run.line("n")
        run.expect(r"\[Agent\] done")
        self.assertFalse(self.made("made"))
        run.kill()

    def test_a_question_that_comes_while_quitting_is_asked_waits_for_its_turn(self):
        with open(self.box.path("script.json"), "w", encoding="utf-8") as file:
            json.dump({"turns": [{"delay_ms": 1000, "tools": [{"name": "bash", "input": {"command": "touch made"}}]},
                                 {"text": "done"}]}, file)
        run = self.box.tmux("--model", "scripted:" + self.box.path("script.json"))
        run.expect(r"^>$")
        run.line("!sleep 1000 &")
        run.expect(r"started: bg-1$")
        run.line("go")
        run.line("/quit")
        run.expect(r"^Quit and end them\? \[y/N\]")
        run.expect(r"^\[Permission\](.*\n)*Quit and end them\? \[y/N\]$")
        run.line("n")
        run.expect(r"^Quit and end them\? \[y/N\] n\n(.*\n)*Allow\?")
        self.assertFalse(self.made("made"))
        run.line("y")
        run.expect(r"^\[Agent\] done$")
        self.assertTrue(self.made("made"))

    def test_ctrl_c_withdraws_the_question(self):
        run = self.start("touch made")
        run.expect(r"^Allow\?")
        run.keys("C-c")
        run.expect(r"^\(aborted\)\n>$")
        self.assertFalse(self.made("made"))

    def test_what_would_hide_in_a_command_is_written_out(self):
        run = self.start("echo \u202egpj.exe \x1b[2Jx")
        run.expect(r"^    echo \\u202egpj\.exe \\x1b\[2Jx$")
        run.line("n")


if __name__ == "__main__":
    unittest.main()
