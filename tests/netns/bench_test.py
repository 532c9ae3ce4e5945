#!/usr/bin/env python3
"""`strata bench` over shaped links: what it reports, and how it ends.

Usage: bench_test.py STRATA [unittest options]
"""

import csv
import json
import pathlib
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from strata_process import Strata  # pylint: disable=C0413

STRATA = Strata(sys.argv[1])
OPERATIONS = ["all_gather", "reduce_scatter", "all_reduce", "broadcast", "all_to_all", "sendrecv"]
MIB = 1 << 20


def formula(operation, size, nodes, ranks):
    """Bytes in one direction of the busiest node."""
    others = (nodes - 1) / nodes
    return {"all_gather": others, "reduce_scatter": others, "all_reduce": 2 * others,
            "broadcast": 1, "all_to_all": ranks * others, "sendrecv": ranks}[operation] * size


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.json = pathlib.Path(folder.name) / "bench.json"
        self.csv = pathlib.Path(folder.name) / "bench.csv"

    def words(self, nodes, ranks, *bench, link="1gbit", lab=()):
        return ("lab", "run", "--nodes", nodes, "--ranks-per-node", ranks, "--link", link, *lab,
                "--", STRATA.path, "bench", *bench)

    def bench(self, nodes, ranks, *bench, **options):
        return STRATA.run(*self.words(nodes, ranks, *bench, **options))

    def results(self):
        return json.loads(self.json.read_text())["results"]

    def measure(self, nodes, ranks, *bench, **options):
        result = self.bench(nodes, ranks, *bench, "--json", self.json, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.results()

    def test_bytes_are_those_of_the_formula(self):
        for transport in ("tcp", "ucx"):
            for operation in OPERATIONS:
                with self.subTest(transport=transport, operation=operation):
                    row, = self.measure(3, 2, operation, "--sizes", "3MiB", "--iterations", 3,
                                        "--transport", transport, "--rate", "1gbit")
                    expected = formula(operation, 3 * MIB, 3, 2)
                    self.assertEqual(row["wire_bytes_per_node"], row["formula_bytes_per_node"])
                    self.assertAlmostEqual(row["wire_bytes_per_node"], expected)
                    self.assertGreaterEqual(row["interface_bytes_per_node"], expected)
                    self.assertLess(row["interface_bytes_per_node"], 1.02 * expected)
                    self.assertAlmostEqual(row["bound_seconds"], expected * 8e-9 * 1514 / 1448)
                    self.assertEqual(len(row["samples_seconds"]), 3)
                    self.assertTrue(row["verified"])

    def test_where_ranks_are_placed_makes_no_difference_to_bytes(self):
        rows = [self.measure(2, 3, "all_gather", "--sizes", "3MiB", "--iterations", 3,
                             lab=("--placement", placement))[0]
                for placement in ("block", "round-robin")]
        self.assertEqual(*[row["wire_bytes_per_node"] for row in rows])

    def test_one_node_and_one_rank(self):
        for ranks in (1, 2):
            for operation in OPERATIONS:
                row, = self.measure(1, ranks, operation, "--sizes", "64KiB", "--iterations", 5,
                                    "--rate", "1gbit", "--dtype", "bf16")
                self.assertEqual((row["wire_bytes_per_node"], row["bound_seconds"]), (0, None))

    def test_csv_has_a_line_per_size(self):
        result = self.bench(2, 1, "sendrecv", "--sizes", "4KiB..64KiB", "--factor", 4,
                            "--iterations", 20, "--csv", self.csv)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = list(csv.DictReader(self.csv.read_text().splitlines()))
        self.assertEqual([row["bytes"] for row in rows], ["4096", "16384", "65536"])
        self.assertEqual({row["op"] for row in rows}, {"sendrecv"})
        self.assertEqual({row["percent_of_bound"] for row in rows}, {""})

    def test_thresholds_set_the_exit_code(self):
        words = ["broadcast", "--sizes", "256KiB", "--iterations", 20, "--transport", "tcp"]
        cases = [(["--min-bandwidth", "1mbit"], 0, ""),
                 (["--min-bandwidth", "99gbit"], 1, "--min-bandwidth is 99000"),
                 (["--rate", "1gbit", "--min-percent-of-bound", 5], 0, ""),
                 (["--rate", "100gbit", "--min-percent-of-bound", 50], 1,
                  "--min-percent-of-bound is 50")]
        for more, code, message in cases:
            with self.subTest(more=more):
                result = self.bench(2, 2, *words, *more)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertIn(message, result.stderr)

    def test_past_the_deadline_pair_size_and_progress_are_named(self):
        for transport in ("tcp", "ucx"):
            result = self.bench(2, 1, "all_gather", "--sizes", "8KiB,8MiB", "--iterations", 3,
                                "--deadline", 0.5, "--json", self.json, "--transport", transport,
                                link="10mbit")
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertRegex(result.stderr, r"all_gather of 8MiB, 1 of 1: operation \d+: no progress "
                                            r"from rank [01] \(host node[01]\) \(level cluster\); "
                                            r"\d+ of \d+ steps done")
            self.assertEqual([row["bytes"] for row in self.results()], [8192])

    def test_interrupted_it_tells_what_was_measured(self):
        process = STRATA.start(*self.words(2, 2, "all_reduce", "--sizes", "64KiB,64MiB",
                                           "--duration", 0.2, "--json", self.json, link="50mbit"))
        self.addCleanup(process.kill)
        while not process.stdout.readline().strip().startswith("64KiB"):
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 128 + signal.SIGINT)
        self.assertIn("busbw", output)
        report = json.loads(self.json.read_text())
        self.assertFalse(report["complete"])
        self.assertEqual([row["bytes"] for row in report["results"]], [65536])

    def test_bad_input_is_one_line_and_exit_code_2(self):
        cases = [(["all_gather", "--sizes", "1KiB..2"], "--sizes"),
                 (["all_gather", "--sizes", "6"], "6 bytes"),
                 (["all_gather", "--min-percent-of-bound", 90], "--rate"),
                 (["all_gather", "--rate", "fast"], "--rate"),
                 (["all_gather", "--chunk", "2"], "--chunk"),
                 (["all_gather", "--iterations", 5, "--duration", 1], "--duration"),
                 (["all_gather", "--json", "/no/such/folder/file"], "--json"),
                 (["all_reduce", "--sizes", "64KiB", "--iterations", 1, "--json", "/dev/full"],
                  '--json: cannot write "/dev/full": No space left'),
                 (["all_reduce", "--sizes", "64KiB", "--csv", "/dev/full"], "--csv"),
                 (["all_gather", "--transport", "pigeon"], "pigeon"),
                 (["no_such_operation"], "there is no command")]
        for words, message in cases:
            with self.subTest(words=words):
                result = STRATA.run("bench", *words)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(message, result.stderr)
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_an_interface_that_does_not_exist_is_named(self):
        result = self.bench(2, 1, "sendrecv", "--interface", "nosuch0")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("nosuch0", result.stderr)

    def test_ranks_must_measure_the_same(self):
        result = STRATA.run("lab", "run", "--nodes", 2, "--ranks-per-node", 1, "--link", "1gbit",
                            "--", "sh", "-c",
                            f'exec {STRATA.path} bench sendrecv --sizes "$((RANK + 1))KiB"')
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--sizes", result.stderr)


def setUpModule():
    result = STRATA.run("lab", "run", "--nodes", 1, "--ranks-per-node", 1, "--link", "1gbit", "--",
                        "true")
    if result.returncode == 2 and "CAP_SYS_ADMIN" in result.stderr:
        raise unittest.SkipTest(result.stderr.strip())


if __name__ == "__main__":
    outcome = unittest.main(argv=sys.argv[:1] + sys.argv[2:], exit=False).result
    if outcome.skipped:
        print(outcome.skipped[0][1])
        sys.exit(77)
    sys.exit(0 if outcome.wasSuccessful() else 1)
