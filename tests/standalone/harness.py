"""A standalone Heddle on simulated cards, in a folder of its own, for tests.

HEDDLE_BUILD names the build folder (default: build/release). Nothing here sleeps for luck: tests wait for conditions.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("HEDDLE_BUILD", ROOT / "build" / "release"))
HEDDLE = str(BUILD / "bin" / "heddle")
NVSIM = str(BUILD / "bin" / "nvsim")
NVSIM_RUN = str(BUILD / "bin" / "nvsim-run")
DEADLINE = 120  # of a test that has failed already


def eventually(condition, what="the condition", deadline=DEADLINE):
    """Waits until condition() is true, and returns its value."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"{what} did not come true"
        time.sleep(0.02)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def children(pid):
    """Of a process, straight from the kernel."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] not in "ZX":
                found.append(int(entry.name))
    return found


class Standalone:
    def __init__(self, simulate="h100x1"):
        self.folder = tempfile.mkdtemp(prefix="hdl-")
        self.simulate = simulate
        self.environment = {k: v for k, v in os.environ.items() if k not in ("HEDDLE_STATE_DIR", "LD_PRELOAD")}
        self.environment["HEDDLE_STATE_DIR"] = self.folder
        self.clients = []

    def call(self, *words, check=None, **more):
        done = subprocess.run([HEDDLE, *map(str, words)], env=self.environment, capture_output=True, text=True,
                              timeout=DEADLINE, stdin=subprocess.DEVNULL, **more)
        if check is not None:
            assert done.returncode == check, f"{words}: exit {done.returncode}, {done.stdout}{done.stderr}"
        return done

    def up(self, *flags, check=0):
        return self.call("up", "--simulate", self.simulate, "--dashboard-port", "off", *flags, check=check)

    def start(self, *words, **more):
        """`heddle run` that goes on in the background."""
        client = subprocess.Popen([HEDDLE, "run", *map(str, words)], env=self.environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
        self.clients.append(client)
        return client

    def status(self):
        done = self.call("ps", "-o", "json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def jobs(self):
        status = self.status()
        return {job["id"]: job for job in status["jobs"]} if status else {}

    def job(self, name):
        return next((job for job in self.jobs().values() if job["name"] == name), None)

    def wait_state(self, name, state):
        return eventually(lambda: (job := self.job(name)) and job["state"] == state and job, f"{name} {state}")

    def wait_empty(self):
        eventually(lambda: (status := self.status()) and not status["jobs"], "an empty queue")

    def daemon(self):
        return int(pathlib.Path(self.folder, "lock").read_text())

    def kill_daemon(self):
        pid = self.daemon()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not alive(pid), "the end of the daemon")

    def check_books(self):
        """No card is granted beyond its size, and what the cards say is what the jobs say."""
        status = self.status()
        for card in status["cards"]:
            held = [share for job in status["jobs"] for share in job["shares"] if share["card"] == card["name"]]
            assert card["grantedBytes"] == sum(share["memoryBytes"] for share in held)
            assert card["grantedBytes"] <= card["memoryBytes"], status
            assert card["grantedCores"] <= 100, status
        return status

    def close(self):
        self.call("down", "--kill")
        for client in self.clients:
            if client.poll() is None:
                client.kill()
            client.communicate()
        try:
            pid = self.daemon()
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        except (OSError, ValueError):
            pass
        shutil.rmtree(self.folder, ignore_errors=True)
