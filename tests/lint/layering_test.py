#!/usr/bin/env python3
"""Reads every source file: layers include only downwards, libtorch stays in its folder, and no file
outgrows a reader. Usage: layering_test.py ROOT
"""

import pathlib
import re
import sys

LAYERS = ["kernels", "comm", "scheduler", "runtime", "cli"]
OTHERS = ["tests", "bench", "examples"]
TORCH_FOLDERS = ("runtime/torch", "tests")
LONGEST_HEADER = 150
LONGEST_SOURCE = 600

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)', re.MULTILINE)


def include_errors(path, text):
    """What `path` includes and must not."""
    layer = path.parts[0]
    for bracket, included in INCLUDE.findall(text):
        folder = included.split("/")[0]
        if layer in LAYERS and folder in LAYERS and LAYERS.index(folder) > LAYERS.index(layer):
            yield f"{path}: includes {included}, of a layer above {layer}"
        if layer in LAYERS and bracket == '"' and folder in OTHERS:
            yield f"{path}: includes {included}; {folder} is not for layers"
        if folder in ("torch", "ATen", "c10") and not str(path).startswith(TORCH_FOLDERS):
            yield f"{path}: includes {included}; libtorch appears in runtime/torch only"


def size_errors(path, text):
    most = LONGEST_HEADER if path.suffix == ".h" else LONGEST_SOURCE
    lines = text.count("\n")
    if path.parts[0] in LAYERS and lines > most:
        yield f"{path}: {lines} lines, more than {most}"


def main(root):
    errors = []
    files = 0
    for folder in LAYERS + OTHERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cc", ".cu", ".c"):
                continue
            files += 1
            text = path.read_text(encoding="utf-8")
            name = path.relative_to(root)
            errors += [*include_errors(name, text), *size_errors(name, text)]
    for error in errors:
        print(error)
    print(f"{files} files, {len(errors)} errors")
    return 1 if errors or not files else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
