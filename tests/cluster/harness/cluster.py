"""The whole cluster in one object; a context manager that leaves nothing behind."""
import pathlib
import subprocess

from .control_plane import ControlPlane
from .node import Node, free_subnet, make_bridge
from .process import tail
from .scratch import Scratch, clean_leftovers

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]


def binaries():
    """The folder of Kubernetes' programs, built if it is missing."""
    built = subprocess.run([HERE.parent / "build.sh"], stdout=subprocess.PIPE, text=True, check=True)
    return pathlib.Path(built.stdout.strip())


class Cluster:
    def __init__(self, with_node=True, manager_qps=None, profiling=False, native_gangs=False):
        self.cleaned = clean_leftovers()
        self.bin = binaries()
        self.scratch = Scratch.create()
        self.dir = self.scratch.path
        subnet = free_subnet() if with_node else None
        if with_node:
            make_bridge(self.scratch.name, subnet)
        self.gateway = str(subnet[1]) if with_node else None  # this machine, as pods see it
        self.plane = ControlPlane(self.scratch, self.bin, manager_qps=manager_qps,
                                  addresses=[self.gateway] if with_node else [], profiling=profiling, native_gangs=native_gangs)
        self.node = Node(self.scratch, self.bin, self.plane, subnet) if with_node else None

    def __enter__(self):
        try:
            self.plane.start()
            if self.node:
                self.node.start()
            self.api.wait_for("serviceaccounts", "default", "default", bool, "made by the controller manager")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.node:
            self.node.stop()
        self.plane.stop()
        self.scratch.clean()

    @property
    def api(self):
        return self.plane.api

    def check(self):
        self.plane.check()
        if self.node:
            self.node.check()

    def log_tails(self):
        """The ends of all logs, the most of those of Heddle's own programs."""
        return "\n".join(tail(path, 60 if "heddle" in str(path.relative_to(self.dir)) else 8)
                         for path in sorted((self.dir / "logs").glob("*.log"))
                         + sorted((self.dir / "podlogs").glob("heddle-system_*/*/*.log")))
