"""One pod with one share, and all that follows: inside their containers tenants see their share and are held to it."""
import re

import pytest

from harness import objects
from harness.heddle import CUDA_IMAGE
from harness.process import wait_until

HELD = "hold"


def cuda(name, *steps, limits=None, **more):
    return objects.container(name, ["nvsim-run", *steps], CUDA_IMAGE, limits=limits, **more)


def tenant(name, ns, *steps, limits, **more):
    return objects.pod(name, ns, [cuda("main", *steps, limits=limits)], **more)


def wait_line(heddle, ns, name, pattern, container="main", timeout=60):
    """Waits until the container's log has a line that matches; returns the match."""
    def look():
        body = heddle.api.find("pods", name, ns)
        return body and re.search(pattern, heddle.cluster.node.logs(body, container), re.M)

    def describe():
        body = heddle.api.find("pods", name, ns) or {}
        return (f"{ns}/{name} prints {pattern}; it printed:\n{heddle.cluster.node.logs(body, container) if body else ''}\n"
                f"{body.get('status')}\n{heddle.api.story(ns, name)}")
    return wait_until(describe, look, timeout)


def wait_done(heddle, ns, name, timeout=60):
    """The pod ends; returns the log of its main container if it succeeded."""
    body = heddle.api.wait_for("pods", name, ns, objects.phase("Succeeded", "Failed"), "ends", timeout)
    text = heddle.cluster.node.logs(body)
    assert body["status"]["phase"] == "Succeeded", f"{text}\n{body['status']}"
    return text


def use_up_other_card(heddle, ns):
    """Takes one whole card, so that everything else in the test meets on the other one."""
    heddle.api.create("pods", objects.pod("whole-card", ns, limits=objects.share(), command=["sleep", "3600"]))
    heddle.api.wait_for("pods", "whole-card", ns, objects.phase("Running"), "runs on a card of its own", 60)


def test_one_pod_with_one_share(heddle, ns):
    heddle.api.create("pods", tenant(
        "one", ns, "print-totals", "expect-total=3000Mi", "alloc=4Mi", "memcpy=1Mi", "alloc=2000Mi", "expect-oom=1500Mi", "free=all",
        limits=objects.share(memory=3000, cores=30)))
    text = wait_done(heddle, ns, "one")
    assert re.search(r"^print-totals ok=1 .*total_mib=3000\b", text, re.M)
    assert re.search(r"^expect-oom ok=1 .*result=CUDA_ERROR_OUT_OF_MEMORY", text, re.M), text


def test_two_pods_share_a_card_and_a_third_waits(heddle, ns):
    use_up_other_card(heddle, ns)
    api = heddle.api
    for name, memory, cores in (("first", 3000, 30), ("second", 5000, 50)):
        api.create("pods", tenant(name, ns, "print-totals", f"expect-total={memory}Mi", f"alloc={memory - 600}Mi",
                                  "expect-oom=700Mi", "launch=1ms*5", "hold", limits=objects.share(memory=memory, cores=cores)))
    for name, memory in (("first", 3000), ("second", 5000)):
        wait_line(heddle, ns, name, rf"^print-totals ok=1 .*total_mib={memory}\b")
        wait_line(heddle, ns, name, r"^launch ok=1")
        api.wait_for("pods", name, ns, objects.phase("Running"), "runs", 30)  # the kubelet says so a little after the program
    # Both hold their memory at the same moment, on one card.
    assert all(objects.phase("Running")(api.get("pods", name, ns)) for name in ("first", "second"))
    cards = {result["device"] for body in api.list("resourceclaims", ns) for result in objects.results(body)
             if result["consumedCapacity"]["cores"] != "100"}
    assert len(cards) == 1
    api.create("pods", tenant("third", ns, "print-totals", limits=objects.share(memory=1000, cores=30)))
    waiting = api.wait_for("pods", "third", ns, lambda body: objects.condition(body, "heddle.dev/Allocated").get(
        "status") == "False", "says why it waits", 60)
    message = objects.condition(waiting, "heddle.dev/Allocated")["message"]
    assert "1000Mi and 30%" in message and "20%" in message, message
    wait_until("an event says why", lambda: any(reason == "HeddleWaiting" for reason, _, _ in api.events(ns, "third")), 30)
    api.delete("pods", "first", ns)
    assert "total_mib=1000" in wait_done(heddle, ns, "third", 90)


def test_a_whole_card_sees_all_of_it(heddle, ns):
    heddle.api.create("pods", tenant("whole", ns, "devices=1", "print-totals", limits=objects.share()))
    total = int(re.search(r"total_mib=(\d+)", wait_done(heddle, ns, "whole")).group(1))
    published = [device for body in heddle.api.list("resourceslices", field="spec.nodeName=node-1")
                 for device in body["spec"]["devices"]]
    assert abs(total - objects.mib(published[0]["capacity"]["memory"]["value"])) <= 600  # what the driver keeps for itself


def test_two_cards_in_one_container(heddle, ns):
    heddle.api.create("pods", tenant("two", ns, "devices=2", "expect-total=1000Mi", "device=1", "expect-total=1000Mi",
                                     "expect-oom=1001Mi", limits=objects.share(count=2, memory=1000, cores=10)))
    wait_done(heddle, ns, "two")


def test_two_containers_of_one_pod_have_different_limits(heddle, ns):
    heddle.api.create("pods", objects.pod("pair", ns, [
        cuda("small", "expect-total=1000Mi", "expect-oom=1001Mi", limits=objects.share(memory=1000, cores=10)),
        cuda("large", "expect-total=2000Mi", "alloc=1500Mi", limits=objects.share(memory=2000, cores=20)),
        objects.container("none", ["sh", "-c", "ls /dev/nvidia* /run/heddle 2>&1; true"])]))
    wait_done(heddle, ns, "pair")
    body = heddle.api.get("pods", "pair", ns)
    assert "expect-total ok=1" in heddle.cluster.node.logs(body, "large")
    assert "nvidia0" not in heddle.cluster.node.logs(body, "none")


def test_init_container_has_its_own_share(heddle, ns):
    heddle.api.create("pods", objects.pod("staged", ns, [
        cuda("main", "expect-total=2000Mi", limits=objects.share(memory=2000, cores=20))],
        initContainers=[cuda("first", "expect-total=500Mi", "expect-oom=501Mi", limits=objects.share(memory=500, cores=5))]))
    wait_done(heddle, ns, "staged")


def test_percent_of_a_card(heddle, ns):
    heddle.api.create("pods", tenant("half", ns, "print-totals", limits=objects.share(percent=50, cores=10)))
    total = int(re.search(r"total_mib=(\d+)", wait_done(heddle, ns, "half")).group(1))
    device = heddle.api.list("resourceslices", field="spec.nodeName=node-1")[0]["spec"]["devices"][0]
    assert total == objects.mib(device["capacity"]["memory"]["value"]) // 2


def workload(kind, name, ns, template, **spec):
    api_version = {"Deployment": "apps/v1", "Job": "batch/v1"}[kind]
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": ns}, "spec": {
        **spec, "template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]}}}


def test_deployment_and_job(heddle, ns):
    api = heddle.api
    service = tenant("x", ns, "expect-total=1000Mi", "alloc=300Mi", "hold", limits=objects.share(memory=1000, cores=10))
    service["spec"].pop("restartPolicy")
    api.create("deployments", workload("Deployment", "service", ns, service, replicas=3,
                                       selector={"matchLabels": {"app": "service"}}))
    batch = tenant("x", ns, "expect-total=500Mi", "launch=1ms*3", limits=objects.share(memory=500, cores=10))
    api.create("jobs", workload("Job", "batch", ns, batch, completions=4, parallelism=2, backoffLimit=0))
    api.wait_for("deployments", "service", ns, lambda body: body["status"].get("readyReplicas") == 3, "3 ready", 90)
    api.wait_for("jobs", "batch", ns, lambda body: body["status"].get("succeeded") == 4, "4 succeeded", 120)
    names = [body["metadata"]["name"] for body in api.list("pods", ns, label="app=service")]
    for name in names:
        wait_line(heddle, ns, name, r"^alloc ok=1")
    wait_until("claims of ended pods give their share back", lambda: sum(
        entry["holders"] for entry in objects.granted(api.list("resourceclaims", ns)).values()) == 3, 60)


def test_a_container_that_restarts_gets_its_memory_back(heddle, ns):
    """What the ended process held is free again for its successor in the same claim. It ends at its second allocation."""
    body = tenant("crasher", ns, "alloc=600Mi", "alloc=600Mi", limits=objects.share(memory=1000, cores=10))
    body["spec"]["restartPolicy"] = "OnFailure"
    heddle.api.create("pods", body)
    heddle.api.wait_for("pods", "crasher", ns, lambda found: (found["status"].get("containerStatuses") or [{}])[0].get(
        "restartCount", 0) >= 1 and heddle.cluster.node.logs(found).count("alloc ok=1"), "allocates again after a restart", 90)


@pytest.mark.parametrize("path, content", [("/run/heddle/limits", "x"), ("/etc/ld.so.preload", "x"),
                                           ("/run/heddle/lib/libheddle_guard.so", "x")])
def test_the_limits_cannot_be_changed_from_inside(heddle, ns, path, content):
    script = f"(echo {content} > {path}) 2>/dev/null && exit 1; rm -f {path} 2>/dev/null && exit 1; test -s {path}"
    heddle.api.create("pods", objects.pod("writer", ns, [objects.container(
        "main", ["sh", "-c", script], CUDA_IMAGE, limits=objects.share(memory=500, cores=5))]))
    wait_done(heddle, ns, "writer")


FORGED = {
    "NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "all", "HEDDLE_GUARD_DIR": "/tmp",
    "LD_PRELOAD": "", "LD_LIBRARY_PATH": "/lib/x86_64-linux-gnu", "CUDA_DEVICE_MEMORY_LIMIT_0": "15000m", "CUDA_DEVICE_MEMORY_LIMIT": "15000m",
    "CUDA_DEVICE_SM_LIMIT": "100", "GPU_CORE_UTILIZATION_POLICY": "disable", "CUDA_DISABLE_CONTROL": "true"}


@pytest.mark.parametrize("runtime, visible", [(None, "0,1"), (None, ""), ("nvidia", "0,1")])
def test_forged_environment_changes_nothing(heddle, ns, vendor_runtime, runtime, visible):
    """Neither alone nor under the vendor's runtime, which would add every card to a container that names them."""
    body = tenant("forger", ns, "devices=1", "print-totals", "expect-total=500Mi", "alloc=100Mi", "expect-oom=101Mi",
                  limits=objects.share(memory=500, cores=5), **({"runtimeClassName": runtime} if runtime else {}))
    body["spec"]["containers"][0]["env"] = [{"name": name, "value": value} for name, value in {
        **FORGED, "CUDA_VISIBLE_DEVICES": visible}.items()]
    heddle.api.create("pods", body)
    text = wait_done(heddle, ns, "forger")
    assert re.search(r"^print-totals ok=1 .*total_mib=500\b", text, re.M), text
    assert re.search(r"^expect-oom ok=1 .*result=CUDA_ERROR_OUT_OF_MEMORY", text, re.M), text


def test_environment_without_a_grant_gives_no_device(heddle, ns):
    body = objects.pod("beggar", ns, [objects.container("main", ["sh", "-c", "ls /dev; ls /run/heddle; true"], CUDA_IMAGE, env=[
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])],
        annotations={"heddle.dev/request": "[]", "cdi.k8s.io/x": "nvidia.com/gpu=all"})
    heddle.api.create("pods", body)
    ended = heddle.api.wait_for("pods", "beggar", ns, objects.phase("Succeeded", "Failed"), "ends", 60)
    assert "nvidia" not in heddle.cluster.node.logs(ended)


def test_granted_containers_have_the_vendors_variable_set(heddle, ns):
    heddle.api.create("pods", objects.pod("shower", ns, [objects.container(
        "main", ["env"], CUDA_IMAGE, limits=objects.share(memory=500, cores=5),
        env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])]))
    assert re.search(r"^NVIDIA_VISIBLE_DEVICES=void$", wait_done(heddle, ns, "shower"), re.M)
