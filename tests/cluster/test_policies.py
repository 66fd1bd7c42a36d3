"""The admission policies: nobody but the controller allocates, nobody else changes a request, agents write their own slices."""
import copy

import pytest

from harness import objects
from harness.api import refused


def allocation(node, device="gpu-0", driver=objects.DRIVER):
    return {"allocation": {"devices": {"results": [{
        "request": "card", "driver": driver, "pool": f"{node}/nvidia", "device": device,
        "shareID": "11111111-2222-3333-4444-555555555555", "consumedCapacity": {"memory": "1Gi", "cores": "10"}}]},
        "allocationTimestamp": "2026-01-01T00:00:00Z"}}


@pytest.fixture
def users(cluster, chart):
    admin, mallory = cluster.api, cluster.plane.user("mallory")
    return {"system:masters": admin, "cluster-admin": mallory, "scheduler": cluster.plane.user("system:kube-scheduler"),
            "controller": chart.controller_api()}


def write(user, claim, status, by):
    if by == "PUT":
        return user.update("resourceclaims", {**claim, "status": status}, "status")
    return user.patch("resourceclaims", claim["metadata"]["name"], {"status": status}, claim["metadata"]["namespace"], "status")


@pytest.mark.parametrize("by", ["PUT", "PATCH"])
@pytest.mark.parametrize("who", ["system:masters", "cluster-admin", "scheduler"])
def test_forged_allocation_is_refused(cluster, users, ns, who, by):
    claim = cluster.api.create("resourceclaims", objects.claim("wanted", ns))
    error = refused(lambda: write(users[who], claim, allocation("node-1"), by), (403, 422))
    assert "heddle-ledger" in str(error) and "allocated by Heddle alone" in str(error)
    assert objects.results(cluster.api.get("resourceclaims", "wanted", ns)) == []


def test_forged_allocation_hidden_among_others_is_refused(cluster, users, ns):
    claim = cluster.api.create("resourceclaims", objects.claim("wanted", ns))
    status = allocation("node-1", driver="gpu.example.com")
    status["allocation"]["devices"]["results"] += allocation("node-1")["allocation"]["devices"]["results"]
    assert "heddle-ledger" in str(refused(lambda: write(users["cluster-admin"], claim, status, "PUT")))


def test_status_in_create_grants_nothing(cluster, users, ns):
    body = {**objects.claim("born-allocated", ns), "status": allocation("node-1")}
    assert objects.results(users["cluster-admin"].create("resourceclaims", body)) == []
    claim = cluster.api.get("resourceclaims", "born-allocated", ns)
    changed = users["cluster-admin"].update("resourceclaims", {**claim, "status": allocation("node-1")})
    assert objects.results(changed) == []


def test_other_drivers_stay_open(cluster, users, ns):
    claim = cluster.api.create("resourceclaims", objects.claim("other", ns))
    assert objects.results(write(users["cluster-admin"], claim, allocation("node-1", driver="gpu.example.com"), "PUT"))


def test_controller_allocates_and_anyone_clears_and_reserves(cluster, users, ns):
    claim = cluster.api.create("resourceclaims", objects.claim("wanted", ns))
    claim = write(users["controller"], claim, allocation("node-1"), "PUT")
    assert objects.results(claim)
    reserved = copy.deepcopy(claim["status"])
    # For a pod that exists: from any other the claim controller takes it back at once.
    pod = cluster.api.create("pods", objects.pod("p", ns, schedulingGates=[{"name": "example.com/wait"}]))
    reserved["reservedFor"] = [{"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}]
    claim = write(users["scheduler"], claim, reserved, "PUT")
    changed = copy.deepcopy(claim["status"])
    changed["allocation"]["devices"]["results"][0]["device"] = "gpu-1"
    refused(lambda: write(users["cluster-admin"], claim, changed, "PUT"), (403, 422))
    claim = write(users["scheduler"], claim, {}, "PUT")
    assert objects.results(claim) == [] and "reservedFor" not in claim.get("status", {})


def with_request(ns, value="[]"):
    """As the webhook leaves a pod; only the policies are under test here."""
    return objects.pod("asked", ns, annotations={objects.REQUEST: value}, schedulingGates=[{"name": objects.GATE}])


def test_request_annotation_cannot_be_changed(cluster, users, ns):
    body = with_request(ns)
    cluster.api.create("pods", body)
    change = {"metadata": {"annotations": {objects.REQUEST: '[{"container":"main"}]'}}}
    for patch in (change, {"metadata": {"annotations": {objects.REQUEST: None}}}, {"metadata": {"annotations": None}}):
        for sub in (None, "status"):
            error = refused(lambda: users["cluster-admin"].patch("pods", "asked", patch, ns, sub), (403, 422))
            assert "heddle-requests" in str(error)
    # Everything else about the pod stays free.
    users["cluster-admin"].patch("pods", "asked", {"metadata": {"annotations": {"note": "1"}, "labels": {"a": "b"}}}, ns)


def test_request_annotation_cannot_be_added_later(cluster, users, ns, make_node):
    node = make_node(cards=0, labels={"pool": "forged"})
    cluster.api.create("pods", objects.pod("plain", ns, schedulingGates=[{"name": "example.com/wait"}]))
    change = {"metadata": {"annotations": {objects.REQUEST: "[]"}}}
    for sub in (None, "status"):
        assert "heddle-requests" in str(refused(lambda: users["cluster-admin"].patch("pods", "plain", change, ns, sub)))
    cluster.api.patch("pods", "plain", {"spec": {"schedulingGates": None, "nodeSelector": {"no": "node"}}}, ns)
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "plain", "namespace": ns, "annotations": {
        objects.REQUEST: "[]"}}, "target": {"kind": "Node", "name": node}}
    path = cluster.api.path("pods", ns, "plain", "binding")
    assert "heddle-requests" in str(refused(lambda: users["cluster-admin"].request("POST", path, binding)))
    binding["metadata"].pop("annotations")
    users["cluster-admin"].request("POST", path, binding)


def test_agents_write_slices_of_their_own_node_only(cluster, chart, users, make_node):
    mine, other = make_node(cards=0), make_node(cards=0)
    agent = chart.agent_api(mine)
    own = agent.create("resourceslices", objects.slices(mine, [objects.card(0)]))
    foreign = objects.slices(other, [objects.card(0)])
    assert "heddle-slices" in str(refused(lambda: agent.create("resourceslices", foreign), (403, 422)))
    theirs = chart.agent_api(other).create("resourceslices", foreign)
    theirs["spec"]["devices"][0]["attributes"]["model"] = {"string": "forged"}
    assert "heddle-slices" in str(refused(lambda: agent.update("resourceslices", theirs), (403, 422)))
    assert "heddle-slices" in str(refused(lambda: agent.delete("resourceslices", theirs["metadata"]["name"]), (403, 422)))
    # Nobody else writes slices of this driver, and the agent writes no others.
    for who in ("system:masters", "cluster-admin"):
        forged = objects.slices(mine, [objects.card(1)])
        forged["metadata"]["name"] += "-forged"
        assert "heddle-slices" in str(refused(lambda: users[who].create("resourceslices", forged), (403, 422)))
    stranger = objects.slices(mine, [objects.card(0, taints=())], driver="gpu.example.com")
    assert "heddle-slices" in str(refused(lambda: agent.create("resourceslices", stranger), (403, 422)))
    users["cluster-admin"].create("resourceslices", stranger)
    # Its own it may change; the kubelet and administrators may take slices away.
    own["spec"]["devices"][0]["attributes"]["model"] = {"string": "other"}
    agent.update("resourceslices", own)
    users["cluster-admin"].delete("resourceslices", theirs["metadata"]["name"])
    agent.delete("resourceslices", own["metadata"]["name"])


def test_agent_token_without_a_node_writes_nothing(cluster, chart, make_node):
    node = make_node(cards=0)
    loose = cluster.api.as_user(cluster.api.token_for("heddle-agent", "heddle-system"), "agent without node")
    error = refused(lambda: loose.create("resourceslices", objects.slices(node, [objects.card(0)])), (403, 422))
    assert "heddle-slices" in str(error)
