"""The harness itself: a cluster that runs a pod, and a killed run that leaves nothing behind."""
import errno
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from harness import objects
from harness.scratch import Scratch, clean_leftovers, enable_controllers, start_time

PREFLIGHT = pathlib.Path(__file__).resolve().parent / "preflight.sh"


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


def preflight(*prefix, **env):
    return subprocess.run([*prefix, PREFLIGHT], capture_output=True, text=True, check=False, env={**os.environ, **env})


def test_a_machine_that_can_is_let_through_and_left_as_it_was():
    before = sorted(os.listdir("/tmp")), sorted(os.listdir("/sys/class/net"))
    done = preflight()
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert [name for name in os.listdir("/tmp") if name.startswith("heddle-preflight-") and name not in before[0]] == []
    assert sorted(os.listdir("/sys/class/net")) == before[1]


@pytest.mark.parametrize("prefix, complaint", [
    (("setpriv", "--bounding-set=-sys_admin"), "does not let root mount file systems; in a container, start it with --privileged"),
    (("setpriv", "--bounding-set=-net_admin"), "does not let root make a network bridge"),
    (("setpriv", "--reuid=65534", "--clear-groups"), "run them as root"),
])
def test_what_a_container_may_not_is_said_in_one_line(prefix, complaint):
    done = preflight(*prefix)
    assert done.returncode == 1
    assert complaint in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize("controllers, complaint", [
    ("cpuset cpu io memory pids", None), ("cpu io memory pids", "the cgroup controller 'cpuset' is not delegated")])
def test_cgroups_of_version_2_must_have_what_the_kubelet_needs(tmp_path, controllers, complaint):
    (tmp_path / "cgroup.controllers").write_text(controllers + "\n")
    done = preflight(HEDDLE_CGROUP_ROOT=str(tmp_path))
    assert done.returncode == (1 if complaint else 0), done.stderr
    assert (complaint or "") in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["cgroup.controllers"]


class Version2:
    """The rules of a cgroup v2 folder that is not the machine's own root."""

    def __init__(self, root, controllers, processes):
        self.root, self.controllers, self.enabled = root, controllers, []
        self.processes = {root: list(processes)}

    def read(self, path):
        return {"cgroup.controllers": " ".join(self.controllers), "cgroup.subtree_control": " ".join(self.enabled),
                "cgroup.procs": "\n".join(self.processes.get(path.parent, []))}[path.name]

    def write(self, path, text):
        if path.name == "cgroup.procs":
            self.processes[self.root].remove(text)
            self.processes.setdefault(path.parent, []).append(text)
        elif self.processes[self.root]:
            raise OSError(errno.EBUSY, "it has processes")
        else:
            self.enabled.append(text.removeprefix("+"))


def test_controllers_are_handed_out_where_nobody_did(tmp_path):
    tree = Version2(tmp_path, ["cpuset", "cpu", "memory", "pids"], ["1", "77"])
    enable_controllers(tmp_path, tree.read, tree.write)
    assert tree.enabled == ["cpuset", "cpu", "memory", "pids"]
    assert tree.processes == {tmp_path: [], tmp_path / "heddle-tests-init": ["1", "77"]}


def test_what_is_handed_out_already_moves_nobody(tmp_path):
    tree = Version2(tmp_path, ["cpuset", "cpu", "memory", "pids"], ["1"])
    tree.enabled = ["cpuset", "cpu", "memory", "pids"]
    enable_controllers(tmp_path, tree.read, tree.write)
    assert tree.processes == {tmp_path: ["1"]} and os.listdir(tmp_path) == []


def test_a_controller_that_is_not_there_is_named(tmp_path):
    tree = Version2(tmp_path, ["cpu", "memory", "pids"], [])
    with pytest.raises(RuntimeError, match="controllers cpuset cannot be handed"):
        enable_controllers(tmp_path, tree.read, tree.write)
