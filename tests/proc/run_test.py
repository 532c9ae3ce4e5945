#!/usr/bin/env python3
"""`strata run` through a stand-in for ssh that runs the command on this host.

Usage: run_test.py STRATA [unittest options]
"""

import os
import pathlib
import signal
import sys
import tempfile
import unittest
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from strata_process import Strata, processes_with, wait_until  # pylint: disable=C0413

STRATA = Strata(sys.argv[1])

# Like ssh, it hands the command to a login shell as one string.
REMOTE_SHELL = """#!/bin/sh
REMOTE_HOST=$1
export REMOTE_HOST
shift
echo "$*" >>"$COMMANDS"
exec sh -c "$*"
"""


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.rsh = pathlib.Path(folder.name) / "rsh"
        self.rsh.write_text(REMOTE_SHELL)
        self.rsh.chmod(0o755)
        self.commands = pathlib.Path(folder.name) / "commands"
        self.mark = "RUN_TEST=" + uuid.uuid4().hex
        name, value = self.mark.split("=")
        self.environment = {**os.environ, "COMMANDS": str(self.commands), name: value,
                            "STRATA_LOG": "warning"}

    def run_on(self, hosts, *words):
        return STRATA.run("run", "--hosts", hosts, "--rsh", self.rsh, *words, env=self.environment)

    def start(self, script, before=""):
        process = STRATA.start("run", "--hosts", "a,b:2", "--rsh", self.rsh, "--", "sh", "-c",
                               f"{before}echo up; {script}", env=self.environment)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        for _ in range(3):
            self.assertIn("up", process.stdout.readline())
        return process

    def assert_all_ended(self):
        self.assertTrue(wait_until(lambda: not processes_with(self.mark)),
                        processes_with(self.mark))

    def test_ranks_get_their_environment(self):
        result = self.run_on("a,b:2", "--port", "1234", "--", "sh", "-c",
                             'echo "$RANK $REMOTE_HOST $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK '
                             '$WORLD_SIZE $MASTER_ADDR $MASTER_PORT $STRATA_LOG '
                             '${#STRATA_TOKEN} $PWD"')
        self.assertEqual(result.returncode, 0, result.stderr)
        end = f"a 1234 warning 32 {os.getcwd()}"
        self.assertEqual(sorted(result.stdout.splitlines()),
                         [f"0 a 0 1 0 3 {end}", f"[1] 1 b 0 2 1 3 {end}", f"[2] 2 b 1 2 1 3 {end}"])

    def test_words_arrive_as_they_were_given(self):
        words = ["", "two words", "it's", "$HOME", "`id`", "--", "-x", "a\nb", "*"]
        result = self.run_on("a", "--", "printf", "%s|", *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "|".join(words) + "|")

    def test_token_is_not_on_a_command_line(self):
        result = self.run_on("a", "--", "sh", "-c", "echo $STRATA_TOKEN")
        token = result.stdout.strip()
        self.assertEqual(len(token), 32)
        self.assertNotIn(token, self.commands.read_text())

    def test_first_failing_rank_decides_and_others_are_ended(self):
        result = self.run_on("a,b:2", "--grace", "0.2", "--", "sh", "-c",
                             'if [ "$RANK" = 1 ]; then exit 5; fi; sleep 300')
        self.assertEqual(result.returncode, 5, result.stderr)
        self.assertIn("rank 1 (b) exited with 5", result.stderr)
        self.assert_all_ended()

    def test_signals_reach_the_remote_programs(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                process = self.start("sleep 300 & wait",
                                           before="trap 'echo caught; exit 3' INT TERM; ")
                process.send_signal(number)
                output, _ = process.communicate(timeout=30)
                self.assertEqual(process.returncode, 128 + number)
                self.assertEqual(output.count("caught"), 3, output)
                self.assert_all_ended()

    def test_a_second_signal_kills(self):
        process = self.start("sleep 300; sleep 300", before="trap '' INT TERM; ")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        self.assertNotEqual(process.wait(timeout=30), 0)
        self.assert_all_ended()

    def test_sigkill_of_the_command_ends_remote_programs(self):
        process = self.start("sleep 300")
        process.kill()
        self.assert_all_ended()

    def test_bad_input_is_one_line_and_exit_code_2(self):
        rsh = ["--rsh", self.rsh]
        cases = [
            (["--", "true"], "--hosts"),
            (["--hosts", "", *rsh, "--", "true"], "HOST"),
            (["--hosts", "a:0", *rsh, "--", "true"], "a:0"),
            (["--hosts", "a,a", *rsh, "--", "true"], "twice"),
            (["--hosts", "a", *rsh], "no program"),
            (["--hosts", "a", "--rsh", "no-such-rsh", "--", "true"], "no-such-rsh"),
            (["--hosts", "a", "--port", "0", *rsh, "--", "true"], "--port"),
        ]
        for arguments, named in cases:
            with self.subTest(arguments=arguments):
                result = STRATA.run("run", *arguments)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
                self.assertIn(named, result.stderr)

    def test_a_missing_program_fails(self):
        self.assertEqual(self.run_on("a", "--", "no-such-program").returncode, 127)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
