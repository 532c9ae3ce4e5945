#!/usr/bin/env python3
"""Memory of `strata train` in real processes: predicted, within the budget, and flat over steps.

Usage: memory_test.py STRATA [--ucx] [unittest options]; --ucx: this build has transport ucx.
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from strata_process import wait_until  # pylint: disable=wrong-import-position

TRANSPORTS = ("tcp", "ucx") if "--ucx" in sys.argv else ("tcp",)
if "--ucx" in sys.argv:
    sys.argv.remove("--ucx")
STRATA = str(pathlib.Path(sys.argv[1]).resolve())
MIB = 1 << 20


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def pss(process, kinds=("Pss",)):
    """Bytes of a process, each shared page divided by the number of those who map it."""
    lines = pathlib.Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()[1:]
    kib = {name: int(value.split()[0]) for name, value in (line.split(":") for line in lines)}
    return 1024 * sum(kib[kind] for kind in kinds)


class Job:
    """Ranks of one training on this host, which look like `nodes` to each other."""

    def __init__(self, folder, transport, nodes, keys):
        config = pathlib.Path(folder) / "train.yaml"
        config.write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in {
            "network": {"transport": transport}, **keys}.items()))
        self.metrics = pathlib.Path(folder) / "metrics.jsonl"
        self.metrics.unlink(missing_ok=True)
        port = free_port()
        self.ranks = []
        for rank, node in enumerate(node for node, size in enumerate(nodes) for _ in range(size)):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(sum(nodes)),
                           "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                           "STRATA_NODE": f"n{node}", "STRATA_TOKEN": "test",
                           "STRATA_LOG": "error"}
            self.ranks.append(subprocess.Popen(
                [STRATA, "train", str(config), "--metrics", str(self.metrics)], env=environment,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))

    def lines(self):
        if not self.metrics.exists():
            return []
        return [json.loads(line) for line in self.metrics.read_text().splitlines(keepends=True)
                if line.endswith("\n")]

    def reached(self, step):
        if any(rank.poll() for rank in self.ranks):
            raise AssertionError("\n".join(rank.communicate()[0] for rank in self.ranks))
        lines = self.lines()
        return bool(lines) and (lines[-1].get("step", 0) >= step or "summary" in lines[-1])

    def pss_at(self, step, kinds=("Pss",)):
        """Of each rank, when `step` has ended."""
        assert wait_until(lambda: self.reached(step), 60), f"no step {step}"
        return [pss(rank, kinds) for rank in self.ranks]

    def finish(self):
        for rank in self.ranks:
            output = rank.communicate(timeout=60)[0]
            assert rank.returncode == 0, output
        return self.lines()

    def kill(self):
        for rank in self.ranks:
            rank.kill()
            rank.communicate(timeout=60)


class Memory(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def start(self, transport, nodes, keys):
        job = Job(self.folder.name, transport, nodes, keys)
        self.addCleanup(job.kill)
        return job

    def measure(self, transport, nodes, layout, accumulation, dtype, scale):
        """Predicted bytes of rank 0, measured ones of each rank; the model is `scale` times larger."""
        width = 4 if dtype == "f32" else 2
        largest = 800011 * scale
        budget = 6 * largest * width // MIB * MIB
        # Their sleep is long enough to look at the processes between two steps.
        job = self.start(transport, nodes, {
            "model": {"kind": "units", "elements": [1031 * scale, largest, 400009 * scale, 61,
                                                    largest, 533333 * scale],
                      "forward_seconds": 0.1 / accumulation},
            "train": {"steps": 5, "accumulation": accumulation, "micro_batch": 1},
            "compute": {"dtype": dtype}, "layout": layout, "prefetch": {"bytes": budget}})
        measured = job.pss_at(3)
        *steps, last = job.finish()
        self.assertEqual([step["step"] for step in steps], list(range(1, 6)))
        for step in steps:
            self.assertGreater(step["peak_unit_bytes"], 0)
            self.assertLessEqual(step["peak_unit_bytes"], budget)
        memory = last["summary"]["memory"]
        # Taken at the end: by then up to four stores of 4 MiB, two peers on two lanes, are in use.
        self.assertAlmostEqual(memory["measured_pss"], measured[0],
                               delta=measured[0] / 20 + 16 * MIB)
        return memory["total"], measured

    # Beside what is predicted, transports' stores of fixed size count as far as they were used: the
    # models differ by so much that this is little.
    def check_prediction(self, transport, nodes, layout, accumulation, dtype):
        small, small_measured = self.measure(transport, nodes, layout, accumulation, dtype, 1)
        scale = 8 if dtype == "f32" else 16
        large, large_measured = self.measure(transport, nodes, layout, accumulation, dtype, scale)
        predicted = large - small
        self.assertGreater(predicted, 200 * MIB)
        for rank, (before, after) in enumerate(zip(small_measured, large_measured)):
            share = (after - before) / predicted
            print(f"{transport} {layout} {nodes} A={accumulation} {dtype} rank {rank}: "
                  f"predicted {predicted / MIB:.1f} MiB, measured {share:.3f} of it", flush=True)
            with self.subTest(rank=rank):
                self.assertAlmostEqual(share, 1, delta=0.1)

    def test_prediction(self):
        for nodes, layout, accumulation, dtype in [
                ([2, 2], "zero3", 4, "f32"), ([2, 2], "iig", 1, "bf16"), ([2, 2], "ddp", 1, "bf16"),
                ([2, 2], "hsdp", 4, "f32"), ([2, 2], "zero2", 1, "f32"), ([3], "zero1", 1, "f32")]:
            for transport in TRANSPORTS:
                with self.subTest(transport=transport, layout=layout, accumulation=accumulation,
                                  dtype=dtype):
                    self.check_prediction(transport, nodes, layout, accumulation, dtype)

    def test_memory_is_flat_over_thousands_of_steps(self):
        for transport in TRANSPORTS:
            with self.subTest(transport=transport):
                self.check_flat(transport)

    def check_flat(self, transport):
        job = self.start(transport, [2, 1], {
            "model": {"kind": "units", "elements": [1, 957, 5003, 70001]},
            "train": {"steps": 1000000, "accumulation": 2, "micro_batch": 1},
            "layout": "iig", "prefetch": {"bytes": "4MiB"}})
        own = ("Pss_Anon", "Pss_Shmem")  # libraries are shared with who comes and goes
        before = job.pss_at(50, own)
        for step, most in ((1050, 4 * MIB), (2050, 1 * MIB)):
            after = job.pss_at(step, own)
            growth = [late - early for early, late in zip(before, after)]
            print(f"{transport}, step {step}: {after} bytes, growth {growth}", flush=True)
            # What a step leaves behind, every rank does. One that waited for the others for the
            # first time has used more of what its transports keep for peers that run ahead.
            self.assertLessEqual(min(growth), 64 << 10)
            self.assertLessEqual(max(growth), most)
            before = after
        job.kill()


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]],
                  verbosity=2)
