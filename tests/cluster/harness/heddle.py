"""Heddle on the cluster: installed from the rendered chart; its programs run with the rights that the chart gives them."""
import os
import pathlib
import shutil
import subprocess
import urllib.request

import yaml

from . import image, objects
from .api import ApiError
from .process import Failed, Process, free_ports, wait_until

NAMESPACE = "heddle-system"
CUDA_IMAGE = "heddle.test/cuda:1"
HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
CHART = REPOSITORY / "charts/heddle"
WORKLOADS = ("Deployment", "DaemonSet")
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def build_dir():
    return pathlib.Path(os.environ.get("HEDDLE_BUILD", REPOSITORY / "build/release"))


def program(name):
    return build_of(name) / "bin" / name


def tree_of(name):
    """The sources that a program and its part of the chart come from: these, or those of another version (tools/skew.sh)."""
    other = {"heddle-agent": "HEDDLE_AGENT_TREE", "heddle-controller": "HEDDLE_CONTROLLER_TREE"}.get(name)
    return pathlib.Path(os.environ.get(other or "", "") or REPOSITORY)


def build_of(name):
    return build_dir() if tree_of(name) == REPOSITORY else tree_of(name) / "build/release"


def render(binaries, values=None, release="heddle", chart=CHART):
    """The chart's objects with these values, as `helm install` sends them."""
    argv = [binaries / "helm", "template", release, chart, "--namespace", NAMESPACE, "--kube-version", "1.37.2"]
    done = subprocess.run([*argv, "--values", "-"], input=yaml.safe_dump(values or {}), capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise Failed(f"helm template: {done.stderr}")
    return [body for body in yaml.safe_load_all(done.stdout) if body]


def with_flags(arguments, variables, **flags):
    """The arguments of a chart's container: $(VAR) filled in, and some flags given other values (None: left out)."""
    out = []
    for argument in arguments:
        for name, value in variables.items():
            argument = argument.replace(f"$({name})", value)
        name = argument.removeprefix("--").split("=")[0].replace("-", "_")
        if name not in flags:
            out.append(argument)
    return out + [f"--{name.replace('_', '-')}={value}" for name, value in flags.items() if value is not None]


class Heddle:
    """Heddle's programs as processes of this machine, with the arguments and the accounts of the chart."""

    def __init__(self, cluster):
        self.cluster, self.api = cluster, cluster.api
        self.dir = cluster.dir / "heddle"
        self.dir.mkdir(exist_ok=True)
        self.webhook_port = free_ports(1)[0]
        self.agent = None
        self.controllers = {}
        self.metrics_ports = {}
        self.tokens = {}
        self.driver_root = self.dir / "driver"
        self.state_dir = self.dir / "state"

    # The chart ------------------------------------------------------------------------------------------------------
    def install_objects(self, values=None, skip=WORKLOADS + WEBHOOKS):
        """Everything of the chart but the kinds in `skip`: accounts, rights, policies, classes."""
        if not self.api.find("namespaces", NAMESPACE):
            self.api.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for body in render(self.cluster.bin, values):
            if body["kind"] not in skip:
                self.api.apply(body, "helm")
        self._wait_for_policies()

    def install_webhooks(self):
        for body in render(self.cluster.bin, self.values()):
            if body["kind"] in WEBHOOKS:
                self.api.apply(body, "helm")

    def remove_webhooks(self):
        for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            self.api.delete(kind, "heddle")

    def _wait_for_policies(self):
        """The API server compiles policies after a moment: wait until each refuses what it is there to refuse."""
        body = objects.slices("no-such-node", [objects.card(0)])

        def slices_refused():
            try:
                self.api.create("resourceslices", body)
            except ApiError as error:
                return "heddle-slices" in str(error)
            self.api.delete("resourceslices", body["metadata"]["name"])
            return False
        wait_until("the policy heddle-slices is in force", slices_refused, 60)

        claim = objects.claim("policy-probe", "default")
        claim = self.api.create("resourceclaims", claim)
        claim["status"] = {"allocation": {"devices": {"results": [
            {"request": "card", "driver": objects.DRIVER, "pool": "p", "device": "d"}]}}}

        def ledger_refused():
            try:
                self.api.update("resourceclaims", {**claim, "metadata": {**claim["metadata"], "resourceVersion": ""}}, "status")
            except ApiError as error:
                return "heddle-ledger" in str(error)
            self.api.patch("resourceclaims", "policy-probe", {"status": None}, "default", "status")
            return False
        wait_until("the policy heddle-ledger is in force", ledger_refused, 60)
        self.api.delete("resourceclaims", "policy-probe", "default")

    # Accounts -------------------------------------------------------------------------------------------------------
    def agent_token(self, node_name):
        """A token of the agent's account as its pod on that node has it."""
        if node_name not in self.tokens:
            uid = self.api.get("nodes", node_name)["metadata"]["uid"]
            self.tokens[node_name] = self.api.token_for("heddle-agent", NAMESPACE, bound={
                "kind": "Node", "apiVersion": "v1", "name": node_name, "uid": uid})
        return self.tokens[node_name]

    def agent_api(self, node_name):
        return self.api.as_user(self.agent_token(node_name), f"agent of {node_name}")

    def controller_api(self):
        return self.api.as_user(self.api.token_for("heddle-controller", NAMESPACE), "controller")

    # Nodes made by tests --------------------------------------------------------------------------------------------
    def make_node(self, name, devices=(), cpu="64", labels=None, memory="256Gi"):
        """A node without kubelet whose slice is written with the rights of an agent there."""
        self.api.create("nodes", objects.node(name, cpu=cpu, memory=memory, labels=labels))
        # Admission marks each new node not-ready; its controller lifts that from nodes whose condition says Ready.
        self.api.patch("nodes", name, {"spec": {"taints": None}})
        if devices:
            self.agent_api(name).create("resourceslices", objects.slices(name, list(devices)))

    def remove_node(self, name):
        for body in self.api.list("resourceslices", field=f"spec.nodeName={name}"):
            self.api.delete("resourceslices", body["metadata"]["name"])
        self.api.delete("nodes", name)
        self.tokens.pop(name, None)

    # Programs -------------------------------------------------------------------------------------------------------
    def values(self):
        """The chart's values for this machine."""
        node = self.cluster.node
        return {"webhook": {"url": f"https://127.0.0.1:{self.webhook_port}"},
                "agent": {"driverRoot": str(self.driver_root), "kubeletRoot": str(node.root if node else self.dir / "kubelet"),
                          "cdiRoot": str(node.cdi if node else self.dir / "cdi"), "stateDir": str(self.state_dir),
                          "logLevel": "debug"},
                "controller": {"logLevel": "debug"}}

    def _container(self, kind):
        chart = tree_of({"Deployment": "heddle-controller", "DaemonSet": "heddle-agent"}[kind]) / "charts/heddle"
        body = next(body for body in render(self.cluster.bin, self.values(), chart=chart) if body["kind"] == kind)
        return body["spec"]["template"]["spec"]["containers"][0]

    def make_cards(self, description):
        """The simulated machine's driver folder: dev/ with its cards, lib/ with the vendor's libraries."""
        self.driver_root.mkdir(exist_ok=True)
        config = self.dir / "cards.yaml"
        config.write_text(yaml.safe_dump(description))
        subprocess.run([program("nvsim"), "create", "--config", config, "--root", self.driver_root], check=True)
        lib = self.driver_root / "lib"
        lib.mkdir(exist_ok=True)
        for library in (build_dir() / "sim/nvidia/lib").glob("*.so*"):
            if not (lib / library.name).exists():
                shutil.copy(library, lib / library.name, follow_symlinks=True)

    def nvsim(self, *argv):
        return subprocess.run([program("nvsim"), *map(str, argv), "--root", self.driver_root], check=True,
                              capture_output=True, text=True).stdout

    def import_cuda_image(self):
        """An ordinary glibc image with a program that makes CUDA calls. It brings no driver library of its own."""
        root = image.shell_root(self.dir / "image")
        image.add_glibc(root, [program("nvsim-run")])
        # A loader that reads no ld.so.preload, as that of another C library does not, and a static program has none.
        loader = (root / "lib64/ld-linux-x86-64.so.2").read_bytes()
        other = root / "bin/ld-other.so"
        other.write_bytes(loader.replace(b"/etc/ld.so.preload", b"/etc/ld.so.nothing"))
        other.chmod(0o755)
        self.cluster.node.import_image(CUDA_IMAGE, root, ["/bin/nvsim-run"])

    def start_agent(self, tap=None, **flags):
        kubeconfig = self._kubeconfig("heddle-agent", self.agent_token(self.cluster.node.name), tap)
        self.metrics_ports["agent"] = free_ports(1)[0]
        uid = self.api.get("nodes", self.cluster.node.name)["metadata"]["uid"]
        arguments = with_flags(self._container("DaemonSet")["args"],
                               {"NODE_NAME": self.cluster.node.name, "POD_UID": uid},
                               kubeconfig=kubeconfig, metrics_address="127.0.0.1",
                               metrics_port=self.metrics_ports["agent"],
                               guard_library=build_of("heddle-agent") / "lib/libheddle_guard.so", **flags)
        # The simulated libraries find their machine by this; the agent hands its environment to the process that loads them.
        self.agent = Process(self.cluster.scratch, "heddle-agent", [program("heddle-agent"), *arguments],
                             env={"NVSIM_ROOT": str(self.driver_root), "ASCENDSIM_ROOT": str(self.driver_root)}).start()
        return self.agent

    def controller_process(self, name="controller-0", tap=None, webhook_port=None, **flags):
        """A replica of the controller, not started. The first serves the webhook's address."""
        kubeconfig = self._kubeconfig(name, self.api.token_for("heddle-controller", NAMESPACE), tap)
        self.metrics_ports[name] = free_ports(1)[0]
        if webhook_port is None:
            webhook_port = self.webhook_port if name == "controller-0" else free_ports(1)[0]
        arguments = with_flags(self._container("Deployment")["args"], {"POD_NAME": name, "POD_NAMESPACE": NAMESPACE},
                               kubeconfig=kubeconfig, webhook_address="127.0.0.1", webhook_port=webhook_port,
                               metrics_address="127.0.0.1", metrics_port=self.metrics_ports[name], **flags)
        process = Process(self.cluster.scratch, f"heddle-{name}", [program("heddle-controller"), *arguments])
        self.controllers[name] = process
        return process

    def start_controller(self, name="controller-0", tap=None, **flags):
        return self.controller_process(name, tap, **flags).start()

    def serve(self):
        """The webhooks are in force and a new controller leads; returns its process when a pod has passed its webhook."""
        self.install_webhooks()
        process = self.start_controller()
        self.wait_leading()
        self.wait_webhook()
        return process

    def restart_controller(self, tap=None, name="controller-0", **flags):
        """kill -9 and a new start, if a tap is given behind it; returns when it leads and its webhook answers."""
        self.controllers[name].kill()
        process = self.start_controller(name, tap, **flags)
        self.wait_leading()
        if name == "controller-0":
            self.wait_webhook()
        return process

    def _kubeconfig(self, name, token, tap):
        path = self.cluster.plane.kubeconfig(name, token)
        if tap:
            path.write_text(path.read_text().replace(f":{self.cluster.plane.port}", f":{tap.port}"))
        return path

    def wait_leading(self, timeout=90):
        """The lease is held by a running controller; returns its name."""
        def holder():
            lease = self.api.find("leases", "heddle-controller", NAMESPACE)
            held = ((lease or {}).get("spec", {}).get("holderIdentity") or "")
            return next((name for name, process in self.controllers.items() if held.startswith(name) and process.running()),
                        None)
        return wait_until("a controller leads", holder, timeout, check=self.check)

    def wait_webhook(self, timeout=60):
        """The webhook answers: a pod that asks passes a dry run with the gate on it."""
        probe = objects.pod("webhook-probe", "default", limits=objects.share(memory=1))
        last = [""]

        def answers():
            try:
                made = self.api.request("POST", self.api.path("pods", "default") + "?dryRun=All", probe)
            except ApiError as error:
                last[0] = str(error)
                return False
            last[0] = "the pod passed without a gate"
            return objects.gated(made)
        wait_until(lambda: f"the webhook answers: {last[0]}", answers, timeout, check=self.check)

    def wait_slices(self, cards, timeout=60):
        """The agent has published this many cards of the real node."""
        def published():
            found = [device for body in self.api.list("resourceslices", field=f"spec.nodeName={self.cluster.node.name}")
                     if body["spec"]["driver"] == objects.DRIVER for device in body["spec"].get("devices", [])]
            return found if len(found) == cards else None
        return wait_until(lambda: f"{cards} cards are published\n{self.agent.tail()}", published, timeout, check=self.agent.check)

    def check(self):
        for process in (self.agent, *self.controllers.values()):
            if process and process.popen:
                process.check()

    def metrics(self, name):
        """Prometheus text of "agent" or of a controller -> {series: value}."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_ports[name]}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line and line[0] != "#"}

    def stop(self):
        for process in (self.agent, *self.controllers.values()):
            if process:
                process.stop()
        self.agent, self.controllers = None, {}
