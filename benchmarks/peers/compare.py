"""kvrail-perf and the drivers of other libraries in turn, on the same pages; a table with ratios."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
# name, transport, command with its profile
PEERS = [
    ("nixl (ucx tcp)", "tcp", ["nixl_writes.py", "--profile", "tcp"]),
    ("mooncake (tcp)", "tcp", ["mooncake_writes.py", "--profile", "default"]),
    ("mooncake (tcp, tuned)", "tcp", ["mooncake_writes.py", "--profile", "tuned"]),
    ("nixl (ucx shm, cma)", "shm", ["nixl_writes.py", "--profile", "shm"]),
]


def last_json(command):
    """What a contender printed last, or why it printed nothing."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return None, "is not over after 300 s"
    if run.returncode == 0:
        text = run.stdout.strip()
        return json.loads(text if text.startswith("{\n") else text.splitlines()[-1]), ""
    lines = (run.stderr.strip() or run.stdout.strip() or "no word").splitlines()
    return None, f"ends with {run.returncode}: {lines[-1]}"


class Contender:
    def __init__(self, name, transport, command, cores):
        self.name, self.transport = name, transport
        self.command = command + (["--cores", cores] if cores else [])

    def run(self, shape):
        """GB/s by page size, or nothing and what is wrong."""
        report, fault = last_json(self.command + shape)
        if report is None:
            return {}, fault
        return self.speeds(report)


class Kvrail(Contender):
    def __init__(self, arguments, transport):
        super().__init__(f"kvrail ({transport})", transport,
                         [arguments.perf, "pair", "--provider", transport, "--tests", "write", "--rounds", "1",
                          "--round-ms", str(int(arguments.seconds * 1000)), "--json", "-"], arguments.cores)

    def speeds(self, report):
        return {case["page_bytes"]: case["gb_per_s"]["median"] for case in report["cases"]}, ""


class Peer(Contender):
    def __init__(self, arguments, name, transport, command):
        super().__init__(name, transport, [sys.executable, str(HERE / command[0]), *command[1:],
                                           "--seconds", str(arguments.seconds)], arguments.cores)

    def speeds(self, report):
        for row in report["rows"]:
            if row["fault"]:
                return {}, row["fault"]
        return {row["page_bytes"]: row["gb_per_s"] for row in report["rows"]}, ""


def measure(arguments, layout):
    shape = ["--page-bytes", arguments.page_bytes, "--pages", str(arguments.pages), "--list-pages",
             str(arguments.list_pages), "--depth", str(arguments.depth), "--max-memory", arguments.max_memory,
             "--layout", layout]
    contenders = [Kvrail(arguments, transport) for transport in arguments.transports]
    contenders += [Peer(arguments, *peer) for peer in PEERS if peer[1] in arguments.transports]
    speeds = {contender.name: [] for contender in contenders}
    faults = {}
    for _ in range(arguments.rounds):
        for contender in contenders:
            if contender.name in faults:
                continue
            row, fault = contender.run(shape)
            if fault:
                faults[contender.name] = fault
            else:
                speeds[contender.name].append(row)
    for name, fault in faults.items():
        print(f"{name} does not run here: it {fault}", flush=True)
    for contender in contenders[len(arguments.transports):]:
        if contender.name not in faults:
            print_rows(layout, contender, speeds)


def print_rows(layout, contender, speeds):
    ours = speeds[f"kvrail ({contender.transport})"]
    theirs = speeds[contender.name]
    if not ours:
        return
    for size in ours[0]:
        ratios = sorted(mine[size] / other[size] for mine, other in zip(ours, theirs))
        print(f"| {layout} | {size // 1024} KiB | {contender.name} | "
              f"{statistics.median(r[size] for r in theirs):.2f} | {statistics.median(r[size] for r in ours):.2f} | "
              f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--perf", required=True, help="the program kvrail-perf")
    parser.add_argument("--transports", default="tcp,shm")
    parser.add_argument("--layouts", default="neighbouring,apart")
    parser.add_argument("--page-bytes", default="4K,16K,64K,256K,1M")
    parser.add_argument("--pages", type=int, default=1024)
    parser.add_argument("--list-pages", type=int, default=64)
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--max-memory", default="64M")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--cores", help="of the two sides; default: the first two")
    arguments = parser.parse_args()
    arguments.transports = arguments.transports.split(",")
    if arguments.cores is None:
        allowed = sorted(os.sched_getaffinity(0))
        arguments.cores = f"{allowed[0]},{allowed[1]}" if len(allowed) > 1 else ""
    print("| layout | page | library | its GB/s | kvrail's | kvrail to it |")
    print("| --- | --- | --- | --- | --- | --- |")
    for layout in arguments.layouts.split(","):
        measure(arguments, layout)


main()
