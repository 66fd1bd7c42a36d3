"""The stock scheduler cannot take a device of Heddle by itself. No part of Heddle but its chart is needed to hold this."""
import pytest

from harness import objects
from harness.process import wait_until

EVERYTHING = [{"operator": "Exists"}]


def pin(node):
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def tried(api, ns, name):
    """The scheduler's word that it looked at the pod and could not place it."""
    def look():
        condition = objects.condition(api.get("pods", name, ns), "PodScheduled")
        return condition.get("reason") == "Unschedulable" and condition.get("message", "x")
    return wait_until(f"kube-scheduler tried {ns}/{name}", look, 60)


def assert_nothing_taken(api, ns, name):
    assert not api.get("pods", name, ns)["spec"].get("nodeName")
    assert [body["metadata"]["name"] for body in api.list("resourceclaims", ns) if objects.results(body)] == []


def test_not_by_a_claim(api, chart, ns, make_node):
    node = make_node(cards=2)
    api.create("resourceclaims", objects.claim("mine", ns))
    api.create("pods", objects.claim_user("user", ns, {"c": {"resourceClaimName": "mine"}}, **pin(node)))
    assert "cannot allocate all claims" in tried(api, ns, "user")
    assert_nothing_taken(api, ns, "user")


def test_not_by_a_template(api, chart, ns, make_node):
    node = make_node(cards=2)
    template = objects.claim("mine", ns, device_class="heddle-nvidia")
    api.create("resourceclaimtemplates", {**template, "kind": "ResourceClaimTemplate", "spec": {"spec": template["spec"]}})
    api.create("pods", objects.claim_user("user", ns, {"c": {"resourceClaimTemplateName": "mine"}}, **pin(node)))
    assert "cannot allocate all claims" in tried(api, ns, "user")
    assert_nothing_taken(api, ns, "user")


def test_not_by_the_implicit_extended_resource(api, chart, ns, make_node):
    node = make_node(cards=2)
    limits = {"deviceclass.resource.kubernetes.io/heddle": "1"}
    api.create("pods", objects.pod("user", ns, limits=limits, **pin(node)))
    assert tried(api, ns, "user")
    assert_nothing_taken(api, ns, "user")


@pytest.mark.parametrize("taints", [(objects.MANAGED_TAINT,), ()], ids=["tainted", "taint-missing"])
def test_not_by_a_claim_that_tolerates_everything(api, chart, ns, make_node, taints):
    """The toleration gets past the taint; the policy on the ledger is the second line. So it is without any taint."""
    node = objects.unique("made")
    node = make_node(devices=[objects.card(0, node_name=node, taints=taints)])
    api.create("resourceclaims", objects.claim("mine", ns, tolerations=EVERYTHING))
    api.create("pods", objects.claim_user("user", ns, {"c": {"resourceClaimName": "mine"}}, **pin(node)))

    def refused_by_policy():
        return any("heddle-ledger" in message for _, message, _ in api.events(ns, "user"))
    wait_until(lambda: f"the policy stopped the scheduler\n{api.story(ns, 'user')}", refused_by_policy, 60)
    assert_nothing_taken(api, ns, "user")


def test_an_allocation_by_the_controller_binds(api, chart, ns, make_node):
    """The stock scheduler accepts what the controller wrote, tainted device or not, and writes no allocation of its own."""
    node = make_node(cards=1)
    body = objects.claim("mine", ns, capacity={"requests": {"memory": "3000Mi", "cores": "30"}})
    body["metadata"]["finalizers"] = [objects.FINALIZER]
    claim = api.create("resourceclaims", body)
    pod = api.create("pods", objects.claim_user("user", ns, {"c": {"resourceClaimName": "mine"}},
                                                schedulingGates=[{"name": objects.GATE}]))
    share_id = "11111111-2222-3333-4444-555555555555"
    claim["status"] = {
        "allocation": {
            "devices": {"results": [{"request": "card", "driver": objects.DRIVER, "pool": f"{node}/nvidia", "device": "gpu-0",
                                     "shareID": share_id, "consumedCapacity": {"memory": "3000Mi", "cores": "30"}}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": [node]}]}]},
            "allocationTimestamp": "2026-01-01T00:00:00Z"},
        "reservedFor": [{"resource": "pods", "name": "user", "uid": pod["metadata"]["uid"]}]}
    chart.controller_api().update("resourceclaims", claim, "status")
    api.patch("pods", "user", {"spec": {"schedulingGates": None}}, ns)
    assert api.wait_for("pods", "user", ns, objects.bound, "bound", 60)["spec"]["nodeName"] == node
    assert objects.results(api.get("resourceclaims", "mine", ns))[0]["shareID"] == share_id
