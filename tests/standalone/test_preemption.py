"""Who gives way on one machine, from end to end: a job that is evicted, what becomes of it, and kill -9 at any point of it."""
import pathlib

import pytest

from harness import Standalone, alive, eventually
from test_queues import machine, queue, until  # noqa: F401  (machine is a fixture)

QUEUES = [queue("owner", quotas="[{guaranteed: 1}]"), queue("guest")]


def twice(mark, go):
    """A command that notes each run, waits in its first one to be ended, and ends by itself in the next."""
    script = f"echo x >> {mark}; [ $(wc -l < {mark}) -gt 1 ] || while [ ! -e {go} ]; do sleep 0.02; done"
    return ["/bin/sh", "-c", script]


def test_a_job_that_may_run_again_gives_way_and_comes_back(machine, tmp_path):
    heddle = machine("h100x1", QUEUES, "--evict-grace", "20s")
    mark = tmp_path / "mark"
    script = f"trap 'echo told >> {mark}' TERM; echo run $HEDDLE_EVICTIONS >> {mark}; " \
             f"[ $HEDDLE_EVICTIONS = 1 ] || while ! [ -e {tmp_path}/saved ]; do sleep 0.02; done"
    guest = heddle.start("--queue", "guest", "--name", "guest", "--requeue", "--", "/bin/sh", "-c", script)
    heddle.wait_state("guest", "running")
    eventually(lambda: mark.exists(), "the first run")
    owner = heddle.start("--queue", "owner", "--name", "owner", "--", *until(tmp_path / "owner"))
    eventually(lambda: "told" in mark.read_text(), "SIGTERM")
    waiting = heddle.wait_state("owner", "waiting")
    assert waiting["position"] == 1 and waiting["reasons"][0]["code"] == "Evicting", waiting
    assert "waits for job 1 to end: it is within what queue owner is guaranteed" in heddle.call("explain", "owner").stdout
    table = heddle.call("ps", check=0).stdout
    why = "job 2 of queue owner takes back what queue guest borrowed; then it waits again"
    assert "giving way" in table and f"job 1: {why}" in table, table
    assert why in heddle.call("explain", "guest", check=0).stdout
    (tmp_path / "saved").touch()  # it had the time to save its work
    heddle.wait_state("owner", "running")
    guest_waits = heddle.wait_state("guest", "waiting")
    assert guest_waits["evictions"] == 1 and guest_waits["shares"] == []
    (tmp_path / "owner").touch()
    assert owner.wait(60) == 0 and guest.wait(60) == 0
    assert "waits to run again from its beginning" in guest.stderr.read()
    assert mark.read_text().split() == ["run", "0", "told", "run", "1"]
    heddle.wait_empty()
    assert heddle.check_books()["cards"][0]["grantedBytes"] == 0


def test_a_job_is_not_run_twice_unasked(machine, tmp_path):
    heddle = machine("h100x1", QUEUES)
    mark = tmp_path / "mark"
    guest = heddle.start("--queue", "guest", "--name", "guest", "--", "/bin/sh", "-c", f"echo x >> {mark}; sleep 1000")
    heddle.wait_state("guest", "running")
    eventually(lambda: mark.exists(), "the run")
    assert heddle.call("run", "--queue", "owner", "--", "true").returncode == 0
    assert guest.wait(60) == 143
    assert "job 1 was evicted: job 2 of queue owner takes back what queue guest borrowed" in guest.stderr.read()
    assert mark.read_text() == "x\n"
    ended = next(job for job in heddle.status()["ended"] if job["name"] == "guest")
    assert ended["outcome"].startswith("evicted: job 2 of queue owner") and ended["exitCode"] == 143


def test_what_does_not_end_is_killed_after_the_grace(machine, tmp_path):
    heddle = machine("h100x1", QUEUES, "--evict-grace", "1s")
    guest = heddle.start("--queue", "guest", "--name", "guest", "--", "/bin/sh", "-c",
                         f"trap '' TERM; touch {tmp_path}/up; while :; do sleep 0.02; done")
    eventually(lambda: (tmp_path / "up").exists(), "the run")
    assert heddle.call("run", "--queue", "owner", "--", "true").returncode == 0
    assert guest.wait(60) == 137


def test_a_detached_job_comes_back_and_a_cancelled_one_does_not(machine, tmp_path):
    heddle = machine("h100x1", QUEUES)
    mark = tmp_path / "mark"
    heddle.call("run", "--queue", "guest", "--name", "guest", "--requeue", "--detach", "--", *twice(mark, tmp_path / "never"), check=0)
    eventually(lambda: mark.exists(), "the first run")
    assert heddle.call("run", "--queue", "owner", "--", "true").returncode == 0
    eventually(lambda: mark.read_text() == "x\nx\n", "the second run")
    heddle.wait_empty()
    stuck = heddle.start("--queue", "guest", "--name", "stuck", "--requeue", "--", "/bin/sh", "-c",
                         f"trap '' TERM; touch {tmp_path}/up; while :; do sleep 0.02; done")
    eventually(lambda: (tmp_path / "up").exists(), "the run")
    owner = heddle.start("--queue", "owner", "--name", "owner", "--", "true")
    eventually(lambda: heddle.job("stuck")["evictedBy"], "the eviction")
    heddle.call("cancel", "stuck", check=0)
    assert stuck.wait(60) == 137 and owner.wait(60) == 0
    assert next(job for job in heddle.status()["ended"] if job["name"] == "stuck")["outcome"].startswith("cancelled by")


def test_every_write_of_an_eviction_survives_a_kill(tmp_path):
    """The daemon kills itself before and after each write, in turn. What gave way runs exactly twice, what took its place once."""
    for point in range(9, 60):
        heddle = Standalone("h100x1")
        try:
            file = tmp_path / "queues.yaml"
            file.write_text("---\n".join(QUEUES))
            mark, own = tmp_path / f"guest-{point}", tmp_path / f"owner-{point}"
            up = heddle.up("--queues", file, "--crash-at-write", point, check=None)
            if up.returncode != 0:
                heddle.up("--queues", file)
            daemon = heddle.daemon()
            back = lambda: alive(daemon) or heddle.daemon() != daemon or heddle.up("--queues", file)
            guest = heddle.start("--queue", "guest", "--name", "guest", "--requeue", "--", *twice(mark, tmp_path / "never"))
            eventually(lambda: back() and (mark.exists() or guest.poll() is not None), "the first run")
            if guest.poll() == 3:  # the crash came before it knew its number
                guest = heddle.start("--queue", "guest", "--name", "guest", "--requeue", "--", *twice(mark, tmp_path / "never"))
                eventually(lambda: mark.exists(), "the first run")
            owner = heddle.start("--queue", "owner", "--name", "owner", "--", "/bin/sh", "-c", f"echo x >> {own}")
            eventually(lambda: back() and owner.poll() is not None, "the owner's end")
            again = owner.poll() == 3 and not own.exists()
            if again:  # room may have been made for the first one already: then the guest gives way a second time
                heddle.call("run", "--queue", "owner", "--", "/bin/sh", "-c", f"echo x >> {own}", check=0)
            eventually(lambda: back() and guest.poll() is not None, "the guest's end")
            eventually(lambda: back() and heddle.jobs() == {} and heddle.status() is not None, "an empty queue")
            crashed = not alive(daemon)
            assert guest.returncode == 0, (point, guest.stderr.read())
            runs = [2, 3] if again else [2]
            assert mark.read_text() in ["x\n" * count for count in runs], f"point {point}: what gave way began anew once"
            assert own.read_text() == "x\n", f"point {point}: what took its place ran once"
            assert heddle.check_books()["cards"][0]["grantedBytes"] == 0
            assert list(pathlib.Path(heddle.folder, "claims").iterdir()) == [], f"point {point}: no folder is left"
        finally:
            heddle.close()
        if not crashed and up.returncode == 0:
            assert point > 20, "the crash points were reached"
            return
    pytest.fail("the crash points do not end")
