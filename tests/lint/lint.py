#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules that no compiler sees: every source names its licence; includes follow the arrows between the rooms.

A wrong arrow does not build in most cases (a room's headers are found only through its links). Left for this check:
"../x/y.h", and a link in CMakeLists.txt that points upward.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# docs/architecture.md: which rooms a room may see, directly or through another. Hosts see no other host, but for
# the demo, which is a REPL with a script, and the command line, which starts them all.
ARROWS = {
    "base": [],
    "keeper": ["base"],
    "engine": ["base", "keeper"],  # the keeper's protocol only: a header
    "support": ["base"],
    "conversation": ["engine", "support"],
    "model": ["conversation"],
    "permission": ["conversation"],
    "tools": ["model", "permission"],
    "agent": ["tools"],
    "script": ["support"],
    "workflow": ["agent", "script"],
    "terminal": ["base", "support"],
    "repl": ["agent", "workflow", "terminal"],
    "demo": ["repl"],
    "cli": ["demo", "repl"],
    "print": ["agent", "workflow"],
    "mcp": ["agent", "workflow"],
    "web": ["agent", "workflow"],
}
CODE = (".cc", ".h", ".c", ".cpp", ".cmake", ".sh", ".py", ".js", ".mjs", ".ts", ".css")


def reachable(room):
    seen, todo = set(), [room]
    while todo:
        for target in ARROWS[todo.pop()]:
            if target not in seen:
                seen.add(target)
                todo.append(target)
    return seen


def files():
    try:
        out = subprocess.run(["git", "-C", ROOT, "ls-files", "-coz", "--exclude-standard"], check=True,
                             capture_output=True).stdout.decode()
        names = [n for n in out.split("\0") if n]
    except (OSError, subprocess.CalledProcessError):
        names = []
        for folder, folders, found in os.walk(ROOT):
            folders[:] = [f for f in folders if not f.startswith((".git", "build")) and f != "node_modules"]
            names += [os.path.relpath(os.path.join(folder, f), ROOT) for f in found]
    return sorted(n for n in names if os.path.isfile(os.path.join(ROOT, n)))


def room_of(name):
    parts = name.split("/")
    if parts[0] != "src" or len(parts) < 3:
        return None
    return parts[2] if parts[1] == "hosts" and len(parts) > 3 else parts[1]


def config_faults():
    """docs/config.md has a row for every key of src/support/config.cc, with its default, and for no other."""
    with open(os.path.join(ROOT, "src/support/config.cc"), encoding="utf-8") as f:
        source = f.read()
    with open(os.path.join(ROOT, "docs/config.md"), encoding="utf-8") as f:
        rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", f.read(), re.M))
    table = source[source.index("std::vector<ConfigKey> keys = {"):]
    table = table[:table.index("\n  };")]
    keys = {}
    for name, value in re.findall(r'[{(]"(\w+)", (std::string\("[^"]*"\)|[^,]+),', table):
        text = re.fullmatch(r'std::string\((.*)\)', value)
        keys[name] = {"List{}": "[]"}.get(value, text.group(1) or '""' if text else value)
    faults = [] if keys else ["src/support/config.cc: no table of keys found"]
    for name in sorted(set(keys) | set(rows)):
        if keys.get(name) != rows.get(name):
            faults.append(f"docs/config.md: `{name}`: the page says {rows.get(name)}, the program {keys.get(name)}")
    return faults


def known_tests():
    """Every test by its name: Suite.Test of GoogleTest, file.Class.method of tests/e2e, the fuzz targets, scripts."""
    names = set()
    for name in files():
        if name.startswith(("src/", "tests/", "bench/")) and name.endswith("_test.cc"):
            with open(os.path.join(ROOT, name), encoding="utf-8") as f:
                names.update(".".join(pair) for pair in re.findall(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", f.read(), re.M))
        elif name.startswith("tests/fuzz/") and name.endswith("_fuzz.cc"):
            names.add(os.path.basename(name)[:-3])
        elif name.startswith("tests/") and name.endswith("_test.py"):
            prefix = os.path.basename(name)[:-3]
            with open(os.path.join(ROOT, name), encoding="utf-8") as f:
                for line in f:
                    if match := re.match(r"class (\w+)", line):
                        suite = match.group(1)
                    elif match := re.match(r"    def (test_\w+)", line):
                        names.add(f"{prefix}.{suite}.{match.group(1)}")
    return names


def named_tests():
    """Each row of the tables (sentence, test) names tests that exist: docs/engine.md, docs/pains.md."""
    known, faults = known_tests(), []
    for page in ("docs/engine.md", "docs/pains.md"):
        with open(os.path.join(ROOT, page), encoding="utf-8") as f:
            lines = f.read().split("\n")
        in_table = found = False
        for number, line in enumerate(lines, 1):
            if not line.startswith("|"):
                in_table = False
                continue
            cell = line.rstrip("| ").rsplit("|", 1)[-1].strip()
            if cell == "test":
                in_table = found = True
                continue
            if not in_table or set(cell) == {"-"}:
                continue
            tests = re.findall(r"`([^`]+)`", cell)
            if not tests and not cell.startswith("not in this version, because "):
                faults.append(f"{page}:{number}: no test is named")
            for test in tests:
                if test not in known and not os.path.exists(os.path.join(ROOT, test)):
                    faults.append(f"{page}:{number}: there is no test `{test}`")
        if not found:
            faults.append(f"{page}: no table of tests found")
    with open(os.path.join(ROOT, "tests/mutations/mutations.py"), encoding="utf-8") as f:
        for test in re.findall(r'^    \(".*?",\s*"([^"]+)"', f.read(), re.M):
            name = re.sub(r"^Finding/|/\w+$", "", test)
            if name not in known:
                faults.append(f"tests/mutations/mutations.py: there is no test `{name}`")
    return faults


def public_header_faults(name, lines):
    """One concept a header, prose first: what it is stands in full sentences before any code; it stays short."""
    prose = []
    for line in lines[1:]:
        if not line.startswith("//"):
            break
        prose.append(line)
    faults = []
    if not any(line.rstrip().endswith(".") for line in prose):
        faults.append(f"{name}:2: a public header begins with prose")
    if len(lines) > 250:
        faults.append(f"{name}: {len(lines)} lines are more than one concept")
    return faults


def doubled_types():
    """One name, one type: two types of one name in two rooms link into one program, and one runs the other's code."""
    seen = {}
    for name in files():
        if room_of(name) is None and not name.startswith("include/") or not name.endswith((".cc", ".h")):
            continue
        space, hidden = "", False
        with open(os.path.join(ROOT, name), encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                if re.match(r"namespace \{", line):
                    hidden = True
                elif re.match(r"\}  // namespace$", line):
                    hidden = False
                elif match := re.match(r"namespace ([\w:]+) \{", line):
                    space = match.group(1)
                elif match := re.match(r"(?:class|struct|union|enum class)\s+(\w+)(?!::|\w)(?![^{]*;\s*$)[^(]*$", line):
                    if not hidden:
                        seen.setdefault(f"{space}::{match.group(1)}", []).append((name, number))
    faults = []
    for type_name, places in sorted(seen.items()):
        nouns = {os.path.splitext(os.path.basename(name))[0] for name, _ in places}
        if len(nouns) > 1:
            faults.append(f"{places[-1][0]}:{places[-1][1]}: {type_name} is also a type of {places[0][0]}")
    return faults


def main():
    faults = []
    for name in files():
        with open(os.path.join(ROOT, name), "rb") as f:
            text = f.read().decode("utf-8", "replace")
        head = text.split("\n", 3)[:3]
        is_code = name.endswith(CODE) or os.path.basename(name) == "CMakeLists.txt" or text.startswith("#!")
        if is_code and not any("SPDX-License-Identifier: Apache-2.0" in line for line in head):
            faults.append(f"{name}:1: no line `SPDX-License-Identifier: Apache-2.0` at the top")
        if not name.endswith((".cc", ".h")):
            continue
        if name.startswith("include/"):
            faults += public_header_faults(name, text.split("\n"))
        room = room_of(name)
        if room is not None and room not in ARROWS:
            faults.append(f"{name}:1: the room \"{room}\" is not in docs/architecture.md's arrows (tests/lint/lint.py)")
            continue
        for number, line in enumerate(text.split("\n"), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not match:
                continue
            path = match.group(1)
            first = path.split("/")[0]
            if ".." in path.split("/") or first == "src":
                faults.append(f"{name}:{number}: include of \"{path}\" goes round the rooms")
            elif name.startswith("include/") and first != "errand":
                faults.append(f"{name}:{number}: a public header includes the private \"{path}\"")
            elif room and first in ARROWS and first != room and first not in reachable(room):
                faults.append(f"{name}:{number}: {room} must not see {first}: \"{path}\"")
            elif room and first == "errand" and room != "engine" and "engine" not in reachable(room):
                faults.append(f"{name}:{number}: {room} must not see the engine: \"{path}\"")
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as f:
        cmake = f.read()
    for match in re.finditer(r"errand_room\((\w+)([^)]*)\)", cmake):
        room, links = match.group(1), match.group(2).split()
        for link in links:
            link = {"keeper_protocol": "keeper"}.get(link, link)
            if link in ARROWS and room in ARROWS and link != room and link not in reachable(room):
                faults.append(f"CMakeLists.txt: {room} links {link}, which is above it")
    faults += config_faults() + doubled_types() + named_tests()
    print("\n".join(faults) if faults else "no fault found")
    return 1 if faults else 0


sys.exit(main())
