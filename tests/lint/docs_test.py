#!/usr/bin/env python3
"""Reads the documentation: links lead somewhere, and the README shows code as it is compiled.
Usage: docs_test.py ROOT
"""

import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")
CODE = re.compile(r"```cpp\n(.*?)```", re.DOTALL)


def link_errors(root, page):
    for target, _ in LINK.findall(page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://")) and not (page.parent / target).exists():
            yield f"{page.relative_to(root)}: the link to {target} leads nowhere"


def code_errors(root):
    examples = [path.read_text(encoding="utf-8") for path in (root / "examples").glob("*.cc")]
    for code in CODE.findall((root / "README.md").read_text(encoding="utf-8")):
        if not any(code in example for example in examples):
            yield f"README.md: this is in no file of examples/:\n{code}"


def main(root):
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    errors = [error for page in pages for error in link_errors(root, page)]
    errors += code_errors(root)
    for error in errors:
        print(error)
    print(f"{len(pages)} pages, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
