"""Who reaches a card another way is found from outside; cards that someone else serves are not granted."""
import datetime
import re

import pytest

from harness import objects
from harness.heddle import CUDA_IMAGE
from harness.process import wait_until
from test_share import tenant, wait_done, wait_line

HOST = "/host-driver"


def intruder(heddle, name, ns, *steps, **more):
    """A privileged pod that mounts the driver from the host instead of asking for a card."""
    return objects.pod(name, ns, [objects.container(
        "main", ["nvsim-run", *steps], CUDA_IMAGE, securityContext={"privileged": True},
        env=[{"name": "NVSIM_ROOT", "value": HOST}, {"name": "LD_LIBRARY_PATH", "value": f"{HOST}/lib"}],
        volumeMounts=[{"name": "driver", "mountPath": HOST}])],
        volumes=[{"name": "driver", "hostPath": {"path": str(heddle.driver_root)}}], **more)


def node_intruder(heddle, name, ns, *steps):
    """Without any privilege: the card's own device node and the driver's libraries, each a hostPath."""
    nodes = ("nvidia1", "nvidiactl")
    return objects.pod(name, ns, [objects.container(
        "main", ["nvsim-run", *steps], CUDA_IMAGE, env=[{"name": "LD_LIBRARY_PATH", "value": "/driver-lib"}],
        volumeMounts=[{"name": "lib", "mountPath": "/driver-lib", "readOnly": True},
                      *({"name": node, "mountPath": f"/dev/{node}"} for node in nodes)])],
        volumes=[{"name": "lib", "hostPath": {"path": f"{heddle.driver_root}/lib"}},
                 *({"name": node, "hostPath": {"path": f"{heddle.driver_root}/dev/{node}"}} for node in nodes)])


def runtime_intruder(_, name, ns, *steps):
    """No claim and no mount: a variable that the vendor's container runtime answers with every card."""
    return objects.pod(name, ns, [objects.container(
        "main", ["nvsim-run", *steps], CUDA_IMAGE, env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])],
        runtimeClassName="nvidia")


def second_card_intruder(heddle, name, ns, *steps):
    """A tenant of gpu-0 that mounts the other card's node and takes the guard off with a root of its own."""
    script = "cp -a /bin /lib /lib64 /own/ && unset CUDA_VISIBLE_DEVICES && exec chroot /own /bin/nvsim-run device=1 " + " ".join(steps)
    return objects.pod(name, ns, [objects.container(
        "main", ["sh", "-c", script], CUDA_IMAGE, limits=objects.share(memory=1000, cores=10),
        env=[{"name": "NVSIM_ROOT", "value": HOST}, {"name": "LD_LIBRARY_PATH", "value": f"{HOST}/lib"}],
        volumeMounts=[{"name": "own", "mountPath": "/own"}, {"name": "driver", "mountPath": f"/own{HOST}"}])],
        volumes=[{"name": "own", "emptyDir": {}}, {"name": "driver", "hostPath": {"path": str(heddle.driver_root)}}],
        annotations={"nvidia.com/use-gpuuuid": uuid_of(heddle.api, "gpu-0")})


def mps_intruder(heddle, name, ns, *steps):
    """No claim: the socket of a control daemon of MPS that is somebody else's, and the driver."""
    pipe = heddle.dir / "other-mps"
    pipe.mkdir(exist_ok=True)
    (pipe / "control").touch()
    body = intruder(heddle, name, ns, *steps)
    main = body["spec"]["containers"][0]
    main["env"].append({"name": "CUDA_MPS_PIPE_DIRECTORY", "value": "/mps"})
    main["volumeMounts"].append({"name": "mps", "mountPath": "/mps", "readOnly": True})
    body["spec"]["volumes"].append({"name": "mps", "hostPath": {"path": str(pipe)}})
    return body


ROUTES = {"privileged": intruder, "device-node": node_intruder, "vendor-runtime": runtime_intruder, "second-card": second_card_intruder,
          "mps-socket": mps_intruder}


# Inside a grant, and the guard that would hold it there is not in the program.
OTHER_LOADER = ("/bin/ld-other.so", "/bin/nvsim-run")


def other_loader_tenant(_, name, ns, *steps):
    """As a static program, or one of another C library than glibc: nothing is preloaded."""
    body = tenant(name, ns, limits=objects.share(memory=1000, cores=10))
    body["spec"]["containers"][0]["command"] = [*OTHER_LOADER, *steps]
    return body


def dlmopen_tenant(_, name, ns, *steps):
    """The driver in a namespace of its own, whose loader has to be on a path of libraries."""
    body = tenant(name, ns, "via=dlmopen", *steps, limits=objects.share(memory=1000, cores=10))
    body["spec"]["containers"][0]["env"] = [{"name": "LD_LIBRARY_PATH", "value": "/lib64"}]
    return body


def cleared_tenant(_, name, ns, *steps):
    """Takes the guard off its own container before the program starts."""
    body = tenant(name, ns, limits=objects.share(memory=1000, cores=10))
    body["spec"]["containers"][0].update({
        "command": ["sh", "-c", "umount /etc/ld.so.preload; exec nvsim-run " + " ".join(steps)], "securityContext": {"privileged": True}})
    return body


def own_root_tenant(heddle, name, ns, *steps):
    """Without any privilege: a root of its own, as a sandbox of the user's makes one."""
    body = second_card_intruder(heddle, name, ns, *steps)
    script = body["spec"]["containers"][0]["command"]
    script[2] = script[2].replace("device=1", "device=0")
    return body


def nested_tenant(heddle, name, ns, *steps):
    """A container in the container: its own pid and mount namespaces, control group and root."""
    body = own_root_tenant(heddle, name, ns, *steps)
    main = body["spec"]["containers"][0]
    group = 'for c in /sys/fs/cgroup /sys/fs/cgroup/*; do mkdir $c/nested && echo $$ >$c/nested/cgroup.procs; done 2>/dev/null; '
    main["command"][2] = group + main["command"][2].replace("exec chroot", "exec busybox unshare -m -p -f chroot")
    main["securityContext"] = {"privileged": True}
    return body


UNGUARDED = {"other-loader": other_loader_tenant, "dlmopen": dlmopen_tenant, "cleared": cleared_tenant, "own-root": own_root_tenant,
             "nested": nested_tenant}
UNGUARDED_NOW = 'heddle_agent_ungranted_processes{reason="unguarded"}'


def uuid_of(api, device):
    return our_devices(api)[device]["attributes"]["uuid"]["string"]


def event(heddle, ns, name, reason):
    """The first event of a reason about a pod, or None."""
    found = [entry for entry in heddle.api.list("events", ns, field=f"involvedObject.name={name}") if entry["reason"] == reason]
    return found[0] if found else None


def when(entry):
    text = entry.get("eventTime") or entry.get("firstTimestamp") or entry["metadata"]["creationTimestamp"]
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def log_time(heddle, ns, name, pattern):
    """When the container wrote the first line that matches."""
    body = heddle.api.get("pods", name, ns)
    for line in heddle.cluster.node.log_file(body, "main").read_text().splitlines():
        stamp, _, _, text = line.split(" ", 3)
        if re.search(pattern, text):
            return datetime.datetime.fromisoformat(re.sub(r"(\.\d{6})\d*", r"\1", stamp).replace("Z", "+00:00"))
    raise AssertionError(f"no line {pattern}")


@pytest.mark.parametrize("route", ROUTES)
def test_a_process_without_a_grant_is_found_and_reported(heddle, ns, vendor_runtime, route):
    heddle.api.create("pods", ROUTES[route](heddle, "intruder", ns, "alloc=500Mi", "hold"))
    wait_line(heddle, ns, "intruder", r"^alloc ok=1")
    found = wait_until(lambda: f"an event about the intruder; {heddle.agent.tail()}",
                       lambda: event(heddle, ns, "intruder", "HeddleUngrantedProcess"), 30)
    delay = (when(found) - log_time(heddle, ns, "intruder", r"^alloc ok=1")).total_seconds()
    assert delay <= 6, f"found after {delay} s"  # 5 s, and the event's time is in whole seconds
    second = uuid_of(heddle.api, "gpu-1")
    assert "without a grant" in found["message"] and "GPU-" in found["message"], found["message"]
    assert second in found["message"] or route not in ("device-node", "second-card"), found["message"]
    metrics = heddle.metrics("agent")
    assert metrics['heddle_agent_ungranted_processes{reason="ungranted"}'] >= 1
    assert objects.phase("Running")(heddle.api.get("pods", "intruder", ns)), "policy report: it lives"
    heddle.api.delete("pods", "intruder", ns)
    wait_until("the metric falls again", lambda: heddle.metrics("agent")[
        'heddle_agent_ungranted_processes{reason="ungranted"}'] == 0, 30)


def test_a_tenant_beyond_its_grant_is_found(heddle, ns):
    """A privileged tenant takes the guard off its own container. The vendor's accounting still sees what it holds."""
    body = tenant("escaped", ns, limits=objects.share(memory=1000, cores=10))
    body["spec"]["containers"][0].update({
        "command": ["sh", "-c", "umount /etc/ld.so.preload; exec nvsim-run alloc=3000Mi hold"],
        "securityContext": {"privileged": True}})
    heddle.api.create("pods", body)
    wait_line(heddle, ns, "escaped", r"^alloc ok=1")
    found = wait_until(lambda: f"an event; {heddle.agent.tail()}", lambda: event(
        heddle, ns, "escaped", "HeddleUngrantedProcess"), 30)
    assert "1000" in found["message"], found["message"]


def test_a_tenant_beyond_its_share_of_time_is_found(heddle, ns):
    """The same with the card's time: what the tenant's own file says of it is nothing at all."""
    body = tenant("busy", ns, limits=objects.share(memory=1000, cores=10))
    body["spec"]["containers"][0].update({
        "command": ["sh", "-c", "umount /etc/ld.so.preload; exec nvsim-run alloc=100Mi launch=2ms*15000 hold"],
        "securityContext": {"privileged": True}})
    heddle.api.create("pods", body)
    wait_line(heddle, ns, "busy", r"^alloc ok=1")
    found = wait_until(lambda: f"an event; {heddle.agent.tail()}", lambda: event(
        heddle, ns, "busy", "HeddleComputeOveruse"), 30)
    assert "where 10 % were theirs" in found["message"], found["message"]
    wait_until("the metric", lambda: heddle.metrics("agent")[
        'heddle_agent_ungranted_processes{reason="beyond_share"}'] == 1, 15)


def test_honest_tenants_are_never_reported(heddle, ns):
    heddle.api.create("pods", tenant("honest", ns, "alloc=500Mi", "launch=1ms*20", "hold", limits=objects.share(memory=1000, cores=10)))
    heddle.api.create("pods", tenant("whole", ns, "alloc=4000Mi", "hold", limits=objects.share()))
    for name in ("honest", "whole"):
        wait_line(heddle, ns, name, r"^alloc ok=1")
    before = heddle.metrics("agent")["heddle_agent_ungranted_processes_total"]
    # An intruder that comes later and is found shows that the agent has looked at the others at least twice.
    heddle.api.create("pods", intruder(heddle, "marker", ns, "alloc=100Mi", "hold"))
    wait_until("the marker is found", lambda: event(heddle, ns, "marker", "HeddleUngrantedProcess"), 60)
    assert heddle.metrics("agent")["heddle_agent_ungranted_processes_total"] == before + 1
    assert not event(heddle, ns, "honest", "HeddleUngrantedProcess") and not event(heddle, ns, "whole", "HeddleUngrantedProcess")


@pytest.mark.parametrize("route", UNGUARDED)
def test_a_tenant_without_the_guard_is_found_and_reported(heddle, ns, route):
    heddle.api.create("pods", tenant("honest", ns, "alloc=500Mi", "hold", limits=objects.share(memory=1000, cores=10)))
    wait_line(heddle, ns, "honest", r"^alloc ok=1")
    heddle.api.create("pods", UNGUARDED[route](heddle, "escaped", ns, "alloc=500Mi", "hold"))
    wait_line(heddle, ns, "escaped", r"^alloc ok=1")
    found = wait_until(lambda: f"an event about the tenant; {heddle.agent.tail()}",
                       lambda: event(heddle, ns, "escaped", "HeddleUnguardedProcess"), 30)
    assert "without the guard" in found["message"], found["message"]
    wait_until("the metric", lambda: heddle.metrics("agent")[UNGUARDED_NOW] == 1, 15)
    assert objects.phase("Running")(heddle.api.get("pods", "escaped", ns)), "policy report: it lives"
    assert not event(heddle, ns, "honest", "HeddleUnguardedProcess"), "nobody else is meant"
    assert not event(heddle, ns, "escaped", "HeddleUngrantedProcess"), "it holds no more than was granted"
    heddle.api.delete("pods", "escaped", ns)
    wait_until("the metric falls again", lambda: heddle.metrics("agent")[UNGUARDED_NOW] == 0, 30)


def test_who_has_no_limits_needs_no_guard(heddle, ns):
    body = other_loader_tenant(heddle, "whole", ns, "alloc=500Mi", "hold")
    body["spec"]["containers"][0]["resources"] = {"limits": objects.share()}
    heddle.api.create("pods", body)
    wait_line(heddle, ns, "whole", r"^alloc ok=1")
    before = heddle.metrics("agent")["heddle_agent_ungranted_processes_total"]
    heddle.api.create("pods", other_loader_tenant(heddle, "marker", ns, "alloc=500Mi", "hold"))
    wait_until("the marker is found", lambda: event(heddle, ns, "marker", "HeddleUnguardedProcess"), 60)
    assert heddle.metrics("agent")["heddle_agent_ungranted_processes_total"] == before + 1
    assert not event(heddle, ns, "whole", "HeddleUnguardedProcess")


def test_an_exec_into_a_container_is_guarded_or_found(heddle, ns):
    heddle.api.create("pods", tenant("host", ns, "alloc=100Mi", "hold", limits=objects.share(memory=2000, cores=10)))
    wait_line(heddle, ns, "host", r"^alloc ok=1")
    body = heddle.api.wait_for("pods", "host", ns, objects.phase("Running"), "runs", 30)
    before = heddle.metrics("agent")["heddle_agent_ungranted_processes_total"]
    heddle.cluster.node.exec(body, "nvsim-run", "alloc=100Mi", "touch=/tmp/second", "hold")
    heddle.cluster.node.exec(body, *OTHER_LOADER, "wait-file=/tmp/second", "alloc=100Mi", "hold")
    found = wait_until(lambda: f"an event about the other one; {heddle.agent.tail()}",
                       lambda: event(heddle, ns, "host", "HeddleUnguardedProcess"), 60)
    assert "(ld-other.so)" in found["message"], found["message"]
    assert heddle.metrics("agent")["heddle_agent_ungranted_processes_total"] == before + 1, "the first one has the guard"


@pytest.fixture
def requiring(heddle):
    heddle.agent.stop()
    heddle.start_agent(unguarded="enforce")
    heddle.wait_slices(2)
    yield heddle
    heddle.agent.stop()
    heddle.start_agent()
    heddle.wait_slices(2)


@pytest.mark.parametrize("route", UNGUARDED)
def test_where_the_guard_is_required_who_has_none_is_ended(requiring, ns, route):
    heddle = requiring
    heddle.api.create("pods", tenant("honest", ns, "alloc=500Mi", "hold", limits=objects.share(memory=1000, cores=10)))
    wait_line(heddle, ns, "honest", r"^alloc ok=1")
    heddle.api.create("pods", UNGUARDED[route](heddle, "escaped", ns, "alloc=500Mi", "hold"))
    heddle.api.wait_for("pods", "escaped", ns, objects.phase("Failed"), "ended by the agent", 60)
    wait_until("an event says so", lambda: event(heddle, ns, "escaped", "HeddleProcessEnded"), 30)
    assert objects.phase("Running")(heddle.api.get("pods", "honest", ns))
    assert not event(heddle, ns, "honest", "HeddleProcessEnded")


def test_where_the_guard_is_required_the_rest_of_a_pod_goes_on(requiring, ns):
    heddle = requiring
    heddle.api.create("pods", tenant("host", ns, "alloc=100Mi", "hold", limits=objects.share(memory=2000, cores=10)))
    wait_line(heddle, ns, "host", r"^alloc ok=1")
    body = heddle.api.wait_for("pods", "host", ns, objects.phase("Running"), "runs", 30)
    heddle.cluster.node.exec(body, *OTHER_LOADER, "alloc=100Mi", "hold")
    wait_until("the other one is ended", lambda: event(heddle, ns, "host", "HeddleProcessEnded"), 60)
    wait_until("and gone", lambda: len(heddle.cluster.node.container_pids(body)) == 1, 30)
    assert objects.phase("Running")(heddle.api.get("pods", "host", ns))


@pytest.fixture
def enforcing(heddle):
    heddle.agent.stop()
    heddle.start_agent(policy="enforce")
    heddle.wait_slices(2)
    yield heddle
    heddle.agent.stop()
    heddle.start_agent()
    heddle.wait_slices(2)


@pytest.mark.parametrize("route", ROUTES)
def test_policy_enforce_ends_the_intruder_and_nobody_else(enforcing, ns, vendor_runtime, route):
    heddle = enforcing
    heddle.api.create("pods", tenant("honest", ns, "alloc=500Mi", "hold", limits=objects.share(memory=1000, cores=10)))
    wait_line(heddle, ns, "honest", r"^alloc ok=1")
    heddle.api.create("pods", ROUTES[route](heddle, "intruder", ns, "alloc=500Mi", "hold"))
    ended = heddle.api.wait_for("pods", "intruder", ns, objects.phase("Failed"), "ended by the agent", 60)
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    wait_until("an event says so", lambda: event(heddle, ns, "intruder", "HeddleProcessEnded"), 30)
    assert objects.phase("Running")(heddle.api.get("pods", "honest", ns))


def test_who_came_while_the_agent_was_down_is_ended(enforcing, ns):
    """The card was Heddle's all the time: the intruder does not make it his by being there first."""
    heddle = enforcing
    heddle.agent.kill()
    heddle.api.create("pods", intruder(heddle, "intruder", ns, "alloc=500Mi", "hold"))
    wait_line(heddle, ns, "intruder", r"^alloc ok=1")
    heddle.agent.start()
    ended = heddle.api.wait_for("pods", "intruder", ns, objects.phase("Failed"), "ended by the agent", 60)
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    wait_until("an event says so", lambda: event(heddle, ns, "intruder", "HeddleProcessEnded"), 30)
    heddle.wait_slices(2)
    assert not any(map(foreign, our_devices(heddle.api).values()))


def our_devices(api):
    return {device["name"]: device for body in api.list("resourceslices", field="spec.nodeName=node-1")
            if body["spec"]["driver"] == objects.DRIVER for device in body["spec"]["devices"]}


def foreign(device):
    return any(taint["key"] == "heddle.dev/foreign-owner" for taint in device.get("taints", []))


def test_a_card_that_another_driver_serves_is_not_granted(heddle, ns):
    api = heddle.api
    uuid = our_devices(api)["gpu-1"]["attributes"]["uuid"]["string"]
    other = {"name": "gpu-x", "attributes": {"uuid": {"string": uuid}}}
    body = objects.slices("node-1", [other], driver="gpu.example.com")
    api.create("resourceslices", body)
    try:
        wait_until("the card is marked", lambda: foreign(our_devices(api)["gpu-1"]), 60)
        assert not foreign(our_devices(api)["gpu-0"])
        api.create("pods", tenant("two", ns, "devices=2", limits=objects.share(count=2)))
        api.wait_for("pods", "two", ns, lambda found: objects.condition(found, "heddle.dev/Allocated").get("status") == "False",
                     "waits", 60)
        api.create("pods", tenant("one", ns, "devices=1", limits=objects.share(memory=500, cores=10)))
        wait_done(heddle, ns, "one")
        assert not any(result["device"] == "gpu-1" for claim in api.list("resourceclaims", ns) for result in objects.results(claim))
    finally:
        api.delete("resourceslices", body["metadata"]["name"])
    wait_until("the card is free again", lambda: not foreign(our_devices(api)["gpu-1"]), 60)
    wait_done(heddle, ns, "two")


def test_cards_of_a_device_plugin_are_not_granted(heddle, ns):
    api = heddle.api
    for kind in ("capacity", "allocatable"):
        api.patch("nodes", "node-1", {"status": {kind: {"nvidia.com/gpu": "2"}}}, sub="status")
    try:
        wait_until("the cards are marked", lambda: all(map(foreign, our_devices(api).values())), 60)
        api.create("pods", tenant("waits", ns, "devices=1", limits=objects.share(memory=500, cores=10)))
        found = api.wait_for("pods", "waits", ns, lambda body: objects.condition(body, "heddle.dev/Allocated").get(
            "status") == "False", "waits", 60)
        assert objects.gated(found)
    finally:
        for kind in ("capacity", "allocatable"):
            api.patch("nodes", "node-1", {"status": {kind: {"nvidia.com/gpu": None}}}, sub="status")
    wait_until("the cards are free again", lambda: not any(map(foreign, our_devices(api).values())), 60)
    wait_done(heddle, ns, "waits")


def test_prepare_refuses_an_allocation_that_does_not_add_up(heddle, ns):
    """The third line of defence: the ledger itself over-commits a card (written by the test with the controller's rights,
    while the controller stands still)."""
    api = heddle.api
    memory = objects.mib(our_devices(api)["gpu-0"]["capacity"]["memory"]["value"]) - 1000
    heddle.controllers["controller-0"].pause()
    try:
        for name in ("first", "second"):
            over_commit(heddle, ns, name, memory)
            if name == "first":
                api.wait_for("pods", name, ns, objects.phase("Running"), "runs", 60)

        def refused():
            return any(reason == "FailedPrepareDynamicResources" and "would be granted" in message and f"{ns}/first" in message
                       for reason, message, _ in api.events(ns, "second"))
        wait_until(lambda: f"the agent refuses: {api.story(ns, 'second')}", refused, 60)
        assert not objects.phase("Running")(api.get("pods", "second", ns))
    finally:
        heddle.controllers["controller-0"].resume()

    # A bound pod keeps what the ledger says it has; it starts as soon as that is true.
    assert objects.phase("Running")(api.get("pods", "first", ns))
    api.delete("pods", "first", ns)
    api.wait_for("pods", "second", ns, objects.phase("Running"), "runs when the card is free", 120)


def over_commit(heddle, ns, name, memory):
    """A pod with a claim whose status says: this much of gpu-0, whoever else has it."""
    api = heddle.api
    body = objects.claim(name, ns, capacity={"requests": {"memory": f"{memory}Mi", "cores": "10"}})
    body["metadata"]["finalizers"] = [objects.FINALIZER]
    claim = heddle.controller_api().create("resourceclaims", body)  # the webhook stands still too
    pod = api.create("pods", objects.claim_user(name, ns, {"c": {"resourceClaimName": name}}, image=CUDA_IMAGE,
                                                command=["nvsim-run", "hold"], schedulingGates=[{"name": "example.com/hold"}]))
    claim["status"] = {
        "allocation": {
            "devices": {"results": [{"request": "card", "driver": objects.DRIVER, "pool": "node-1/nvidia", "device": "gpu-0",
                                     "shareID": f"11111111-2222-3333-4444-{name.encode().hex():0>12}"[:36],
                                     "consumedCapacity": {"memory": f"{memory}Mi", "cores": "10"}}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]},
            "allocationTimestamp": "2026-01-01T00:00:00Z"},
        "reservedFor": [{"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}]}
    heddle.controller_api().update("resourceclaims", claim, "status")
    api.patch("pods", name, {"spec": {"schedulingGates": None}}, ns)
