#!/usr/bin/env python3
"""Step time against the ideal step in the emulated cluster, with compute that sleeps.

For each layout and each ratio of compute to traffic, `strata train` runs units whose compute takes
that long without using the processor. Printed is the step's time over T*, the least time it could
take on these links (docs/algorithms.md). Ratios of one run: the machine's speed is not in them, but
how busy it is can be.

  bench/overlap.py build/release/cli/strata --link 100mbit --json overlap.json
"""
import argparse
import json
import subprocess
import sys
import tempfile

UNITS, ELEMENTS = 12, 256 * 1024
PAYLOAD = 1448 / 1514
TRAFFIC = {  # between nodes per step, in M, of A micro-steps
    "zero3": lambda a: 3 * a, "zero2": lambda a: a + 1, "hsdp": lambda a: 2, "iig": lambda a: 2}


def rate_of(link):
    for unit, factor in (("gbit", 1e9), ("mbit", 1e6)):
        if link.endswith(unit):
            return float(link[:-len(unit)]) * factor / 8
    sys.exit(f"--link {link}: give a rate as in 100mbit or 1gbit")


def run(options, layout, ratio):
    a = options.accumulation
    nodes = options.nodes
    traffic = (TRAFFIC[layout](a) * UNITS * ELEMENTS * 4 * (nodes - 1) / nodes /
               (PAYLOAD * rate_of(options.link)))
    compute = ratio * traffic / a
    config = f"""model: {{kind: units, elements: {[ELEMENTS] * UNITS},
        forward_seconds: {compute / 3}, backward_seconds: {2 * compute / 3}}}
train: {{steps: {options.steps}, micro_batch: 1, accumulation: {a}, seed: 1, eval_every: 0}}
layout: {layout}
prefetch: {{bytes: 16MiB}}
network: {{rate: {options.link}, transport: {options.transport}}}
"""
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/overlap.yaml", "w") as file:
            file.write(config)
        subprocess.run([options.strata, "lab", "run", "--nodes", str(nodes), "--ranks-per-node",
                        str(options.ranks_per_node), "--link", options.link, "--",
                        options.strata, "train", folder + "/overlap.yaml", "--metrics",
                        folder + "/metrics.jsonl"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL if options.quiet else None)
        with open(folder + "/metrics.jsonl") as file:
            summary = [json.loads(line) for line in file][-1]["summary"]
    step, ideal = summary["median_step_seconds"], summary["ideal_step_seconds"]
    return {"layout": layout, "compute_to_traffic": ratio, "step_seconds": step,
            "ideal_step_seconds": ideal, "step_to_ideal": step / ideal}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata", help="the built command")
    parser.add_argument("--link", default="100mbit")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--ranks-per-node", type=int, default=2)
    parser.add_argument("--accumulation", type=int, default=1)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--transport", default="ucx")
    parser.add_argument("--layouts", default="zero3,zero2,hsdp,iig")
    parser.add_argument("--ratios", default="0.5,1,2")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    results = []
    print(f"{'layout':8} {'compute/traffic':>15} {'step':>9} {'T*':>9} {'step/T*':>8}")
    for layout in options.layouts.split(","):
        for ratio in map(float, options.ratios.split(",")):
            row = run(options, layout, ratio)
            results.append(row)
            print(f"{layout:8} {ratio:15.2f} {row['step_seconds']:7.3f} s "
                  f"{row['ideal_step_seconds']:7.3f} s {row['step_to_ideal']:8.3f}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"schema": 1, "results": results}, file, indent=1)
    return 0


sys.exit(main())
