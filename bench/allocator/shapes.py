"""The inputs of the allocator benchmark, one JSON object a shape: what both allocators load before the clock runs.

A shape is {"name", "wanted", "objects": [Node, DeviceClass, ResourceSlice, allocated ResourceClaim], "pods": [[claim]]}.
wanted: after so many nodes that fit, no more are looked at. The first five shapes are those of Kubernetes' scheduler_perf
(test/integration/scheduler_perf/dra/performance-config.yaml, v1.37.2): 500 nodes with 10 devices.
"""
import random

DRIVER = "test-driver.cdi.k8s.io"
SELECTOR = (f'device.attributes["{DRIVER}"].driverVersion.major() >= 1 && '
            f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("1Mi"))')
MIG = [("1g.10gb", 1, 10, range(7)), ("1g.20gb", 1, 20, (0, 2, 4, 6)), ("2g.20gb", 2, 20, (0, 2, 4)),
       ("3g.40gb", 4, 40, (0, 4)), ("4g.40gb", 4, 40, (0,)), ("7g.80gb", 8, 80, (0,))]
MULTIPROCESSORS = {"1g.10gb": 16, "1g.20gb": 16, "2g.20gb": 32, "3g.40gb": 60, "4g.40gb": 64, "7g.80gb": 132}


def node_name(i):
    return f"scheduler-perf-dra-{i}"


def node(i):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node_name(i)}}


def device_class(expression=f'device.driver == "{DRIVER}"'):
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "test-class"},
            "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def slice_of(i, devices, name=None, count=1, **more):
    spec = {"driver": DRIVER, "nodeName": node_name(i),
            "pool": {"name": f"resourceslice-{i}", "generation": 1, "resourceSliceCount": count}, **more}
    if devices:
        spec["devices"] = devices
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name or f"resourceslice-{i}"},
            "spec": spec}


def basic_device(i, roots=2):
    text = {"driver": "xe", "resource.k8s.io/pciRoot": str(i % roots), "family": "Arc Pro B-Series", "health": "Healthy",
            "model": "B60", "pciAddress": f"0000:0{i}:00.0", "pciId": "0xe211", "pciRoot": f"0{i % roots}",
            "resource.kubernetes.io/pciBusID": f"0000:0{i}:00.0", "resource.kubernetes.io/pciRoot": f"pci0000:0{i % roots}",
            "type": "gpu"}
    attributes = {name: {"string": value} for name, value in text.items()}
    attributes.update({"driverVersion": {"version": "1.2.3"}, "sriov": {"bool": True}})
    return {"name": f"basic-device-{i}", "attributes": attributes,
            "capacity": {"memory": {"value": "24480Mi"}, "millicores": {"value": "1k"}}}


def claim(name, requests, constraints=None, results=None, node_index=0):
    spec = {"devices": {"requests": requests}}
    if constraints:
        spec["devices"]["constraints"] = constraints
    made = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"namespace": "test", "name": name, "uid": name}, "spec": spec}
    if results:
        selector = {"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": [node_name(node_index)]}]}]}
        made["status"] = {"allocation": {"devices": {"results": [
            {"request": "req-0", "driver": DRIVER, "pool": f"resourceslice-{node_index}", **result} for result in results]},
            "nodeSelector": selector}}
    return made


def request(name="req-0", selectors=(), count=1, capacity=None):
    exactly = {"deviceClassName": "test-class", "allocationMode": "ExactCount", "count": count}
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": expression}} for expression in selectors]
    if capacity:
        exactly["capacity"] = {"requests": capacity}
    return {"name": name, "exactly": exactly}


def feasible_nodes(nodes):
    """As many as kube-scheduler looks for among so many nodes (numFeasibleNodesToFind, defaults)."""
    if nodes < 100:
        return nodes
    return max(nodes * max(50 - nodes // 125, 5) // 100, 100)


def basic(name, nodes, taken=0, selectors=(), requests=1, constraints=None, pods=1):
    """taken: devices that are allocated already, on nodes drawn at random, the first free one of each."""
    chance = random.Random(1)
    free = {i: list(range(10)) for i in range(nodes)}
    allocated = []
    for k in range(taken):
        i = chance.choice(list(free))
        allocated.append(claim(f"init-{k}", [request()], results=[{"device": f"basic-device-{free[i].pop(0)}"}], node_index=i))
        if not free[i]:
            del free[i]
    asked = [[claim(f"new-{p}", [request(f"req-{r}", [s(p) if callable(s) else s for s in selectors]) for r in range(requests)],
                    constraints)] for p in range(pods)]
    return {"name": name, "wanted": feasible_nodes(nodes),
            "objects": [node(i) for i in range(nodes)] + [device_class()] +
                       [slice_of(i, [basic_device(d) for d in range(10)]) for i in range(nodes)] + allocated, "pods": asked}


def partitionable(nodes, cards=8):
    """Cards that are whole, or cut in every MIG profile at every placement; one of two cards holds a 3g.40gb and a 1g.10gb."""
    objects = [node(i) for i in range(nodes)] + [device_class()]
    allocated = []
    for i in range(nodes):
        sets, devices = [], []
        for c in range(cards):
            counters = {"multiprocessors": {"value": "132"}, "memory": {"value": "80Gi"}}
            counters.update({f"memory-slice-{s}": {"value": "1"} for s in range(8)})
            sets.append({"name": f"gpu-{c}-counter-set", "counters": counters})
            for profile, width, memory, starts in MIG:
                for start in starts:
                    consumes = {"multiprocessors": {"value": str(MULTIPROCESSORS[profile])}, "memory": {"value": f"{memory}Gi"}}
                    consumes.update({f"memory-slice-{s}": {"value": "1"} for s in range(start, min(start + width, 8))})
                    devices.append({
                        "name": f"gpu-{c}-mig-{profile.replace('.', '-')}-{start}",
                        "attributes": {"type": {"string": "mig"}, "profile": {"string": profile},
                                       "parentUUID": {"string": f"GPU-{i}-{c}"}, "productName": {"string": "NVIDIA H100 80GB HBM3"},
                                       "driverVersion": {"version": "580.65.6"}},
                        "capacity": {"memory": {"value": f"{memory}Gi"}},
                        "consumesCounters": [{"counterSet": f"gpu-{c}-counter-set", "counters": consumes}]})
        parts = [devices[k:k + 64] for k in range(0, len(devices), 64)]
        count = len(parts) + 1
        objects.append(slice_of(i, None, f"resourceslice-{i}-counters", count, sharedCounters=sets))
        objects += [slice_of(i, part, f"resourceslice-{i}-devices-{k}", count) for k, part in enumerate(parts)]
        for c in range(0, cards, 2):
            allocated.append(claim(f"init-{i}-{c}", [request(count=2)], node_index=i, results=[
                {"device": f"gpu-{c}-mig-3g-40gb-0"}, {"device": f"gpu-{c}-mig-1g-10gb-4"}]))
    profiles = ["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]
    pods = [[claim(f"new-{p}", [request(selectors=[f'device.attributes["{DRIVER}"].profile == "{profile}"'])])]
            for p, profile in enumerate(profiles)]
    return {"name": "partitionable", "wanted": feasible_nodes(nodes), "objects": objects + allocated, "pods": pods}


def consumable(nodes, cards=8, shares=5):
    """Cards that are shared by memory and cores, each with some shares already."""
    memory = {"value": "80Gi", "requestPolicy": {"default": "80Gi", "validRange": {"min": "1Mi", "step": "1Mi", "max": "80Gi"}}}
    cores = {"value": "100", "requestPolicy": {"default": "100", "validRange": {"min": "0", "step": "1", "max": "100"}}}
    objects = [node(i) for i in range(nodes)]
    objects.append(device_class(f'device.driver == "{DRIVER}" && device.allowMultipleAllocations == true'))
    allocated = []
    for i in range(nodes):
        devices = [{"name": f"gpu-{c}", "allowMultipleAllocations": True,
                    "attributes": {"model": {"string": "H100"}, "index": {"int": c}, "uuid": {"string": f"GPU-{i}-{c}"}},
                    "capacity": {"memory": memory, "cores": cores}} for c in range(cards)]
        objects.append(slice_of(i, devices))
        for c in range(cards):
            for s in range(shares):
                allocated.append(claim(f"init-{i}-{c}-{s}", [request()], node_index=i, results=[
                    {"device": f"gpu-{c}", "shareID": f"{i:08x}-{c:04x}-4000-8000-{s:012x}",
                     "consumedCapacity": {"memory": "15Gi", "cores": "10"}}]))
    pods = [[claim(f"new-{p}", [request(capacity={"memory": size, "cores": "10"})])] for p, size in enumerate(["4Gi", "5Gi"])]
    return {"name": "consumable", "wanted": feasible_nodes(nodes), "objects": objects + allocated, "pods": pods}


def infeasible(name, a_root):
    """Near-identical devices on two PCI roots, and a claim for one more on a common root than a root has."""
    devices = [basic_device(i) for i in range(2 * a_root)]
    asked = claim("new", [request(f"req-{r}") for r in range(a_root + 1)], [{"matchAttribute": "resource.kubernetes.io/pciRoot"}])
    return {"name": name, "wanted": 1, "objects": [node(0), device_class(), slice_of(0, devices)], "pods": [[asked]]}


def all_shapes(small):
    nodes = 10 if small else 500
    match = [{"matchAttribute": "resource.kubernetes.io/pciRoot"}]
    return [
        basic("empty", nodes),
        basic("half", nodes, nodes * 5),
        basic("full", nodes, nodes * 10 - 10),
        basic("selector", nodes, selectors=[SELECTOR]),
        basic("match", nodes, requests=5, constraints=match),
        # Fifty pods with fifty selectors: upstream remembers ten programs.
        basic("many_selectors", nodes, pods=50,
              selectors=[lambda p: f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{p}Mi")) > 0']),
        partitionable(1 if small else 16),
        consumable(2 if small else 100),
        infeasible("infeasible", 4 if small else 8),
        infeasible("infeasible_large", 5 if small else 16),
    ]
