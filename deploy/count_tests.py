#!/usr/bin/env python3
"""Sums ctest's JUnit files to one line, "N passed, N failed, N skipped", counting the cases inside
each GoogleTest or unittest program. Exits 1 when one failed or a file is missing.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree


def last_count(pattern, output):
    """The number in the last line of `output` that matches, or 0."""
    counts = re.findall(pattern, output, re.MULTILINE)
    return int(counts[-1]) if counts else 0


def count_case(case):
    """(passed, failed, skipped) of one ctest test."""
    output = case.findtext("system-out") or ""
    status = case.get("status")
    if status not in ("run", "fail"):
        return 0, 0, 1
    passed = last_count(r"^\[  PASSED  \] (\d+) test", output)
    failed = last_count(r"^\[  FAILED  \] (\d+) test", output)
    skipped = last_count(r"^\[  SKIPPED \] (\d+) test", output)
    ran = last_count(r"^Ran (\d+) tests? in", output)
    if ran:
        failed = last_count(r"failures=(\d+)", output) + last_count(r"errors=(\d+)", output)
        skipped = last_count(r"skipped=(\d+)", output)
        passed = ran - failed - skipped
    if status == "fail":
        return passed, max(failed, 1), skipped
    return (passed, 0, skipped) if passed or skipped else (1, 0, 0)


def main(paths):
    total = [0, 0, 0]
    for path in paths:
        try:
            cases = ElementTree.parse(path).getroot().iter("testcase")
        except (OSError, ElementTree.ParseError) as error:
            print(f"no test results: {error}", file=sys.stderr)
            total[1] += 1
            continue
        for case in cases:
            total = [sum(pair) for pair in zip(total, count_case(case))]
    passed, failed, skipped = total
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
