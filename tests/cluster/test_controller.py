"""The controller against real API server and scheduler, on nodes that the tests make: allocation, waiting, repair, leaders."""
import threading

import pytest

from harness import objects
from harness.api import refused
from harness.process import wait_until
from harness.tap import Tap


def pin(node):
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def ask(api, ns, name, limits, **more):
    return api.create("pods", objects.pod(name, ns, limits=limits, **more))


def wait_bound(api, ns, name, timeout=60):
    return api.wait_for("pods", name, ns, objects.bound, "bound", timeout)


def wait_waiting(api, ns, name, timeout=60):
    """The condition and the event that say why a pod waits; returns the condition."""
    def told(body):
        return objects.condition(body, "heddle.dev/Allocated").get("status") == "False"
    body = api.wait_for("pods", name, ns, told, "says why it waits", timeout)
    wait_until(f"an event says why {name} waits", lambda: any(
        reason in ("HeddleWaiting", "HeddleRefused") for reason, _, _ in api.events(ns, name)), 30)
    return objects.condition(body, "heddle.dev/Allocated")


def claims_of(api, ns, pod_name):
    return [body for body in api.list("resourceclaims", ns) if any(
        owner["name"] == pod_name for owner in body["metadata"].get("ownerReferences", []))]


def assert_no_card_over_committed(api, memory_mib):
    everything = [body for body in api.list("resourceclaims")]
    for card, taken in objects.granted(everything).items():
        assert taken["memory"] <= memory_mib.get(card[0], 1 << 40) and taken["cores"] <= 100, (card, taken)


def test_a_share_is_translated_allocated_and_bound(api, controller, ns, make_node):
    node = make_node(cards=1, memory_mib=24000)
    created = ask(api, ns, "one", objects.share(memory=3000, cores=30), **pin(node))
    assert objects.gated(created) and objects.REQUEST in created["metadata"]["annotations"]
    resources = created["spec"]["containers"][0]["resources"]
    assert not any(key.startswith("nvidia.com/") for key in {**resources.get("limits", {}), **resources.get("requests", {})})
    body = wait_bound(api, ns, "one")
    assert body["spec"]["nodeName"] == node and not objects.gated(body)
    assert objects.condition(body, "heddle.dev/Allocated").get("status", "True") == "True"
    claim, = claims_of(api, ns, "one")
    result, = objects.results(claim)
    assert (result["driver"], result["pool"], result["device"]) == (objects.DRIVER, f"{node}/nvidia", "gpu-0")
    assert objects.mib(result["consumedCapacity"]["memory"]) == 3000 and result["consumedCapacity"]["cores"] == "30"
    assert result["shareID"]
    assert objects.FINALIZER in claim["metadata"]["finalizers"]
    assert claim["metadata"]["labels"]["heddle.dev/managed"] == "true"
    owner, = claim["metadata"]["ownerReferences"]
    assert owner["controller"] is True and owner["uid"] == body["metadata"]["uid"]
    assert [entry["uid"] for entry in claim["status"]["reservedFor"]] == [body["metadata"]["uid"]]
    assert claim["status"]["allocation"]["allocationTimestamp"]


@pytest.mark.parametrize("limits, memory, cores", [
    (objects.share(), 24000, 100),                          # a whole card
    (objects.share(percent=50, cores=10), 12000, 10),       # percent of the card it lands on
    (objects.share(percent=33), 7920, 0),                   # rounded down to whole MiB, no cap on compute
    ({"nvidia.com/gpumem": "1000"}, 1000, 0),               # the count is understood
    (objects.share(cores=100), 24000, 100),
])
def test_what_is_consumed(api, controller, ns, make_node, limits, memory, cores):
    node = make_node(cards=1, memory_mib=24000)
    ask(api, ns, "one", limits, **pin(node))
    wait_bound(api, ns, "one")
    assert objects.granted(claims_of(api, ns, "one")) == {
        (f"{node}/nvidia", "gpu-0"): {"memory": memory, "cores": cores, "holders": 1}}


def test_several_shares_of_one_container_are_different_cards(api, controller, ns, make_node):
    node = make_node(cards=3)
    ask(api, ns, "three", objects.share(count=3, memory=1000), **pin(node))
    wait_bound(api, ns, "three")
    assert len(objects.granted(claims_of(api, ns, "three"))) == 3


def test_what_does_not_fit_waits_with_the_reason_and_starts_when_room_comes(api, controller, ns, make_node):
    node = make_node(cards=1, memory_mib=10000)
    ask(api, ns, "first", objects.share(memory=3000, cores=30), **pin(node))
    ask(api, ns, "second", objects.share(memory=5000, cores=50), **pin(node))
    for name in ("first", "second"):
        wait_bound(api, ns, name)
    ask(api, ns, "third", objects.share(memory=4000, cores=10), **pin(node))
    condition = wait_waiting(api, ns, "third")
    # What is short, where, by how much, and what would make it fit.
    assert condition["reason"] == "Capacity"
    assert all(word in condition["message"] for word in ("4000Mi", "2000Mi", "gpu-0", node, f"{ns}/first")), condition
    body = api.get("pods", "third", ns)
    assert objects.gated(body) and not objects.bound(body)
    api.delete("pods", "first", ns, grace=0)
    wait_bound(api, ns, "third")
    final = api.wait_for("pods", "third", ns, lambda found: objects.condition(found, "heddle.dev/Allocated").get(
        "status") == "True", "the condition turns True")
    assert objects.condition(final, "heddle.dev/Allocated")["reason"] == "Allocated"
    assert_no_card_over_committed(api, {f"{node}/nvidia": 10000})


def test_more_cards_than_the_fleet_has_is_said_clearly(api, controller, ns, make_node):
    node = make_node(cards=2)
    ask(api, ns, "three", objects.share(count=3), **pin(node))
    condition = wait_waiting(api, ns, "three")
    assert "3" in condition["message"] and "2" in condition["message"], condition


def test_many_pods_fill_the_cards_exactly(api, controller, ns, make_node):
    """24 pods that ask for a quarter each, on four cards: 16 run, 8 wait, nothing is taken twice."""
    node = make_node(cards=4, memory_mib=8000)
    names = [f"p{number}" for number in range(24)]
    for name in names:
        ask(api, ns, name, objects.share(memory=2000, cores=25), **pin(node))
    wait_until("16 pods are bound", lambda: sum(map(objects.bound, api.list("pods", ns))) == 16, 60)
    waiting = [body["metadata"]["name"] for body in api.list("pods", ns) if not objects.bound(body)]
    wait_waiting(api, ns, waiting[0])
    taken = objects.granted(api.list("resourceclaims", ns))
    assert {card: entry["holders"] for card, entry in taken.items()} == {(f"{node}/nvidia", f"gpu-{n}"): 4 for n in range(4)}
    for body in api.list("pods", ns):
        if objects.bound(body):
            api.delete("pods", body["metadata"]["name"], ns, grace=0)
    wait_until("the other 8 are bound", lambda: sum(map(objects.bound, api.list("pods", ns))) == 8, 60)
    assert_no_card_over_committed(api, {f"{node}/nvidia": 8000})


def test_two_containers_have_claims_of_their_own(api, controller, ns, make_node):
    node = make_node(cards=1)
    containers = [objects.container("a", limits=objects.share(memory=1000, cores=10)),
                  objects.container("b", limits=objects.share(memory=2000, cores=20)), objects.container("c")]
    api.create("pods", objects.pod("two", ns, containers, **pin(node)))
    body = wait_bound(api, ns, "two")
    claims = claims_of(api, ns, "two")
    assert sorted(objects.mib(objects.results(claim)[0]["consumedCapacity"]["memory"]) for claim in claims) == [1000, 2000]
    assert "claims" not in body["spec"]["containers"][2].get("resources", {})


def test_users_own_claim_is_allocated_when_its_pod_is_pending(api, controller, ns, make_node):
    node = make_node(cards=1)
    api.create("resourceclaims", objects.claim("mine", ns, device_class="heddle-nvidia",
                                               capacity={"requests": {"memory": "3000Mi", "cores": "30"}}))
    created = api.create("pods", objects.claim_user("user", ns, {"c": {"resourceClaimName": "mine"}}, **pin(node)))
    assert not objects.gated(created)
    wait_bound(api, ns, "user")
    assert objects.granted(api.list("resourceclaims", ns)) == {
        (f"{node}/nvidia", "gpu-0"): {"memory": 3000, "cores": 30, "holders": 1}}


def test_users_claim_template_is_allocated(api, controller, ns, make_node):
    node = make_node(cards=1)
    template = objects.claim("mine", ns, capacity={"requests": {"memory": "1000Mi", "cores": "0"}})
    api.create("resourceclaimtemplates", {**template, "kind": "ResourceClaimTemplate", "spec": {"spec": template["spec"]}})
    api.create("pods", objects.claim_user("user", ns, {"c": {"resourceClaimTemplateName": "mine"}}, **pin(node)))
    wait_bound(api, ns, "user")
    assert len(objects.granted(api.list("resourceclaims", ns))) == 1


def test_selectors_of_any_form_choose_devices(api, controller, ns, make_node):
    """One that holds for the card of this node, and one that holds for no card at all."""
    node = make_node(cards=1)
    domain = "accelerator.heddle.dev"
    fits = (f'cel.bind(a, device.attributes["{domain}"], a.vendor.startsWith("nvi") && a.uuid.matches("^GPU-{node}-")) '
            f'&& device.capacity["{domain}"].memory.isGreaterThan(quantity("1Gi"))')
    api.create("resourceclaims", objects.claim("mine", ns, selectors=[{"cel": {"expression": fits}}]))
    api.create("pods", objects.claim_user("user", ns, {"c": {"resourceClaimName": "mine"}}))
    assert wait_bound(api, ns, "user")["spec"]["nodeName"] == node
    nothing = f'device.capacity["{domain}"].memory.isGreaterThan(quantity("1Ei"))'
    api.create("resourceclaims", objects.claim("other", ns, selectors=[{"cel": {"expression": nothing}}]))
    api.create("pods", objects.claim_user("waits", ns, {"c": {"resourceClaimName": "other"}}, **pin(node)))
    assert "selector" in wait_waiting(api, ns, "waits")["message"]


def test_a_node_without_cpu_leads_to_another_node(api, controller, ns, make_node):
    """The engine sees no CPU here: it is taken by a pod of another scheduler between allocation and binding."""
    small = make_node(cards=1, memory_mib=9000, cpu="4", labels={"pool": ns})
    # Best fit prefers the small card; a pod that the controller cannot see in time takes the node's CPU.
    big = make_node(cards=1, memory_mib=24000, cpu="64", labels={"pool": ns})
    tap = hold_ungate(controller, ns)
    try:
        containers = [objects.container("a", limits=objects.share(memory=1000, cores=10), requests={"cpu": "3"}),
                      objects.container("b", limits=objects.share(memory=1000, cores=10))]
        api.create("pods", objects.pod("mover", ns, containers, nodeSelector={"pool": ns}))
        tap.reached.wait(60)
        assert {card[0] for card in objects.granted(api.list("resourceclaims", ns))} == {f"{small}/nvidia"}
        api.create("pods", objects.pod("thief", ns, [objects.container("x", requests={"cpu": "2"})], nodeName=small))
    finally:
        tap.release.set()
    body = wait_bound(api, ns, "mover", 90)
    assert body["spec"]["nodeName"] == big
    taken = objects.granted(claims_of(api, ns, "mover"))
    assert taken == {(f"{big}/nvidia", "gpu-0"): {"memory": 2000, "cores": 20, "holders": 2}}, "both claims moved together"
    wait_until("an event tells of the repair", lambda: any(
        reason == "HeddleRepair" for reason, _, _ in api.events(ns, "mover")), 30)


def hold_ungate(controller, ns):
    """Restarts the controller behind a tap that holds back the removal of the gate in this namespace; with tap.drop it is
    lost when it is released."""
    tap = Tap(controller.cluster.plane)
    tap.reached, tap.release, tap.drop = threading.Event(), threading.Event(), False

    def before(write):
        if write.method == "PATCH" and f"/namespaces/{ns}/pods/" in write.path and b"schedulingGates" in write.body:
            tap.reached.set()
            tap.release.wait(60)
            if tap.drop:
                raise OSError("lost")
    tap.before = before
    controller.restart_controller(tap)
    return tap


def test_quota_of_translated_resources_counts(api, controller, ns, make_node):
    node = make_node(cards=2)
    api.create("resourcequotas", {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "cards", "namespace": ns},
                                  "spec": {"hard": {"requests.nvidia.com/gpu": "1", "limits.nvidia.com/gpumem": "4000"}}})
    ask(api, ns, "first", objects.share(memory=3000), **pin(node))
    wait_bound(api, ns, "first")
    ask(api, ns, "second", objects.share(memory=500), **pin(node))
    condition = wait_waiting(api, ns, "second")
    assert "quota" in (condition["reason"] + condition["message"]).lower()
    api.delete("pods", "first", ns, grace=0)
    wait_bound(api, ns, "second")


def test_quota_of_zero_is_refused_at_admission(api, controller, ns):
    api.create("resourcequotas", {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": ns},
                                  "spec": {"hard": {"requests.nvidia.com/gpu": "0"}}})

    def refused_at_last():
        try:
            made = ask(api, ns, "never", objects.share())
        except Exception as error:  # pylint: disable=broad-except
            return str(error)
        api.delete("pods", made["metadata"]["name"], ns, grace=0)
        return None
    assert "quota" in wait_until("the quota is known and refuses", refused_at_last, 30).lower()


def test_a_quota_on_claims_that_the_controller_meets_is_shown_on_the_pod(api, controller, ns, make_node):
    node = make_node(cards=1)
    api.create("resourcequotas", {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "claims", "namespace": ns},
                                  "spec": {"hard": {"count/resourceclaims.resource.k8s.io": "0"}}})
    api.wait_for("resourcequotas", "claims", ns, lambda body: (body or {}).get("status", {}).get("hard"), "counted")
    ask(api, ns, "blocked", objects.share(memory=100), **pin(node))
    condition = wait_waiting(api, ns, "blocked")
    assert "quota" in condition["message"].lower(), condition
    api.delete("resourcequotas", "claims", ns)
    wait_bound(api, ns, "blocked", 90)


def test_pods_with_a_node_name_are_refused_with_what_to_write(api, controller, ns, make_node):
    node = make_node(cards=1)
    error = refused(lambda: ask(api, ns, "pinned", objects.share(memory=10), nodeName=node))
    assert "nodeName" in str(error) and "nodeSelector" in str(error) and node in str(error)


def test_the_requests_annotation_that_came_in_is_overwritten(api, controller, ns, make_node):
    node = make_node(cards=2)
    forged = ('[{"container":"main","claimRef":"heddle-main","claimName":"forged","spec":{"devices":{"requests":[{"name":"gpu",'
              '"exactly":{"deviceClassName":"heddle-nvidia","count":2}}]}}}]')
    created = ask(api, ns, "greedy", objects.share(memory=100, cores=1), annotations={objects.REQUEST: forged}, **pin(node))
    assert "forged" not in created["metadata"]["annotations"][objects.REQUEST]
    plain = api.create("pods", objects.pod("plain", ns, annotations={objects.REQUEST: forged}, **pin(node)))
    assert objects.REQUEST not in plain["metadata"].get("annotations", {})
    wait_bound(api, ns, "greedy")
    assert objects.granted(api.list("resourceclaims", ns)) == {
        (f"{node}/nvidia", taken[1]): entry for taken, entry in objects.granted(claims_of(api, ns, "greedy")).items()}
    assert sum(entry["memory"] for entry in objects.granted(api.list("resourceclaims", ns)).values()) == 100


def test_a_claim_of_the_right_name_but_the_wrong_owner_is_not_used(api, controller, ns, make_node):
    """Someone who guesses a claim's name cannot have the pod run on his claim, nor have his claim served."""
    node = make_node(cards=1)
    tap = Tap(controller.cluster.plane)
    planted = {}

    def before(write):
        if write.method == "POST" and f"/namespaces/{ns}/resourceclaims" in write.path and not planted:
            import json
            body = json.loads(write.body)
            planted["name"] = body["metadata"]["name"]
            api.create("resourceclaims", objects.claim(planted["name"], ns, count=1))
    tap.before = before
    controller.restart_controller(tap)
    ask(api, ns, "victim", objects.share(memory=100), **pin(node))
    condition = wait_waiting(api, ns, "victim")
    assert planted["name"] in condition["message"], condition
    assert objects.granted(api.list("resourceclaims", ns)) == {}
    api.delete("resourceclaims", planted["name"], ns)
    wait_bound(api, ns, "victim", 90)


def test_nothing_of_a_pod_that_ends_before_it_is_placed_stays(api, controller, ns, make_node):
    node = make_node(cards=1)
    ask(api, ns, "first", objects.share(), **pin(node))
    wait_bound(api, ns, "first")
    ask(api, ns, "second", objects.share(), **pin(node))
    wait_waiting(api, ns, "second")
    api.delete("pods", "second", ns)
    api.wait_gone("pods", "second", ns)
    api.delete("pods", "first", ns, grace=0)
    wait_until("no claim stays", lambda: not api.list("resourceclaims", ns), 60)
