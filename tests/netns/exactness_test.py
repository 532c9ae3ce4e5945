#!/usr/bin/env python3
"""Trains the small GPT in the emulated cluster under every preset and compares bits and bytes.

Bits: params_sha256 is one value for all presets with one micro-step, and equals a reference that
trains in one process (tests/reference/gpt_reference.cc). With four micro-steps each class of presets
has its own value. Bytes, in the same runs: what transports completed = what plans say = what sets
say (below), and the interface's counter is at most 2 % above where the run is large enough for the
headers of the exchange at a step's boundary not to count.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

PRESETS = ["ddp", "zero1", "zero2", "zero3", "hsdp", "iig", "across"]
PER_MICRO_STEP = {"ddp": "none", "zero1": "none", "hsdp": "node", "iig": "node", "across": "node",
                  "zero2": "all", "zero3": "all"}
SHARDED = {  # (parameters, gradients, optimizer) over the cluster level
    "ddp": (0, 0, 0), "zero1": (0, 0, 1), "zero2": (0, 1, 1), "zero3": (1, 1, 1),
    "hsdp": (0, 0, 0), "iig": (0, 0, 1), "across": (1, 0, 1)}
GPT = """model: {kind: gpt, layers: 2, width: 16, heads: 2, context: 16}
data: {text: TEXT}
train: {steps: 20, micro_batch: 1, accumulation: 1, seed: 1, optimizer: adamw, learning_rate: 1e-3,
        warmup: 2, schedule: cosine, weight_decay: 0.1, clip: 0, eval_every: 0}
compute: {dtype: f32}
prefetch: {bytes: 8MiB}
"""
MODEL = ["--layers", "2", "--width", "16", "--heads", "2", "--context", "16"]

failures = []
checks = 0


def check(condition, message):
    global checks
    checks += 1
    if not condition:
        failures.append(message)
        print("FAILED: " + message, flush=True)


def reference(options, *more):
    output = subprocess.check_output([options.reference, "--text", options.text, *MODEL, *more])
    return json.loads(output)


def lab(options, nodes, ranks, link, config, cases, folder):
    """Runs the cases in one cluster; returns each case's metrics lines."""
    with open(folder + "/config.yaml", "w") as file:
        file.write(config.replace("TEXT", options.text))
    with open(folder + "/cases.json", "w") as file:
        json.dump(cases, file)
    subprocess.run([options.strata, "lab", "run", "--nodes", str(nodes), "--ranks-per-node",
                    str(ranks), "--link", link, "--", options.cases, folder + "/config.yaml",
                    folder + "/cases.json", folder], check=True, timeout=300)
    metrics = {}
    for case in cases:
        with open(f"{folder}/{case['name']}.jsonl") as file:
            metrics[case["name"]] = [json.loads(line) for line in file]
    return metrics


def summary(lines):
    return lines[-1]["summary"]


def case(name, **keys):
    return {"name": name, "set": [f"{key.replace('__', '.')}={value}"
                                  for key, value in keys.items()]}


def variants():
    for dtype in ("f32", "bf16"):
        for clip in (0, 0.5):
            yield dtype, clip


def check_bytes(name, lines):
    """Runtime counter = plan, for every level and step; nothing was gathered late."""
    for line in lines:
        if "planned_bytes" in line:
            check(line["bytes"] == line["planned_bytes"], f"{name}: bytes are not the plan's: {line}")


def one_micro_step(options, folder):
    values = {}
    for nodes, ranks in ((2, 2), (1, 4), (4, 1)):
        cases = [case(f"{p}-{dtype}-{clip}", layout=p, compute__dtype=dtype,
                      compute__gradient_dtype=dtype, train__clip=clip)
                 for dtype, clip in variants() for p in PRESETS]
        metrics = lab(options, nodes, ranks, "1gbit", GPT, cases, folder)
        for name, lines in metrics.items():
            variant = name.split("-", 1)[1]
            values.setdefault(variant, {})[f"{nodes}x{ranks} {name}"] = summary(lines)["params_sha256"]
            check_bytes(f"{nodes}x{ranks} {name}", lines)
    for dtype, clip in variants():
        expected = reference(options, "--dtype", dtype, "--clip", str(clip))["params_sha256"]
        for name, value in values[f"{dtype}-{clip}"].items():
            check(value == expected, f"{name}: {value} is not the reference's {expected}")
    plain = reference(options)["params_sha256"]
    for corrupt in ("seed", "swapped", "rotated", "dropped"):
        other = reference(options, "--corrupt", corrupt)["params_sha256"]
        check(other != plain, f"negative control {corrupt} did not change the parameters")


def four_micro_steps(options, folder):
    cases = [case(f"{p}-A4", layout=p, train__accumulation=4) for p in PRESETS]
    metrics = lab(options, 2, 2, "1gbit", GPT, cases, folder)
    losses = []
    for preset in PRESETS:
        lines = metrics[f"{preset}-A4"]
        expected = reference(options, "--accumulation", "4", "--per-micro-step",
                             PER_MICRO_STEP[preset])["params_sha256"]
        value = summary(lines)["params_sha256"]
        check(value == expected, f"{preset}, A=4: {value} is not its class's {expected}")
        losses.append(summary(lines)["loss"])
        check_bytes(f"{preset} A=4", lines)
    check(max(losses) - min(losses) <= 1e-5 * min(losses), f"losses differ by layout: {losses}")


def odd_worlds(options, folder):
    for nodes, ranks in ((3, 1), (1, 5)):
        cases = [case(p, layout=p, train__steps=5) for p in PRESETS]
        metrics = lab(options, nodes, ranks, "1gbit", GPT, cases, folder)
        expected = reference(options, "--nodes", str(nodes), "--ranks-per-node", str(ranks),
                             "--steps", "5")["params_sha256"]
        for name, lines in metrics.items():
            value = summary(lines)["params_sha256"]
            check(value == expected, f"{nodes}x{ranks} {name}: {value}, the reference has {expected}")
            check_bytes(f"{nodes}x{ranks} {name}", lines)


def set_oracle(preset, accumulation, parameter_bytes, nodes):
    """Bytes a node sends in a step; every unit divides evenly."""
    p, g, o = SHARDED[preset]
    times = 2 * accumulation * p + accumulation * g + (o and not g) + 2 * (not o) + (o and not p)
    return times * parameter_bytes * (nodes - 1) // nodes


def wire(options, folder):
    elements = [524288, 262144, 524288]
    config = f"""model: {{kind: units, elements: {elements}, forward_seconds: 0, backward_seconds: 0}}
train: {{steps: 6, micro_batch: 1, accumulation: 1, seed: 1, eval_every: 0}}
prefetch: {{bytes: 16MiB}}
"""
    cases = [case(f"{p}-{a}", layout=p, train__accumulation=a)
             for p in PRESETS for a in (1, 4)]
    metrics = lab(options, 2, 2, "1gbit", config, cases, folder)
    sent = {}
    for preset in PRESETS:
        for accumulation in (1, 4):
            name = f"{preset}-{accumulation}"
            lines = metrics[name]
            check_bytes(name, lines)
            expected = set_oracle(preset, accumulation, 4 * sum(elements), 2)
            for line in lines:
                if "node_bytes" in line:
                    sent[name] = line["node_bytes"]["cluster"]["sent"]
                    check(sent[name] == expected,
                          f"{name}: node sent {sent[name]} between nodes, sets say {expected}")
            total = summary(lines)
            counted = total["interface_bytes"]["sent"] / total["measured_steps"]
            check(expected <= counted <= 1.02 * expected,
                  f"{name}: the interface counts {counted} per step, the formula says {expected}")
            print(f"{name:10} {expected:9} bytes per node and step, interface "
                  f"{100 * counted / expected - 100:+.2f} %", flush=True)
    check(sent["iig-1"] == sent["iig-4"], "iig sends more with more micro-steps")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--strata", required=True)
    parser.add_argument("--cases", required=True)
    parser.add_argument("--reference", required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("SKIPPED: network namespaces need root")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        options.text = folder + "/text"
        with open(options.text, "w") as file:  # words by a fixed rule: the same text everywhere
            state = 1
            for _ in range(20000):
                state = state * 1103515245 % 2**31
                file.write("the slow link is crossed once in time".split()[state >> 16 & 7] + " ")
        for test in (one_micro_step, four_micro_steps, odd_worlds, wire):
            if options.only in test.__name__:
                test(options, folder)
                print(f"{test.__name__}: done", flush=True)
    print(f"{checks} checks, {len(failures)} failed")
    return 1 if failures else 0


sys.exit(main())
