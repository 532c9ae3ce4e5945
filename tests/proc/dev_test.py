#!/usr/bin/env python3
"""What `./dev build` says without a terminal, with a stand-in for ninja.

Usage: dev_test.py ROOT [unittest options]
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv[1])


@unittest.skipUnless(shutil.which("dpkg-query"), "./dev looks for Debian's packages")
class Build(unittest.TestCase):
    def build(self, ninja):
        """The result and the log of a build with a script in place of ninja."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            shutil.copy(ROOT / "dev", folder)
            (folder / "deploy").mkdir()
            (folder / "deploy/packages.txt").write_text("[build]\nbash\n")
            (folder / "build/release").mkdir(parents=True)
            (folder / "build/release/build.ninja").touch()
            (folder / "bin").mkdir()
            (folder / "bin/ninja").write_text("#!/bin/bash\n" + ninja)
            (folder / "bin/ninja").chmod(0o755)
            result = subprocess.run(
                [folder / "dev", "build"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}, timeout=60,
                check=False)
            return result, (folder / "build/release.log").read_text()

    def test_progress_is_said_every_tenth(self):
        result, log = self.build('for i in {1..57}; do echo "[$i/57] Building x$i.o"; done')
        self.assertEqual(result.returncode, 0, result.stderr)
        said = [int(built) for built in re.findall(r"dev: built (\d+) of 57 in", result.stderr)]
        self.assertEqual(said, [-(-57 * tenth // 10) for tenth in range(1, 11)])
        self.assertEqual(log.count("Building"), 57)
        self.assertRegex(result.stderr, r"dev: built build/release in \d+ s\n$")

    def test_nothing_to_do_is_no_progress(self):
        result, _ = self.build('echo "ninja: no work to do."')
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn(" of ", result.stderr)

    def test_a_failure_shows_the_end_of_the_log(self):
        result, _ = self.build('echo "[1/2] Building x.o"; echo "error: no such x" >&2; exit 1')
        self.assertEqual(result.returncode, 1)
        self.assertIn("error: no such x", result.stderr)
        self.assertRegex(result.stderr, r"ninja failed; the whole output is in build/release\.log\n$")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
