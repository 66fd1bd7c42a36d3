"""Bad requests get a clear answer at admission: the field, what was asked, what to write instead."""
import json

import pytest

from harness import objects
from harness.api import refused
from harness.process import wait_until

FIELD = "spec.containers[0].resources.limits"


@pytest.mark.parametrize("limits, field, fix", [
    ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "16Gi"}, "nvidia.com/gpumem", "write 16384"),
    ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "16G"}, "nvidia.com/gpumem", "MiB"),
    ({"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "0"}, "nvidia.com/gpumem-percentage", "1 to 100"),
    ({"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "101"}, "nvidia.com/gpumem-percentage", "1 to 100"),
    ({"nvidia.com/gpu": "1", "nvidia.com/gpucores": "150"}, "nvidia.com/gpucores", "0 to 100"),
    ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "100", "nvidia.com/gpumem-percentage": "50"}, "percentage", "only one"),
    ({"nvidia.com/gpu": "33"}, "nvidia.com/gpu", "32"),
    ({"nvidia.com/gpu": "1", "nvidia.com/gpumen": "100"}, "nvidia.com/gpumen", "nvidia.com/gpumem"),
    ({"nvidia.com/gpumemory": "3000"}, "nvidia.com/gpumemory", "nearest known one is nvidia.com/gpumem"),
    ({"nvidia.com/mig-1g.5gb.shared": "1"}, "nvidia.com/mig-1g.5gb.shared", "without .shared"),
    ({"huawei.com/Ascend910B5": "1"}, "huawei.com/Ascend910B5", "nearest known one"),
    ({"hygon.com/dcumem": "2000"}, "hygon.com/dcumem", "write hygon.com/dcunum: 1"),
])
def test_refused_with_the_field_and_the_fix(api, controller, ns, limits, field, fix):
    error = refused(lambda: api.create("pods", objects.pod("bad", ns, limits=limits)), (400, 403, 422))
    assert f"{FIELD}[" in str(error) and field in str(error) and fix in str(error), error
    assert api.list("pods", ns) == []


@pytest.mark.parametrize("limits", [{"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "-1"},
                                    {"nvidia.com/gpu": "-1"}, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "0.5"}])
def test_what_is_no_amount_is_refused(api, controller, ns, limits):
    """By the webhook, or by the API server itself; in no case taken as 0."""
    refused(lambda: api.create("pods", objects.pod("bad", ns, limits=limits)), (400, 403, 422))
    assert api.list("pods", ns) == []


def test_every_fault_of_a_pod_is_named_at_once(api, controller, ns):
    containers = [objects.container("a", limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "16Gi"}),
                  objects.container("b", limits={"nvidia.com/gpu": "1", "nvidia.com/gpucores": "150"})]
    error = str(refused(lambda: api.create("pods", objects.pod("bad", ns, containers))))
    assert "spec.containers[0]" in error and "spec.containers[1]" in error, error


def test_a_deployment_of_bad_pods_shows_the_reason(api, controller, ns):
    """Pods of a workload are refused one by one: the reason must reach the ReplicaSet's events."""
    template = objects.pod("x", ns, limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "16Gi"})
    template["spec"].pop("restartPolicy")
    api.create("deployments", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "bad", "namespace": ns}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": "bad"}},
        "template": {"metadata": {"labels": {"app": "bad"}}, "spec": template["spec"]}}})
    wait_until("an event names the fix", lambda: any(
        "write 16384" in event.get("message", "") for event in api.list("events", ns)), 60)


def test_a_resource_name_in_an_annotation_is_refused(api, controller, ns):
    error = refused(lambda: api.create("pods", objects.pod("bad", ns, annotations={"nvidia.com/gpumem": "3000"})), 422)
    assert "metadata.annotations[nvidia.com/gpumem]" in str(error) and "use resources.limits" in str(error)


def test_resources_of_other_plugins_stay(api, controller, ns):
    limits = {"nvidia.com/gpumem": "100", "nvidia.com/hostdev": "1"}
    made = api.create("pods", objects.pod("both", ns, limits=limits, nodeSelector={"no": "node"}))
    assert objects.gated(made) and made["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/hostdev": "1"}
    plain = api.create("pods", objects.pod("net", ns, limits={"nvidia.com/hostdev": "1"}, nodeSelector={"no": "node"}))
    assert not objects.gated(plain) and objects.REQUEST not in plain["metadata"].get("annotations", {})


@pytest.mark.parametrize("exactly, part", [
    ({"capacity": {"requests": {"cores": "150"}}}, "requests[0].exactly.capacity.requests[cores]: must be a percentage, 0 to 100"),
    ({"capacity": {"requests": {"vram": "1Gi"}}}, "memory and cores"),
    ({"adminAccess": True}, "adminAccess"),
    ({"count": 33}, "1 to 32"),
])
@pytest.mark.parametrize("kind", ["resourceclaims", "resourceclaimtemplates"])
def test_claims_that_cannot_be_meant_are_refused(api, controller, ns, kind, exactly, part):
    body = objects.claim("bad", ns, device_class="heddle-nvidia", **exactly)
    if kind == "resourceclaimtemplates":
        body = {**body, "kind": "ResourceClaimTemplate", "spec": {"spec": body["spec"]}}
    error = refused(lambda: api.create(kind, body), (403, 422))
    assert part in str(error) or "adminAccess" in exactly, error
    assert api.list(kind, ns) == []


def share_config(percent, requests=()):
    return {"requests": list(requests), "opaque": {"driver": objects.DRIVER, "parameters": {
        "apiVersion": "heddle.dev/v1alpha1", "kind": "ShareConfig", "memoryPercent": percent}}}


def test_a_share_in_bytes_and_in_percent_is_refused(api, controller, ns):
    body = objects.claim("both", ns, capacity={"requests": {"memory": "1Gi"}})
    body["spec"]["devices"]["config"] = [share_config(50)]
    error = str(refused(lambda: api.create("resourceclaims", body), 422))
    assert "requests[0].exactly.capacity.requests[memory]" in error and "config[0] gives memoryPercent 50" in error, error
    assert "leave one out" in error, error


DRIVER_SELECTOR = {"cel": {"expression": f'device.driver == "{objects.DRIVER}"'}}


def device_class(name, **spec):
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def make_class(api):
    made = []

    def make(**spec):
        made.append(objects.unique("users-class"))
        return api.create("deviceclasses", device_class(made[-1], **spec))["metadata"]["name"]
    yield make
    for name in made:
        if api.find("deviceclasses", name):
            api.delete("deviceclasses", name)


def test_classes_of_users_are_looked_at(api, controller, make_class):
    """What Heddle would not do for such a class is refused; classes that are not about its devices pass."""
    error = str(refused(lambda: make_class(selectors=[DRIVER_SELECTOR], config=[
        {key: value for key, value in share_config(50).items() if key == "opaque"}]), 422))
    assert "spec.config[0].opaque" in error and "spec.devices.config of the claims" in error, error
    name = make_class(selectors=[DRIVER_SELECTOR])
    change = {"spec": {"config": [{"opaque": share_config(50)["opaque"]}]}}
    assert "spec.config[0].opaque" in str(refused(lambda: api.patch("deviceclasses", name, change), 422))
    make_class(selectors=[{"cel": {"expression": 'device.driver == "gpu.example.com"'}}],
               config=[{"opaque": {"driver": "gpu.example.com", "parameters": {"a": "b"}}}])


def test_claims_on_a_users_class_are_allocated_or_told_why_not(api, controller, ns, make_node, make_class):
    """The webhook knows Heddle's classes by name; what is wrong with a claim on another is said when it is placed."""
    node = make_node(cards=2)
    name = make_class(selectors=[DRIVER_SELECTOR, {"cel": {"expression": f'device.attributes["{objects.DRIVER}"].minor == 1'}}])
    pin = {"nodeSelector": {"kubernetes.io/hostname": node}}
    api.create("resourceclaims", objects.claim("good", ns, device_class=name, capacity={"requests": {"memory": "1Gi", "cores": "10"}}))
    api.create("pods", objects.claim_user("good", ns, {"c": {"resourceClaimName": "good"}}, **pin))
    api.wait_for("pods", "good", ns, objects.bound, "bound", 60)
    assert list(objects.granted(api.list("resourceclaims", ns))) == [(f"{node}/nvidia", "gpu-1")]
    api.create("resourceclaims", objects.claim("bad", ns, device_class=name, capacity={"requests": {"vram": "1Gi"}}))
    api.create("pods", objects.claim_user("bad", ns, {"c": {"resourceClaimName": "bad"}}, **pin))
    told = api.wait_for("pods", "bad", ns, lambda body: objects.condition(body, "heddle.dev/Allocated").get("status") == "False",
                        "says why it waits", 60)
    assert "vram" in objects.condition(told, "heddle.dev/Allocated")["message"], told["status"]


def test_two_claims_in_one_container_are_refused_before_anything_is_granted(api, controller, ns, make_node):
    node = make_node(cards=2)
    for name in ("a", "b"):
        api.create("resourceclaims", objects.claim(name, ns, capacity={"requests": {"memory": "1Gi", "cores": "10"}}))
    claims = {name: {"resourceClaimName": name} for name in ("a", "b")}
    api.create("pods", objects.claim_user("two", ns, claims, nodeSelector={"kubernetes.io/hostname": node}))
    told = api.wait_for("pods", "two", ns, lambda body: objects.condition(body, "heddle.dev/Allocated").get("status") == "False",
                        "is told", 60)
    message = objects.condition(told, "heddle.dev/Allocated")["message"]
    assert "spec.containers[0].resources.claims" in message and "a and b" in message and "in one claim" in message, message
    wait_until("an event says so", lambda: any(reason == "HeddleRefused" for reason, _, _ in api.events(ns, "two")), 30)
    assert objects.granted(api.list("resourceclaims", ns)) == {}


def quota(api, ns, hard, **spec):
    api.create("resourcequotas", {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": ns},
                                  "spec": {"hard": hard, **spec}})


def test_a_quota_of_no_memory_refuses_whatever_needs_some(api, controller, ns):
    quota(api, ns, {"limits.nvidia.com/gpumem": "0"}, scopes=["NotTerminating"])

    def answer(name, limits, **more):
        try:
            api.request("POST", api.path("pods", ns) + "?dryRun=All", objects.pod(name, ns, limits=limits, **more))
        except Exception as error:  # pylint: disable=broad-except
            return str(error)
        return ""
    wait_until("the quota is known", lambda: answer("a", objects.share(memory=10)), 30)
    for limits in (objects.share(memory=10), objects.share(percent=10), objects.share(count=1)):
        assert f"quota {ns}/q allows no limits.nvidia.com/gpumem" in answer("b", limits)
    assert answer("c", objects.share(count=1), activeDeadlineSeconds=60) == "", "the quota is not for pods with a deadline"
    assert answer("d", {"cpu": "1"}) == ""


def by_hand(name, ns, memory, request=None):
    """A pod as the webhook would leave it, written by a user."""
    made = {"devices": {"requests": [{"name": "gpu", "exactly": {
        "deviceClassName": "heddle-nvidia", "allocationMode": "ExactCount", "count": 1, "capacity": {"requests": {
            "memory": memory, "cores": "0"}}, **(request or {})}}]}}
    entry = {"container": "main", "claimRef": "heddle-main", "claimName": f"{name}-main", "spec": made}
    container = objects.container(resources={"claims": [{"name": "heddle-main"}]})
    return objects.pod(name, ns, [container], annotations={objects.REQUEST: json.dumps([entry])},
                       resourceClaims=[{"name": "heddle-main", "resourceClaimName": f"{name}-main"}])


def test_a_request_written_by_hand_is_worth_no_more_than_resources(api, controller, ns, make_node):
    node = make_node(cards=1, memory_mib=8000)
    quota(api, ns, {"limits.nvidia.com/gpumem": "1000"})
    # What no translation writes is dropped, and with it the gate and the claim: the pod gets nothing.
    for change in ({"count": 2}, {"tolerations": [{"operator": "Exists"}]}, {"selectors": [{"cel": {"expression": "true"}}]}):
        body = by_hand("forged", ns, "500Mi", change)
        made = api.request("POST", api.path("pods", ns) + "?dryRun=All", body)
        assert not objects.gated(made) and objects.REQUEST not in made["metadata"].get("annotations", {}), change
    # What a translation could have written counts against the quota as the resources would.
    api.create("pods", {**by_hand("large", ns, "2000Mi")})
    body = by_hand("small", ns, "500Mi")
    body["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    assert objects.gated(api.create("pods", body)), "the gate is added to a request written by hand"
    api.wait_for("pods", "small", ns, objects.bound, "bound", 60)
    waits = api.wait_for("pods", "large", ns, lambda body: objects.condition(body, "heddle.dev/Allocated"), "says why it waits")
    assert objects.condition(waits, "heddle.dev/Allocated")["reason"] == "Quota"
    taken = objects.granted(api.list("resourceclaims", ns))
    assert taken == {(f"{node}/nvidia", "gpu-0"): {"memory": 500, "cores": 0, "holders": 1}}
