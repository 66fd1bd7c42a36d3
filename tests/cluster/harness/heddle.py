"""Heddle on the cluster: installed from the rendered chart; its programs run with the rights that the chart gives them."""
import os
import pathlib
import subprocess

import yaml

from . import objects
from .api import ApiError
from .process import Failed, Process, free_ports, wait_until

NAMESPACE = "heddle-system"
HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
CHART = REPOSITORY / "charts/heddle"
WORKLOADS = ("Deployment", "DaemonSet")
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def build_dir():
    return pathlib.Path(os.environ.get("HEDDLE_BUILD", REPOSITORY / "build/release"))


def program(name):
    return build_dir() / "bin" / name


def render(binaries, values=None, release="heddle"):
    """The chart's objects with these values, as `helm install` sends them."""
    argv = [binaries / "helm", "template", release, CHART, "--namespace", NAMESPACE, "--kube-version", "1.37.2"]
    done = subprocess.run([*argv, "--values", "-"], input=yaml.safe_dump(values or {}), capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise Failed(f"helm template: {done.stderr}")
    return [body for body in yaml.safe_load_all(done.stdout) if body]


class Heddle:
    def __init__(self, cluster):
        self.cluster, self.api = cluster, cluster.api
        self.dir = cluster.dir / "heddle"
        self.dir.mkdir(exist_ok=True)
        self.webhook_port, *self.ports = free_ports(8)
        self.agent = None
        self.controllers = {}
        self.tokens = {}

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
        for body in render(self.cluster.bin, {"webhook": {"url": f"https://127.0.0.1:{self.webhook_port}"}}):
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
