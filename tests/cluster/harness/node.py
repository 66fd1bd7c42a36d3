"""One real node: containerd, runc and a kubelet, all their paths in the scratch folder."""
import ipaddress
import json
import pathlib
import secrets
import shutil
import subprocess

from . import image
from .process import Process, free_ports, wait_until

BUSYBOX = "heddle.test/busybox:1"
PAUSE = "heddle.test/pause:1"
HERE = pathlib.Path(__file__).resolve().parent

CONTAINERD = """version = 3
root = "{dir}/ctd/root"
state = "{dir}/ctd/state"
[grpc]
  address = "{dir}/ctd/c.sock"
[ttrpc]
  address = "{dir}/ctd/t.sock"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
  enable_cdi = true
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  cdi_spec_dirs = ["{dir}/cdi"]
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["/usr/lib/cni"]
  conf_dir = "{dir}/cni"
[plugins."io.containerd.cri.v1.runtime".containerd]
  default_runtime_name = "runc"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = "{bin}/runc"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia.options]
  BinaryName = "{dir}/vendor-runtime"
"""


def free_subnet():
    """A /24 of 10.0.0.0/8 that no interface of this machine has, and its first address for the bridge."""
    listed = json.loads(subprocess.run(["ip", "-j", "addr"], capture_output=True, check=True).stdout)
    taken = [ipaddress.ip_interface(f"{address['local']}/{address['prefixlen']}").network
             for link in listed for address in link["addr_info"] if address["family"] == "inet"]
    for third in range(256):
        subnet = ipaddress.ip_network(f"10.203.{third}.0/24")
        if not any(subnet.overlaps(other) for other in taken):
            return subnet
    raise RuntimeError("no free subnet in 10.203.0.0/16")


def make_bridge(name, subnet):
    """At once, so that another cluster that starts now sees the subnet taken; the CNI plugin uses it as it is."""
    for words in (("link", "add", name, "type", "bridge"), ("addr", "add", f"{subnet[1]}/{subnet.prefixlen}", "dev", name),
                  ("link", "set", name, "up")):
        subprocess.run(["ip", *words], check=True)


class Node:
    def __init__(self, scratch, binaries, plane, subnet, name="node-1"):
        self.scratch, self.bin, self.plane, self.subnet, self.name = scratch, binaries, plane, subnet, name
        self.dir = scratch.path
        self.root = self.dir / "kubelet"
        self.cdi = self.dir / "cdi"
        self.processes = {}
        self.port = free_ports(1)[0]

    def start(self):
        for folder in ("ctd", "cni", "cdi", "img", "podlogs", "manifests"):
            (self.dir / folder).mkdir(exist_ok=True)
        runtime = self.dir / "vendor-runtime"  # of pods with the runtime class "nvidia"
        runtime.write_text(f'#!/bin/sh\nexec /usr/bin/python3 -B {HERE}/vendor_runtime.py {self.bin}/runc {self.dir}/heddle/driver "$@"\n')
        runtime.chmod(0o755)
        (self.dir / "ctd.toml").write_text(CONTAINERD.format(dir=self.dir, pause=PAUSE, bin=self.bin))
        (self.dir / "cni/10-bridge.conflist").write_text(json.dumps({
            "cniVersion": "1.0.0", "name": self.scratch.name, "plugins": [{
                "type": "bridge", "bridge": self.scratch.name, "isGateway": True, "ipMasq": False,
                "ipam": {"type": "host-local", "dataDir": f"{self.dir}/ipam", "ranges": [[{"subnet": str(self.subnet)}]],
                         "routes": [{"dst": "0.0.0.0/0"}]}}]}))
        self._start_containerd()
        self._base_images()
        self._write_kubelet_config()
        self.start_kubelet()
        self.plane.api.wait_for("nodes", self.name, None, _ready, "Ready", 120, check=self.check)
        return self

    def _start_containerd(self):
        process = Process(self.scratch, "containerd", [self.bin / "containerd", "-c", self.dir / "ctd.toml"],
                          env={"PATH": f"{self.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})
        self.processes["containerd"] = process.start()
        wait_until("containerd answers", lambda: self.ctr("version", check=False).returncode == 0, 60, check=process.check)

    def ctr(self, *argv, check=True):
        return subprocess.run([self.bin / "ctr", "-a", self.dir / "ctd/c.sock", "-n", "k8s.io", *map(str, argv)],
                              capture_output=True, text=True, check=check)

    def import_image(self, name, rootfs, entrypoint, env=("PATH=/bin:/usr/bin",)):
        archive = self.dir / "img" / (name.split("/")[-1].replace(":", "-") + ".tar")
        image.pack(name, rootfs, entrypoint, archive, env)
        self.ctr("images", "import", archive)
        archive.unlink()
        return name

    def _base_images(self):
        pause = self.dir / "img/pause"
        pause.mkdir()
        shutil.copy(self.bin / "pause", pause / "pause")
        self.import_image(PAUSE, pause, ["/pause"])
        self.import_image(BUSYBOX, image.shell_root(self.dir / "img/busybox"), ["/bin/sh"])

    def _write_kubelet_config(self):
        (self.dir / "kubelet.yaml").write_text(json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "address": "127.0.0.1", "port": self.port, "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "failCgroupV1": False, "cgroupDriver": "cgroupfs", "cgroupRoot": self.scratch.make_cgroup(),
            "cgroupsPerQOS": True, "enforceNodeAllocatable": [], "failSwapOn": False, "evictionHard": {},
            "imageGCHighThresholdPercent": 100, "containerRuntimeEndpoint": f"unix://{self.dir}/ctd/c.sock",
            "podLogsDir": str(self.dir / "podlogs"), "staticPodPath": str(self.dir / "manifests"), "maxPods": 250,
            "nodeStatusUpdateFrequency": "10s", "syncFrequency": "10s", "registryPullQPS": 0, "eventRecordQPS": 0,
        }))

    def start_kubelet(self):
        config = self.plane.kubeconfig(f"system:node:{self.name}")
        process = Process(self.scratch, "kubelet", [
            self.bin / "kubelet", f"--config={self.dir}/kubelet.yaml", f"--kubeconfig={config}",
            f"--root-dir={self.root}", f"--cert-dir={self.root}/pki", f"--hostname-override={self.name}", "--v=2"])
        self.processes["kubelet"] = process.start()

    def restart_kubelet(self):
        self.processes["kubelet"].kill()
        self.start_kubelet()

    def check(self):
        for process in self.processes.values():
            process.check()

    def log_file(self, pod, container):
        """The newest CRI log of a container, None before it started."""
        meta = pod["metadata"]
        folder = self.dir / "podlogs" / f"{meta['namespace']}_{meta['name']}_{meta['uid']}" / container
        files = sorted(folder.glob("*.log"), key=lambda path: int(path.stem)) if folder.is_dir() else []
        return files[-1] if files else None

    def logs(self, pod, container=None):
        """What a container wrote, without the CRI prefixes."""
        container = container or pod["spec"]["containers"][0]["name"]
        path = self.log_file(pod, container)
        if path is None:
            return ""
        out = []
        for line in path.read_text(errors="replace").splitlines():
            words = line.split(" ", 3)
            out.append((words[3] if len(words) > 3 else "") + ("\n" if len(words) < 3 or words[2] == "F" else ""))
        return "".join(out)

    def exec(self, pod, *argv):
        """Starts a program in a running container, as an exec through the kubelet does, and leaves it running."""
        running = pod["status"]["containerStatuses"][0]["containerID"].split("//")[1]
        self.ctr("tasks", "exec", "--detach", "--exec-id", f"test-{secrets.token_hex(4)}", running, *argv)

    def container_pids(self, pod, container=None):
        """Host pids of the processes of a container, by its cgroup."""
        container = container or pod["spec"]["containers"][0]["name"]
        status = next((entry for entry in pod["status"].get("containerStatuses", []) if entry["name"] == container), None)
        if not status or not status.get("containerID"):
            return []
        wanted = status["containerID"].split("//")[1]
        pids = []
        for root in {path.parent for path in pathlib.Path("/sys/fs/cgroup").glob("*/" + self.scratch.name)} | {
                pathlib.Path("/sys/fs/cgroup")}:
            for folder in (root / self.scratch.name).rglob(wanted):
                pids += [int(word) for word in (folder / "cgroup.procs").read_text().split()]
        return sorted(set(pids))

    def stop(self):
        for name in ("kubelet", "containerd"):
            if name in self.processes:
                self.processes[name].stop()


def _ready(node):
    conditions = (node or {}).get("status", {}).get("conditions", [])
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)
