#!/usr/bin/env python3
"""Reads every source file: headers begin with #pragma once, and what this project does not use is
not used: waiting by the clock, clocks and threads outside their files, unseeded random numbers,
notes to oneself. First proves on a sample that each rule can fail. Usage: words_test.py ROOT
"""

import pathlib
import re
import sys

LAYERS = ("kernels/", "comm/", "scheduler/", "runtime/", "cli/")
PURE = ("kernels/", "scheduler/", "comm/sim/")  # time comes from the caller or does not exist
SELF = "tests/lint/words_test.py"

# What is forbidden, where, in which files and folders it is allowed all the same, why, and a line
# that has it.
RULES = [
    (r"std::this_thread::sleep_(for|until)|(?<!\.)\bu?sleep\(", ("",), (),
     "wait for what happens, or for a timer of the loop", "std::this_thread::sleep_for(one);"),
    (r"std::chrono::\w+::now", LAYERS, ("comm/asio_loop.cc", "runtime/stopwatch.h"),
     "time comes from a Loop", "auto t = std::chrono::steady_clock::now();"),
    (r"\babsl::(Now|SleepFor)\b", PURE, (), "time comes from a Loop", "absl::Time t = absl::Now();"),
    (r"std::j?thread\b(?!::)", LAYERS, ("comm/asio_loop.h", "comm/asio_loop.cc", "kernels/cuda/"),
     "threads belong to loops and devices", "std::thread thread_;"),
    (r"(?<![\w.:>])(std::)?s?rand\(", ("",), (), "use kernels/random.h or a seeded generator",
     "int x = rand();"),
    (r"\b(TODO|FIXME|XXX)\b", ("",), (), "do it or file it", "// TODO: more"),
]


def errors_of(name, text):
    """What is wrong with one file; `name` is its path from the root."""
    if name.endswith(".h") and not text.startswith("#pragma once\n"):
        yield f"{name}:1: a header begins with #pragma once"
    for pattern, folders, allowed, instead, _ in RULES:
        if not name.startswith(folders) or name.startswith(allowed):
            continue
        for found in re.finditer(pattern, text):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{name}:{line}: {found.group(0)}: {instead}"


def rules_that_can_not_fail():
    for pattern, folders, allowed, _, sample in RULES:
        name = folders[0] + "sample.cc"
        if len(list(errors_of(name, "int x;\n" + sample))) != 1:
            yield f"the rule {pattern} does not find its sample"
        if any(list(errors_of(name, "#pragma once\n" + sample)) for name in allowed):
            yield f"the rule {pattern} is not lifted where it should be"
    if not list(errors_of("kernels/sample.h", "// No pragma.\n#pragma once\n")):
        yield "a header without #pragma once goes unnoticed"


def main(root):
    errors = list(rules_that_can_not_fail())
    files = 0
    for folder in (*LAYERS, "tests", "bench", "examples", "python"):
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix not in (".h", ".cc", ".cu", ".c", ".py") or name == SELF:
                continue
            files += 1
            errors += errors_of(name, path.read_text(encoding="utf-8"))
    for error in errors:
        print(error)
    print(f"{files} files, {len(errors)} errors")
    return 1 if errors or not files else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
