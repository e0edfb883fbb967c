"""kvrail-perf with one setting of the library after the other, in turn: what each choice does to speed.

    python3 benchmarks/tuning.py build/release/benchmarks/kvrail-perf tcp [--rounds 5]

Prints a table: medians of the rounds, and the ratio to the default's in the same round.
"""

import argparse
import json
import statistics
import subprocess
import sys

# What is measured: name, unit, arguments of kvrail-perf, and the figure of its only case.
MEASURES = {
    "4 KiB apart": ("GB/s", ["--page-bytes", "4K", "--layout", "apart"], lambda case: case["gb_per_s"]["median"]),
    "4 KiB neighbouring": ("GB/s", ["--page-bytes", "4K", "--layout", "neighbouring"],
                           lambda case: case["gb_per_s"]["median"]),
    "1 MiB": ("GB/s", ["--page-bytes", "1M"], lambda case: case["gb_per_s"]["median"]),
    "immediate": ("million/s", ["--tests", "immediate"], lambda case: case["operations_per_s"]["median"] / 1e6),
    "message": ("us", ["--tests", "message"], lambda case: case["latency_us"]["median"]),
}
# Option, its values (the default first), and what they are measured by.
CHOICES = [
    ("--max-write", [None, "64K", "256K", "512K"], ["4 KiB neighbouring"]),
    ("--queue-depth", [None, "16", "64", "1024"], ["4 KiB apart", "1 MiB"]),
    ("--receive-credit", [None, "64", "256", "4096"], ["immediate", "4 KiB apart"]),
    ("--spin-us", [None, "0", "50", "2000"], ["message", "1 MiB"]),
    ("--rails", [None, "2", "4"], ["4 KiB apart", "1 MiB"]),
]


def measure(arguments, name, option, value):
    _, shape, figure = MEASURES[name]
    command = [arguments.perf, "pair", "--provider", arguments.provider, "--rounds", "1", "--json", "-", *shape]
    if value is not None:
        command += [option, value]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}: {run.stderr.strip()}")
    return figure(json.loads(run.stdout)["cases"][0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("perf", help="the program kvrail-perf")
    parser.add_argument("provider", help="tcp, shm, ...")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()

    print(f"| {arguments.provider} | | | |\n| --- | --- | --- | --- |")
    for option, values, names in CHOICES:
        for name in names:
            figures = {value: [] for value in values}
            for _ in range(arguments.rounds):
                for value in values:
                    figures[value].append(measure(arguments, name, option, value))
            for value in values:
                ratios = [mine / default for mine, default in zip(figures[value], figures[None])]
                print(f"| `{option}` {value or 'default'} | {name} | {statistics.median(figures[value]):.2f} "
                      f"{MEASURES[name][0]} | {statistics.median(ratios):.2f} |", flush=True)


if __name__ == "__main__":
    main()
