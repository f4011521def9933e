# SPDX-License-Identifier: Apache-2.0
"""The installed package: an outside project finds it, builds against it, runs; from a moved prefix too."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

from errand_driver import ERRAND, Sandbox

BUILD = os.path.dirname(os.path.abspath(ERRAND))
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 280


def cached(name):
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
        found = re.search(rf"^{name}:\w+=(.*)$", file.read(), re.M)
    return found.group(1) if found else ""


def run(command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=LIMIT, check=False, **options)
    return done.returncode, done.stdout


class PackageSerial(unittest.TestCase):
    def setUp(self):
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix="errand-package-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.prefix = os.path.join(self.folder, "a prefix")  # a blank in its name

    def good(self, *command, **options):
        code, output = run(command, **options)
        self.assertEqual(code, 0, f"{command}:\n{output}")
        return output

    def install(self, *components):
        for component in components:
            self.good("cmake", "--install", BUILD, "--prefix", self.prefix, "--component", component)

    def configure(self, name, *more):
        sanitize = cached("ERRAND_SANITIZE")
        flags = f"-fsanitize={sanitize} -fno-sanitize=vptr" if sanitize else ""
        build = os.path.join(self.folder, name)
        code, output = run(["cmake", "-S", os.path.join(SOURCE, "tests/package/outside"), "-B", build, "-G", "Ninja",
                            f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_CXX_COMPILER={cached('CMAKE_CXX_COMPILER')}",
                            f"-DCMAKE_CXX_FLAGS={flags}", f"-DEXAMPLES={os.path.join(SOURCE, 'examples')}",
                            "-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF", *more])
        return build, code, output

    def build_and_run(self, name):
        build, code, output = self.configure(name)
        self.assertEqual(code, 0, output)
        self.good("cmake", "--build", build)
        printed = self.good(os.path.join(build, "outside"), "echo hi; exit 7", "echo done", cwd="/")
        self.assertEqual(printed, "hi\nfailed (exit code 7)\ndone\ncompleted (exit code 0)\n")
        printed = self.good(os.path.join(build, "start_and_wait"), "echo from outside")
        self.assertEqual(printed, "bg-1: echo from outside: completed (exit code 0)\nfrom outside\n")
        with open(os.path.join(build, "keeper.txt"), encoding="utf-8") as file:
            self.assertEqual(file.read().strip(), os.path.join(self.prefix, "libexec/errand/errand-keeper"))
        return build

    def test_an_outside_project_builds_and_runs_from_here_and_from_a_moved_prefix(self):
        self.install("library")
        self.assertFalse(os.path.exists(os.path.join(self.prefix, "bin")), "the library alone has no program")
        headers = sorted(os.listdir(os.path.join(self.prefix, "include/errand")))
        self.assertEqual(headers, sorted(os.listdir(os.path.join(SOURCE, "include/errand"))))
        build = self.build_and_run("first")
        moved = os.path.join(self.folder, "moved")
        os.rename(self.prefix, moved)
        # What was built before looks for the keeper where it was, and says so.
        printed = self.good(os.path.join(build, "outside"), "true")
        self.assertRegex(printed, r'^failed \(could not start: open ".*errand-keeper": No such file or directory\)\n$')
        self.prefix = moved
        self.build_and_run("second")

    def test_another_version_is_not_found(self):
        self.install("library")
        for wanted in ("0.9", "1.0"):
            _, code, output = self.configure("version" + wanted, f"-DWANTED={wanted}")
            self.assertNotEqual(code, 0)
            self.assertIn(f'with requested version "{wanted}"', output)

    def test_the_installed_program_needs_nothing_of_the_library(self):
        self.install("program")
        self.assertEqual(sorted(os.listdir(self.prefix)), ["bin", "libexec", "share"])
        box = Sandbox(self)
        moved = os.path.join(box.folder, "moved")
        os.rename(self.prefix, moved)
        done = subprocess.run([os.path.join(moved, "bin/errand")], input="!echo it $((40+2)) works\n", env=box.environment(),
                              cwd=box.project, capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("it 42 works", done.stdout)


if __name__ == "__main__":
    unittest.main()
