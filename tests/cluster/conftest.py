"""One cluster a session, shared by all tests; a namespace of its own for each."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from harness import objects  # noqa: E402
from harness.cluster import Cluster  # noqa: E402
from harness.heddle import Heddle  # noqa: E402
from harness.process import Failed, wait_until  # noqa: E402


@pytest.fixture(scope="session")
def cluster(request):
    with Cluster() as running:
        request.config.heddle_cluster = running
        yield running
        request.config.heddle_cluster = None
    left = running.scratch.left_behind()
    assert not left, f"the cluster left behind: {left}"


@pytest.fixture(scope="session")
def api(cluster):
    return cluster.api


@pytest.fixture(scope="session")
def chart(cluster):
    """The chart's accounts, rights, policies and classes; no program of Heddle runs yet."""
    heddle = Heddle(cluster)
    heddle.install_objects()
    return heddle


CARDS = 2  # of the real node
# What must hold without any program of Heddle comes first; then the controller starts, then the agent.
ORDER = ("test_harness", "test_chart", "test_policies", "test_stock_scheduler", "test_controller", "test_refusals",
         "test_foreign_drivers", "test_queues", "test_lifecycle", "test_crashes", "test_share", "test_priorities", "test_metrics", "test_supervision", "test_ascend",
         "test_node_crashes", "test_in_pods", "test_bench")


def pytest_collection_modifyitems(items):
    known = {name: number for number, name in enumerate(ORDER)}
    items.sort(key=lambda item: known.get(item.module.__name__, len(ORDER)))


@pytest.fixture(scope="session")
def controller(chart):
    """Heddle's controller as a process with the chart's account, webhook in force."""
    chart.serve()
    yield chart
    chart.stop()


@pytest.fixture(scope="session")
def heddle(controller):
    """Controller, and the agent with simulated cards on the real node."""
    controller.make_cards({"cards": [{"model": "T4"} for _ in range(CARDS)]})
    controller.start_agent()
    controller.wait_slices(CARDS)
    controller.import_cuda_image()
    return controller


@pytest.fixture
def ns(cluster, request):
    api = cluster.api
    base = "".join(letter if letter.isalnum() else "-" for letter in request.node.name.lower().removeprefix("test_"))
    name = objects.unique(base[:40].strip("-"))
    api.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    api.wait_for("serviceaccounts", "default", name, bool, "made by the controller manager")
    yield name
    # End everything now: the next test must find free cards.
    for kind in ("deployments", "jobs"):
        for body in api.list(kind, name):
            api.request("DELETE", api.path(kind, name, body["metadata"]["name"]), {"propagationPolicy": "Background"})

    def no_pods():
        left = api.list("pods", name)
        for body in left:
            on_real_node = body["spec"].get("nodeName") == "node-1"
            if not on_real_node or "deletionTimestamp" not in body["metadata"]:
                api.delete("pods", body["metadata"]["name"], name, grace=1 if on_real_node else 0)
        return not left
    wait_until(f"the pods of {name} are gone", no_pods, 90)
    wait_until(f"the claims of {name} are free", lambda: not objects.granted(api.list("resourceclaims", name)), 60)
    api.delete("namespaces", name)


@pytest.fixture(scope="session")
def vendor_runtime(cluster):
    """A class whose pods run behind a stand-in for the vendor's container runtime."""
    cluster.api.apply({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"})


@pytest.fixture
def make_node(chart):
    """make_node(cards=2, cpu="64", ...) -> the name of a node without kubelet; removed after the test."""
    made = []

    def make(cards=1, memory_mib=24000, devices=None, **more):
        name = objects.unique("made")
        if devices is None:
            devices = [objects.card(number, memory_mib, node_name=name) for number in range(cards)]
        made.append(name)
        chart.make_node(name, devices, **more)
        return name
    yield make
    for name in made:
        chart.remove_node(name)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    cluster = getattr(item.config, "heddle_cluster", None)
    if report.failed and cluster:
        report.sections.append(("logs of the cluster", cluster.log_tails()))


def pytest_terminal_summary(terminalreporter):
    count = {key: len(terminalreporter.getreports(key)) for key in ("passed", "failed", "error")}
    terminalreporter.write_line(f"{count['passed']} passed, {count['failed'] + count['error']} failed")
