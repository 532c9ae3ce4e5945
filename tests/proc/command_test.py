#!/usr/bin/env python3
"""The `strata` command as one process: what it says, and its exit codes.

Usage: command_test.py STRATA [--torch] [--sanitized] [unittest options]; --torch: this build has
libtorch, --sanitized: sanitizers.
"""

import fcntl
import json
import os
import pathlib
import re
import resource
import stat
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from strata_process import Strata  # pylint: disable=wrong-import-position

TORCH, SANITIZED = "--torch" in sys.argv, "--sanitized" in sys.argv
sys.argv = [word for word in sys.argv if word not in ("--torch", "--sanitized")]
STRATA = Strata(sys.argv[1])
ROOT = pathlib.Path(__file__).parents[2]
FULL = "/dev/full"
UNITS = """model: {kind: units, elements: [5, 1009]}
train: {steps: 3, micro_batch: 1}
network: {transport: tcp}
"""
GPT = """model: {kind: gpt, layers: 1, width: 16, heads: 2, context: 16}
data: {text: TEXT}
train: {steps: 3, micro_batch: 1}
network: {transport: tcp}
"""


class Case(unittest.TestCase):
    """With a folder of its own and a configuration in it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = self.write("units.yaml", UNITS)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def fails(self, parts, *arguments, code=2, **options):
        """Runs it; it must end with `code` and one line that contains `parts`."""
        result = STRATA.run(*arguments, **options)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)
        return result

    def train(self, *arguments):
        return STRATA.run("train", self.config, *arguments)


class FullDevices(Case):
    def test_results_that_do_not_fit_are_an_error(self):
        for option, name in (("--metrics", "--metrics"), ("--trace", "trace")):
            self.fails(["strata train: ", name, f'cannot write "{FULL}"', "No space left"],
                       "train", self.config, option, FULL)

    def test_a_device_is_written_not_replaced(self):
        for device in (FULL, "/dev/null"):
            self.train("--trace", device)
            self.assertTrue(stat.S_ISCHR(os.stat(device).st_mode), device)
            self.assertFalse(os.path.exists(device + ".partial"))

    def test_standard_output_that_does_not_fit_is_an_error(self):
        for arguments in (["train", self.config], ["config", "--keys"], ["config", self.config],
                          ["config", self.config, "--effective"], ["--help"], ["--version"],
                          ["train", "--help"]):
            with self.subTest(arguments=arguments), open(FULL, "w") as full:
                result = STRATA.run(*arguments, stdout=full)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
                self.assertIn("cannot write standard output: ", result.stderr)

    def test_output_of_ranks_that_does_not_fit_is_an_error(self):
        for label in ("others", "all"):
            with self.subTest(label=label), open(FULL, "w") as full:
                result = STRATA.run("lab", "run", "--no-network", "--nodes", 1, "--ranks-per-node",
                                    2, "--label", label, "--", "echo", "line", stdout=full)
                self.assertNotEqual(result.returncode, 0, result.stderr)
                self.assertIn("No space left", result.stderr)

    def test_missing_folders_are_told_before_the_work(self):
        nowhere = self.folder / "nowhere" / "file"
        for option in ("--metrics", "--trace"):
            result = self.fails([option, str(nowhere), "No such file"], "train", self.config,
                                option, nowhere)
            self.assertEqual(result.stdout, "")
        text = self.write("text", "some words of a text " * 100)
        self.fails(["--json", str(nowhere), "No such file"], "demo", "--text", text, "--folder",
                   self.folder / "demo", "--json", nowhere)
        self.assertFalse((self.folder / "demo").exists())


class Sizes(Case):
    def test_what_does_not_fit_the_host_is_refused_before_it_is_allocated(self):
        self.fails(["does not fit the memory of this host", " GiB are available"], "train",
                   self.config, "--set", "model.elements=[900000000000]")

    def limited(self, config, mebibytes, *arguments):
        limit = mebibytes << 20
        return self.fails(["memory"], "train", config, *arguments, preexec_fn=lambda:
                          resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))

    @unittest.skipIf(SANITIZED, "sanitizers need more memory than they use")
    def test_memory_that_the_system_denies_is_an_error(self):
        self.limited(self.config, 1500, "--set", "model.elements=[500000000]")

    @unittest.skipUnless(TORCH, "this build has no libtorch")
    def test_memory_that_libtorch_is_denied_is_an_error(self):
        gpt = self.write("gpt.yaml", GPT.replace("TEXT", str(self.write("text", "words " * 500))))
        result = self.limited(gpt, 1500, "--set", "train.micro_batch=50000")
        self.assertIn("lower train.micro_batch", result.stderr)


class Network(Case):
    def test_an_interface_is_looked_for_in_a_world_of_one_too(self):
        self.fails(['no interface "nope"; there are: lo 127.0.0.1', "set network.interface"],
                   "train", self.config, "--set", "network.interface=nope")
        for known in ("lo", "127.0.0.1", "127.0.0.0/8"):
            result = self.train("--set", f"network.interface={known}")
            self.assertEqual(result.returncode, 0, result.stderr)


class Commands(Case):
    def test_an_unknown_command_is_named_with_the_nearest_and_all(self):
        for words, parts in (
                (["nope"], ['strata: there is no command "nope"', "commands: ", " config, lab, run"]),
                (["trian", "a.yaml"], ["the nearest is train"]),
                (["lab", "rn"], ['strata lab: there is no command "rn"', "the nearest is run"]),
                ([], ["strata: no command is given; commands: ", " lab, run"]),
                (["lab"], ["strata lab: no command is given; commands: run"])):
            self.fails([*parts, "--help"], *words)

    def test_an_unknown_option_is_named(self):
        self.fails(["--nope"], "train", self.config, "--nope")
        self.fails(['there is no option "--nope"'], "--nope")


class Divergence(Case):
    def test_a_run_that_ends_diverged_fails_and_its_first_skip_is_told(self):
        for steps in (7, 20):
            metrics = self.folder / "metrics.jsonl"
            result = self.train("--set", "train.learning_rate=1e38", "--set", f"train.steps={steps}",
                                "--set", "train.optimizer=sgd", "--set", "train.schedule=constant",
                                "--metrics", metrics)
            self.assertEqual(result.returncode, 1, result.stderr)
            warning, error = result.stderr.splitlines()
            self.assertRegex(warning, r"^warning strata.*: step \d+ was skipped, the first one")
            self.assertIn("strata train: the run diverged: ", error)
            self.assertIn("lower train.learning_rate", error)
            lines = [json.loads(line) for line in metrics.read_text().splitlines()]
            skipped = [line["step"] for line in lines if line.get("skipped")]
            self.assertEqual(lines[-1]["summary"]["skipped_steps"], len(skipped))
            self.assertEqual(skipped[-3:], [steps - 2, steps - 1, steps])

    def test_a_run_that_goes_well_skips_nothing(self):
        metrics = self.folder / "metrics.jsonl"
        result = self.train("--metrics", metrics)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        summary = json.loads(metrics.read_text().splitlines()[-1])["summary"]
        self.assertEqual(summary["skipped_steps"], 0)


class Demo(Case):
    def setUp(self):
        super().setUp()
        self.demo = self.folder / "demo"
        self.text = self.write("a text: with \"quotes\", it's # all.txt", "some words " * 200)

    def test_bad_input_is_told_before_anything_starts(self):
        good = {"--text": self.text, "--folder": self.demo}
        for option, value, part in (("--text", self.folder / "nowhere", "No such file"),
                                    ("--text", self.folder, "Is a directory"),
                                    ("--text", "/dev/zero", "a device"),
                                    ("--text", self.write("short", "few"), "a longer text"),
                                    ("--link", "fast", "kbit, mbit or gbit"),
                                    ("--link", "1000gbit", "outside"),
                                    ("--steps", "3", "3")):
            words = [word for pair in {**good, option: value}.items() for word in pair]
            self.fails([option, part], "demo", *words)
            self.assertFalse(self.demo.exists())
        self.fails(["--folder", "No such file"], "demo", "--text", self.text, "--folder",
                   self.folder / "nowhere" / "demo")

    def test_a_folder_is_for_one_demo_at_a_time(self):
        self.demo.mkdir()
        with open(self.demo / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.fails(["another demo is running in", str(self.demo), "--folder"], "demo", "--text",
                       self.text, "--folder", self.demo)

    @unittest.skipUnless(TORCH, "this build has no libtorch")
    def test_a_text_may_have_any_name(self):
        result = STRATA.run("demo", "--text", self.text, "--folder", self.demo, "--steps", 4,
                            "--link", "1gbit")
        if "CAP_SYS_ADMIN" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("speed-up of iig over zero3", result.stdout)


class Example(Case):
    GPT = ROOT / "examples/gpt.yaml"

    def test_the_starter_configuration_is_valid_and_the_readme_uses_it(self):
        result = STRATA.run("config", self.GPT)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        commands = re.findall(r"strata (train examples/gpt\.yaml.*)", (ROOT / "README.md").read_text())
        self.assertEqual(len(commands), 2)
        for command in commands:
            words = [word for word in command.split() if word != "--metrics" and ".jsonl" not in word]
            self.assertEqual(STRATA.run("config", *words[1:], cwd=ROOT).returncode, 0, command)

    @unittest.skipUnless(TORCH, "this build has no libtorch")
    def test_the_starter_configuration_trains(self):
        result = STRATA.run("train", self.GPT, "--set", "train.steps=1", "--set", "train.warmup=1",
                            cwd=ROOT)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("loss 5.", result.stdout)


class Files(Case):
    def test_what_is_no_regular_file_is_refused_at_once(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for file, kind in ((pipe, "a pipe"), ("/dev/zero", "a device"), ("/dev/tty", ""),
                           (self.folder, "Is a directory")):
            self.fails([str(file), "cannot be read", kind], "train", file)
            self.fails([str(file), "cannot be read", kind], "config", file)
        gpt = self.write("gpt.yaml", GPT)
        for file, kind in ((pipe, "a pipe"), ("/dev/zero", "a device")):
            self.fails(["data.text", str(file), kind], "train", gpt, "--set", f"data.text={file}")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
