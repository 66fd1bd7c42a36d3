"""Ascend NPUs beside the NVIDIA cards of the real node: published in a pool of their own, asked for in HAMi's words, and a pod
whose ACL program is held to its share by the guard of that vendor."""
import re
import shutil
import subprocess

import pytest

from harness import image, objects
from harness.heddle import build_dir, program
from harness.process import wait_until
from test_controller import wait_waiting
from test_share import wait_done, wait_line

IMAGE = "heddle.test/cann:1"
SOFT = {"huawei.com/vnpu-mode": "hami-core"}


def npu_share(memory, cores=None):
    limits = {"huawei.com/Ascend910B4": "1", "huawei.com/Ascend910B4-memory": str(memory)}
    return limits | ({"huawei.com/Ascend910B4-core": str(cores)} if cores else {})


def acl(name, ns, *steps, limits):
    return objects.pod(name, ns, [objects.container("main", ["ascendsim-run", *steps], IMAGE, limits=limits)], annotations=SOFT)


def published(api, vendor):
    return [(body["spec"]["pool"]["name"], device) for body in api.list("resourceslices", field="spec.nodeName=node-1")
            for device in body["spec"].get("devices", []) if device["attributes"].get("vendor", {}).get("string") == vendor]


@pytest.fixture(scope="module")
def npus(heddle):
    """Two NPUs more on the node. The driver is the node's; the runtime (CANN) is part of the image."""
    root, library = heddle.driver_root, heddle.driver_root / "usr/local/dcmi"
    config = heddle.dir / "npus.yaml"
    config.write_text("cards: [{model: 910B4, count: 2}]\n")
    subprocess.run([program("ascendsim"), "create", "--config", config, "--root", root], check=True)
    library.mkdir(parents=True)
    shutil.copy(build_dir() / "sim/ascend/lib/libdcmi.so", library / "libdcmi.so")
    folder = image.shell_root(heddle.dir / "cann")
    image.add_glibc(folder, [program("ascendsim-run")])
    for name in ("libascendcl.so", "libruntime.so"):
        shutil.copy(build_dir() / "sim/ascend/lib" / name, folder / "lib/x86_64-linux-gnu" / name)
    heddle.cluster.node.import_image(IMAGE, folder, ["/bin/ascendsim-run"])
    cards = len(published(heddle.api, "nvidia"))
    heddle.agent.restart()
    heddle.wait_slices(cards + 2)
    yield heddle
    subprocess.run([program("ascendsim"), "destroy", "--root", root], check=True)
    shutil.rmtree(library)
    # NPUs that vanish stay published, unhealthy; the tests after this are of a node that never had any.
    heddle.agent.stop()
    (heddle.state_dir / "inventory-ascend.json").unlink()
    heddle.agent.start()
    heddle.wait_slices(cards)


def test_npus_are_published_in_a_pool_of_their_own(npus):
    devices = published(npus.api, "ascend")
    assert {pool for pool, _ in devices} == {"node-1/ascend"}
    device = devices[0][1]
    assert device["name"] == "npu-0"
    attributes = {name: next(iter(value.values())) for name, value in device["attributes"].items()}
    assert attributes["kind"] == "npu" and attributes["model"] == "910B4" and attributes["type"] == "card"
    assert re.fullmatch("[0-9A-F]{8}(-[0-9A-F]{8}){4}", attributes["uuid"])
    assert objects.mib(device["capacity"]["memory"]["value"]) == 32768


def test_a_share_in_hamis_words_holds_an_acl_program(npus, ns):
    npus.api.create("pods", acl("one", ns, "mem", "alloc=2000Mi", "expect-oom=1500Mi", "rt-expect-oom=1500Mi", "mem", "free-all",
                                limits=npu_share(3000, 30)))
    text = wait_done(npus, ns, "one")
    # What a context takes is not known beforehand and not charged; ACL's 32 bytes make one page of 2 MiB more.
    assert "free=3000 total=3000\nfree=998 total=3000" in text, text


def test_two_pods_share_an_npu_and_hold_their_memory_together(npus, ns):
    api = npus.api
    for name, memory in (("first", 9000), ("second", 20000)):
        api.create("pods", acl(name, ns, f"alloc={memory - 100}Mi", "expect-oom=200Mi", "mem", "launch=1000*5", "sync", "ready",
                               limits=npu_share(memory, 30)))
    for name, memory in (("first", 9000), ("second", 20000)):
        wait_line(npus, ns, name, rf"^free=\d+ total={memory}$")
        wait_line(npus, ns, name, r"^ready")
    claims = [result for body in api.list("resourceclaims", ns) for result in objects.results(body)]
    assert {result["pool"] for result in claims} == {"node-1/ascend"}
    metrics = npus.metrics("agent")
    assert metrics['heddle_agent_vendor_up{vendor="ascend"}'] == 1


def test_a_whole_npu_sees_all_of_it(npus, ns):
    npus.api.create("pods", acl("whole", ns, "mem", "physical-id", limits={"huawei.com/Ascend910B4": "1"}))
    assert "total=32768" in wait_done(npus, ns, "whole")


@pytest.fixture(scope="module")
def cut(npus):
    """The second NPU is cut by an administrator. Made whole again, its vNPUs are forgotten at the agent's next start."""
    root = npus.driver_root
    made = [subprocess.run([program("ascendsim"), "vnpu", "--root", root, "--card", "1", "--template", template], check=True,
                           capture_output=True, text=True).stdout.strip() for template in ("vir05_1c_8g", "vir10_3c_16g")]
    cards = len(published(npus.api, "nvidia"))
    npus.agent.restart()
    npus.wait_slices(cards + 3)
    yield npus
    for number in made:
        subprocess.run([program("ascendsim"), "vnpu", "--root", root, "--card", "1", "--destroy", number], check=False)


def test_vnpus_are_offered_in_place_of_the_npu_that_is_cut(cut):
    devices = {device["name"]: device for _, device in published(cut.api, "ascend")}
    assert set(devices) == {"npu-0", "npu-1-vir05-1c-8g-116", "npu-1-vir10-3c-16g-117"}
    small = devices["npu-1-vir05-1c-8g-116"]
    attributes = {name: next(iter(value.values())) for name, value in small["attributes"].items()}
    assert attributes["type"] == "partition" and attributes["profile"] == "vir05_1c_8g" and attributes["isolation"] == "hard"
    assert attributes["model"] == "910B4" and attributes["uuid"] == attributes["parentUUID"] + "-vnpu-116"
    assert objects.mib(small["capacity"]["memory"]["value"]) == 8192


def test_a_pod_gets_the_node_of_its_vnpu_alone(cut, ns):
    def pod(name, limits, *steps):
        return objects.pod(name, ns, [objects.container("main", ["sh", "-c", "; ".join(steps)], IMAGE, limits=limits)])
    # HAMi's request by memory alone means a hard share: the smallest template that holds it, and no other one.
    cut.api.create("pods", pod("hard", npu_share(5000), "ls /dev", "sleep 3600"))
    wait_line(cut, ns, "hard", r"^davinci116$")
    cut.api.create("pods", pod("second", npu_share(8192), "true"))
    wait_waiting(cut.api, ns, "second")
    cut.api.create("pods", pod("named", {"huawei.com/Ascend910-10c.3cpu.16g": "1"}, "ls /dev"))
    text = wait_done(cut, ns, "named")
    assert "davinci117\n" in text and "davinci1\n" not in text and "davinci0\n" not in text, text
    cut.api.create("pods", acl("share", ns, "mem", limits=npu_share(3000, 30)))
    assert "total=3000" in wait_done(cut, ns, "share"), "the other NPU is shared as before"


@pytest.fixture(scope="module")
def cutting(npus):
    """The agent makes vNPUs by itself. Beside it an administrator has made one, which stays what it is."""
    root = npus.driver_root
    for npu, _, number in vnpus(npus):
        subprocess.run([program("ascendsim"), "vnpu", "--root", root, "--card", npu, "--destroy", number], check=True)
    made = subprocess.run([program("ascendsim"), "vnpu", "--root", root, "--card", "1", "--template", "vir10_3c_16g"], check=True,
                          capture_output=True, text=True).stdout.strip()
    cards = len(published(npus.api, "nvidia"))
    npus.agent.stop()
    (npus.state_dir / "inventory-ascend.json").unlink()
    npus.start_agent(make_partitions="ascend")
    # The first NPU: whole, and four and two parts. The second: what is there, and each of the parts that still fits.
    npus.wait_slices(cards + 7 + 7)
    yield npus
    subprocess.run([program("ascendsim"), "vnpu", "--root", root, "--card", "1", "--destroy", made], check=True)
    npus.agent.stop()
    npus.start_agent()


def vnpus(heddle):
    """Of the machine: (NPU, template, id)."""
    out, found = subprocess.run([program("ascendsim"), "show", "--root", heddle.driver_root], check=True, capture_output=True,
                                text=True).stdout, []
    for line in out.splitlines():
        words = line.split()
        if words[0] == "npu":
            npu = words[1]
        if words[0] == "vnpu":
            found.append((npu, words[2], words[1]))
    return found


OTHERS = ("1", "vir10_3c_16g", "116")


def test_a_vnpu_is_made_for_a_request_by_memory_and_goes_with_its_pod(cutting, ns):
    api, heddle = cutting.api, cutting

    def pod(name, limits, *steps):
        return objects.pod(name, ns, [objects.container("main", ["sh", "-c", "; ".join(steps)], IMAGE, limits=limits)])
    assert vnpus(heddle) == [OTHERS]
    for name in ("one", "two"):
        api.create("pods", pod(name, npu_share(5000), "ls /dev", "sleep 3600"))
    wait_line(heddle, ns, "one", r"^davinci1\d\d$")
    wait_line(heddle, ns, "two", r"^davinci1\d\d$")
    assert vnpus(heddle) == [("0", "vir05_1c_8g", "115"), ("0", "vir05_1c_8g", "114"), OTHERS]
    # An NPU with vNPUs is neither shared nor given whole; the other one has the administrator's.
    api.create("pods", acl("share", ns, "mem", limits=npu_share(3000, 30)))
    api.create("pods", acl("whole", ns, "mem", limits={"huawei.com/Ascend910B4": "1"}))
    wait_waiting(api, ns, "share")
    wait_waiting(api, ns, "whole")
    # Killed and started again, the agent knows which are its own.
    heddle.agent.kill()
    heddle.start_agent(make_partitions="ascend")
    api.delete("pods", "one", ns)
    wait_until("the first vNPU is gone", lambda: len(vnpus(heddle)) == 2, 60)
    api.delete("pods", "two", ns)
    wait_until("the second vNPU is gone", lambda: vnpus(heddle) == [OTHERS], 60)
    # And the NPU is whole again.
    wait_done(heddle, ns, "share")
    wait_done(heddle, ns, "whole")
    metrics = heddle.metrics("agent")
    assert metrics['heddle_agent_partitions_total{vendor="ascend",result="removed"}'] == 2
    assert vnpus(heddle) == [OTHERS]


def test_a_vnpu_that_the_driver_does_not_make_is_told_on_the_pod(cutting, ns):
    api, heddle = cutting.api, cutting
    # Made behind the agent's back, after its last look.
    made = [subprocess.run([program("ascendsim"), "vnpu", "--root", heddle.driver_root, "--card", "0", "--template", "vir10_3c_16g"],
                           check=True, capture_output=True, text=True).stdout.strip() for _ in range(2)]
    api.create("pods", objects.pod("late", ns, [objects.container("main", ["ls", "/dev"], IMAGE, limits=npu_share(5000))]))
    wait_until(lambda: f"an event says why:\n{api.story(ns, 'late')}", lambda: any(
        "error -8020" in message for _, message, _ in api.events(ns, "late")), 60)
    for number in made:
        subprocess.run([program("ascendsim"), "vnpu", "--root", heddle.driver_root, "--card", "0", "--destroy", number], check=True)
    # As others' vNPUs they would be waited for until the agent's next start.
    heddle.agent.kill()
    heddle.start_agent(make_partitions="ascend")
    wait_done(heddle, ns, "late", 120)
    wait_until("its vNPU is gone", lambda: vnpus(heddle) == [OTHERS], 60)
