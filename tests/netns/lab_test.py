#!/usr/bin/env python3
"""The emulated cluster, as programs that know nothing of Strata see it.

Usage: lab_test.py STRATA [unittest options]
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from strata_process import Strata, processes_with, wait_until  # pylint: disable=C0413

HERE = pathlib.Path(__file__).parent
STRATA = Strata(sys.argv[1])

# Ranks print one JSON line about where they are.
DESCRIBE = """
import json, os, socket
print(json.dumps({
    "rank": int(os.environ["RANK"]), "local": int(os.environ["LOCAL_RANK"]),
    "world": int(os.environ["WORLD_SIZE"]), "local_world": int(os.environ["LOCAL_WORLD_SIZE"]),
    "group": int(os.environ["GROUP_RANK"]), "token": os.environ["STRATA_TOKEN"],
    "host": socket.gethostname(), "own_address": socket.gethostbyname(socket.gethostname()),
    "master": os.environ["MASTER_ADDR"], "port": int(os.environ["MASTER_PORT"]),
    "boot_id": open("/proc/sys/kernel/random/boot_id").read().strip(),
    "interfaces": sorted(os.listdir("/sys/class/net")),
    "shared": sorted(os.listdir("/dev/shm")),
    "namespaces": {kind: os.readlink("/proc/self/ns/" + kind)
                   for kind in ("net", "uts", "ipc", "mnt")},
    "folder": os.getcwd(),
}), flush=True)
"""


def lab(nodes, ranks, *options, link="1gbit", **run_options):
    return STRATA.run("lab", "run", "--nodes", nodes, "--ranks-per-node", ranks, "--link", link,
                      *options, **run_options)


def describe(nodes, ranks, *options):
    """What each rank printed, in rank order, and the command's result."""
    result = lab(nodes, ranks, "--label", "all", *options, "--", "python3", "-c", DESCRIBE)
    lines = [json.loads(line.split("] ", 1)[1]) for line in result.stdout.splitlines()]
    return sorted(lines, key=lambda line: line["rank"]), result


def outside():
    """What a lab could leave behind in our own namespaces."""
    return (sorted(os.listdir("/sys/class/net")), sorted(os.listdir("/dev/shm")),
            os.uname().nodename, pathlib.Path("/proc/self/mountinfo").read_text(),
            pathlib.Path("/proc/sys/kernel/random/boot_id").read_text())


def setUpModule():
    result = lab(1, 1, "--", "true")
    if result.returncode == 2 and "CAP_SYS_ADMIN" in result.stderr:
        raise unittest.SkipTest(result.stderr.strip())


class Nodes(unittest.TestCase):
    def test_ranks_of_a_node_share_a_host_and_others_do_not(self):
        ranks, result = describe(3, 2)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([r["rank"] for r in ranks], [0, 1, 2, 3, 4, 5])
        for r in ranks:
            node = r["rank"] // 2
            self.assertEqual((r["world"], r["local_world"], r["group"], r["local"]),
                             (6, 2, node, r["rank"] % 2))
            self.assertEqual((r["host"], r["own_address"]), (f"node{node}", f"10.83.0.{node + 1}"))
            self.assertEqual((r["master"], r["port"]), ("10.83.0.1", 29400))
            self.assertEqual(r["interfaces"], ["e0", "lo"])
            self.assertEqual(r["shared"], [])
            self.assertEqual(r["folder"], os.getcwd())
        for key in ("boot_id", "host"):
            self.assertEqual(len({r[key] for r in ranks}), 3, key)
        for kind in ("net", "uts", "ipc", "mnt"):
            inside = [r["namespaces"][kind] for r in ranks]
            self.assertEqual(len(set(inside)), 3, kind)
            self.assertEqual(inside[0], inside[1], kind)
            self.assertNotIn(os.readlink("/proc/self/ns/" + kind), inside, kind)
        self.assertEqual(len({r["token"] for r in ranks}), 1)
        self.assertEqual(len(ranks[0]["token"]), 32)
        self.assertIn("congestion control", result.stderr)

    def test_round_robin_deals_ranks_out(self):
        ranks, result = describe(3, 2, "--placement", "round-robin")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([(r["group"], r["local"]) for r in ranks],
                         [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)])

    def test_links_are_ipv4_only_at_any_mtu(self):
        for mtu in (576, 1279, 1500, 9000):
            result = lab(2, 1, "--mtu", mtu, "--label", "none", "--", "sh", "-c",
                         'cat /sys/class/net/e0/mtu; grep e0 /proc/net/if_inet6; exit 0')
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stdout.split(), [str(mtu)] * 2)

    def test_tokens_differ_between_runs(self):
        first, second = describe(1, 1)[0], describe(1, 1)[0]
        self.assertNotEqual(first[0]["token"], second[0]["token"])

    def test_touches_nothing_outside(self):
        before = outside()
        self.assertEqual(lab(2, 2, "--", "sh", "-c", "echo x >/dev/shm/left").returncode, 0)
        self.assertEqual(outside(), before)

    def test_starts_inside_a_chroot(self):
        # Its root is a plain folder of another file system, as debootstrap leaves one.
        script = """set -e
            mount --make-rprivate /
            cd "$1"
            mkdir dev proc sys dev/shm
            touch dev/null
            mount --bind /dev/null dev/null
            mount -t proc proc proc
            for folder in /*; do
              if [ -L "$folder" ]; then cp -P "$folder" .
              elif [ -d "$folder" ] && mkdir ".$folder" 2>/dev/null; then
                mount --bind "$folder" ".$folder"
              fi
            done
            exec chroot . "$2" lab run --nodes 2 --ranks-per-node 1 --link 1gbit -- \
              sh -c 'echo $(hostname): $(ls /dev)'
        """
        with tempfile.TemporaryDirectory() as folder:
            command = ["unshare", "--mount", "sh", "-c", script, "sh", folder, STRATA.path]
            result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                                    text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(result.stdout.splitlines()),
                         ["[1] node1: null shm", "node0: null shm"])

    def test_without_network_ranks_are_plain_processes(self):
        result = STRATA.run("lab", "run", "--no-network", "--nodes", 2, "--ranks-per-node", 1,
                            "--label", "none", "--", "sh", "-c",
                            "echo $RANK $STRATA_NODE $STRATA_INTERFACE $MASTER_ADDR")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(result.stdout.splitlines()),
                         ["0 node0 lo 127.0.0.1", "1 node1 lo 127.0.0.1"])


class Output(unittest.TestCase):
    def lines(self, label):
        result = lab(1, 3, "--label", label, "--", "sh", "-c",
                     "printf 'line %s\\nlast %s' $RANK $RANK")
        self.assertEqual(result.returncode, 0, result.stderr)
        return sorted(result.stdout.splitlines())

    def test_others_than_rank_0_are_labelled(self):
        result = lab(1, 3, "--", "sh", "-c", "echo line $RANK; echo error $RANK >&2")
        self.assertEqual(sorted(result.stdout.splitlines()), ["[1] line 1", "[2] line 2", "line 0"])
        self.assertIn("[2] error 2\n", result.stderr)

    def test_all_are_labelled(self):
        self.assertEqual(self.lines("all"), ["[0] last 0", "[0] line 0", "[1] last 1", "[1] line 1",
                                             "[2] last 2", "[2] line 2"])


class ExitCodes(unittest.TestCase):
    def test_first_failing_rank_decides(self):
        result = lab(3, 1, "--grace", "0.2", "--", "sh", "-c",
                     'if [ "$RANK" = 2 ]; then exit 7; fi; sleep 60')
        self.assertEqual(result.returncode, 7, result.stderr)
        self.assertIn("rank 2 (node2) exited with 7", result.stderr)

    def test_others_may_end_by_themselves(self):
        result = lab(3, 1, "--label", "none", "--", "sh", "-c",
                     'if [ "$RANK" = 1 ]; then exit 9; fi; '
                     'sleep 0.3; echo "rank $RANK saw it"; exit 4')
        self.assertEqual(result.returncode, 9, result.stderr)
        self.assertEqual(sorted(result.stdout.splitlines()), ["rank 0 saw it", "rank 2 saw it"])

    def test_a_rank_that_ignores_sigterm_is_killed(self):
        result = lab(1, 2, "--grace", "0.1", "--", "sh", "-c",
                     'if [ "$RANK" = 0 ]; then kill -SEGV $$; fi; trap "" TERM; sleep 60; sleep 60')
        self.assertEqual(result.returncode, 128 + signal.SIGSEGV, result.stderr)
        self.assertIn("ended by signal 11", result.stderr)

    def test_counters_that_do_not_fit_are_an_error(self):
        for program, code in (("true", 2), ("false", 1)):
            result = lab(1, 1, "--counters", "/dev/full", "--", program)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn('--counters: cannot write "/dev/full": No space left', result.stderr)

    def test_bad_input_is_one_line_and_exit_code_2(self):
        good = ["--nodes", "1", "--ranks-per-node", "1", "--link", "1gbit"]
        cases = [
            (["--nodes", "0", *good[2:], "--", "true"], "--nodes 0"),
            (["--nodes", "-1", *good[2:], "--", "true"], "--nodes -1"),
            (["--nodes", "two", *good[2:], "--", "true"], "two"),
            ([*good[:2], "--ranks-per-node", "0", *good[4:], "--", "true"], "--ranks-per-node 0"),
            ([*good[:4], "--link", "fast", "--", "true"], "fast"),
            ([*good[:4], "--link", "0gbit", "--", "true"], "0gbit"),
            ([*good[:4], "--link", "100", "--", "true"], "kbit, mbit or gbit"),
            ([*good[:4], "--", "true"], "--link is missing"),
            ([*good, "--mtu", "100", "--", "true"], "--mtu 100"),
            ([*good, "--placement", "zigzag", "--", "true"], "zigzag"),
            ([*good, "--no-network", "--", "true"], "--no-network"),
            ([*good, "--counters", "/nonexistent/file", "--", "true"], "/nonexistent/file"),
            (good, "no program"),
            ([*good, "--"], "no program"),
            ([*good, "--", "no-such-program"], "no-such-program"),
            ([*good, "--", str(HERE / "stream.py")], "stream.py"),
        ]
        for arguments, named in cases:
            with self.subTest(arguments=arguments):
                result = STRATA.run("lab", "run", *arguments)
                self.assertEqual(result.returncode, 2)
                self.assertEqual(result.stdout, "")
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
                self.assertIn(named, result.stderr)

    def test_without_privilege_one_line_says_what_helps(self):
        if os.geteuid() != 0:
            self.skipTest("is run as root only")
        result = lab(1, 1, "--", "true", user=65534, group=65534, extra_groups=[], cwd="/")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertIn("--no-network", result.stderr)


class Ends(unittest.TestCase):
    def start(self, script="sleep 300", ranks=2, before=""):
        """A lab of two nodes whose ranks have started, and the variable that marks its processes."""
        mark = "LAB_TEST=" + uuid.uuid4().hex
        name, value = mark.split("=")
        process = STRATA.start("lab", "run", "--nodes", 2, "--ranks-per-node", ranks, "--link",
                               "1gbit", "--", "sh", "-c", f"{before}echo up; {script}",
                               env={**os.environ, name: value})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        for _ in range(2 * ranks):
            self.assertIn("up", process.stdout.readline())
        return process, mark

    def assert_nothing_left(self, mark, namespaces):
        self.assertTrue(wait_until(lambda: not processes_with(mark)), processes_with(mark))
        self.assertTrue(wait_until(lambda: not namespaces & network_namespaces()))

    def test_sigkill_of_the_lab_leaves_nothing(self):
        before, ours = outside(), network_namespaces()
        # Ranks with children, one of them in a session of its own.
        process, mark = self.start("setsid sleep 300 & sleep 300 & wait")
        namespaces = network_namespaces_of(processes_with(mark)) - ours
        self.assertEqual(len(namespaces), 3)  # two nodes and the bridge
        process.kill()
        self.assert_nothing_left(mark, namespaces)
        self.assertEqual(outside(), before)

    def test_end_of_ranks_ends_what_they_left_behind(self):
        process, mark = self.start("setsid sleep 300 & sleep 0.2")
        self.assertEqual(process.wait(timeout=30), 0)
        self.assert_nothing_left(mark, set())

    def test_signals_are_passed_on(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                process, mark = self.start("sleep 300 & wait",
                                           before="trap 'echo caught; exit 3' INT TERM; ")
                process.send_signal(number)
                output, _ = process.communicate(timeout=30)
                self.assertEqual(process.returncode, 128 + number)
                self.assertEqual(output.count("caught"), 4, output)
                self.assert_nothing_left(mark, set())

    def test_second_signal_kills(self):
        process, mark = self.start("sleep 300; sleep 300", before="trap '' INT; ")
        process.send_signal(signal.SIGINT)
        # Signals of one kind merge while they wait, so that the second needs another kind.
        process.send_signal(signal.SIGTERM)
        self.assertNotEqual(process.wait(timeout=30), 0)
        self.assert_nothing_left(mark, set())

    def test_two_labs_side_by_side(self):
        first, first_mark = self.start("read x </dev/null; sleep 300", ranks=1)
        second, second_mark = self.start("sleep 300", ranks=1)
        of_first = network_namespaces_of(processes_with(first_mark))
        of_second = network_namespaces_of(processes_with(second_mark))
        ours = {os.readlink("/proc/self/ns/net")}
        self.assertEqual(of_first & of_second, ours)
        first.kill()
        self.assert_nothing_left(first_mark, of_first - ours)
        self.assertIsNone(second.poll())
        self.assertGreater(len(processes_with(second_mark)), 2)


def network_namespaces_of(processes):
    found = set()
    for process in processes:
        try:
            found.add(os.readlink(f"/proc/{process}/ns/net"))
        except OSError:
            continue
    return found


def network_namespaces():
    """Network namespaces that some process is in."""
    return network_namespaces_of(name for name in os.listdir("/proc") if name.isdigit())


class Links(unittest.TestCase):
    def stream(self, nodes, megabytes, link):
        """Rank 1 sends to rank 0: payload bits per second, and the counters."""
        with tempfile.TemporaryDirectory() as folder:
            counters = pathlib.Path(folder) / "counters.json"
            result = lab(nodes, 1, "--counters", counters, "--label", "none", "--", "python3",
                         HERE / "stream.py", megabytes, link=link)
            self.assertEqual(result.returncode, 0, result.stderr)
            return float(result.stdout), json.loads(counters.read_text())

    def test_a_stream_fills_the_link_and_counters_say_so(self):
        for link, bits, megabytes in (("100mbit", 1e8, 10), ("400mbit", 4e8, 40)):
            with self.subTest(link=link):
                rate, counters = self.stream(3, megabytes, link)
                # The burst of 256 KB comes on top of the rate.
                self.assertLess(rate, 1.04 * bits)
                self.assertGreater(rate, 0.75 * bits)
                payload = megabytes << 20
                self.assertEqual(counters["link_bits_per_second"], bits)
                self.assertEqual([node["host"] for node in counters["nodes"]],
                                 ["node0", "node1", "node2"])
                receiver, sender, idle = counters["nodes"]
                for counted in (receiver["rx_bytes"], sender["tx_bytes"]):
                    self.assertGreater(counted, payload)
                    self.assertLess(counted, 1.02 * payload)
                self.assertLess(idle["rx_bytes"] + idle["tx_bytes"], 10_000)


class OtherPrograms(unittest.TestCase):
    """Programs that no one here wrote must see separate hosts: their bytes cross the links."""

    def bytes_crossed(self, nodes, ranks, *program):
        with tempfile.TemporaryDirectory() as folder:
            counters = pathlib.Path(folder) / "counters.json"
            result = lab(nodes, ranks, "--counters", counters, "--", *program,
                         env={**os.environ, "SPOOL": folder})
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            document = json.loads(counters.read_text())
            return [node["tx_bytes"] for node in document["nodes"]], result

    def needs(self, program, package):
        if subprocess.run(["sh", "-c", f"command -v {program}"], capture_output=True).returncode:
            self.skipTest(f"{program} is not installed (package {package})")

    def test_ucx(self):
        self.needs("ucx_perftest", "ucx-utils")
        size, count = 1_000_003, 20
        sent, _ = self.bytes_crossed(
            2, 1, "sh", "-c", 'if [ "$RANK" = 0 ]; then exec ucx_perftest; fi; sleep 0.5; '
            f'exec ucx_perftest "$MASTER_ADDR" -t tag_bw -s {size} -n {count} -w 1')
        self.assertGreater(sent[1], size * count)

    def test_open_mpi(self):
        self.needs("mpirun", "openmpi-bin")
        _, result = self.bytes_crossed(2, 1, "sh", HERE / "mpi_hosts.sh")
        hosts = [line for line in result.stdout.splitlines() if line.startswith("host ")]
        self.assertEqual(sorted(hosts), ["host node0", "host node0", "host node1", "host node1"])

    def test_gloo(self):
        python = "/usr/bin/python3"
        probe = subprocess.run([python, "-c", "import torch.distributed"], capture_output=True)
        if probe.returncode:
            self.skipTest("torch.distributed is not installed (package python3-torch)")
        sent, _ = self.bytes_crossed(2, 2, python, HERE / "gloo_sum.py")
        # An all-reduce sends at least half of the 4,000,004 bytes out of each of two nodes.
        self.assertGreater(min(sent), 2_000_000)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
