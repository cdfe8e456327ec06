#!/usr/bin/env python3
"""Compares task runtimes: bench_peers.py BUILD_FOLDER [ROUNDS]. Prints millions of empty tasks per second, and what submitting and replaying one costs.

The runtimes take turns, since the machine may be noisy; each figure is the median of all rounds.
"""

import pathlib
import statistics
import subprocess
import sys

RUNTIMES = {"Dovetail": "dovetail_tasks", "oneTBB": "tbb_tasks", "StarPU": "starpu_tasks", "OpenMP": "openmp_tasks"}
WORKLOADS = ["independent", "chains", "attention"]
OWN = {"mixed": "M/s, a matrix and two vector lanes each", "submit": "microseconds a task with look-up",
       "replay": "microseconds a task, running it included"}


def rate(program, workload):
    said = subprocess.run([program, workload], check=True, capture_output=True, text=True).stdout.split()
    return float(said[said.index(workload) + 1])


def main():
    folder = pathlib.Path(sys.argv[1]) / "bench" / "peers"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    runtimes = {name: folder / program for name, program in RUNTIMES.items() if (folder / program).exists()}
    figures = {}
    for _ in range(rounds):
        for workload in WORKLOADS:
            for name, program in runtimes.items():
                figures.setdefault((name, workload), []).append(rate(program, workload))
        for workload in OWN:
            figures.setdefault(("Dovetail", workload), []).append(rate(runtimes["Dovetail"], workload))
    medians = {key: statistics.median(values) for key, values in figures.items()}
    print("millions of empty tasks per second, two threads")
    print("| runtime | " + " | ".join(WORKLOADS) + " |")
    print("| --- |" + " ---: |" * len(WORKLOADS))
    for name in runtimes:
        print(f"| {name} | " + " | ".join(f"{medians[name, workload]:.2f}" for workload in WORKLOADS) + " |")
    for workload, unit in OWN.items():
        print(f"Dovetail, {workload}: {medians['Dovetail', workload]:.3f} {unit}")


if __name__ == "__main__":
    main()
