"""Runs allocator_bench and upstream.go in turn on the shapes of shapes.py, checks that both give the same devices, and prints the
ratios. What is inside the clock of each: docs/benchmarks.md.

  run.py [--small]     HEDDLE_BUILD: the build folder (build/release); HEDDLE_BENCH_RESULTS: the file that takes the numbers
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import shapes  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CAP_SECONDS = 30  # of one pod on upstream's side
GOALS = {"infeasible": 1000, "infeasible_large": 1000}
GOAL = 30


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def best(command, rounds):
    """The fastest of some rounds: what disturbs a run only ever makes it slower."""
    runs = [run(command) for _ in range(rounds)]
    return min(runs, key=lambda one: one["us"])


def main():
    small = "--small" in sys.argv[1:]
    build = os.path.abspath(os.environ.get("HEDDLE_BUILD", os.path.join(ROOT, "build/release")))
    work = os.path.join(build, "bench", "allocator-small" if small else "allocator")
    os.makedirs(work, exist_ok=True)
    ours_binary = os.path.join(build, "bin/allocator_bench")
    upstream_binary = os.path.join(work, "upstream")
    subprocess.run(["go", "build", "-mod=mod", "-o", upstream_binary, "."], cwd=os.path.join(ROOT, "bench/allocator"), check=True)
    seconds = "0.001" if small else "1"
    results, differing, misses = {}, [], []
    print(f"{'shape':18}{'upstream us':>14}{'ours us':>12}{'ratio':>12}   (one pod; seconds of upstream are capped at {CAP_SECONDS})")
    for shape in shapes.all_shapes(small):
        name = shape["name"]
        path = os.path.join(work, name + ".json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(shape, file)
        rounds = 1 if small or name in GOALS else 3
        ours = best([ours_binary, seconds, path], rounds)
        upstream = best([upstream_binary, seconds, str(CAP_SECONDS), path], rounds)
        ratio = upstream["us"] / ours["us"]
        differing += [(name, theirs, mine) for theirs, mine in zip(upstream["answers"], ours["answers"]) if theirs != mine]
        if ratio < GOALS.get(name, GOAL):
            misses.append(name)
        results.update({f"allocator.{name}.ratio": round(ratio, 1), f"allocator.{name}.upstream_us": round(upstream["us"], 2),
                        f"allocator.{name}.ours_us": round(ours["us"], 2)})
        if name not in GOALS:
            growth = max(ours["heap_growth"], results.get("allocator.heap_growth_bytes", 0))
            results["allocator.heap_growth_bytes"] = growth
        print(f"{name:18}{upstream['us']:14.1f}{ours['us']:12.2f}{ratio:12.1f}{'   at least: upstream was stopped' if upstream['capped'] else ''}")
    results.update(run([ours_binary, "--memory", "1000" if small else "100000"]))
    print(f"bytes per device: {results['allocator.bytes_per_device']}, heap growth in the second half of a run: "
          f"{results['allocator.heap_growth_bytes']}")
    for name, theirs, mine in differing:
        print(f"{name}: upstream and heddle chose different devices:\n  {theirs}\n  {mine}", file=sys.stderr)
    if misses and not small:
        print("below the goal: " + ", ".join(misses))
    target = os.environ.get("HEDDLE_BENCH_RESULTS")
    if target and not small:
        known = json.load(open(target, encoding="utf-8")) if os.path.exists(target) else {}
        known.update(results)
        with open(target, "w", encoding="utf-8") as file:
            json.dump(known, file, indent=1, sort_keys=True)
    sys.exit(1 if differing else 0)


main()
