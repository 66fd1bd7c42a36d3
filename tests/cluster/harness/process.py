"""A program of the cluster: started with a log file, stopped by its pid."""
import os
import pathlib
import signal
import socket
import subprocess
import time

from .scratch import alive, start_time


class Failed(Exception):
    """A program ended or a condition did not come; the text holds what is known about it."""


class Process:
    def __init__(self, scratch, name, argv, env=None, cwd=None):
        self.scratch, self.name = scratch, name
        self.argv = [str(word) for word in argv]
        self.env, self.cwd = env, cwd
        self.log = scratch.path / "logs" / f"{name}.log"
        self.log.parent.mkdir(exist_ok=True)
        self.popen = None
        self.started = None

    def start(self):
        with open(self.log, "ab") as log:
            log.write(f"--- {' '.join(self.argv)}\n".encode())
            log.flush()
            self.popen = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                          env={**os.environ, **(self.env or {})}, cwd=self.cwd or self.scratch.path,
                                          start_new_session=True)
        self.started = start_time(self.popen.pid)
        self.scratch.record(self.name, self.popen.pid)
        return self

    @property
    def pid(self):
        return self.popen.pid

    def running(self):
        return self.popen is not None and self.popen.poll() is None

    def check(self):
        if not self.running():
            code = self.popen.returncode if self.popen else None
            raise Failed(f"{self.name} is not running (exit code {code})\n{self.tail()}")

    def signal(self, number):
        if self.running() and alive(self.popen.pid, self.started):
            os.kill(self.popen.pid, number)

    def kill(self):
        """kill -9, and wait until it is gone."""
        if self.popen is None:
            return
        self.signal(signal.SIGKILL)
        self.popen.wait()
        self.scratch.forget(self.name, self.popen.pid)

    def stop(self, timeout=15):
        if self.popen is None:
            return None
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
        self.scratch.forget(self.name, self.popen.pid)
        return self.popen.returncode

    def restart(self):
        self.kill()
        return self.start()

    def pause(self):
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def tail(self, lines=40):
        return tail(self.log, lines)

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.popen.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_rss_mib(self):
        """The most that it ever had resident."""
        for line in pathlib.Path(f"/proc/{self.popen.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        raise Failed(f"{self.name} has no peak in its status")


def tail(path, lines):
    try:
        text = pathlib.Path(path).read_text(errors="replace").splitlines()[-lines:]
    except OSError as error:
        return str(error)
    return "\n".join([f"--- end of {pathlib.Path(path).name}"] + [line[:600] for line in text])


def free_ports(count):
    """Ports that are free now. All are held until the last is found, so they differ."""
    sockets = []
    try:
        for _ in range(count):
            sock = socket.socket()
            sock.bind(("127.0.0.1", 0))
            sockets.append(sock)
        return [sock.getsockname()[1] for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


def wait_until(what, condition, timeout=60, every=0.1, check=None):
    """Waits until condition() is truthy and returns its value; `what` says in words what was awaited."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if check:
            check()
        if time.monotonic() > deadline:
            last = what() if callable(what) else what
            raise Failed(f"after {timeout} s: {last}")
        time.sleep(every)
