"""The agent is killed at every step of Prepare and Unprepare, the kubelet is restarted: each pod gets exactly its share."""
import os
import random
import threading
import time

import pytest

from harness import objects
from harness.api import ApiError
from harness.inotify import Changes
from harness.process import wait_until
from test_share import tenant, wait_done, wait_line
from test_supervision import our_devices


def claim_files(heddle):
    """What the agent keeps on disk for claims."""
    left = [str(path) for path in heddle.cluster.node.cdi.glob("heddle.dev-claim-*")]
    return left + [str(path) for path in (heddle.state_dir / "claims").glob("*") if not path.name.startswith(".")]


def wait_nothing_prepared(heddle):
    wait_until(lambda: f"nothing stays prepared: {claim_files(heddle)}", lambda: not claim_files(heddle), 90)


def test_agent_is_killed_at_every_change_on_disk(heddle, ns):
    api, number, kills = heddle.api, 1, 0
    wait_nothing_prepared(heddle)
    while True:
        name, killed = f"victim-{number}", threading.Event()

        def strike(count, path, killed=killed, number=number):
            if count == number and not killed.is_set():
                heddle.agent.kill()
                killed.set()
        changes = Changes([heddle.state_dir, heddle.cluster.node.cdi], strike)
        try:
            api.create("pods", tenant(name, ns, "expect-total=700Mi", "expect-oom=701Mi",
                                      limits=objects.share(memory=700, cores=10)))

            def ended():
                if killed.is_set() and not heddle.agent.running():
                    heddle.agent.start()
                return objects.phase("Succeeded", "Failed")(api.get("pods", name, ns))
            wait_until(lambda: f"{name} ends: {api.story(ns, name)}\n{heddle.agent.tail()}", ended, 120)
            wait_done(heddle, ns, name)
            api.delete("pods", name, ns, grace=0)

            def clean():
                if killed.is_set() and not heddle.agent.running():
                    heddle.agent.start()
                return not api.list("resourceclaims", ns) and not claim_files(heddle)
            wait_until(lambda: f"unprepared after {name}: {claim_files(heddle)}\n{heddle.agent.tail()}", clean, 120)
        finally:
            changes.close()
        if not killed.is_set():
            break
        kills += 1
        number += 1
    assert kills >= 10
    heddle.agent.check()


@pytest.mark.parametrize("number", [1, 4, 8])
@pytest.mark.parametrize("moment", ["prepare", "unprepare"])
def test_kubelet_is_killed_while_a_claim_changes_on_disk(heddle, ns, moment, number):
    """The call of the plugin that it was waiting for has no answer; it asks again, and the pod gets its one share."""
    api, kubelet, struck = heddle.api, heddle.cluster.node, threading.Event()
    wait_nothing_prepared(heddle)
    body = tenant("victim", ns, "expect-total=700Mi", "expect-oom=701Mi", "wait-file=/tmp/go",
                  limits=objects.share(memory=700, cores=10))

    def strike(count, path):
        if count == number and not struck.is_set():
            kubelet.processes["kubelet"].kill()
            struck.set()

    def watch():
        return Changes([heddle.state_dir / "claims", kubelet.cdi], strike)
    changes = watch() if moment == "prepare" else None
    try:
        api.create("pods", body)
        if moment == "prepare":
            wait_until("the kubelet is killed", struck.is_set, 60)
            kubelet.start_kubelet()
        wait_line(heddle, ns, "victim", r"^expect-oom ok=1", timeout=120)
        taken = objects.granted(api.list("resourceclaims", ns))
        assert [(entry["memory"], entry["holders"]) for entry in taken.values()] == [(700, 1)], taken
        if moment == "unprepare":
            changes = watch()
        pid = wait_until("its process is known", lambda: kubelet.container_pids(api.get("pods", "victim", ns)), 60)[0]
        with open(f"/proc/{pid}/root/tmp/go", "w", encoding="utf-8"):
            pass
        if moment == "unprepare":
            wait_until(lambda: f"the kubelet is killed: {claim_files(heddle)}", struck.is_set, 90)
            kubelet.start_kubelet()
        wait_done(heddle, ns, "victim", 120)
    finally:
        if changes:
            changes.close()
        if not kubelet.processes["kubelet"].running():
            kubelet.start_kubelet()
    api.delete("pods", "victim", ns)
    wait_until("no claim stays", lambda: not api.list("resourceclaims", ns), 90)
    wait_nothing_prepared(heddle)


class Parts:
    """Kubelet, agent and controller, each to be killed and started again."""

    def __init__(self, heddle, chance):
        self.heddle, self.chance = heddle, chance
        self.killed = {"kubelet": 0, "agent": 0, "controller": 0}

    def process(self, part):
        if part == "kubelet":
            return self.heddle.cluster.node.processes["kubelet"]
        return self.heddle.agent if part == "agent" else self.heddle.controllers["controller-0"]

    def start(self, part):
        if part == "kubelet":
            self.heddle.cluster.node.start_kubelet()
        elif part == "agent":
            self.heddle.agent.start()
        else:
            self.heddle.start_controller()

    def kill_one(self):
        """At once, or at the next change of what is prepared: in the middle of Prepare or Unprepare."""
        part = self.chance.choice(sorted(self.killed))
        changed = threading.Event()
        if self.chance.random() < 0.6:
            changes = Changes([self.heddle.state_dir / "claims", self.heddle.cluster.node.cdi], lambda count, path: changed.set())
            changed.wait(3)
            changes.close()
        self.process(part).kill()
        self.killed[part] += 1
        time.sleep(self.chance.random())
        self.start(part)

    def all_run(self):
        for part in self.killed:
            if not self.process(part).running():
                self.start(part)


class Ledger:
    """Looks all the time whether more of a card is granted than there is."""

    def __init__(self, heddle, ns):
        self.api, self.ns, self.wrong, self.looks = heddle.api.as_user(heddle.api.token, "watcher"), ns, [], 0
        self.room = {name: objects.mib(device["capacity"]["memory"]["value"]) for name, device in our_devices(heddle.api).items()}
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while not self.stop.wait(0.2):
            self.looks += 1
            for (_, device), taken in objects.granted(self.api.list("resourceclaims", self.ns)).items():
                if taken["memory"] > self.room[device] or taken["cores"] > 100:
                    self.wrong.append((device, taken))

    def close(self):
        self.stop.set()
        self.thread.join()


class Load:
    """Pods that come, run and go. Each says itself whether it has what it asked for."""

    def __init__(self, heddle, ns, chance):
        self.api, self.ns, self.chance = heddle.api, ns, chance
        self.number, self.alive, self.done = 0, set(), 0

    def come(self):
        memory, cores = self.chance.choice([700, 2000, 5000, 9000]), self.chance.choice([0, 10, 30, 60])
        name = f"p{self.number}"
        body = tenant(name, self.ns, f"expect-total={memory}Mi", f"alloc={memory - 400}Mi", "expect-oom=101Mi",
                      f"hold={self.chance.choice([0, 1, 3])}s", limits=objects.share(memory=memory, cores=cores))
        # A kubelet that dies while it waits for a container's start breaks that start off: containerd calls it an error of
        # the container, and only a policy that restarts begins again.
        body["spec"]["restartPolicy"] = "OnFailure"
        try:
            self.api.create("pods", body)
        except ApiError as error:  # the webhook fails closed while no controller runs
            assert error.status in (409, 500), error
            if error.status == 500:
                return
        self.number += 1
        self.alive.add(name)

    def go(self):
        """Takes the pods that have ended away; one that failed fails the test."""
        for body in self.api.list("pods", self.ns):
            name = body["metadata"]["name"]
            for status in body["status"].get("containerStatuses", []):
                before = status.get("lastState", {}).get("terminated", {})
                assert before.get("reason", "StartError") == "StartError", f"{name}: {before}\n{self.api.story(self.ns, name)}"
            if "deletionTimestamp" in body["metadata"] or not objects.phase("Succeeded", "Failed")(body):
                continue
            assert objects.phase("Succeeded")(body), f"{name}: {body['status']}\n{self.api.story(self.ns, name)}"
            self.api.delete("pods", name, self.ns)
            if name in self.alive:
                self.alive.remove(name)
                self.done += 1


def test_random_kills_of_kubelet_agent_and_controller(heddle, ns):
    """HEDDLE_KILL_SECONDS (default 40) and HEDDLE_KILL_SEED say how long and which."""
    seconds, seed = int(os.environ.get("HEDDLE_KILL_SECONDS", "40")), int(os.environ.get("HEDDLE_KILL_SEED", "7"))
    chance = random.Random(seed)
    parts, load, ledger = Parts(heddle, random.Random(seed + 1)), Load(heddle, ns, chance), Ledger(heddle, ns)
    stop = threading.Event()

    def kill_on():
        while not stop.wait(parts.chance.random() * 2):
            parts.kill_one()
    killer = threading.Thread(target=kill_on)
    killer.start()
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if len(load.alive) < 8:
                load.come()
            load.go()
            time.sleep(chance.random() * 0.4)
        stop.set()
        killer.join()
        parts.all_run()

        def all_ended():
            load.go()
            return not load.alive
        wait_until(lambda: f"every pod ran; not yet {load.alive}\n" + "\n".join(
            heddle.api.story(ns, name) for name in sorted(load.alive)[:3]), all_ended, 180)
        wait_until(lambda: f"no claim stays: {heddle.api.list('resourceclaims', ns)}",
                   lambda: not heddle.api.list("resourceclaims", ns), 90)
        wait_nothing_prepared(heddle)
    finally:
        stop.set()
        killer.join()
        ledger.close()
        parts.all_run()
        heddle.wait_webhook()
    print(f"seed {seed}: killed {parts.killed}, {load.done} pods ran, {ledger.looks} looks at the ledger")
    assert not ledger.wrong, f"a card was over-committed: {ledger.wrong[:3]}"
    assert load.done == load.number and load.done >= seconds // 8, (load.done, load.number)
    assert all(parts.killed.values()), parts.killed
    heddle.wait_slices(2)


def test_a_tenant_lives_on_over_a_restart_of_the_agent(heddle, ns):
    api = heddle.api
    api.create("pods", tenant("stays", ns, "expect-total=900Mi", "wait-file=/tmp/go", "expect-total=900Mi", "expect-oom=901Mi",
                              "alloc=300Mi", limits=objects.share(memory=900, cores=10)))
    wait_line(heddle, ns, "stays", r"^expect-total ok=1")
    heddle.agent.restart()
    heddle.wait_slices(2)
    # Its log can be there before its status is.
    pid = wait_until("its process is known", lambda: heddle.cluster.node.container_pids(api.get("pods", "stays", ns)), 30)[0]
    with open(f"/proc/{pid}/root/tmp/go", "w", encoding="utf-8"):
        pass
    wait_done(heddle, ns, "stays")


def test_slices_come_back_when_the_kubelet_wipes_them(heddle, ns):
    """A starting kubelet deletes all slices of its node. Tenants go on, and the next one starts."""
    api = heddle.api
    api.create("pods", tenant("before", ns, "expect-total=900Mi", "hold", limits=objects.share(memory=900, cores=10)))
    wait_line(heddle, ns, "before", r"^expect-total ok=1")
    heddle.cluster.node.restart_kubelet()
    api.create("pods", tenant("after", ns, "expect-total=800Mi", limits=objects.share(memory=800, cores=10)))
    wait_done(heddle, ns, "after", 120)
    heddle.wait_slices(2)
    assert objects.phase("Running")(api.get("pods", "before", ns))
    assert api.get("pods", "before", ns)["status"]["containerStatuses"][0]["restartCount"] == 0
    api.delete("pods", "before", ns)
    api.wait_gone("pods", "before", ns)
    wait_nothing_prepared(heddle)


def test_a_deleted_slice_is_written_again(heddle):
    api = heddle.api
    before = [body for body in api.list("resourceslices", field="spec.nodeName=node-1") if body["spec"]["driver"] == objects.DRIVER]
    for body in before:
        api.delete("resourceslices", body["metadata"]["name"])
    heddle.wait_slices(2)


def test_slices_are_not_written_again_and_again(heddle):
    """By watch: no write while nothing changes. Two syncs of the kubelet pass meanwhile."""
    import time
    writes = heddle.metrics("agent")["heddle_agent_slice_writes_total"]
    time.sleep(5)
    assert heddle.metrics("agent")["heddle_agent_slice_writes_total"] == writes
