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


if __name__ == "__main__":
    unittest.main()
