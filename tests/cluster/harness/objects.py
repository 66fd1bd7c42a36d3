"""Kubernetes objects as the tests need them: short to write, complete to read."""
import secrets

from .node import BUSYBOX

DRIVER = "accelerator.heddle.dev"
GATE = "heddle.dev/placement"
REQUEST = "heddle.dev/request"
FINALIZER = "resource.kubernetes.io/delete-protection"
MANAGED_TAINT = {"key": "heddle.dev/managed", "effect": "NoSchedule"}


def unique(base):
    return f"{base}-{secrets.token_hex(3)}"


def share(count=1, memory=None, cores=None, percent=None):
    """A container's limits in the plain NVIDIA dialect."""
    limits = {"nvidia.com/gpu": count, "nvidia.com/gpumem": memory, "nvidia.com/gpumem-percentage": percent,
              "nvidia.com/gpucores": cores}
    return {key: str(value) for key, value in limits.items() if value is not None}


def container(name="main", command=("sleep", "3600"), image=BUSYBOX, limits=None, requests=None, **more):
    resources = {key: value for key, value in (("limits", limits), ("requests", requests)) if value}
    body = {"name": name, "image": image, "imagePullPolicy": "Never", "command": list(command), **more}
    if resources:
        body.setdefault("resources", {}).update(resources)
    return body


def pod(name, namespace, containers=None, limits=None, command=("sleep", "3600"), image=BUSYBOX, labels=None, annotations=None,
        **spec):
    containers = containers or [container(limits=limits, command=command, image=image)]
    meta = {"name": name, "namespace": namespace}
    if labels:
        meta["labels"] = labels
    if annotations:
        meta["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": containers, **spec}}


def claim(name, namespace, requests=None, device_class="heddle", **exactly):
    """A claim with one request `card`, or with the given ones."""
    requests = requests or [{"name": "card", "exactly": {"deviceClassName": device_class, **exactly}}]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, "namespace": namespace},
            "spec": {"devices": {"requests": requests}}}


def claim_user(name, namespace, claims, command=("sleep", "3600"), image=BUSYBOX, **spec):
    """A pod that uses claims: {name in the pod: {"resourceClaimName" or "resourceClaimTemplateName": ...}}."""
    return pod(name, namespace, [container(command=command, image=image,
                                           resources={"claims": [{"name": key} for key in claims]})],
               resourceClaims=[{"name": key, **value} for key, value in claims.items()], **spec)


def node(name, cpu="64", memory="256Gi", pods="250", labels=None):
    """A node without a kubelet."""
    amounts = {"cpu": cpu, "memory": memory, "pods": pods, "ephemeral-storage": "100Gi"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {
        "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", **(labels or {})}},
        "spec": {}, "status": {"capacity": amounts, "allocatable": amounts, "conditions": [
            {"type": "Ready", "status": "True", "reason": "Test", "message": "made by a test",
             "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}


def card(number, memory_mib=24000, model="Simulated Card", node_name="node", taints=(MANAGED_TAINT,), vendor="nvidia"):
    """A device as the agent publishes it."""
    memory = f"{memory_mib}Mi"
    device = {
        "name": f"gpu-{number}", "allowMultipleAllocations": True,
        "attributes": {"vendor": {"string": vendor}, "kind": {"string": "gpu"}, "type": {"string": "card"},
                       "model": {"string": model}, "uuid": {"string": f"GPU-{node_name}-{number}"}, "index": {"int": number},
                       "minor": {"int": number}, "isolation": {"string": "soft"}},
        "capacity": {
            "memory": {"value": memory, "requestPolicy": {"default": memory, "validRange": {
                "min": "1Mi", "step": "1Mi", "max": memory}}},
            "cores": {"value": "100", "requestPolicy": {"default": "100", "validRange": {"min": "0", "step": "1", "max": "100"}}}},
    }
    if taints:
        device["taints"] = [dict(taint) for taint in taints]
    return device


def slices(node_name, devices, driver=DRIVER, vendor="nvidia", generation=1):
    """One slice with all devices of a node, as the agent publishes it."""
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
            "metadata": {"name": f"{node_name}-heddle-{vendor}-0" if driver == DRIVER else f"{node_name}-{driver}"},
            "spec": {"driver": driver, "nodeName": node_name, "devices": devices,
                     "pool": {"name": f"{node_name}/{vendor}", "generation": generation, "resourceSliceCount": 1}}}


def condition(body, kind):
    """A condition of an object's status, or {}."""
    for entry in (body or {}).get("status", {}).get("conditions", []) or []:
        if entry["type"] == kind:
            return entry
    return {}


def gated(body):
    return bool(body) and any(gate["name"] == GATE for gate in body["spec"].get("schedulingGates", []))


def phase(*names):
    return lambda body: bool(body) and body["status"].get("phase") in names


def bound(body):
    return bool(body) and bool(body["spec"].get("nodeName"))


def results(claim_body):
    """The allocation's results of a claim, [] when it is not allocated."""
    allocation = claim_body.get("status", {}).get("allocation") or {}
    return allocation.get("devices", {}).get("results", [])


def mib(quantity):
    """A memory quantity in MiB, exact or ValueError."""
    units = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "": 1}
    text = str(quantity)
    digits = text.rstrip("KMGTik")
    amount = int(digits) * units[text[len(digits):]]
    if amount % 2**20:
        raise ValueError(f"{quantity} is not whole MiB")
    return amount // 2**20


def granted(claims):
    """{(pool, device): {"memory": MiB, "cores": percent, "holders": n}} summed over claims: what the ledger says is taken."""
    total = {}
    for body in claims:
        for result in results(body):
            if result["driver"] != DRIVER:
                continue
            entry = total.setdefault((result["pool"], result["device"]), {"memory": 0, "cores": 0, "holders": 0})
            consumed = result.get("consumedCapacity", {})
            entry["memory"] += mib(consumed["memory"])
            entry["cores"] += int(consumed["cores"])
            entry["holders"] += 1
    return total
