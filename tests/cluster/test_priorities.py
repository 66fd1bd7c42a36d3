"""Two tenants of one card, one of them of low priority without cores of its own: it gives way while the other works, and only then."""
import json
import re
import subprocess

import pytest

from harness import objects
from harness.heddle import program
from harness.process import wait_until
from test_share import tenant, use_up_other_card, wait_done, wait_line

KERNELS = re.compile(r"pid (\d+) .* kernels (\d+) ")


def told(heddle, ns, name):
    """What `heddle guard status` says of the pod's claim: (priority, the device)."""
    claim, = [body for body in heddle.api.list("resourceclaims", ns) if body["metadata"]["ownerReferences"][0]["name"] == name]
    answer = subprocess.run([program("heddle"), "guard", "status", "--state-dir", heddle.state_dir, "-o", "json"], check=True,
                            capture_output=True, text=True)
    found, = [entry for entry in json.loads(answer.stdout)["claims"] if entry["claim"] == claim["metadata"]["uid"]]
    return found["priority"], found["devices"][0]


def rate(heddle, ns, name):
    return told(heddle, ns, name)[1].get("rate")


def kernels(heddle, ns, name):
    """Kernels of the pod's processes, as the card counts them."""
    pids = heddle.cluster.node.container_pids(heddle.api.get("pods", name, ns))
    return sum(int(count) for pid, count in KERNELS.findall(heddle.nvsim("show")) if int(pid) in pids)


def more_kernels(heddle, ns, name, count):
    before = kernels(heddle, ns, name)
    wait_until(lambda: f"{name} runs {count} kernels more than {before}, it has {kernels(heddle, ns, name)}",
               lambda: kernels(heddle, ns, name) >= before + count, 120)


def touch(heddle, ns, name, path):
    """Makes a file in the pod's container."""
    pid = heddle.cluster.node.container_pids(heddle.api.get("pods", name, ns))[0]
    with open(f"/proc/{pid}/root{path}", "w", encoding="utf-8"):
        pass


@pytest.mark.parametrize("cores, left", [(None, 0), (60, 0.4)], ids=["nothing-is-left", "a-part-is-left"])
def test_low_priority_gives_way_and_has_the_card_back(heddle, ns, cores, left):
    use_up_other_card(heddle, ns)
    api = heddle.api
    api.create("pods", tenant("low", ns, "kernel=2ms", "work-until=/tmp/end",
                              limits=objects.share(memory=3000) | {"nvidia.com/priority": "1"}))
    api.wait_for("pods", "low", ns, objects.phase("Running"), "runs", 60)
    more_kernels(heddle, ns, "low", 50)  # alone on its card
    priority, device = told(heddle, ns, "low")
    assert priority == 1 and device["givesWay"] and "rate" not in device

    api.create("pods", tenant("high", ns, "kernel=2ms", "work-until=/tmp/pause", "wait-file=/tmp/again", "work-until=/tmp/end",
                              limits=objects.share(memory=3000, cores=cores) | {"nvidia.com/priority": "0"}))
    api.wait_for("pods", "high", ns, objects.phase("Running"), "runs", 60)
    gives_way = lambda: rate(heddle, ns, "low") == pytest.approx(left, abs=0.01)  # noqa: E731
    wait_until(lambda: f"low gives way: {told(heddle, ns, 'low')}", gives_way, 60)
    assert told(heddle, ns, "high")[0] == 0 and not told(heddle, ns, "high")[1]["givesWay"]
    assert told(heddle, ns, "high")[1]["uuid"] == device["uuid"]
    before = kernels(heddle, ns, "low"), kernels(heddle, ns, "high")
    more_kernels(heddle, ns, "high", 500)
    low, high = kernels(heddle, ns, "low") - before[0], kernels(heddle, ns, "high") - before[1]
    assert low < high * (0.2 if left == 0 else 1), (low, high)

    touch(heddle, ns, "high", "/tmp/pause")
    wait_line(heddle, ns, "high", r"^work-until ok=1")
    wait_until(lambda: f"low has all of the card: {told(heddle, ns, 'low')}", lambda: rate(heddle, ns, "low") == 1, 60)
    more_kernels(heddle, ns, "low", 300)
    touch(heddle, ns, "high", "/tmp/again")
    wait_until(lambda: f"low gives way again: {told(heddle, ns, 'low')}", gives_way, 60)
    for name in ("high", "low"):
        touch(heddle, ns, name, "/tmp/end")
        wait_done(heddle, ns, name)
