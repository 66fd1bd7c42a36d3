"""Devices of another DRA driver: the chart's value `managedDrivers` has Heddle allocate them, and keeps the stock scheduler off.

There is no such driver here: the test writes its slices, and nobody prepares what is granted. So the nodes have no kubelet, and what
is looked at ends with the binding."""
import pytest

from harness import objects
from harness.api import ApiError
from harness.heddle import render
from harness.process import wait_until
from test_stock_scheduler import tried

OTHER = "gpu.example.com"
EVERYTHING = [{"operator": "Exists"}]


@pytest.fixture(scope="module")
def device_class(chart):
    name = objects.unique("theirs")
    chart.api.create("deviceclasses", {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{OTHER}'"}}]}})
    yield name
    chart.api.delete("deviceclasses", name)


@pytest.fixture
def fleet(chart):
    """fleet(nodes, devices) -> its label: nodes with devices of the other driver that only pods of this test use."""
    made = []

    def make(nodes=1, devices=1):
        mine = objects.unique("fleet")
        for _ in range(nodes):
            made.append(objects.unique("theirs"))
            chart.make_node(made[-1], labels={"heddle-test/fleet": mine})
            listed = [{"name": f"device-{number}", "attributes": {"index": {"int": number}}} for number in range(devices)]
            chart.api.create("resourceslices", objects.slices(made[-1], listed, driver=OTHER))
        return mine
    yield make
    for name in made:
        chart.remove_node(name)


def of_drivers(chart, drivers):
    """The objects of the chart by which it manages these drivers."""
    kinds = ("ValidatingAdmissionPolicy", "DeviceTaintRule")
    return [body for body in render(chart.cluster.bin, {"managedDrivers": drivers})
            if body["kind"] == kinds[1] or (body["kind"], body["metadata"]["name"]) == (kinds[0], "heddle-ledger")]


def wait_for_policy(api):
    """The API server compiles policies after a moment."""
    probe = api.create("resourceclaims", objects.claim(objects.unique("probe"), "default"))
    name = probe["metadata"]["name"]
    probe["status"] = {"allocation": {"devices": {"results": [{"request": "card", "driver": OTHER, "pool": "p", "device": "d"}]}}}

    def refuses():
        try:
            api.update("resourceclaims", {**probe, "metadata": {**probe["metadata"], "resourceVersion": ""}}, "status")
        except ApiError as error:
            return OTHER in str(error)
        api.patch("resourceclaims", name, {"status": None}, "default", "status")
        return False
    wait_until("the policy heddle-ledger knows the driver", refuses, 60)
    api.delete("resourceclaims", name, "default")


@pytest.fixture
def managed(controller, device_class):
    """Heddle manages the other driver, as after an upgrade of the chart with that value."""
    api = controller.api
    for body in of_drivers(controller, [OTHER]):
        api.apply(body, "helm")
    assert api.get("devicetaintrules", f"heddle-{OTHER}")["spec"]["deviceSelector"] == {"driver": OTHER}
    wait_for_policy(api)
    controller.restart_controller(managed_driver=OTHER)
    yield controller
    api.delete("devicetaintrules", f"heddle-{OTHER}")
    for body in of_drivers(controller, []):
        api.apply(body, "helm")
    controller.restart_controller()


def user(name, ns, mine, device_class, api, tolerations=None, **spec):
    """A pod with a claim of its own on one device."""
    more = {"tolerations": tolerations} if tolerations else {}
    api.create("resourceclaims", objects.claim(name, ns, device_class=device_class, **more))
    return objects.claim_user(name, ns, {"device": {"resourceClaimName": name}}, nodeSelector={"heddle-test/fleet": mine}, **spec)


def member(number, size, ns, mine, device_class, api, name="gang"):
    body = user(f"{name}-{number}", ns, mine, device_class, api)
    body["metadata"]["annotations"] = {"heddle.dev/gang": name, "heddle.dev/gang-size": str(size)}
    return body


def holders(api, ns):
    """{(pool, device): names of the claims that hold it}"""
    found = {}
    for body in api.list("resourceclaims", ns):
        for result in objects.results(body):
            assert result["driver"] == OTHER
            found.setdefault((result["pool"], result["device"]), []).append(body["metadata"]["name"])
    return found


def allocated_by(body):
    """Who wrote the allocation, by the fields that he manages."""
    return {entry["manager"] for entry in body["metadata"]["managedFields"]
            if "f:allocation" in entry.get("fieldsV1", {}).get("f:status", {})}


def test_without_the_value_they_are_the_stock_schedulers(api, controller, device_class, ns, fleet):
    mine = fleet()
    api.create("pods", user("plain", ns, mine, device_class, api))
    api.wait_for("pods", "plain", ns, objects.bound, "bound", 60)
    assert "kube-scheduler" in allocated_by(api.get("resourceclaims", "plain", ns))


def test_a_gang_over_them_starts_as_one(managed, device_class, ns, fleet):
    api, mine = managed.api, fleet(nodes=2, devices=2)
    for number in range(3):
        api.create("pods", member(number, 4, ns, mine, device_class, api))
    api.wait_for("pods", "gang-2", ns, lambda body: "3 of 4" in objects.condition(body, "heddle.dev/Allocated").get("message", ""),
                 "waits for the fourth", 60)
    assert not holders(api, ns) and all(objects.gated(body) for body in api.list("pods", ns))
    api.create("pods", member(3, 4, ns, mine, device_class, api))
    wait_until(lambda: f"all are bound; {api.story(ns, 'gang-0')}",
               lambda: all(objects.bound(body) for body in api.list("pods", ns)), 60)
    found = holders(api, ns)
    assert len(found) == 4 and all(len(names) == 1 for names in found.values())
    for body in api.list("resourceclaims", ns):
        assert allocated_by(body) == {"heddle"}
        node = api.get("pods", body["metadata"]["name"], ns)["spec"]["nodeName"]
        assert objects.results(body)[0]["pool"].startswith(f"{node}/")


def test_a_gang_that_cannot_fit_holds_nothing(managed, device_class, ns, fleet):
    api, mine = managed.api, fleet(nodes=1, devices=2)
    for number in range(3):
        api.create("pods", member(number, 3, ns, mine, device_class, api))
    waiting = api.wait_for("pods", "gang-2", ns, lambda body: objects.condition(body, "heddle.dev/Allocated").get("reason") not in (
        None, "GangIncomplete"), "says why", 60)
    assert "has room for 2" in objects.condition(waiting, "heddle.dev/Allocated")["message"]
    assert not holders(api, ns)
    api.create("pods", user("small", ns, mine, device_class, api))
    api.wait_for("pods", "small", ns, objects.bound, "starts meanwhile", 60)
    assert list(holders(api, ns).values()) == [["small"]]


def test_a_rule_of_an_administrator_keeps_work_away(managed, device_class, ns, fleet):
    api, mine = managed.api, fleet()
    api.create("pods", user("first", ns, mine, device_class, api))
    first = api.wait_for("pods", "first", ns, objects.bound, "bound", 60)
    pool = next(body["spec"]["pool"]["name"] for body in api.list("resourceslices", field=f"spec.nodeName={first['spec']['nodeName']}"))
    name = objects.unique("worn")
    api.create("devicetaintrules", {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": name},
        "spec": {"deviceSelector": {"driver": OTHER, "pool": pool}, "taint": {"key": "example.com/worn", "effect": "NoSchedule"}}})
    try:
        tolerates = [{"key": "example.com/worn", "operator": "Exists"}]
        api.create("pods", user("second", ns, mine, device_class, api))
        api.wait_for("pods", "second", ns, lambda body: "example.com/worn" in objects.condition(
            body, "heddle.dev/Allocated").get("message", ""), "says which taint it does not tolerate", 60)
        api.delete("pods", "first", ns, grace=0)
        api.create("pods", user("tolerates", ns, mine, device_class, api, tolerates))
        api.wait_for("pods", "tolerates", ns, objects.bound, "bound", 60)
        assert objects.condition(api.get("pods", "second", ns), "heddle.dev/Allocated")["reason"] == "Taint"
        assert list(holders(api, ns).values()) == [["tolerates"]]
        api.delete("pods", "tolerates", ns, grace=0)
    finally:
        api.delete("devicetaintrules", name)
    api.wait_for("pods", "second", ns, objects.bound, "bound when the rule is gone", 60)


def test_kubernetes_evicts_what_does_not_tolerate_a_rule(api, controller, ns, make_node):
    """The tolerations of a claim's request are in its allocation, where Kubernetes looks for them; so it is for Heddle's devices."""
    node = make_node(cards=2)
    stays = [{"key": "example.com/repair", "operator": "Exists", "effect": "NoExecute"}]  # without an effect it would go
    for name, more in (("goes", {}), ("stays", {"tolerations": stays})):
        api.create("resourceclaims", objects.claim(name, ns, **more))
        api.create("pods", objects.claim_user(name, ns, {"device": {"resourceClaimName": name}},
                                              nodeSelector={"kubernetes.io/hostname": node}))
        api.wait_for("pods", name, ns, objects.bound, "bound", 60)
    rule = objects.unique("repair")
    api.create("devicetaintrules", {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": rule},
        "spec": {"deviceSelector": {"driver": objects.DRIVER, "pool": f"{node}/nvidia"},
                 "taint": {"key": "example.com/repair", "effect": "NoExecute"}}})
    try:
        wait_until("the pod without the toleration is evicted", lambda: "deletionTimestamp" in (
            api.find("pods", "goes", ns) or {"metadata": {"deletionTimestamp": ""}})["metadata"], 60)
        assert "deletionTimestamp" not in api.get("pods", "stays", ns)["metadata"]
    finally:
        api.delete("devicetaintrules", rule)


@pytest.mark.parametrize("tolerations", [None, EVERYTHING], ids=["plain", "tolerates-everything"])
def test_the_stock_scheduler_cannot_take_one(managed, device_class, ns, fleet, tolerations):
    """While no controller of Heddle runs: the rule keeps it off, and where a claim tolerates that, the policy does."""
    api, mine = managed.api, fleet()
    managed.controllers["controller-0"].kill()
    try:
        api.create("pods", user("plain", ns, mine, device_class, api, tolerations))
        if tolerations:
            wait_until(lambda: f"the policy stopped the scheduler\n{api.story(ns, 'plain')}", lambda: any(
                "heddle-ledger" in message and OTHER in message for _, message, _ in api.events(ns, "plain")), 60)
        else:
            assert "cannot allocate all claims" in tried(api, ns, "plain")
        assert not holders(api, ns)
    finally:
        managed.restart_controller(managed_driver=OTHER)
    api.wait_for("pods", "plain", ns, objects.bound, "bound when Heddle is there again", 60)
    assert allocated_by(api.get("resourceclaims", "plain", ns)) == {"heddle"}
