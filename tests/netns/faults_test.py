#!/usr/bin/env python3
"""Training in the emulated cluster when ranks die, stop or are started wrongly.

Usage: faults_test.py STRATA [--torch] [unittest options]; --torch: this build has libtorch.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import unittest
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
# pylint: disable-next=wrong-import-position
from strata_process import Strata, processes_with, wait_until

TORCH = "--torch" in sys.argv
if TORCH:
    sys.argv.remove("--torch")
STRATA = Strata(sys.argv[1])
HERE = pathlib.Path(__file__).parent
NODES = RANKS_PER_NODE = 2
RANKS = range(NODES * RANKS_PER_NODE)

# A step takes about a second on a link of 20 Mbit/s: a signal falls into transfers.
UNITS = """model: {kind: units, elements: [60000, 50001, 30003], forward_seconds: 0.02,
        backward_seconds: 0.04}
train: {steps: 500, micro_batch: 1, accumulation: 2, eval_every: 0}
network: {timeout: 6s}
"""
GPT = """model: {kind: gpt, layers: 1, width: 16, heads: 2, context: 16}
data: {text: TEXT}
train: {steps: 2, micro_batch: 1}
network: {timeout: 6s}
"""
MEETING = r"(went away while the ranks met|has not come to the rendezvous|did not reach)"
STARTING = r"(connect the ranks|agree on units)"
TRAINING = r"(acquire|release|hand over gradients of) unit \"|end step \d+|flush"
NOISE = re.compile(r"terminate called|what\(\)|UCX|Sanitizer|Assertion|core dumped|0x[0-9a-f]{6}")


def lab(config, *options, program=(), link="20mbit", **run_options):
    return STRATA.run("lab", "run", "--nodes", NODES, "--ranks-per-node", RANKS_PER_NODE, "--link",
                      link, "--", *program, STRATA.path, "train", config, *options, **run_options)


def setUpModule():
    result = STRATA.run("lab", "run", "--nodes", 1, "--ranks-per-node", 1, "--link", "1gbit", "--",
                        "true")
    if result.returncode == 2 and "CAP_SYS_ADMIN" in result.stderr:
        print("SKIPPED: " + result.stderr.strip())
        sys.exit(77)


class Case(unittest.TestCase):
    """With a folder of its own, and a look at what is left outside it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "temporary").mkdir()
        self.text = self.folder / "text"
        self.text.write_text("the slow link is crossed once " * 1000)
        for name, config in (("units", UNITS), ("gpt", GPT)):
            (self.folder / f"{name}.yaml").write_text(config.replace("TEXT", str(self.text)))
        self.mark = uuid.uuid4().hex
        self.environment = {**os.environ, "FAULTS_TEST": self.mark,
                            "TMPDIR": str(self.folder / "temporary")}
        self.outside = self.look_outside()
        self.addCleanup(self.assert_nothing_left)

    def look_outside(self):
        return set(os.listdir("/dev/shm")), set(os.listdir("/sys/class/net"))

    def assert_nothing_left(self):
        mark = "FAULTS_TEST=" + self.mark
        self.assertTrue(wait_until(lambda: not processes_with(mark)), processes_with(mark))
        self.assertEqual(os.listdir(self.folder / "temporary"), [])
        for before, after in zip(self.outside, self.look_outside()):
            self.assertLessEqual(after, before)


class Signals(Case):
    def run_cases(self, name, cases):
        """Runs them one after the other in one cluster; returns what is wrong."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "units.yaml").write_text((self.folder / "units.yaml").read_text())
        (folder / "cases.json").write_text(json.dumps(cases))
        result = STRATA.run("lab", "run", "--nodes", NODES, "--ranks-per-node", RANKS_PER_NODE,
                            "--link", "20mbit", "--", sys.executable, HERE / "faults_rank.py",
                            STRATA.path, folder / "cases.json", folder, env=self.environment,
                            timeout=150)
        if result.returncode != 0:
            return [f"{name}: exit code {result.returncode}: {result.stderr}"]
        problems = []
        for case in cases:
            problems += self.check(case, [
                json.loads((folder / f"{case['name']}.{rank}.json").read_text()) for rank in RANKS])
        for rank in RANKS:
            left = json.loads((folder / f"left.{rank}.json").read_text())
            if any(left.values()):
                problems.append(f"{name}: rank {rank} sees left behind: {left}")
        return problems

    def check(self, case, results):
        victim = case["victim"]
        at = results[victim]["hit"]
        problems = []
        for rank in RANKS:
            if rank == victim or not results[rank]:
                continue
            code, said = results[rank]["code"], results[rank]["said"]
            after = results[rank]["end"] - at
            named = f"rank {victim} (host node{victim // RANKS_PER_NODE}"
            # Before it has come, nobody knows a rank's host; rank 0 has an address.
            if case["moment"] == "meeting":
                named = "launcher " + named if victim != 0 else "launcher rank 0 at 10.83.0.1:"
            elif case["moment"] == "starting":
                named = f"rank {victim} "
            good = (code == 1 and 0 < after < 10 and named in said and said.count("\n") == 1
                    and re.search(case["expected"], said) and not NOISE.search(said))
            if not good:
                problems.append(
                    f"{case['name']}: rank {rank} exited with {code} after {after:.2f} s: {said}")
        return problems

    def run_all(self, labs):
        with concurrent.futures.ThreadPoolExecutor(len(labs)) as pool:
            done = [pool.submit(self.run_cases, name, cases) for name, cases in labs.items()]
            problems = [problem for result in done for problem in result.result()]
        self.assertEqual(problems, [], "\n".join(problems))

    def test_any_rank_killed_at_any_time_ends_the_others_with_its_name(self):
        moments = [("meeting", "zero3", 0.2, MEETING),
                   ("starting", "zero3", 0.01, f"{MEETING}|{STARTING}|{TRAINING}"),
                   ("training", "zero3", 0.3, TRAINING), ("training", "ddp", 0.7, TRAINING)]
        # Their ranks mostly wait, for the slow link and for each other: several labs at once.
        labs = {}
        for transport in ("tcp", "ucx"):
            for moment, layout, delay, expected in moments:
                group = transport + ("" if moment == "training" else "-start")
                labs.setdefault(group, []).extend(
                    {"name": f"{transport}-{moment}-{layout}-{victim}", "victim": victim,
                     "signal": "SIGKILL", "moment": moment, "delay": delay + 0.05 * victim,
                     "expected": expected,
                     "set": [f"network.transport={transport}", f"layout={layout}"]}
                    for victim in RANKS)
        self.run_all(labs)

    def test_a_stopped_rank_ends_the_others_by_deadline(self):
        self.run_all({f"{transport}-{victim}": [
            {"name": f"{transport}-{victim}", "victim": victim, "signal": "SIGSTOP",
             "moment": "training", "delay": 0.2, "expected": f"(?={TRAINING}).*no heartbeat for 5s",
             "set": [f"network.transport={transport}", "layout=zero3"]}]
            for transport in ("tcp", "ucx") for victim in (0, 3)})

    def test_signals_to_the_lab_end_it_quietly(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            metrics = self.folder / f"{code}.jsonl"
            process = STRATA.start("lab", "run", "--nodes", NODES, "--ranks-per-node",
                                   RANKS_PER_NODE, "--link", "20mbit", "--", STRATA.path, "train",
                                   self.folder / "units.yaml", "--metrics", metrics,
                                   env=self.environment)
            self.addCleanup(process.kill)
            self.assertTrue(wait_until(lambda m=metrics: m.exists() and "\n" in m.read_text()))
            process.send_signal(number)
            _, errors = process.communicate(timeout=20)
            self.assertEqual(process.returncode, code, errors)
            self.assertNotRegex(errors, NOISE)
            self.assertLess(errors.count("\n"), 6, errors)

    @unittest.skipUnless(TORCH, "this build has no libtorch")
    def test_signals_to_the_demo_end_it_and_its_cluster(self):
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            folder = self.folder / f"demo-{number.name}"
            metrics = folder / "zero3.jsonl"
            process = STRATA.start("demo", "--text", self.text, "--folder", folder,
                                   env=self.environment,
                                   preexec_fn=lambda n=number: signal.signal(n, signal.SIG_DFL))
            self.addCleanup(process.kill)
            self.assertTrue(wait_until(lambda m=metrics: m.exists() and "\n" in m.read_text(), 60))
            process.send_signal(number)
            process.communicate(timeout=20)
            self.assertEqual(process.returncode, -number)
            mark = "FAULTS_TEST=" + self.mark
            self.assertTrue(wait_until(lambda m=mark: not processes_with(m)), processes_with(mark))


class BadInput(Case):
    def said(self, result):
        """What ranks said: without the cluster's own first and last line."""
        return [line for line in result.stderr.splitlines()
                if not line.startswith(("strata lab: ", "strata lab run: rank "))]

    def expect(self, parts, *options, config="units.yaml", lines=1, program=(), **environment):
        result = lab(self.folder / config, *options, program=program,
                     env={**self.environment, **environment})
        said = self.said(result)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertLessEqual(len(said), lines, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertNotRegex(result.stderr, NOISE)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_what_all_ranks_got_wrong_is_one_line(self):
        least = 4 * 4 * 65536  # two units of 240,000 bytes gathered and two gradients, in pages
        cases = [
            (["layuot", "no such key", "the nearest is layout"], "layuot=iig"),
            (["nonsense", "key=value"], "nonsense"),
            (["iigg", "is not one of", "hsdp"], "layout=iigg"),
            (['"rack"', "it has: node, cluster"],
             "layout={parameters: [rack], gradients: [node], optimizer: [node, rack]}"),
            (["layout.parameters", "layout.optimizer lacks"],
             "layout={parameters: [node, cluster], gradients: [node], optimizer: [node]}"),
            (['"u.0"', f"wants {least} bytes", "prefetch.bytes is 1000000",
              f"set prefetch.bytes to at least {least}"], "prefetch.bytes=1000000"),
            (["network.transport", '"rdma" is not one of'], "network.transport=rdma"),
            (["network.timeout", "is not a duration"], "network.timeout=6"),
        ]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(self.expect, parts, "--set", assignment)
                         for parts, assignment in cases]:
                done.result()
        empty = self.folder / "empty"
        empty.touch()
        for parts, text in [(["/nowhere/text", "No such file"], "/nowhere/text"),
                            (["Is a directory"], self.folder),
                            (["has 0 bytes", "need at least 170"], empty)]:
            self.expect(["data.text", *parts], "--set", f"data.text={text}", config="gpt.yaml")
        self.expect(["cannot be read"], config="nosuch.yaml")
        self.expect(["cannot be read"], config="temporary")

    def test_the_least_budget_is_enough(self):
        result = lab(self.folder / "units.yaml", "--set", f"prefetch.bytes={16 * 65536}", "--set",
                     "train.steps=1", link="1gbit", env=self.environment)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_what_one_rank_can_not_do_ends_all_alike(self):
        self.expect(['no interface "eth9"', "there are: lo 127.0.0.1, e0", "set network.interface"],
                    "--set", "network.interface=eth9", lines=2)  # the nodes' addresses differ
        for option in ("--metrics", "--trace"):
            self.expect([f"strata train: {option}: cannot write", "/nowhere/file", "No such file"],
                        option, "/nowhere/file", lines=2)

    def on_rank(self, rank, script):
        return ["sh", "-c", f'if [ "$RANK" = {rank} ]; then {script}; fi; exec "$@"', "sh"]

    def test_ranks_that_differ_are_named(self):
        self.expect(["launcher rank 3 (host node1) was started in a world of 5 ranks",
                     "give all ranks the same world size"],
                    program=self.on_rank(3, "export WORLD_SIZE=5"))
        self.expect(['no interface "eth7"', "set network.interface", "rank 2 (host node1) failed"],
                    lines=2, program=self.on_rank(2, "export STRATA_INTERFACE=eth7"))
        self.expect(["refused launcher rank 1", "the job tokens of the two ranks differ",
                     "launcher rank 1 has not come"], "--set", "network.timeout=1s", lines=3,
                    program=self.on_rank(1, "export STRATA_TOKEN=other"))
        self.expect(['layout is "iig" on launcher rank 1 (host node0) but "zero3"',
                     "make them equal on all ranks"],
                    program=self.on_rank(1, 'set -- "$@" --set layout=iig'))

    @unittest.skipUnless(TORCH, "this build has no libtorch")
    def test_different_thread_counts_are_refused(self):
        self.expect(["OMP_NUM_THREADS", 'is "1" on', '"3" on launcher rank 2 (host node1)',
                     "make them equal on all ranks"], config="gpt.yaml",
                    program=self.on_rank(2, "export OMP_NUM_THREADS=3"), OMP_NUM_THREADS="1")

    def test_a_used_port_is_named(self):
        # Rank 0 becomes a process that holds the port already.
        hold = ("import os, socket, sys; s = socket.create_server((os.environ['MASTER_ADDR'], "
                "int(os.environ['MASTER_PORT']))); s.set_inheritable(True); "
                "os.execv(sys.argv[1], sys.argv[1:])")
        self.expect(["cannot listen on 10.83.0.1:29400", "is used by another process",
                     "set MASTER_PORT"], "--set", "network.timeout=1s", lines=4,
                    program=self.on_rank(0, f'exec {sys.executable} -c "{hold}" "$@"'))

    def test_absent_ranks_are_named(self):
        result = lab(self.folder / "units.yaml", "--set", "network.timeout=1s",
                     env=self.environment, program=self.on_rank(2, "exit 0"))
        self.assertEqual(result.returncode, 1, result.stderr)
        said = self.said(result)
        self.assertEqual(len(said), 1, result.stderr)
        self.assertIn("[0, 1, 3] strata train: after 1s launcher rank 2 has not come", said[0])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
