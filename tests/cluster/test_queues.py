"""Queues end to end: what their objects refuse, quota, reclaim, and what is said about all of it."""
import json
import subprocess
import threading
import time

import pytest
import yaml

from harness import objects
from harness.api import refused
from harness.heddle import REPOSITORY, program
from harness.process import wait_until
from harness.tap import Tap

GROUP = "heddle.dev/v1alpha1"


def queue(name, **spec):
    return {"apiVersion": GROUP, "kind": "AcceleratorQueue", "metadata": {"name": name}, "spec": spec}


def reservation(name, **spec):
    return {"apiVersion": GROUP, "kind": "AcceleratorReservation", "metadata": {"name": name}, "spec": spec}


def topology(name, *levels):
    return {"apiVersion": GROUP, "kind": "AcceleratorTopology", "metadata": {"name": name}, "spec": {"levels": list(levels)}}


def plural(body):
    return {"AcceleratorQueue": "acceleratorqueues", "AcceleratorReservation": "acceleratorreservations",
            "AcceleratorTopology": "acceleratortopologies"}[body["kind"]]


@pytest.fixture(scope="module")
def crds(chart):
    """The kinds are served."""
    def served():
        try:
            for kind in ("acceleratorqueues", "acceleratorreservations", "acceleratortopologies"):
                chart.api.list(kind)
        except Exception:  # pylint: disable=broad-except
            return False
        return True
    wait_until("the kinds of heddle.dev are served", served, 60)
    return chart


DAY = {"start": "2027-01-01T00:00:00Z", "end": "2027-01-02T00:00:00Z"}
BAD = {
    "own parent": (queue("q", parent="q"), "spec.parent is the queue itself"),
    "parent's name": (queue("q", parent="No_Name"), "spec.parent"),
    "reserved name": (queue("unassigned"), "choose another name"),
    "weight": (queue("q", weight=0), "spec.weight"),
    "policy": (queue("q", placementPolicy="binpack"), "spec.placementPolicy"),
    "counts": (queue("q", quotas=[{"counts": "Cards", "limit": 1}]), "spec.quotas[0].counts"),
    "negative": (queue("q", quotas=[{"limit": -1}]), "spec.quotas[0].limit"),
    "negative text": (queue("q", quotas=[{"limit": "-1"}]), "spec.quotas[0].limit"),
    "no number": (queue("q", quotas=[{"vendor": "nvidia"}]), "says no number"),
    "limit below": (queue("q", quotas=[{"guaranteed": "2", "limit": 1}]), "limit is less than guaranteed"),
    "half a box": (queue("q", quotas=[{"counts": "Boxes", "boxDevices": 8, "limit": "1500m"}]), "limit must be a whole number"),
    "box of what": (queue("q", quotas=[{"counts": "Boxes", "limit": 1}]), "boxDevices must be set"),
    "large box of a node": (queue("q", quotas=[{"counts": "Boxes", "boxDevices": 72, "limit": 1}]), "of a wider box say its boxLevel"),
    "slice of a size": (queue("q", quotas=[{"counts": "Boxes", "boxDevices": 64, "boxShape": "4x4x4", "limit": 1}]), "leave boxDevices and boxLevel out"),
    "level alone": (queue("q", quotas=[{"counts": "Boxes", "boxShape": "4x4", "boxLevel": "rack", "limit": 1}]), "leave boxDevices and boxLevel out"),
    "box of one": (queue("q", quotas=[{"counts": "Boxes", "boxDevices": 1, "limit": 1}]), "boxDevices"),
    "box elsewhere": (queue("q", quotas=[{"boxDevices": 8, "limit": 1}]), "boxDevices must be set where Boxes"),
    "operator": (queue("q", namespaceSelector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}), "operator"),
    "values": (queue("q", namespaceSelector={"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["1"]}]}),
               "In and NotIn need values"),
    "unknown field": (queue("q", quota=[]), "quota"),
    "ends first": (reservation("r", start=DAY["end"], end=DAY["start"], queue="q", amounts=[{"amount": 1}]), "end must be after start"),
    "nobody": (reservation("r", **DAY, amounts=[{"amount": 1}]), "who may use it"),
    "no amount": (reservation("r", **DAY, queue="q", amounts=[{"model": "T4"}]), "spec.amounts[0].amount"),
    "no level": (topology("t"), "spec.levels"),
    "no source": (topology("t", {"name": "a"}), "either nodeLabel or deviceAttribute"),
    "both": (topology("t", {"name": "a", "nodeLabel": "b", "deviceAttribute": "c/d"}), "either nodeLabel or deviceAttribute"),
    "twice": (topology("t", {"name": "a", "nodeLabel": "b"}, {"name": "a", "nodeLabel": "c"}), "Duplicate"),
    "reserve of none": (topology("t", {"name": "a", "nodeLabel": "x", "reserveUse": "Replacements"}), "write how many"),
    "no domain": (topology("t", {"name": "a", "deviceAttribute": "linkDomain"}), "deviceAttribute"),
}


def dry_run(api, body):
    return api.request("POST", api.path(plural(body)) + "?dryRun=All&fieldValidation=Strict", body)


@pytest.mark.parametrize("case", BAD)
def test_what_one_object_can_tell_is_refused_by_the_api_server(api, crds, case):
    body, part = BAD[case]
    assert part in str(refused(lambda: dry_run(api, body), (400, 422)))


def test_good_objects_pass(api, crds):
    made = dry_run(api, queue(
        "q", parent="research", weight=2, namespaces=["a"], namespaceSelector={"matchLabels": {"a": "b"}, "matchExpressions": [
            {"key": "k", "operator": "In", "values": ["v"]}, {"key": "l", "operator": "Exists"}]},
        quotas=[{"vendor": "nvidia", "model": "T4", "guaranteed": 8, "limit": "12500m", "borrowing": 4, "lending": 0},
                {"counts": "Memory", "guaranteed": "1.5Gi", "limit": "640Gi"}, {"counts": "Cores", "limit": 400},
                {"counts": "Boxes", "boxDevices": 8, "guaranteed": 2}, {"counts": "Boxes", "boxShape": "4x4x8", "limit": 1},
                {"counts": "Boxes", "boxDevices": 72, "boxLevel": "linkDomain", "limit": 1},
                {"counts": "Boxes", "boxDevices": 64, "boxLevel": "cloud.google.com/gke-nodepool", "limit": 1}]))
    assert made["spec"]["quotas"][0]["counts"] == "Devices"
    assert dry_run(api, queue("top"))["spec"] == {"weight": 1}
    dry_run(api, reservation("r", **DAY, queue="q", namespaces=["n"], amounts=[{"model": "T4", "amount": "4"}]))
    dry_run(api, topology("t", {"name": "link", "deviceAttribute": "accelerator.heddle.dev/linkDomain"},
                          {"name": "rack", "nodeLabel": "example.com/rack", "reserveNodes": 2, "reserveUse": "Replacements"}))


def test_the_example_is_accepted(api, crds):
    for body in yaml.safe_load_all((REPOSITORY / "examples/queues.yaml").read_text()):
        dry_run(api, body)


# With the controller --------------------------------------------------------------------------------------------------
ALLOCATED = "heddle.dev/Allocated"


@pytest.fixture
def make_queue(api, controller, crds):
    """make_queue(**spec) -> the name of an AcceleratorQueue that is in force; removed after the test, children first."""
    made = []

    def make(name=None, wait=True, **spec):
        name = name or objects.unique("queue")
        made.append(name)
        api.create("acceleratorqueues", queue(name, **spec))
        if wait:
            api.wait_for("acceleratorqueues", name, None, in_force("True"), "in force", 30)
        return name
    yield make
    for name in reversed(made):
        if api.find("acceleratorqueues", name):
            api.delete("acceleratorqueues", name)


def in_force(status):
    return lambda body: objects.condition(body, "InForce").get("status") == status


def allocated(body):
    return objects.condition(body, ALLOCATED)


def waits_for(part):
    return lambda body: allocated(body).get("status") == "False" and part in (
        allocated(body)["reason"] + ": " + allocated(body)["message"])


def card_job(name, ns, node, queue_name, count=1, **more):
    """A Job of one pod with whole cards: evicted, it comes again as another pod."""
    body = objects.pod(name, ns, limits=objects.share(count=count), nodeSelector={"kubernetes.io/hostname": node}, **more)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": ns}, "spec": {
        "backoffLimit": 20, "template": {"metadata": {"labels": {"app": name, "heddle.dev/queue": queue_name}},
                                         "spec": {**body["spec"], "restartPolicy": "Never"}}}}


def card_pod(name, ns, node, queue_name, count=1, **more):
    return objects.pod(name, ns, limits=objects.share(count=count), labels={"app": name, "heddle.dev/queue": queue_name},
                       nodeSelector={"kubernetes.io/hostname": node}, **more)


def gang_pod(number, size, ns, node, queue_name, name="gang", **more):
    """A member with one card."""
    body = card_pod(f"{name}-{number}", ns, node, queue_name, **more)
    body["metadata"]["annotations"] = {"heddle.dev/gang": name, "heddle.dev/gang-size": str(size), "heddle.dev/gang-index": str(number)}
    return body


def pod_of(api, ns, job):
    """The youngest pod of a job."""
    found = sorted(api.list("pods", ns, label=f"app={job}"), key=lambda body: body["metadata"]["creationTimestamp"])
    return found[-1] if found else None


def finish_leaving(api, ns):
    """No kubelet runs on made nodes: what is evicted there is ended by the test."""
    for body in api.list("pods", ns):
        if "deletionTimestamp" in body["metadata"]:
            api.delete("pods", body["metadata"]["name"], ns, grace=0)


def borrow(api, ns, make_node, make_queue, labels=None):
    """Four cards, two guaranteed to each of two queues, all used by b."""
    node = make_node(cards=4)
    a = make_queue(namespaces=[ns], quotas=[{"guaranteed": 2}])
    b = make_queue(namespaces=[ns], quotas=[{"guaranteed": 2}])
    for number in range(1, 5):
        api.create("jobs", card_job(f"b{number}", ns, node, b))
        wait_until(f"b{number} is bound", lambda job=f"b{number}": objects.bound(pod_of(api, ns, job)), 60)
        # The ledger's times are whole seconds: the next one is to be younger there, too.
        bound_at = int(time.time())
        wait_until("another second", lambda at=bound_at: int(time.time()) > at, 5)
    return node, a, b


def reclaimed(api, ns, name):
    def look():
        finish_leaving(api, ns)
        return objects.bound(api.get("pods", name, ns))
    wait_until(lambda: f"{name} is bound: {api.get('pods', name, ns)['status']}", look, 90)


def evicted(api, ns):
    return sorted({event["involvedObject"]["name"].rsplit("-", 1)[0] for event in api.list("events", ns)
                   if event["reason"] == "HeddleEvicted"})


def test_quota_refusal_says_why_and_where_it_stands(api, controller, ns, make_node, make_queue):
    node = make_node(cards=4)
    name = make_queue(namespaces=[ns], quotas=[{"limit": 1}])
    api.create("pods", card_pod("first", ns, node, name))
    api.wait_for("pods", "first", ns, objects.bound, "bound", 60)
    api.create("pods", card_pod("second", ns, node, name))
    told = api.wait_for("pods", "second", ns, waits_for("Limit: "), "says why it waits", 60)
    message = allocated(told)["message"]
    assert f"queue {name}: the limit is 1 devices, 1 devices in use, 1 devices asked" in message, message
    assert f"number 1 in queue {name}" in message, message
    shown = api.wait_for("acceleratorqueues", name, None, lambda body: body["status"].get("waiting") == 1, "counts it", 30)
    assert shown["status"]["usage"] == [{"name": "devices", "used": "1", "entitled": "0", "limit": "1"}], shown["status"]
    config = controller.cluster.plane.kubeconfig("queues", api.token)
    tree, one, absent = (subprocess.run([program("heddle"), "queue", *words, "--kubeconfig", config], capture_output=True, text=True,
                                        check=False, timeout=60) for words in ([], [name, "-o", "json"], ["absent"]))
    assert tree.returncode == 0 and name in tree.stdout, tree
    assert one.returncode == 0 and json.loads(one.stdout) and "second" in one.stdout, one
    assert absent.returncode == 2 and "absent" in absent.stderr, absent
    api.delete("pods", "first", ns, grace=0)
    api.wait_for("pods", "second", ns, objects.bound, "bound when the other has ended", 60)


def test_a_higher_claim_takes_back_what_was_borrowed(api, controller, ns, make_node, make_queue):
    node, a, b = borrow(api, ns, make_node, make_queue)
    api.create("pods", card_pod("mine", ns, node, a))
    told = api.wait_for("pods", "mine", ns, waits_for("Evicting: "), "says for whom it waits", 60)
    assert f"within what queue {a} is guaranteed" in allocated(told)["message"], told["status"]
    reclaimed(api, ns, "mine")
    assert evicted(api, ns) == ["b4"], "the youngest of what was borrowed"
    # Its job makes it again, and it waits.
    wait_until("the evicted one waits again", lambda: waits_for(f"in queue {b}")(pod_of(api, ns, "b4") or {}), 60)
    assert all(objects.bound(pod_of(api, ns, f"b{number}")) for number in (1, 2, 3))
    assert sum(entry["holders"] for entry in objects.granted(api.list("resourceclaims", ns)).values()) == 4


def test_a_disruption_budget_leads_to_another_victim(api, controller, ns, make_node, make_queue):
    node, a, _ = borrow(api, ns, make_node, make_queue)
    api.create("poddisruptionbudgets", {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                                        "metadata": {"name": "keep", "namespace": ns},
                                        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "b4"}}}})
    # Pods that do not run are evicted whatever a budget says.
    body = pod_of(api, ns, "b4")
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    api.patch("pods", body["metadata"]["name"], {"status": {"phase": "Running", "conditions": [
        *(entry for entry in body["status"]["conditions"] if entry["type"] != "Ready"), ready]}}, ns, "status")
    wait_until("the budget counts it", lambda: (api.get("poddisruptionbudgets", "keep", ns).get("status") or {}).get(
        "currentHealthy") == 1, 30)
    api.create("pods", card_pod("mine", ns, node, a))
    reclaimed(api, ns, "mine")
    assert evicted(api, ns) == ["b3"]


def test_a_bad_queue_gets_a_condition_and_the_last_tree_stays(api, controller, ns, make_node, make_queue):
    node = make_node(cards=2)
    top = make_queue(quotas=[{"guaranteed": 2}])
    name = make_queue(namespaces=[ns], parent=top, quotas=[{"limit": 1}])
    bad = make_queue(wait=False, parent=top, quotas=[{"guaranteed": 3}])
    told = api.wait_for("acceleratorqueues", bad, None, in_force("False"), "told that it is not in force", 30)
    message = objects.condition(told, "InForce")["message"]
    assert "spec.quotas[0].guaranteed: is 3 devices" in message and f"raise that of {top} to 3 devices" in message, message
    api.patch("acceleratorqueues", name, {"spec": {"parent": "nowhere"}})
    told = api.wait_for("acceleratorqueues", name, None, in_force("False"), "told", 30)
    assert "spec.parent: there is no queue nowhere" in objects.condition(told, "InForce")["message"]
    for pod in ("one", "two"):
        api.create("pods", card_pod(pod, ns, node, name))
    api.wait_for("pods", "one", ns, objects.bound, "bound", 60)
    api.wait_for("pods", "two", ns, waits_for("Limit: "), "held by the last good tree", 60)


def test_a_gang_over_its_quota_holds_nothing_and_says_why(api, controller, ns, make_node, make_queue):
    node = make_node(cards=4)
    name = make_queue(namespaces=[ns], quotas=[{"limit": 3}])
    for number in range(4):
        api.create("pods", gang_pod(number, 4, ns, node, name))
    told = api.wait_for("pods", "gang-3", ns, waits_for("Limit: "), "says why it waits", 60)
    message = allocated(told)["message"]
    assert f"queue {name}: the limit is 3 devices, and 4 devices are asked for" in message, message
    assert f"number 1 in queue {name}" in message, message
    assert not api.list("resourceclaims", ns)
    shown = api.wait_for("acceleratorqueues", name, None, lambda body: body["status"].get("waiting") == 1, "counts it as one", 30)
    assert shown["status"]["running"] == 0, shown["status"]
    api.patch("acceleratorqueues", name, {"spec": {"quotas": [{"limit": 4}]}})
    for number in range(4):
        api.wait_for("pods", f"gang-{number}", ns, objects.bound, "bound when the limit is raised", 60)
    api.wait_for("acceleratorqueues", name, None, lambda body: body["status"].get("running") == 1, "runs as one", 30)


def test_a_gang_of_higher_priority_evicts_and_starts_whole(api, controller, ns, make_node, make_queue):
    nodes = [make_node(cards=1, labels={"heddle-test/fleet": ns}) for _ in range(2)]
    name = make_queue(namespaces=[ns], quotas=[{"guaranteed": 2}])
    high = objects.unique("high")
    api.create("priorityclasses", {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": high},
                                   "value": 1000})
    for number, node in enumerate(nodes):
        api.create("pods", card_pod(f"low-{number}", ns, node, name))
        api.wait_for("pods", f"low-{number}", ns, objects.bound, "bound", 60)
    for number in range(2):
        body = gang_pod(number, 2, ns, "", name, priorityClassName=high)
        body["spec"]["nodeSelector"] = {"heddle-test/fleet": ns}
        api.create("pods", body)
    api.wait_for("pods", "gang-0", ns, waits_for("Evicting: "), "says for whom it waits", 60)
    for number in range(2):
        reclaimed(api, ns, f"gang-{number}")
    assert evicted(api, ns) == ["low"], "one event of each, and both are named so"
    assert not [body for body in api.list("pods", ns) if body["metadata"]["name"].startswith("low-")]
    assert sum(entry["holders"] for entry in objects.granted(api.list("resourceclaims", ns)).values()) == 2


def test_without_queues_a_higher_priority_evicts(api, controller, ns, make_node, crds):
    """A pod with a card and one without accelerators, each of which is in the way."""
    assert not api.list("acceleratorqueues")
    node = make_node(cards=2, cpu="8")
    name = objects.unique("high")
    api.create("priorityclasses", {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
                                   "value": 1000})
    polite = objects.unique("polite")
    api.create("priorityclasses", {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": polite},
                                   "value": 2000, "preemptionPolicy": "Never"})
    at = {"nodeSelector": {"kubernetes.io/hostname": node}}
    for pod in ("old", "young"):
        api.create("pods", objects.pod(pod, ns, limits=objects.share(count=1), labels={"app": pod}, **at))
        api.wait_for("pods", pod, ns, objects.bound, "bound", 60)
        bound_at = int(time.time())
        wait_until("another second", lambda then=bound_at: int(time.time()) > then, 5)
    api.create("pods", objects.pod("polite", ns, limits=objects.share(count=1), priorityClassName=polite, **at))
    api.wait_for("pods", "polite", ns, waits_for("Capacity: "), "waits, and asks nobody to go", 60)
    assert not evicted(api, ns)
    api.delete("pods", "polite", ns, grace=0)
    api.create("pods", objects.pod("mine", ns, limits=objects.share(count=1), priorityClassName=name, **at))
    api.wait_for("pods", "mine", ns, waits_for("Evicting: "), "says for whom it waits", 60)
    reclaimed(api, ns, "mine")
    assert [body["metadata"]["name"] for body in api.list("pods", ns)] == ["mine", "old"]
    said, = [event["message"] for event in api.list("events", ns) if event["reason"] == "HeddleEvicted"]
    assert said == f"evicted: {ns}/mine has a higher priority"
    # One card is free now but for the processors, which a pod without accelerators has.
    api.delete("pods", "old", ns, grace=0)
    plain = objects.pod("plain", ns, [objects.container(requests={"cpu": "7"})], **at)
    api.create("pods", plain)
    api.wait_for("pods", "plain", ns, objects.bound, "bound", 60)
    body = objects.pod("busy", ns, [objects.container(limits=objects.share(count=1), requests={"cpu": "4"})], priorityClassName=name, **at)
    api.create("pods", body)
    reclaimed(api, ns, "busy")
    assert not api.find("pods", "plain", ns)


def test_a_guaranteed_domain_is_not_shredded_and_is_taken_as_a_unit(api, controller, ns, make_node, make_queue):
    hall = "heddle-test/hall"
    fleet = {"heddle-test/fleet": ns}
    for number in range(4):
        make_node(cards=1, labels={**fleet, hall: f"{ns}-{number // 2}"})
    owner = make_queue(namespaces=[ns], quotas=[{"counts": "Boxes", "boxDevices": 2, "boxLevel": hall, "guaranteed": 1}])
    guest = make_queue(namespaces=[ns])
    for number in range(3):
        body = card_pod(f"p{number}", ns, "", guest)
        body["spec"]["nodeSelector"] = fleet
        api.create("pods", body)
        wanted = objects.bound if number < 2 else waits_for("kept whole for boxes that queues are guaranteed")
        api.wait_for("pods", f"p{number}", ns, wanted, "bound, or told of the boxes", 60)
    for number in range(2):
        body = gang_pod(number, 2, ns, "", owner)
        body["spec"]["nodeSelector"] = fleet
        body["metadata"]["annotations"]["heddle.dev/topology-required"] = hall
        api.create("pods", body)
    for number in range(2):
        api.wait_for("pods", f"gang-{number}", ns, objects.bound, "has the domain that was kept", 60)
    assert not evicted(api, ns)
    api.wait_for("acceleratorqueues", owner, None, lambda body: {"name": f"boxes of 2 devices of one {hall}", "used": "1", "entitled": "1"}.items()
                 <= body["status"]["usage"][0].items(), "counts one box", 30)


@pytest.mark.parametrize("write", [1, 2, 3, 4, 5])
def test_killed_in_the_middle_of_a_reclaim(api, controller, ns, make_node, make_queue, write):
    node, a, _ = borrow(api, ns, make_node, make_queue)
    tap = Tap(controller.cluster.plane)
    try:
        controller.restart_controller(tap)
        killed = threading.Event()

        def strike(seen):
            if seen.number == write and not killed.is_set():
                controller.controllers["controller-0"].kill()
                killed.set()
        tap.reset()
        tap.after = lambda seen, status: strike(seen)
        api.create("pods", card_pod("mine", ns, node, a))

        def look():
            if killed.is_set() and not controller.controllers["controller-0"].running():
                controller.restart_controller(tap)
            finish_leaving(api, ns)
            return objects.bound(api.get("pods", "mine", ns))
        wait_until("bound", look, 120)
    finally:
        tap.reset()
        controller.restart_controller()
        tap.close()
    assert all(objects.bound(pod_of(api, ns, f"b{number}")) for number in (1, 2, 3)), "one victim, not two"
    assert sum(entry["holders"] for entry in objects.granted(api.list("resourceclaims", ns)).values()) == 4
