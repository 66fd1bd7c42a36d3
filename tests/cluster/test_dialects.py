"""Pods in the words of HAMi, Volcano, KAI, plain device plugins, other vendors and DeviceClasses: what is granted on NVIDIA cards,
and for vendors that the fleet does not have, the claim that is made and the reason why it waits."""
import pytest

from harness import objects
from harness.api import refused

from test_controller import claims_of, pin, wait_bound, wait_waiting


def taken(claim):
    """[(MiB, percent of cores)] of what a claim holds."""
    return [(objects.mib(result["consumedCapacity"]["memory"]), int(result["consumedCapacity"]["cores"]))
            for result in objects.results(claim)]


@pytest.mark.parametrize("dialect, limits, annotations, expected", [
    ("hami", {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}, {}, [(3000, 30)]),
    ("hami-percent", {"nvidia.com/gpumem-percentage": "25"}, {}, [(6000, 0)]),
    ("plugin", {"nvidia.com/gpu": "2"}, {}, [(24000, 100), (24000, 100)]),
    ("volcano", {"volcano.sh/vgpu-number": "2", "volcano.sh/vgpu-memory": "1000"}, {"volcano.sh/vgpu-mode": "hami-core"},
     [(1000, 0), (1000, 0)]),
    ("volcano-legacy", {"volcano.sh/gpu-memory": "1024"}, {}, [(1024, 0)]),
    ("kai", {}, {"gpu-fraction": "0.5"}, [(12000, 0)]),
    ("kai-devices", {}, {"gpu-memory": "500", "gpu-fraction-num-devices": "2"}, [(500, 0), (500, 0)]),
    ("class", {"deviceclass.resource.kubernetes.io/heddle-nvidia": "1"}, {}, [(24000, 100)]),
])
def test_every_dialect_is_granted_on_nvidia_cards(api, controller, ns, make_node, dialect, limits, annotations, expected):
    node = make_node(cards=2, memory_mib=24000)
    created = api.create("pods", objects.pod(dialect, ns, limits=limits, annotations=annotations, **pin(node)))
    assert objects.gated(created)
    wait_bound(api, ns, dialect)
    claim, = claims_of(api, ns, dialect)
    assert sorted(taken(claim)) == sorted(expected)
    devices = [result["device"] for result in objects.results(claim)]
    assert len(set(devices)) == len(devices), "several shares are of different cards"


def test_types_and_uuids_choose_the_card(api, controller, ns, make_node):
    node = make_node(devices=[objects.card(0, model="NVIDIA A100-SXM4-40GB", node_name="choose"),
                              objects.card(1, model="NVIDIA H100 PCIe", node_name="choose")])
    share = objects.share(memory=100)
    for name, annotations, device in (("use", {"nvidia.com/use-gputype": "h100"}, "gpu-1"),
                                      ("nouse", {"nvidia.com/nouse-gputype": "H100"}, "gpu-0"),
                                      ("uuid", {"nvidia.com/use-gpuuuid": "GPU-choose-1, GPU-none"}, "gpu-1"),
                                      ("nouuid", {"volcano.sh/vgpu-nouse-gpuuuid": "GPU-choose-1"}, "gpu-0")):
        api.create("pods", objects.pod(name, ns, limits=share, annotations=annotations, **pin(node)))
        wait_bound(api, ns, name)
        result, = objects.results(claims_of(api, ns, name)[0])
        assert result["device"] == device, name


@pytest.mark.parametrize("name, limits, vendor, capacity", [
    ("mig", {"nvidia.com/mig-1g.5gb": "1"}, "nvidia", {}),
    ("ascend", {"huawei.com/Ascend910B4": "1", "huawei.com/Ascend910B4-memory": "5000"}, "ascend",
     {"memory": "8Gi"}),
    ("hygon", {"hygon.com/dcunum": "1", "hygon.com/dcumem": "2000"}, "hygon", {"memory": "2000Mi", "cores": "100"}),
    ("amd", {"amd.com/gpu": "8"}, "amd", {}),
    ("gaudi", {"habana.ai/gaudi": "8"}, "habana", {}),
    ("tpu", {"google.com/tpu": "4"}, "google", {}),
])
def test_vendors_that_the_fleet_does_not_have_wait_with_the_reason(api, controller, ns, make_node, name, limits, vendor, capacity):
    make_node(cards=1)
    created = api.create("pods", objects.pod(name, ns, limits=limits))
    assert objects.gated(created)
    request = created["metadata"]["annotations"][objects.REQUEST]
    assert f'"deviceClassName":"heddle-{vendor}"' in request
    for key, value in capacity.items():
        assert f'"{key}":"{value}"' in request, request
    if name == "ascend":
        assert "8192 MiB granted" in request
    condition = wait_waiting(api, ns, name)
    assert vendor in condition["message"] or "no " in condition["message"], condition


@pytest.mark.parametrize("annotations, limits, part", [
    ({"gpu-fraction": "1.5"}, {}, "below 1"),
    ({"gpu-fraction": "0.5"}, {"nvidia.com/gpu": "1"}, "only one"),
    ({"mps": "true"}, {}, "gpu-fraction"),
    ({"huawei.com/vnpu-mode": "enpu"}, {"huawei.com/Ascend910B4": "1"}, "hami-core"),
])
def test_annotations_that_cannot_be_met_are_refused(api, controller, ns, annotations, limits, part):
    error = str(refused(lambda: api.create("pods", objects.pod("bad", ns, limits=limits, annotations=annotations)), 422))
    assert "metadata.annotations[" in error and part in error, error


def test_a_quota_of_one_dialect_counts_the_pods_of_another(api, controller, ns, make_node):
    node = make_node(cards=3)
    api.create("resourcequotas", {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "cards", "namespace": ns},
                                  "spec": {"hard": {"requests.volcano.sh/vgpu-number": "1", "requests.amd.com/gpu": "0"}}})
    refused(lambda: api.create("pods", objects.pod("amd", ns, limits={"amd.com/gpu": "1"})), 422)
    api.create("pods", objects.pod("first", ns, limits={"nvidia.com/gpu": "1"}, **pin(node)))
    wait_bound(api, ns, "first")
    api.create("pods", objects.pod("second", ns, annotations={"gpu-fraction": "0.5"}, **pin(node)))
    condition = wait_waiting(api, ns, "second")
    assert "requests.volcano.sh/vgpu-number is 1" in condition["message"], condition


def test_a_pod_that_is_to_be_ignored_is_left_alone(api, controller, ns):
    made = api.create("pods", objects.pod("other", ns, limits={"nvidia.com/gpu": "1"}, labels={"hami.io/webhook": "ignore"},
                                          nodeSelector={"no": "node"}))
    assert not objects.gated(made) and made["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
