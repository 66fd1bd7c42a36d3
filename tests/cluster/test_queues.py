"""Queues end to end: what their objects refuse, quota, reclaim, and what is said about all of it."""
import pytest

from harness.api import refused
from harness.process import wait_until

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
    "counts": (queue("q", quotas=[{"counts": "Cards", "limit": 1}]), "spec.quotas[0].counts"),
    "negative": (queue("q", quotas=[{"limit": -1}]), "spec.quotas[0].limit"),
    "negative text": (queue("q", quotas=[{"limit": "-1"}]), "spec.quotas[0].limit"),
    "no number": (queue("q", quotas=[{"vendor": "nvidia"}]), "says no number"),
    "limit below": (queue("q", quotas=[{"guaranteed": "2", "limit": 1}]), "limit is less than guaranteed"),
    "half a box": (queue("q", quotas=[{"counts": "Boxes", "boxDevices": 8, "limit": "1500m"}]), "limit must be a whole number"),
    "box of what": (queue("q", quotas=[{"counts": "Boxes", "limit": 1}]), "boxDevices must be set"),
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
                {"counts": "Boxes", "boxDevices": 8, "guaranteed": 2}]))
    assert made["spec"]["quotas"][0]["counts"] == "Devices"
    assert dry_run(api, queue("top"))["spec"] == {"weight": 1}
    dry_run(api, reservation("r", **DAY, queue="q", namespaces=["n"], amounts=[{"model": "T4", "amount": "4"}]))
    dry_run(api, topology("t", {"name": "link", "deviceAttribute": "accelerator.heddle.dev/linkDomain"},
                          {"name": "rack", "nodeLabel": "example.com/rack"}))
