"""MIG instances that an administrator has made: offered as they are, asked for in the vendor's words, and held by the card."""
import pytest

from harness import objects
from harness.process import wait_until
from test_ascend import published
from test_controller import wait_waiting
from test_share import HELD, tenant, wait_done, wait_line

MEMORY = 9984  # MiB of H100's 1g.10gb, as its driver says


@pytest.fixture(scope="module")
def instances(heddle):
    """In place of the node's cards: one without MIG, and one that is cut into two small instances and a larger one."""
    def remake(cards, devices):
        heddle.agent.stop()
        for inventory in heddle.state_dir.glob("inventory*.json"):
            inventory.unlink()
        heddle.nvsim("destroy")
        heddle.make_cards({"cards": cards})
        heddle.agent.start()
        heddle.wait_slices(devices)
    before = len(published(heddle.api, "nvidia"))
    remake([{"model": "T4"}, {"model": "H100", "mig-mode": True, "mig-instances": ["1g.10gb@0", "1g.10gb@1", "3g.40gb@4"]}], 4)
    yield heddle
    remake([{"model": "T4"}] * before, before)


def text(attribute):
    return next(iter(attribute.values()))


def test_each_instance_is_a_device_and_the_cut_card_is_none(instances):
    devices = {device["name"]: device for _, device in published(instances.api, "nvidia")}
    assert set(devices) == {"gpu-0", "gpu-1-1g-10gb-0", "gpu-1-1g-10gb-1", "gpu-1-3g-40gb-4"}
    small = devices["gpu-1-1g-10gb-1"]
    attributes = {name: text(value) for name, value in small["attributes"].items()}
    assert attributes["type"] == "partition" and attributes["profile"] == "1g.10gb" and attributes["isolation"] == "hard"
    assert attributes["uuid"].startswith("MIG-") and attributes["parentUUID"].startswith("GPU-")
    assert objects.mib(small["capacity"]["memory"]["value"]) == MEMORY
    assert not small.get("allowMultipleAllocations")


def test_pods_get_instances_of_their_profile_and_see_their_memory_alone(instances, ns):
    """Two side by side, each on another instance; a third waits with the reason, and a share goes to the other card."""
    api, profile = instances.api, {"nvidia.com/mig-1g.10gb": "1"}
    for name in ("first", "second"):
        api.create("pods", tenant(name, ns, f"expect-total={MEMORY}Mi", "alloc=9000Mi", f"expect-oom={MEMORY}Mi", "launch=1ms*5", HELD,
                                  limits=profile))
    for name in ("first", "second"):
        wait_line(instances, ns, name, r"^launch ok=1 kernels=5")
    got = [result["device"] for body in api.list("resourceclaims", ns) for result in objects.results(body)]
    assert sorted(got) == ["gpu-1-1g-10gb-0", "gpu-1-1g-10gb-1"]
    api.create("pods", tenant("third", ns, f"expect-total={MEMORY}Mi", limits=profile))
    wait_waiting(instances.api, ns, "third")
    api.create("pods", tenant("share", ns, "expect-total=2000Mi", limits=objects.share(memory=2000, cores=30)))
    wait_done(instances, ns, "share")
    api.delete("pods", "first", ns)
    wait_done(instances, ns, "third", 90)
    samples = instances.metrics("agent")
    assert samples['heddle_agent_ungranted_processes{reason="ungranted"}'] == 0


def test_a_whole_card_is_never_a_cut_one(instances, ns):
    api = instances.api
    api.create("pods", tenant("whole", ns, HELD, limits={"nvidia.com/gpu": "1"}))
    wait_until("the one whole card is granted", lambda: [
        result for body in api.list("resourceclaims", ns) for result in objects.results(body) if result["device"] == "gpu-0"])
    api.create("pods", tenant("another", ns, limits={"nvidia.com/gpu": "1"}))
    wait_waiting(instances.api, ns, "another")


@pytest.fixture(scope="module")
def making(instances):
    """The agent makes instances by itself, on a card in MIG mode of which an administrator has cut the upper half."""
    heddle = instances
    heddle.agent.stop()
    for inventory in heddle.state_dir.glob("inventory*.json"):
        inventory.unlink()
    heddle.nvsim("destroy")
    heddle.make_cards({"cards": [{"model": "T4"}, {"model": "H100", "mig-mode": True, "mig-instances": ["3g.40gb@4"]}]})
    heddle.start_agent(make_partitions="nvidia")
    wait_until("parts are published", lambda: "gpu-1-1g-10gb-3" in names(heddle), 60)
    yield heddle
    heddle.agent.stop()
    heddle.start_agent()


def names(heddle):
    return {device["name"] for _, device in published(heddle.api, "nvidia")}


def instances_of(heddle):
    return [line.split()[1] for line in heddle.nvsim("show").splitlines() if line.split()[0] == "mig" and "@" in line]


def test_an_instance_is_made_for_a_pod_and_goes_with_it(making, ns):
    api, heddle = making.api, making
    offered = names(heddle)
    assert instances_of(heddle) == ["3g.40gb@4"]
    assert {"gpu-0", "gpu-1-3g-40gb-4", "gpu-1-1g-10gb-3", "gpu-1-4g-40gb-0"} <= offered
    assert not {"gpu-1", "gpu-1-7g-80gb-0", "gpu-1-1g-10gb-4"} & offered, "what an administrator made is in the way"
    for name in ("first", "second"):
        api.create("pods", tenant(name, ns, f"expect-total={MEMORY}Mi", "alloc=9000Mi", f"expect-oom={MEMORY}Mi", "launch=1ms*5", HELD,
                                  limits={"nvidia.com/mig-1g.10gb": "1"}))
    for name in ("first", "second"):
        wait_line(heddle, ns, name, r"^launch ok=1 kernels=5")
    assert names(heddle) == offered, "what is made is what was granted, and no device more"
    got = {result["device"] for body in api.list("resourceclaims", ns) for result in objects.results(body)}
    assert len(got) == 2 and got < offered
    samples = heddle.metrics("agent")
    assert samples['heddle_agent_partitions_total{vendor="nvidia",result="made"}'] == 2
    assert samples['heddle_agent_ungranted_processes{reason="ungranted"}'] == 0
    # The half of which two slices are taken holds no larger one; when they are free again it does.
    api.create("pods", tenant("large", ns, HELD, limits={"nvidia.com/mig-4g.40gb": "1"}))
    wait_waiting(api, ns, "large")
    heddle.agent.kill()
    heddle.start_agent(make_partitions="nvidia")
    for name in ("first", "second"):
        api.delete("pods", name, ns)
    api.wait_for("pods", "large", ns, objects.phase("Running"), "runs on the half", 120)
    assert [result["device"] for body in api.list("resourceclaims", ns) for result in objects.results(body)
            if result["device"].startswith("gpu-1-4g")] == ["gpu-1-4g-40gb-0"]
    api.delete("pods", "large", ns)
    wait_until("only what the administrator made is left", lambda: instances_of(heddle) == ["3g.40gb@4"], 60)
