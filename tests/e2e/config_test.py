# SPDX-License-Identifier: Apache-2.0
"""`errand config`, and that what is wrong in a configuration is refused before anything begins."""

import os
import re
import subprocess
import unittest

from errand_driver import Sandbox


class ConfigCommand(unittest.TestCase):
    def setUp(self):
        self.box = Sandbox(self)
        os.makedirs(os.path.join(self.box.config, "errand"))
        self.user = os.path.join(self.box.config, "errand/config.toml")
        self.project = os.path.join(self.box.project, ".errand/config.toml")

    def errand(self, *arguments, **environment):
        done = subprocess.run([self.box.errand, *arguments], cwd=self.box.project, env=self.box.environment(**environment),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr

    def user_file(self, text):
        with open(self.user, "w", encoding="utf-8") as file:
            file.write(text)

    def test_says_what_is_in_force_and_where_it_came_from(self):
        self.user_file("# mine\nmax_steps = 9\nstop_grace_ms = 11\nallow = ['bash(git status*)']\n")
        self.box.write(".errand/config.toml", "stop_grace_ms = 12\nmax_tokens = 13\n")
        code, out, err = self.errand("config", "--permission-mode", "plan", ERRAND_MAX_TOKENS="14")
        self.assertEqual((code, err), (0, ""))
        found = dict(re.findall(r"^(\w+ = .*\S) +# (.*)$", out, re.M))
        self.assertEqual(found["max_steps = 9"], self.user + ":2")
        self.assertEqual(found["stop_grace_ms = 12"], self.project + ":1")
        self.assertEqual(found["max_tokens = 14"], "ERRAND_MAX_TOKENS")
        self.assertEqual(found['permission_mode = "plan"'], "--permission-mode")
        self.assertEqual(found['allow = ["bash(git status*)"]'], self.user + ":4")
        self.assertEqual(found["max_output_chars = 65536"], "default")
        # What is printed is a configuration that gives the same.
        again = self.box.path("again.toml")
        with open(again, "w", encoding="utf-8") as file:
            file.write(out)
        code, out, err = self.errand("--config", again, "config")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("max_steps = 9 ", out)
        self.assertFalse(os.listdir(self.box.state), "it starts no session")

    def test_a_projects_file_cannot_widen_permissions_or_name_programs(self):
        self.box.write(".errand/config.toml", "permission_mode = 'bypass'\nshell = '/bin/false'\nmax_steps = 3\n")
        code, out, err = self.errand("config")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"(?m)^max_steps = 3 ")
        self.assertRegex(out, r'(?m)^permission_mode = "default" +# default$')
        self.assertRegex(out, r'(?m)^# shell = "" +# default$')
        for line, key in ((1, "permission_mode"), (2, "shell")):
            self.assertIn(f"errand: {self.project}:{line}: {key} is ignored: a project's file cannot widen permissions", err)
        self.assertEqual(err.count('run "errand trust" in this folder'), 2, err)
        self.assertRegex(out, rf'(?m)^# permission_mode = "bypass" +# {re.escape(self.project)}:1, ignored: folder not trusted$')

    def test_what_is_wrong_is_refused_with_file_line_key_value_and_range(self):
        cases = (
            ("\n\nmax_concurrent_background = 0\n", ":3: max_concurrent_background: 0 is not allowed; allowed: 1..10000"),
            ("max_output_chars = 1023\n", ":1: max_output_chars: 1023 is not allowed; allowed: 1024..16777216"),
            ("stop_grace_ms = 'soon'\n", ':1: stop_grace_ms: "soon" is not allowed; allowed: 0..60000'),
            ("\nmax_stepps = 3\n", ':2: unknown key "max_stepps" with the value 3; the keys are '),
            ("max_steps = \n", ": line 1, column "),
        )
        for text, wanted in cases:
            self.user_file(text)
            for arguments in (("config",), ()):
                code, out, err = self.errand(*arguments)
                self.assertEqual((code, out), (2, ""), text)
                self.assertTrue(err.startswith(f"errand: {self.user}{wanted}"), err)
        self.user_file("")
        code, _, err = self.errand("config", ERRAND_OUTPUT_DRAIN_MS="5001")
        self.assertEqual((code, err), (2, 'errand: ERRAND_OUTPUT_DRAIN_MS: "5001" is not allowed; allowed: 0..5000\n'))
        code, _, err = self.errand("config", "--model", "gpt")
        self.assertEqual(code, 2)
        self.assertTrue(err.startswith('errand: --model: "gpt" is not allowed'), err)


class Trust(unittest.TestCase):
    def setUp(self):
        self.box = Sandbox(self)
        self.project = self.box.write(".errand/config.toml", "permission_mode = 'bypass'\nshell = '/bin/echo'\n"
                                      "pass_keys = true\nallow = ['bash(a\u202eb)']\n")
        self.store = os.path.join(self.box.state, "errand/trusted_folders")

    def errand(self, *arguments, cwd=None, stdin="", **environment):
        done = subprocess.run([self.box.errand, *arguments], cwd=cwd or self.box.project, env=self.box.environment(**environment),
                              input=stdin, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr

    def mode(self, cwd=None):
        code, out, err = self.errand("config", cwd=cwd)
        self.assertEqual(code, 0, err)
        return re.search(r'(?m)^permission_mode = "(.*)" +# ', out)[1]

    def test_a_folder_is_trusted_once_and_no_more_when_that_is_taken_back(self):
        self.assertEqual(self.mode(), "default")
        code, out, err = self.errand("trust")
        self.assertEqual((code, err), (0, ""))
        self.assertIn(self.project + " sets, with your trust:\n"
                      '  permission_mode = "bypass"\n    (nothing is asked any more, whatever the model does)\n'
                      '  shell = "/bin/echo"\n  allow = ["bash(a\\u202eb)"]\n', out)
        self.assertIn(self.box.project + " is trusted from now on", out)
        self.assertEqual(os.stat(self.store).st_mode & 0o777, 0o600)
        code, out, err = self.errand("config")
        self.assertIn(f'# {self.project}:1\n', re.search(r'(?m)^permission_mode = "bypass" .*\n', out)[0])
        self.assertNotIn("not trusted", out + err)
        self.assertRegex(out, r"(?m)^pass_keys = false ")
        self.assertIn("# pass_keys = true", out)
        self.assertIn(f"{self.project}:3: pass_keys is ignored: no project's file can set it", err)
        # It has effect: the shell that the project names, which prints its arguments.
        code, out, err = self.errand(stdin="!hello there\n")
        self.assertIn("-c hello there", out)
        self.assertIn("is trusted already", self.errand("trust")[1])
        self.assertEqual(self.errand("trust", "--list"), (0, self.box.project + "\n", ""))

        self.assertEqual(self.errand("trust", "--remove"), (0, self.box.project + " is not trusted any more.\n", ""))
        self.assertEqual(self.mode(), "default")
        self.assertEqual(self.errand("trust", "--list"), (0, "", ""))
        code, out, err = self.errand(stdin="!echo hello there\n")
        self.assertRegex(out, r"(?m)^hello there$")
        self.assertIn('run "errand trust" in this folder', err)
        self.assertIn("was not trusted", self.errand("trust", "--remove")[1])

    def test_a_session_in_a_terminal_asks_nothing_and_begins_with_the_warning(self):
        run = self.box.tmux(columns=250)
        run.expect(r"config\.toml:1: permission_mode is ignored: .* run \"errand trust\" in this folder(.|\n)*^>$")
        run.line("!echo goes on")
        run.expect(r"^goes on$")

    def test_another_folder_is_not_trusted_and_a_link_is_the_folder_that_it_names(self):
        self.errand("trust")
        link = self.box.path("link")
        os.symlink(self.box.project, link)
        self.assertEqual(self.mode(cwd=link), "bypass")
        below = os.path.join(self.box.project, "below")
        for folder in (below, self.box.project + "-2"):
            os.makedirs(os.path.join(folder, ".errand"))
            with open(os.path.join(folder, ".errand/config.toml"), "w", encoding="utf-8") as file:
                file.write("permission_mode = 'bypass'\n")
            self.assertEqual(self.mode(cwd=folder), "default", folder)
        # It is the path that is trusted: a folder that moved away is not, the one that came in its place is.
        os.rename(self.box.project, self.box.path("moved"))
        os.rename(self.box.project + "-2", self.box.project)
        self.assertEqual(self.mode(cwd=self.box.path("moved")), "default")
        self.assertEqual(self.mode(), "bypass")

    def test_a_folder_without_settings_and_one_with_a_broken_file(self):
        os.remove(self.project)
        code, out, _ = self.errand("trust")
        self.assertEqual(code, 0)
        self.assertIn("sets nothing today that needs your trust; it may later.", out)
        self.box.write(".errand/config.toml", "shell = 3\n")
        code, out, err = self.errand("trust")
        self.assertEqual((code, out), (2, ""))
        self.assertTrue(err.startswith(f"errand: {self.project}:1: shell: 3 is not allowed"), err)
        self.assertEqual(self.errand("trust", "--remove")[0], 0, "can be taken back all the same")

    def test_a_state_folder_that_cannot_be_written_is_named(self):
        with open(self.box.path("file"), "w", encoding="utf-8"):
            pass
        state = self.box.path("file/state")
        code, out, err = self.errand("trust", XDG_STATE_HOME=state)
        self.assertEqual(code, 1)
        self.assertNotIn("is trusted", out)
        self.assertEqual(err, f'errand: trust: cannot make folder "{state}/errand": Not a directory; nothing is changed '
                              "(the state folder, $XDG_STATE_HOME/errand, must be writable)\n")
        os.makedirs(self.store)  # what is no file cannot be read
        code, out, err = self.errand("config")
        self.assertEqual(code, 0)
        self.assertIn(f'errand: cannot read "{self.store}": Is a directory; so this folder is not trusted\n', err)
        self.assertIn("ignored: folder not trusted", out)


if __name__ == "__main__":
    unittest.main()
