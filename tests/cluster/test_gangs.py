"""Gangs: they start as one or hold nothing, also when the controller is killed in the middle and when a node is lost."""
import threading
import time

import pytest

from harness import objects
from harness.api import ApiError
from harness.process import wait_until
from harness.tap import Tap

RACK = "heddle.dev/rack"


@pytest.fixture
def fleet(make_node):
    """fleet(racks, nodes, cards) -> (its label, node names by rack): nodes that only pods of this test use."""
    def make(racks=1, nodes=1, cards=1):
        mine = objects.unique("fleet")
        return mine, {f"{mine}-r{rack}": [make_node(cards=cards, labels={"heddle-test/fleet": mine, RACK: f"{mine}-r{rack}"})
                                          for _ in range(nodes)] for rack in range(racks)}
    return make


def member(number, size, ns, mine, name="gang", **marks):
    marks = {"gang": name, "gang-size": str(size), "gang-index": str(number), **marks}
    return objects.pod(f"{name}-{number}", ns, limits=objects.share(),
                       annotations={f"heddle.dev/{key.replace('_', '-')}": value for key, value in marks.items()},
                       nodeSelector={"heddle-test/fleet": mine})


def members(api, ns, name="gang"):
    return [body for body in api.list("pods", ns) if body["metadata"]["name"].startswith(f"{name}-")]


def all_bound(api, ns, count, name="gang"):
    return lambda: sum(bool(objects.bound(body)) for body in members(api, ns, name)) == count


def granted_cards(api, ns):
    return sum(entry["holders"] for entry in objects.granted(api.list("resourceclaims", ns)).values())


def test_a_gang_starts_as_one(api, controller, ns, fleet):
    mine, racks = fleet(racks=2, nodes=2, cards=2)
    for number in range(3):
        api.create("pods", member(number, 4, ns, mine, topology_required="rack"))
    waiting = api.wait_for("pods", "gang-2", ns, lambda body: objects.condition(body, "heddle.dev/Allocated"), "says what it waits for")
    assert objects.condition(waiting, "heddle.dev/Allocated")["reason"] == "GangIncomplete"
    wait_until("the number of members is told", lambda: "3 of 4" in objects.condition(
        api.get("pods", "gang-2", ns), "heddle.dev/Allocated")["message"], 30)
    assert not api.list("resourceclaims", ns) and all(objects.gated(body) for body in members(api, ns))
    api.create("pods", member(3, 4, ns, mine, topology_required="rack"))
    wait_until(lambda: f"all are bound; {api.story(ns, 'gang-0')}", all_bound(api, ns, 4), 60)
    nodes = {body["spec"]["nodeName"] for body in members(api, ns)}
    assert nodes in [set(names) for names in racks.values()], "in one rack, and on all of it"


def test_a_gang_that_cannot_fit_holds_nothing(api, controller, ns, fleet):
    mine, _ = fleet(nodes=2, cards=2)
    for number in range(5):
        api.create("pods", member(number, 5, ns, mine))
    waiting = api.wait_for("pods", "gang-4", ns, lambda body: objects.condition(body, "heddle.dev/Allocated").get("reason") not in (
        None, "GangIncomplete"), "says why", 60)
    assert "has room for 4" in objects.condition(waiting, "heddle.dev/Allocated")["message"]
    assert not api.list("resourceclaims", ns)
    small = objects.pod("small", ns, limits=objects.share(count=2), nodeSelector={"heddle-test/fleet": mine})
    api.create("pods", small)
    api.wait_for("pods", "small", ns, objects.bound, "starts meanwhile", 60)
    assert granted_cards(api, ns) == 2


def test_the_controller_is_killed_in_the_middle_of_a_gang_of_32(api, controller, ns, fleet):
    mine, _ = fleet(nodes=4, cards=8)
    tap = Tap(controller.cluster.plane)
    controller.restart_controller(tap)
    try:
        for at in (5, 40, 70):
            name = f"gang{at}"
            tap.reset()
            killed = threading.Event()

            def strike(write, status, at=at, killed=killed):
                if write.number == at and not killed.is_set():
                    killed.seen = [body for body in api.list("pods", ns) if not objects.gated(body)]
                    killed.claims = granted_cards(api, ns)
                    controller.controllers["controller-0"].kill()
                    killed.set()
            # The webhook dies with the controller: all pods but the last are there before, and it writes nothing else by then.
            for number in range(31):
                api.create("pods", member(number, 32, ns, mine, name=name))
            wait_until("the wait is told", lambda: all(objects.condition(body, "heddle.dev/Allocated") for body in members(api, ns, name)), 60)
            tap.reset()
            tap.after = strike
            api.create("pods", member(31, 32, ns, mine, name=name))
            wait_until("it is killed", killed.is_set, 60)
            if killed.claims < 32:
                assert not killed.seen, "nobody starts before all claims are written"
            tap.reset()
            controller.restart_controller(tap)
            wait_until(lambda: f"all are bound; {api.story(ns, name + '-0')}", all_bound(api, ns, 32, name), 120)
            taken = objects.granted(api.list("resourceclaims", ns))
            assert len(taken) == 32 and all(entry["holders"] == 1 for entry in taken.values())
            for body in members(api, ns, name):
                api.delete("pods", body["metadata"]["name"], ns, grace=0)
            wait_until("no claim stays", lambda: not api.list("resourceclaims", ns), 90)
    finally:
        tap.reset()
        controller.restart_controller()
        tap.close()


def test_repair_after_node_loss_stays_in_the_rack(api, controller, ns, fleet):
    mine, racks = fleet(racks=2, nodes=3, cards=1)
    for number in range(2):
        api.create("pods", member(number, 2, ns, mine, topology_required="rack"))
    wait_until(lambda: f"both are bound; {api.story(ns, 'gang-0')}", all_bound(api, ns, 2), 60)
    lost = api.get("pods", "gang-1", ns)["spec"]["nodeName"]
    rack = next(names for names in racks.values() if lost in names)
    controller.remove_node(lost)
    api.delete("pods", "gang-1", ns, grace=0)
    wait_until("the old pod is gone", lambda: not api.find("pods", "gang-1", ns), 30)
    api.create("pods", member(1, 2, ns, mine, topology_required="rack"))
    again = api.wait_for("pods", "gang-1", ns, objects.bound, "bound again", 60)
    assert again["spec"]["nodeName"] in rack and again["spec"]["nodeName"] != lost


def test_a_gang_over_claims_that_users_wrote(api, controller, ns, fleet):
    """Their claims are no gate: the webhook gives them Heddle's."""
    mine, _ = fleet(nodes=1, cards=2)
    for number in range(2):
        api.create("resourceclaims", objects.claim(f"claim-{number}", ns))
    user = objects.claim_user("gang-0", ns, {"card": {"resourceClaimName": "claim-0"}}, nodeSelector={"heddle-test/fleet": mine})
    user["metadata"]["labels"] = {"kueue.x-k8s.io/pod-group-name": "gang"}
    user["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "2"}
    made = api.create("pods", user)
    assert objects.gated(made)
    api.wait_for("pods", "gang-0", ns, lambda body: objects.condition(body, "heddle.dev/Allocated"), "waits for the other", 60)
    assert not objects.granted(api.list("resourceclaims", ns))
    user["metadata"]["name"] = "gang-1"
    user["spec"]["resourceClaims"][0]["resourceClaimName"] = "claim-1"
    api.create("pods", user)
    wait_until(lambda: f"both are bound; {api.story(ns, 'gang-0')}", all_bound(api, ns, 2), 60)


GROUPS = {"group": "scheduling.x-k8s.io", "version": "v1alpha1", "plural": "podgroups"}


def pod_groups_crd():
    spec = {"type": "object", "properties": {"minMember": {"type": "integer", "minimum": 1}}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "podgroups.scheduling.x-k8s.io"},
            "spec": {"group": GROUPS["group"], "scope": "Namespaced",
                     "names": {"kind": "PodGroup", "plural": GROUPS["plural"], "singular": "podgroup", "listKind": "PodGroupList"},
                     "versions": [{"name": GROUPS["version"], "served": True, "storage": True, "schema": {
                         "openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}]}}


@pytest.fixture
def pod_groups(api):
    """The kind of coscheduling's PodGroups, made while the controller runs; gone after the test."""
    crd = pod_groups_crd()
    api.apply(crd)
    group = f"apis/{GROUPS['group']}/{GROUPS['version']}"

    def served():
        try:
            api.request("GET", f"apis/{GROUPS['group']}")
            return api.request("GET", f"{group}/{GROUPS['plural']}")
        except ApiError:
            return None
    wait_until("PodGroups are served", served, 60)
    yield lambda name, ns, size: api.apply({
        "apiVersion": f"{GROUPS['group']}/{GROUPS['version']}", "kind": "PodGroup", "metadata": {"name": name, "namespace": ns},
        "spec": {"minMember": size}})
    api.request("DELETE", f"apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}")


def grouped(name, ns, mine, group):
    body = objects.pod(name, ns, limits=objects.share(), nodeSelector={"heddle-test/fleet": mine})
    body["metadata"].setdefault("labels", {})["scheduling.x-k8s.io/pod-group"] = group
    return body


def test_pods_of_a_kind_that_just_came_wait_for_the_pod_group_that_says_their_number(api, controller, ns, fleet, pod_groups):
    mine, _ = fleet(nodes=2, cards=2)
    for number in range(3):
        api.create("pods", grouped(f"gang-{number}", ns, mine, "four"))
    waiting = api.wait_for("pods", "gang-2", ns, lambda body: objects.condition(body, "heddle.dev/Allocated"), "says what it waits for")
    assert objects.condition(waiting, "heddle.dev/Allocated")["reason"] == "GangSize"
    pod_groups("four", ns, 4)
    wait_until("the number of members is told", lambda: "3 of 4" in objects.condition(
        api.get("pods", "gang-2", ns), "heddle.dev/Allocated")["message"], 60)
    assert not api.list("resourceclaims", ns) and all(objects.gated(body) for body in members(api, ns))
    api.create("pods", grouped("gang-3", ns, mine, "four"))
    wait_until(lambda: f"all are bound; {api.story(ns, 'gang-0')}", all_bound(api, ns, 4), 60)


def test_a_new_controller_knows_the_pod_groups_before_it_places(api, controller, ns, fleet, pod_groups):
    mine, _ = fleet(nodes=2, cards=2)
    pod_groups("three", ns, 3)
    controller.restart_controller()
    for number in range(2):
        api.create("pods", grouped(f"gang-{number}", ns, mine, "three"))
    waiting = api.wait_for("pods", "gang-1", ns, lambda body: objects.condition(body, "heddle.dev/Allocated"), "says what it waits for")
    assert objects.condition(waiting, "heddle.dev/Allocated")["reason"] == "GangIncomplete"
    controller.restart_controller()
    assert not api.list("resourceclaims", ns) and all(objects.gated(body) for body in members(api, ns))
    api.create("pods", grouped("gang-2", ns, mine, "three"))
    wait_until(lambda: f"all are bound; {api.story(ns, 'gang-0')}", all_bound(api, ns, 3), 60)


def test_an_accelerator_topology_names_the_levels(api, controller, ns, fleet):
    mine, racks = fleet(racks=2, nodes=2, cards=1)
    for number in range(2):
        api.create("pods", member(number, 2, ns, mine, topology_required="row"))
    waiting = api.wait_for("pods", "gang-1", ns, lambda body: "row" in objects.condition(body, "heddle.dev/Allocated").get("message", ""),
                           "says that there is no such level", 60)
    assert "no topology level is called row" in objects.condition(waiting, "heddle.dev/Allocated")["message"]
    made = []
    try:
        for name, level in (("row", "row"), ("later", "hall")):
            made.append(objects.unique(name))
            api.create("acceleratortopologies", {
                "apiVersion": "heddle.dev/v1alpha1", "kind": "AcceleratorTopology", "metadata": {"name": made[-1]},
                "spec": {"levels": [{"name": level, "nodeLabel": RACK}]}})
            created = int(time.time())
            wait_until("another second", lambda at=created: int(time.time()) > at, 5)
        wait_until(lambda: f"both are bound; {api.story(ns, 'gang-0')}", all_bound(api, ns, 2), 60)
        nodes = {body["spec"]["nodeName"] for body in members(api, ns)}
        assert nodes in [set(names) for names in racks.values()], "in one row"
        for name, status in zip(made, ("True", "False")):
            api.wait_for("acceleratortopologies", name, None, lambda body, status=status: objects.condition(body, "InForce").get(
                "status") == status, f"says InForce {status}", 30)
    finally:
        for name in made:
            api.delete("acceleratortopologies", name)
