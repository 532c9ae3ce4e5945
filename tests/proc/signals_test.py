#!/usr/bin/env python3
"""Signals end `strata train` as they end any program.

Usage: signals_test.py STRATA [unittest options]
"""

import json
import pathlib
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from strata_process import Strata, wait_until  # pylint: disable=wrong-import-position

STRATA = Strata(sys.argv[1])


class Signals(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "train.yaml").write_text(json.dumps({
            "model": {"kind": "units", "elements": [1009, 1, 503], "forward_seconds": 0.01},
            "train": {"steps": 1000000, "micro_batch": 1}}))

    def start(self, **options):
        """A training whose first step has ended."""
        metrics = self.folder / "metrics.jsonl"
        metrics.unlink(missing_ok=True)
        process = STRATA.start("train", self.folder / "train.yaml", "--metrics", metrics, **options)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertTrue(wait_until(lambda: self.steps() > 0 or process.poll() is not None))
        self.assertIsNone(process.poll())
        return process

    def steps(self):
        metrics = self.folder / "metrics.jsonl"
        return metrics.read_text().count("\n") if metrics.exists() else 0

    def test_they_end_a_training(self):
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name):
                process = self.start(preexec_fn=lambda n=number: signal.signal(n, signal.SIG_DFL))
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=20), -number)

    def test_a_training_started_with_nohup_goes_on(self):
        process = self.start(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        steps = self.steps()
        self.assertTrue(wait_until(lambda: self.steps() > steps + 5))
        self.assertIsNone(process.poll())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
