"""Killed at any moment: nothing is allocated twice, no claim leaks, every pod starts."""
import threading

import pytest

from harness import objects
from harness.process import Failed, wait_until
from harness.tap import Tap


class Killed(Exception):
    """Breaks the connection of a write whose sender is gone."""


@pytest.fixture
def tapped(controller):
    """The controller behind a tap; without one again after the test."""
    tap = Tap(controller.cluster.plane)
    controller.restart_controller(tap)
    yield tap
    tap.reset()
    controller.restart_controller()
    tap.close()


def arm(tap, process, number, moment):
    """Kills the process at its number-th write from now: before the API server sees it, or before the process sees the answer."""
    tap.reset()
    killed = threading.Event()

    def strike(write):
        if write.number == number and not killed.is_set():
            process().kill()
            killed.write = write
            killed.set()
            if moment == "before":
                raise OSError("killed before the write")
    if moment == "before":
        tap.before = strike
    else:
        tap.after = lambda write, status: strike(write)
    return killed


def two_claims(name, ns, node):
    return objects.pod(name, ns, [
        objects.container("a", limits=objects.share(memory=1000, cores=10)),
        objects.container("b", limits=objects.share(memory=2000, cores=20))],
        nodeSelector={"kubernetes.io/hostname": node})


@pytest.mark.parametrize("moment", ["before", "after"])
def test_controller_is_killed_at_every_write(api, controller, tapped, ns, make_node, moment):
    node = make_node(cards=2, memory_mib=3000)  # exactly the pod on one card, or a share on each
    process = lambda: controller.controllers["controller-0"]  # noqa: E731

    def revive_if(killed):
        if killed.is_set() and not process().running():
            controller.restart_controller(tapped)

    number, struck = 0, []
    while True:
        number += 1
        name = f"victim-{number}"
        killed = arm(tapped, process, number, moment)
        api.create("pods", two_claims(name, ns, node))

        def bound():
            revive_if(killed)
            return objects.bound(api.get("pods", name, ns))
        wait_until(lambda: f"{name} is bound; {api.story(ns, name)}\n{process().tail()}", bound, 90)
        taken = objects.granted(api.list("resourceclaims", ns))
        assert sum(entry["memory"] for entry in taken.values()) == 3000, taken
        assert all(entry["memory"] <= 3000 and entry["cores"] <= 100 for entry in taken.values()), taken
        mine = api.list("resourceclaims", ns)
        assert len(mine) == 2, "a claim too many: " + str([body["metadata"]["name"] for body in mine])
        api.delete("pods", name, ns, grace=0)

        def clean():
            revive_if(killed)
            return not api.list("resourceclaims", ns)
        wait_until("no claim stays", clean, 90)
        if not killed.is_set():
            break
        struck.append((killed.write.method, "/".join(killed.write.path.split("/")[5:]).replace(name, "NAME")))
    # Two claims, two allocations and a gate are the least.
    assert len(struck) >= 5
    for kind, part in (("POST", "/resourceclaims"), ("PUT", "/status"), ("PATCH", "/pods/")):
        assert any(method == kind and part in f"/{path}" for method, path in struck), struck


def test_stopped_leader_resumes_after_another_took_over(api, controller, ns, make_node):
    """SIGSTOP between decision and write. The write leaves when another leads already; it must not take a card twice."""
    node = make_node(cards=1, memory_mib=4000)
    pin = {"nodeSelector": {"kubernetes.io/hostname": node}}
    tap = Tap(controller.cluster.plane)
    held, release, passed = threading.Event(), threading.Event(), threading.Event()
    controller.restart_controller(tap)
    old = controller.controllers["controller-0"]

    def before(write):
        if write.method in ("PUT", "PATCH") and write.path.endswith("/status") and f"/namespaces/{ns}/resourceclaims/" in write.path:
            if not held.is_set():
                old.pause()
                held.set()
                release.wait(120)

    def after(write, status):
        if held.is_set() and release.is_set():
            passed.set()
    tap.before, tap.after = before, after
    # A second replica with a webhook of its own, since the first one's stands still.
    try:
        second = controller.start_controller("controller-1")
        api.create("pods", objects.pod("first", ns, limits=objects.share(memory=3000, cores=60), **pin))
        assert held.wait(60)

        def taken_over():
            return controller.wait_leading(120) == "controller-1"
        wait_until("the second replica leads", taken_over, 120)
        wait_until("the second replica allocates", lambda: objects.bound(api.get("pods", "first", ns)), 90, check=second.check)
        # The late write of the first leader arrives now, and it goes on.
        release.set()
        old.resume()
        passed.wait(30)
        taken = objects.granted(api.list("resourceclaims", ns))
        assert taken == {(f"{node}/nvidia", "gpu-0"): {"memory": 3000, "cores": 60, "holders": 1}}
        wait_until("the first replica serves its webhook again", lambda: _serves(controller), 60)
        api.create("pods", objects.pod("second", ns, limits=objects.share(memory=1000, cores=40), **pin))
        api.wait_for("pods", "second", ns, objects.bound, "bound by the leader", 60)
        taken = objects.granted(api.list("resourceclaims", ns))
        assert taken == {(f"{node}/nvidia", "gpu-0"): {"memory": 4000, "cores": 100, "holders": 2}}
    finally:
        release.set()
        old.resume()
        controller.controllers.pop("controller-1").stop()
        controller.restart_controller()


def _serves(controller):
    try:
        controller.wait_webhook(1)
        return True
    except Failed:
        return False


def test_late_write_of_an_old_leader_is_undone(api, controller, ns, make_node):
    """The allocation of a dead leader arrives after its successor gave the card to another pod: the younger one is cleared."""
    node = make_node(cards=1, memory_mib=4000)
    pin = {"nodeSelector": {"kubernetes.io/hostname": node}}
    tap = Tap(controller.cluster.plane)
    held, release, passed = threading.Event(), threading.Event(), threading.Event()

    def before(write):
        if write.path.endswith("/status") and f"/namespaces/{ns}/resourceclaims/" in write.path and not held.is_set():
            held.set()
            release.wait(120)

    def after(write, status):
        if release.is_set():
            passed.set()
    tap.before, tap.after = before, after
    controller.restart_controller(tap)
    api.create("pods", objects.pod("slow", ns, limits=objects.share(memory=3000, cores=60), **pin))
    assert held.wait(60)
    tap.before = lambda write: None
    controller.controllers["controller-0"].kill()
    # Nothing of the slow pod is served while its node is closed; the card goes to another pod.
    api.delete("pods", "slow", ns, grace=0)
    controller.start_controller()
    controller.wait_leading()
    controller.wait_webhook()
    api.create("pods", objects.pod("quick", ns, limits=objects.share(memory=3000, cores=60), **pin))
    api.wait_for("pods", "quick", ns, objects.bound, "bound", 90)
    release.set()
    passed.wait(30)

    def one_holder():
        taken = objects.granted(api.list("resourceclaims", ns))
        return taken == {(f"{node}/nvidia", "gpu-0"): {"memory": 3000, "cores": 60, "holders": 1}}
    wait_until(lambda: f"one holder: {objects.granted(api.list('resourceclaims', ns))}", one_holder, 90)
    assert objects.bound(api.get("pods", "quick", ns))
    tap.close()


def test_random_kills_under_load(api, controller, ns, make_node):
    """A stream of pods that come and go while the controller is killed again and again."""
    import random
    random.seed(7)
    node = make_node(cards=4, memory_mib=8000)
    pin = {"nodeSelector": {"kubernetes.io/hostname": node}}
    stop, errors = threading.Event(), []

    def watch_ledger():
        watcher = api.as_user(api.token, "watcher")
        while not stop.is_set():
            for card, taken in objects.granted(watcher.list("resourceclaims", ns)).items():
                if taken["memory"] > 8000 or taken["cores"] > 100:
                    errors.append((card, taken))
            stop.wait(0.2)
    thread = threading.Thread(target=watch_ledger)
    thread.start()
    try:
        for round_number in range(4):
            names = [f"p{round_number}-{number}" for number in range(12)]
            for index, name in enumerate(names):
                if index == random.randrange(3, 9):
                    controller.controllers["controller-0"].kill()
                    controller.start_controller()
                    controller.wait_webhook()
                api.create("pods", objects.pod(name, ns, limits=objects.share(
                    memory=random.choice([1000, 2000, 2600]), cores=random.choice([0, 10, 20, 33])), **pin))
            controller.controllers["controller-0"].kill()
            controller.start_controller()
            wait_until(lambda: f"round {round_number}: all bound {controller.controllers['controller-0'].tail()}",
                       lambda: sum(map(objects.bound, api.list("pods", ns))) == len(names), 120)
            for name in names:
                api.delete("pods", name, ns, grace=0)
            controller.wait_webhook()
        wait_until("no claim stays", lambda: not api.list("resourceclaims", ns), 90)
    finally:
        stop.set()
        thread.join()
    assert not errors, f"a card was over-committed: {errors[:3]}"
