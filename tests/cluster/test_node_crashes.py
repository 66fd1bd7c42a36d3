"""The agent is killed at every step of Prepare and Unprepare, the kubelet is restarted: each pod gets exactly its share."""
import threading

from harness import objects
from harness.inotify import Changes
from harness.process import wait_until
from test_share import tenant, wait_done, wait_line


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
