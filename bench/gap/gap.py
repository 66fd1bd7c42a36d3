#!/usr/bin/env python3
"""How far placement, which sees one pod at a time, stays behind the best that anybody could do who knew all pods.

Random small fleets and pods go through `heddle simulate` and through an exact solver (OR-Tools CP-SAT) that chooses which
pods run and on which cards, with CPU, memory, models and shares as the simulation has them. The gap is the part of the
solver's allocated cards that the policy does not allocate. Only instances that the solver proves count.

  gap.py --heddle BIN [--instances N] [--results FILE]
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    from ortools.sat.python import cp_model
except ImportError:
    sys.exit("gap: the exact solver is missing; make bench-gap installs it (pip install ortools)")

POLICIES = [("heddle", "known"), ("heddle", "online"), ("fgd", "known"), ("bestfit", "known"), ("random", "known")]
SHARES = [200, 300, 330, 470, 500, 650, 810]
SOLVER_SECONDS = 20


def make_instance(rng):
    nodes = [(rng.choice([16, 24, 32, 48]) * 1000, 262144, rng.choice([1, 2, 2, 4]), rng.choice(["A", "B"])) for _ in range(5)]
    wanted = sum(node[2] for node in nodes) * 1000 * rng.uniform(1.05, 1.3)
    pods, asked = [], 0
    while asked < wanted:
        kind = rng.random()
        if kind < 0.15:
            pods.append((rng.choice([2, 4, 8]) * 1000, 8192, 0, 0, ""))
            continue
        cards = 1 if kind < 0.75 else rng.choice([2, 2, 4])
        milli = rng.choice(SHARES) if kind < 0.5 else 1000
        model = rng.choice(["A", "B"]) if rng.random() < 0.2 else ""
        pods.append((rng.choice([1, 2, 4, 8]) * 1000 * cards, 4096 * cards, cards, milli, model))
        asked += cards * milli
    # The simulation takes pods until a whole percentage is asked for: the last one makes it whole, so that all come.
    percent = sum(node[2] for node in nodes) * 10
    if asked % percent:
        pods.append((1000, 4096, 1, percent - asked % percent, ""))
    return nodes, pods


def optimum(nodes, pods):
    """The most card milli that can be allocated, or None when it was not proved."""
    model = cp_model.CpModel()
    worth = []
    on_node = {n: [] for n in range(len(nodes))}
    on_card = {(n, c): [] for n, node in enumerate(nodes) for c in range(node[2])}
    for p, (_, _, cards, milli, wants) in enumerate(pods):
        places = []
        for n, (_, _, count, kind) in enumerate(nodes):
            if count < cards or (wants and wants != kind):
                continue
            here = model.NewBoolVar(f"p{p}n{n}")
            places.append(here)
            on_node[n].append((here, p))
            used = []
            for c in range(count if cards else 0):
                takes = model.NewBoolVar(f"p{p}n{n}c{c}")
                on_card[n, c].append((takes, milli))
                used.append(takes)
            if cards:
                model.Add(sum(used) == cards * here)
            worth.append(here * cards * milli)
        model.AddAtMostOne(places)
    for n, (cpu, memory, _, _) in enumerate(nodes):
        model.Add(sum(pods[p][0] * here for here, p in on_node[n]) <= cpu)
        model.Add(sum(pods[p][1] * here for here, p in on_node[n]) <= memory)
    for takers in on_card.values():
        model.Add(sum(milli * takes for takes, milli in takers) <= 1000)
    model.Maximize(sum(worth))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = SOLVER_SECONDS
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    return round(solver.ObjectiveValue()) if solver.Solve(model) == cp_model.OPTIMAL else None


def write_csv(folder, nodes, pods):
    with open(f"{folder}/nodes.csv", "w") as file:
        file.write("sn,cpu_milli,memory_mib,gpu,model\n")
        file.writelines(f"n{i},{cpu},{memory},{cards},{kind}\n" for i, (cpu, memory, cards, kind) in enumerate(nodes))
    with open(f"{folder}/pods.csv", "w") as file:
        file.write("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n")
        file.writelines(f"p{i},{cpu},{memory},{cards},{milli},{wants}\n" for i, (cpu, memory, cards, milli, wants) in enumerate(pods))


def allocated(heddle, folder, policy, mix, seed, nodes, pods):
    total = sum(node[2] for node in nodes) * 1000
    load = sum(pod[2] * pod[3] for pod in pods) * 100 // total
    command = [heddle, "simulate", "--nodes", f"{folder}/nodes.csv", "--pods", f"{folder}/pods.csv", "--policy", policy,
               "--mix", mix, "--seed", str(seed), "--load", str(load), "-o", "json"]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return answer["allocatedGpuPercent"] * total / 100


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heddle", required=True)
    parser.add_argument("--instances", type=int, default=100)
    parser.add_argument("--results", help="a JSON file to add the numbers to")
    options = parser.parse_args()
    gaps = {key: [] for key in POLICIES}
    unproved = 0
    for number in range(options.instances):
        nodes, pods = make_instance(random.Random(number))
        best = optimum(nodes, pods)
        if best is None:
            unproved += 1
            continue
        with tempfile.TemporaryDirectory() as folder:
            write_csv(folder, nodes, pods)
            for policy, mix in POLICIES:
                got = allocated(options.heddle, folder, policy, mix, number, nodes, pods)
                if got > best + 0.5:
                    sys.exit(f"gap: instance {number}: {policy} allocates {got:.0f}, more than the proved most, {best}")
                gaps[policy, mix].append(100 * (best - got) / best)
        if sys.stderr.isatty():
            print(f"\r{number + 1} of {options.instances}", end="", file=sys.stderr)
    if not all(gaps.values()):
        sys.exit("gap: no instance was proved")
    print(f"{len(gaps[POLICIES[0]])} instances, {unproved} not proved within {SOLVER_SECONDS} s")
    metrics = {}
    for (policy, mix), values in gaps.items():
        mean = sum(values) / len(values)
        exact = sum(value < 0.01 for value in values)
        print(f"{policy:<8} {mix:<7} mean gap {mean:5.2f} %, worst {max(values):5.1f} %, {exact} of {len(values)} exact")
        metrics[f"placement.gap.{policy}.{mix}.percent"] = round(mean, 3)
    if options.results:
        known = json.load(open(options.results)) if os.path.exists(options.results) else {}
        json.dump({**known, **metrics}, open(options.results, "w"), indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
