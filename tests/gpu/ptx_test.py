#!/usr/bin/env python3
"""Reads the PTX of the kernels: every operation rounds once, to nearest even, and keeps denormals.
Usage: ptx_test.py FILE
"""

import pathlib
import re
import sys

# Fused, flushing, approximate or rounded in another way.
FORBIDDEN = re.compile(r"\b(?:fma|mad)\.(?:\w+\.)*f\d\d\b|\.ftz\b|\.approx\b|\.full\b"
                       r"|\b(?:add|sub|mul|div|sqrt)\.(?!rn\b)(?:\w+\.)*f\d\d\b")
EXPECTED = ("add.rn.f32", "mul.rn.f32", "div.rn.f32", "sqrt.rn.f32", "add.rn.f64", "mul.rn.f64")
SAMPLES = ("fma.rn.f32 %f1,", "mad.f32 %f1,", "add.ftz.f32 %f1,", "mul.rn.ftz.f32 %f1,",
           "div.approx.f32 %f1,", "div.full.f32 %f1,", "sqrt.approx.f32 %f1,", "add.f32 %f1,",
           "add.rz.f32 %f1,")


def main(path):
    errors = [f"the rule does not find {sample}" for sample in SAMPLES
              if not FORBIDDEN.search(sample)]
    ptx = path.read_text(encoding="utf-8")
    errors += [f"{line.strip()}: not one operation rounded to nearest even"
               for line in ptx.splitlines() if FORBIDDEN.search(line)]
    errors += [f"no {operation}: is this the PTX of the kernels?"
               for operation in EXPECTED if operation not in ptx]
    for error in errors:
        print(error)
    print(f"{len(ptx.splitlines())} lines of PTX, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
