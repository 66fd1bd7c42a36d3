"""The harness itself: a cluster that runs a pod, and a killed run that leaves nothing behind."""
import os
import signal
import subprocess
import sys

from harness import objects
from harness.scratch import Scratch, clean_leftovers, start_time


def test_pod_runs_in_a_container(cluster, ns):
    cluster.api.create("pods", objects.pod("hello", ns, command=["sh", "-c", "echo hello from $(id -u)"]))
    done = cluster.api.wait_for("pods", "hello", ns, objects.phase("Succeeded"), "Succeeded", 60)
    assert cluster.node.logs(done) == "hello from 0\n"


def test_killed_run_is_cleaned_by_the_next():
    program = ("from harness.scratch import Scratch; from harness.process import Process; import os, subprocess\n"
               "s = Scratch.create(); s.make_cgroup()\n"
               "p = Process(s, 'sleeper', ['sleep', '1000']).start()\n"
               "(s.path / 'mnt').mkdir(); subprocess.run(['mount', '-t', 'tmpfs', 'none', s.path / 'mnt'], check=True)\n"
               "subprocess.run(['ip', 'link', 'add', s.name, 'type', 'bridge'], check=True)\n"
               "print(s.path, p.pid, flush=True); os.kill(os.getpid(), 9)\n")
    run = subprocess.run([sys.executable, "-B", "-c", program], cwd=os.path.dirname(__file__), capture_output=True, text=True,
                         check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    path, pid = run.stdout.split()
    scratch = Scratch(path)
    assert len(scratch.left_behind()) >= 3  # a mount, the cgroup, the bridge, the folder
    assert scratch.name in clean_leftovers()
    assert scratch.left_behind() == []
    assert start_time(int(pid)) is None
