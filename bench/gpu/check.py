#!/usr/bin/env python3
"""The guard on a real NVIDIA card, in under eight minutes: memory limits, exactness and overhead of compute limits,
graphs, two tenants, and what the driver has that the guard does not know. Needs only the driver and this build; with
NVSIM_ROOT and LD_LIBRARY_PATH of the simulated machine it runs there.

  bench/gpu/check.py [--build build/release] [--card 0] [--seconds 3]

Prints one line a check and at the end one JSON object with card, driver and date; exit 2 if a check fails.
"""
import argparse
import ctypes
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


class Probe:
    """A CUDA program that does what it is told line by line (tests/guard/probe.cc)."""

    def __init__(self, build, folder=None):
        environment = dict(os.environ)
        if folder:
            environment |= {"LD_PRELOAD": str(build / "lib/libheddle_guard.so"), "HEDDLE_GUARD_DIR": folder,
                            "HEDDLE_GUARD_LOG": f"{folder}/log"}
        self.process = subprocess.Popen([build / "test/guard_probe", "proc"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=environment, text=True)

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def receive(self):
        return [int(word) for word in self.process.stdout.readline().split()]

    def tell(self, line):
        self.send(line)
        return self.receive()

    def start(self, card, kernel_us):
        codes = [self.tell(line)[0] for line in ("init", f"ctx {card}", "stream", f"kernel {kernel_us}")]
        return codes == [0, 0, 0, 0]

    def end(self):
        self.process.stdin.close()
        self.process.wait(30)


class Checks:
    def __init__(self, build, card, seconds, scratch):
        self.build, self.card, self.milliseconds, self.scratch = build, card, int(seconds * 1000), scratch
        self.results, self.failed, self.free = {}, [], {}
        self.uuid, self.memory = self.describe()

    def describe(self):
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        device, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
        if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByIndex_v2(self.card, ctypes.byref(device)):
            sys.exit("check.py: no such card")
        nvml.nvmlDeviceGetUUID(device, text, 96)
        uuid = text.value.decode()
        nvml.nvmlDeviceGetName(device, text, 96)
        self.results["card"] = text.value.decode()
        nvml.nvmlSystemGetDriverVersion(text, 80)
        self.results["driver"] = text.value.decode()
        probe = Probe(self.build)
        probe.tell("init")
        memory = probe.tell(f"total {self.card}")[1]
        probe.end()
        return uuid, memory

    def limits(self, name, memory, cores):
        folder = f"{self.scratch}/{name}"
        os.makedirs(folder, exist_ok=True)
        subprocess.run([self.build / "bin/guard_limits", folder, self.uuid, str(memory), str(cores)], check=True)
        return folder

    def say(self, name, value, good, wanted):
        self.results[name] = value
        print(f"{'ok' if good else 'MISS':4}  {name}: {value} (wanted: {wanted})", flush=True)
        if not good:
            self.failed.append(name)

    def rate(self, command, kernel_us, folder=None):
        """Launches a second."""
        probe = Probe(self.build, folder)
        if not probe.start(self.card, kernel_us):
            sys.exit("check.py: the probe cannot use the card")
        answer = probe.tell(command)
        probe.end()
        return answer[-2] * 1e6 / max(1, answer[-1])

    def memory_limits(self):
        folder = self.limits("memory", 2 << 30, 0)
        probe = Probe(self.build, folder)
        probe.start(self.card, 100)
        free, total = probe.tell("info")[1:3]
        self.say("total_shown", total, total == 2 << 30, 2 << 30)
        allowed = probe.tell(f"alloc {free - (64 << 20)}")[0]
        refused = probe.tell("alloc 268435456")[0]
        self.say("memory_codes", [allowed, refused], [allowed, refused] == [0, 2], "[0, 2]")
        charged = (2 << 30) - probe.tell("info")[1]
        self.say("charged_bytes", charged, charged <= 2 << 30, "within the limit")
        probe.end()

    def overhead(self):
        for cores, name in ((0, "unlimited"), (99, "limited")):
            free = self.rate(f"run {self.milliseconds} 64", 5)
            ours = self.rate(f"run {self.milliseconds} 64", 5, self.limits("overhead", self.memory, cores))
            loss = round(100 * (1 - ours / free), 2)
            self.say(f"loss_percent_{name}_5us", loss, loss < (2 if cores == 0 else 5), "a few percent at 5 us kernels")

    def exactness(self):
        for kernel_us in (20, 2000, 20000):
            self.free[kernel_us] = self.rate(f"run {self.milliseconds} 0", kernel_us)
            for cores in (10, 30, 70, 90):
                got = self.rate(f"run {self.milliseconds} 0", kernel_us, self.limits("exact", self.memory, cores))
                share = round(100 * got / self.free[kernel_us], 1)
                # The burst, and twice the longest kernel, may come on top of so short a time.
                slack = 100 * (20 * cores / 100 + 2 + 2 * kernel_us / 1000) / self.milliseconds
                self.say(f"share_{cores}_at_{kernel_us}us", share, cores - 3 <= share <= cores + 2 + slack, cores)

    def graphs(self):
        free = self.rate(f"graph 50 {self.milliseconds}", 50)
        got = self.rate(f"graph 50 {self.milliseconds}", 50, self.limits("graph", self.memory, 50))
        share = round(100 * got / free, 1)
        self.say("share_50_of_graphs", share, 45 <= share <= 55, 50)

    def two_tenants(self):
        probes = []
        for name, cores in (("a", 30), ("b", 70)):
            probe = Probe(self.build, self.limits(name, self.memory // 4, cores))
            probe.start(self.card, 2000)
            probes.append((probe, cores))
        for probe, _ in probes:
            probe.send(f"run {self.milliseconds} 0")
        for probe, cores in probes:
            answer = probe.receive()
            share = round(100 * answer[-2] * 1e6 / answer[-1] / self.free[2000], 1)
            self.say(f"share_{cores}_of_two", share, share <= cores + 5, f"at most {cores}: strict without a broker")
            probe.end()

    def unknown_symbols(self):
        log = pathlib.Path(self.scratch, "memory/log")
        text = log.read_text() if log.exists() else ""
        unknown = [line.split(": ", 2)[-1] for line in text.splitlines() if "does not know" in line]
        self.say("unknown_symbols", unknown[:1], not unknown, "none")

    def run(self):
        for check in (self.memory_limits, self.unknown_symbols, self.overhead, self.exactness, self.graphs,
                      self.two_tenants):
            check()
        self.results["date"] = datetime.date.today().isoformat()
        self.results["missed"] = self.failed
        print(json.dumps(self.results))
        return 2 if self.failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--card", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    scratch = tempfile.mkdtemp(prefix="heddle-gpu-")
    try:
        return Checks(options.build.resolve(), options.card, options.seconds, scratch).run()
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    sys.exit(main())
