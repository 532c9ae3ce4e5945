"""One rank of faults_test.py: trains case after case, and in some is hit by a signal.

Arguments: STRATA CASES.json FOLDER. A case is {"name", "victim", "signal", "moment", "delay",
"set"}.
Each rank writes FOLDER/NAME.RANK.json: how its process ended, when, and what it said. The clock is
the host's, which namespaces do not change.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

STRATA = sys.argv[1]
CASES = json.loads(pathlib.Path(sys.argv[2]).read_text())
FOLDER = pathlib.Path(sys.argv[3])
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
FIRST_PORT = 20000
LIMIT = 40


def wait_until(condition, process):
    """Until the condition holds, or the process has ended, or too much time has gone."""
    end = time.monotonic() + LIMIT
    while not condition() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)


def connections(pid, port):
    """How many established connections over the rendezvous port the process has."""
    inodes = set()
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        ports = [int(address.split(":")[1], 16) for address in fields[1:3]]
        if port in ports and fields[3] == "01":
            inodes.add(f"socket:[{fields[9]}]")
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return 0
    return sum(link in inodes for link in links)


def reached(moment, process, port, metrics):
    """Whether the process is where the signal is to hit it."""
    if moment == "meeting":  # all but the absent rank are connected
        return connections(process.pid, port) >= (SIZE - 2 if RANK == 0 else 1)
    if moment == "starting":
        return connections(process.pid, port) >= 1
    return metrics.exists() and metrics.read_text().count("\n") >= 1  # training


def absent(case):
    """The rank that never comes while the others meet: neither the victim nor rank 0."""
    return case["victim"] % (SIZE - 1) + 1 if case["moment"] == "meeting" else None


def hit(case, process, port, metrics):
    """Sends the signal; returns when."""
    wait_until(lambda: reached(case["moment"], process, port, metrics), process)
    time.sleep(case["delay"])
    at = time.monotonic()
    process.send_signal(getattr(signal, case["signal"]))
    return at


def result_file(case, rank):
    return FOLDER / f"{case['name']}.{rank}.json"


def wait_for(case, ranks):
    end = time.monotonic() + LIMIT
    while not all(result_file(case, rank).exists() for rank in ranks) and time.monotonic() < end:
        time.sleep(0.01)


def run(case, port):
    metrics = FOLDER / f"{case['name']}.jsonl"
    output = FOLDER / f"{case['name']}.{RANK}.txt"
    command = [STRATA, "train", str(FOLDER / "units.yaml"), "--metrics", str(metrics)]
    for assignment in case["set"]:
        command += ["--set", assignment]
    with open(output, "w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file,
                                   env={**os.environ, "MASTER_PORT": str(port)})
    at = hit(case, process, port, metrics) if RANK == case["victim"] else None
    if at is not None and case["signal"] == "SIGSTOP":
        wait_for(case, set(range(SIZE)) - {RANK})
        process.kill()
    try:
        code = process.wait(LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    return {"code": code, "end": time.monotonic(), "hit": at, "said": output.read_text()}


def processes():
    """Command lines of all processes of the program under test, but for the cluster itself."""
    found = []
    for pid in os.listdir("/proc"):
        try:
            if pid.isdigit() and pid != "1" and os.readlink(f"/proc/{pid}/exe") == STRATA:
                found.append(pathlib.Path(f"/proc/{pid}/cmdline").read_text())
        except OSError:
            pass  # it has just ended
    return found


def main():
    for number, case in enumerate(CASES):
        result = {} if RANK == absent(case) else run(case, FIRST_PORT + number)
        written = result_file(case, RANK).with_suffix(".part")
        written.write_text(json.dumps(result))
        written.rename(result_file(case, RANK))
        wait_for(case, range(SIZE))
    sockets = pathlib.Path("/proc/net/unix").read_text().splitlines()
    left = {"shared": os.listdir("/dev/shm"),
            "sockets": [line for line in sockets if "strata" in line],
            "processes": processes()}
    (FOLDER / f"left.{RANK}.json").write_text(json.dumps(left))


main()
