"""The scratch folder of one cluster: everything that a run leaves on the machine lies in it or carries its name.

Everything is found again from the folder alone (recorded pids with start times, the cgroup and the bridge that carry the
folder's name, mounts below it), so that a run that was killed is cleaned up by the next one.
"""
import errno
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

PREFIX = "hdc-"
KUBELET_NEEDS = ("cpu", "cpuset", "memory", "pids")
CGROUPS = pathlib.Path("/sys/fs/cgroup")


def start_time(pid):
    """Kernel start time of a process, None when there is none (zombies count as gone)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rsplit(b")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def alive(pid, started):
    return started is not None and start_time(pid) == started


def enable_controllers(root, read=pathlib.Path.read_text, write=pathlib.Path.write_text):
    """cgroup v2: hands every controller of `root` to its children, so that the kubelet's own cgroup has them. systemd does so on
    an ordinary machine; in a container without it nobody has. There the root of what is seen is an inner cgroup of the
    machine, and one with processes cannot hand out: they move to a child of their own, where they may stay."""
    def missing():
        return [name for name in read(root / "cgroup.controllers").split()
                if name not in read(root / "cgroup.subtree_control").split()]

    def hand_out():
        """True when the processes of the root are in the way."""
        in_the_way = False
        for name in missing():
            try:
                write(root / "cgroup.subtree_control", f"+{name}")
            except OSError as error:
                in_the_way = in_the_way or error.errno == errno.EBUSY
        return in_the_way

    if hand_out():
        inner = root / "heddle-tests-init"
        inner.mkdir(exist_ok=True)
        for pid in read(root / "cgroup.procs").split():
            try:
                write(inner / "cgroup.procs", pid)
            except OSError:  # it has ended, or is a thread of the kernel
                pass
        hand_out()
    left = sorted(set(KUBELET_NEEDS) & set(missing()) | set(KUBELET_NEEDS) - set(read(root / "cgroup.controllers").split()))
    if left:
        raise RuntimeError(f"{root}: the cgroup controllers {', '.join(left)} cannot be handed to children, and the kubelet needs them")


class Scratch:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.name = self.path.name  # also the cgroup's and the bridge's name: at most 15 characters

    @classmethod
    def create(cls):
        # Short on purpose: unix socket paths below it must stay under 108 bytes.
        scratch = cls(tempfile.mkdtemp(prefix=PREFIX, dir="/tmp"))
        # Mounts of containers must come through, as on an ordinary node, whatever this machine's root does.
        for words in (("--bind", scratch.path, scratch.path), ("--make-rshared", scratch.path)):
            subprocess.run(["mount", *words], check=True)
        (scratch.path / "pids").mkdir()
        (scratch.path / "owner").write_text(f"{os.getpid()} {start_time(os.getpid())}")
        return scratch

    def record(self, name, pid):
        (self.path / "pids" / f"{name}-{pid}").write_text(f"{pid} {start_time(pid)}")

    def forget(self, name, pid):
        (self.path / "pids" / f"{name}-{pid}").unlink(missing_ok=True)

    def make_cgroup(self):
        """The kubelet's cgroup root, in each v1 hierarchy or in the unified one."""
        for root in self._cgroup_roots():
            folder = root / self.name
            if root == CGROUPS:  # version 2 alone; beside version 1 it has no controllers
                enable_controllers(root)
            folder.mkdir(exist_ok=True)
            if (folder / "cpuset.cpus").exists() and not (folder / "cgroup.controllers").exists():
                for key in ("cpuset.cpus", "cpuset.mems"):
                    (folder / key).write_text((root / key).read_text())
            if (folder / "cgroup.controllers").exists():
                for controller in (folder / "cgroup.controllers").read_text().split():
                    try:
                        (folder / "cgroup.subtree_control").write_text("+" + controller)
                    except OSError:
                        pass
        return "/" + self.name

    @staticmethod
    def _cgroup_roots():
        if (CGROUPS / "cgroup.controllers").exists():
            return [CGROUPS]
        return [child for child in CGROUPS.iterdir() if child.is_dir() and not child.is_symlink()]

    def _cgroup_folders(self):
        """Deepest first."""
        for root in self._cgroup_roots():
            folder = root / self.name
            if folder.is_dir():
                for parent, _, _ in os.walk(folder, topdown=False):
                    yield pathlib.Path(parent)

    def container_pids(self):
        """Every process of every container of this cluster."""
        pids = set()
        for folder in self._cgroup_folders():
            try:
                pids.update(int(word) for word in (folder / "cgroup.procs").read_text().split())
            except OSError:
                pass
        return pids

    def _recorded(self):
        for entry in (self.path / "pids").glob("*"):
            words = entry.read_text().split()
            if len(words) == 2 and words[1] != "None":
                yield int(words[0]), int(words[1])

    def _shims(self):
        """containerd's shims leave its process group; their command line names this folder's socket."""
        mark = str(self.path).encode() + b"/"
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                words = pathlib.Path("/proc", entry, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"containerd-shim-runc-v2" in words[0] and any(word.startswith(mark) for word in words):
                yield int(entry)

    def _mounts(self):
        with open("/proc/self/mountinfo", encoding="utf-8") as table:
            points = [line.split()[4].replace("\\040", " ") for line in table]
        return [point for point in reversed(points) if point == str(self.path) or point.startswith(f"{self.path}/")]

    def clean(self):
        """Ends every process, unmounts and removes everything of this cluster. Safe to repeat."""
        pids = [pid for pid, started in self._recorded() if alive(pid, started)]
        for pid in pids:
            _signal(pid, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            left = self.container_pids() | set(self._shims())
            if not left:
                break
            for pid in left:
                _signal(pid, signal.SIGKILL)
            time.sleep(0.05)
        for _ in range(3):
            for point in self._mounts():
                subprocess.run(["umount", "-l", point], stderr=subprocess.DEVNULL, check=False)
        for folder in self._cgroup_folders():
            for _ in range(100):
                try:
                    folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.02)
        if pathlib.Path("/sys/class/net", self.name).exists():
            subprocess.run(["ip", "link", "del", self.name], check=False)
        links = pathlib.Path("/var/log/containers")
        for link in links.iterdir() if links.is_dir() else []:
            if link.is_symlink() and os.readlink(link).startswith(f"{self.path}/"):
                link.unlink(missing_ok=True)
        if not self._mounts():  # never delete through a mount
            shutil.rmtree(self.path, ignore_errors=True)

    def left_behind(self):
        """What clean() could not remove, for a test of the harness itself."""
        found = [f"process {pid}" for pid in sorted(self.container_pids() | set(self._shims()))]
        found += [f"mount {point}" for point in self._mounts()]
        found += [f"cgroup {folder}" for folder in self._cgroup_folders()]
        if self.path.exists():
            found.append(f"folder {self.path}")
        if pathlib.Path("/sys/class/net", self.name).exists():
            found.append(f"bridge {self.name}")
        return found


def _signal(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def clean_leftovers():
    """Cleans the folders whose owner is gone; returns their names."""
    cleaned = []
    for path in pathlib.Path("/tmp").glob(PREFIX + "*"):
        try:
            pid, started = (path / "owner").read_text().split()
        except (OSError, ValueError):
            continue  # being created by another run, or not ours
        if not alive(int(pid), int(started)):
            scratch = Scratch(path)
            scratch.clean()
            cleaned.append(scratch.name)
    return cleaned
