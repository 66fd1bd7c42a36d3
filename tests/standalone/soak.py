#!/usr/bin/env python3
"""Kills parts of a standalone Heddle at random under load, and checks the books all the time: no card is granted beyond its
size, no command runs twice or without a share, and at the end everything is free.

  tests/standalone/soak.py [--seconds 60] [--seed N] [--workers 6]
"""
import argparse
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import Standalone, children, eventually  # noqa: E402


class Soak:
    def __init__(self, seed, workers):
        self.random = random.Random(seed)
        self.heddle = Standalone("h100x2")
        self.marks = pathlib.Path(tempfile.mkdtemp(prefix="hdl-soak-"))
        self.workers = workers
        self.running = []
        self.counts = {"jobs": 0, "daemon": 0, "client": 0, "supervisor": 0, "command": 0}

    def start_job(self):
        self.counts["jobs"] += 1
        mark = self.marks / str(self.counts["jobs"])
        share = self.random.choice([["--memory", f"{self.random.randrange(1, 80)}Gi"],
                                    ["--memory-percent", str(self.random.randrange(1, 101))],
                                    ["--memory", "20Gi", "--cores", str(self.random.randrange(0, 101))],
                                    ["--count", str(self.random.randrange(1, 3))]])
        duration = self.random.uniform(0, 1)
        script = f"echo x >> {mark}; sleep {duration:.2f}"
        if self.random.random() < 0.3:
            script = f"setsid sleep 300 & {script}"
        client = self.heddle.start(*share, "--", "/bin/sh", "-c", script)
        self.running.append((client, mark))

    def strike(self):
        what = self.random.choice(["daemon", "client", "supervisor", "command", "none", "none"])
        jobs = [job for job in self.heddle.jobs().values() if job["state"] == "running"] if what != "none" else []
        try:
            if what == "daemon":
                self.heddle.kill_daemon()
                self.heddle.up()
            elif what == "client" and self.running:
                self.random.choice(self.running)[0].kill()
            elif what == "supervisor" and jobs:
                os.kill(self.random.choice(jobs)["pid"], signal.SIGKILL)
            elif what == "command" and jobs:
                os.kill(self.random.choice(children(self.random.choice(jobs)["pid"]) or [0x3FFFFFFF]), signal.SIGKILL)
            else:
                return
            self.counts[what] += 1
        except ProcessLookupError:
            pass

    def collect(self):
        still = []
        for client, mark in self.running:
            if client.poll() is None:
                still.append((client, mark))
                continue
            client.communicate()
            runs = mark.read_text().count("x") if mark.exists() else 0
            assert runs <= 1, f"{mark} ran {runs} times"
            assert client.returncode != 0 or runs == 1, f"{mark}: exit code 0 without a run"
        self.running = still

    def run(self, seconds):
        self.heddle.up()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            while len(self.running) < self.workers:
                self.start_job()
            self.heddle.check_books()
            self.strike()
            self.collect()
        eventually(lambda: self.collect() or not self.running, "the end of the last job")
        self.heddle.wait_empty()
        for card in self.heddle.check_books()["cards"]:
            assert card["grantedBytes"] == 0 and card["grantedCores"] == 0
        left = [entry.name for entry in pathlib.Path(self.heddle.folder, "claims").iterdir()]
        assert not left, f"folders of ended claims: {left}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--workers", type=int, default=6)
    options = parser.parse_args()
    print(f"soak: seed {options.seed}", flush=True)
    soak = Soak(options.seed, options.workers)
    try:
        soak.run(options.seconds)
        print("soak: ok;", ", ".join(f"{count} {name}" + ("" if name == "jobs" else " kills") for name, count in soak.counts.items()))
    finally:
        soak.heddle.close()
        shutil.rmtree(soak.marks, ignore_errors=True)


if __name__ == "__main__":
    main()
