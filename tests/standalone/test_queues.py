"""Queues of a standalone Heddle from end to end: whose turn it is, what a limit holds back, and what a restart keeps."""
import contextlib
import datetime
import os
import pwd
import sqlite3
import textwrap

import pytest

from harness import Standalone, eventually

ME = pwd.getpwuid(os.geteuid()).pw_name


def queue(name, **spec):
    """An object as a cluster has it; spec in YAML's flow form."""
    lines = "".join(f"\n  {key}: {value}" for key, value in spec.items())
    return f"apiVersion: heddle.dev/v1alpha1\nkind: AcceleratorQueue\nmetadata: {{name: {name}}}\nspec:{lines or ' {}'}\n"


@pytest.fixture
def machine(tmp_path):
    """machine(cards, *queues, *flags) -> a Heddle with these queues."""
    with contextlib.ExitStack() as stack:
        def make(simulate, queues, *flags):
            heddle = Standalone(simulate)
            stack.callback(heddle.close)
            file = tmp_path / "queues.yaml"
            file.write_text("---\n".join(queues))
            heddle.up("--queues", file, *flags)
            return heddle
        yield make


def until(path):
    return ["/bin/sh", "-c", f"while [ ! -e {path} ]; do sleep 0.02; done"]


def test_a_limit_holds_back_its_own_queue_only(machine, tmp_path):
    heddle = machine("h100x2", [queue("small", quotas="[{limit: 1}]"), queue("large")])
    first = heddle.start("--queue", "small", "--name", "first", "--", *until(tmp_path / "first"))
    assert heddle.wait_state("first", "running")["queue"] == "small"
    second = heddle.start("--queue", "small", "--name", "second", "--", "true")
    waiting = heddle.wait_state("second", "waiting")
    assert waiting["position"] == 1 and waiting["reasons"][0]["code"] == "Limit", waiting
    heddle.call("run", "--queue", "large", "--no-wait", "--", "true", check=0)
    table = heddle.call("ps", check=0).stdout
    assert "QUEUE" in table and "small 1. job 2:" in table, table
    explained = heddle.call("explain", "second", check=0).stdout
    assert "queue      small" in explained and "place      1 in the queue" in explained, explained
    (tmp_path / "first").touch()
    assert first.wait(60) == 0 and second.wait(60) == 0
    assert "place 1 in queue small" in second.stderr.read()


def test_what_is_guaranteed_goes_before_what_borrows(machine, tmp_path):
    heddle = machine("h100x1", [queue("owner", quotas="[{guaranteed: 1}]"), queue("guest")])
    runs = heddle.start("--queue", "owner", "--name", "runs", "--", *until(tmp_path / "runs"))  # what borrows would give way
    heddle.wait_state("runs", "running")
    guest = heddle.start("--queue", "guest", "--name", "guest", "--priority", "9", "--", "true")
    heddle.wait_state("guest", "waiting")
    owner = heddle.start("--queue", "owner", "--name", "owner", "--", *until(tmp_path / "owner"))
    heddle.wait_state("owner", "waiting")
    (tmp_path / "runs").touch()
    assert runs.wait(60) == 0
    heddle.wait_state("owner", "running")
    assert heddle.job("guest")["state"] == "waiting"
    (tmp_path / "owner").touch()
    assert owner.wait(60) == 0 and guest.wait(60) == 0


def test_users_have_their_queue_and_wrong_ones_are_refused(machine):
    heddle = machine("h100x2", [queue("mine", namespaces=f"[{ME}]", quotas="[{limit: 1}]"), queue("top"),
                                queue("below", parent="top")])
    heddle.start("--name", "a", "--", "sleep", "1000")
    assert heddle.wait_state("a", "running")["queue"] == "mine"
    for words, why in ((["--queue", "nothing"], "there is no queue 'nothing': write one of below, mine, unassigned"),
                       (["--queue", "top"], "has queues below it"), (["--count", "2"], "limit")):
        refused = heddle.call("run", *words, "--", "true")
        assert refused.returncode == 2 and why in refused.stderr, refused.stderr
    assert len(heddle.jobs()) == 1


def test_a_restart_keeps_queues_places_and_the_past(machine, tmp_path):
    heddle = machine("h100x1", [queue("a"), queue("b")])
    runs = heddle.start("--queue", "a", "--name", "runs", "--", *until(tmp_path / "runs"))
    heddle.wait_state("runs", "running")
    waits = heddle.start("--queue", "a", "--name", "waits", "--", "true")
    heddle.wait_state("waits", "waiting")
    heddle.kill_daemon()
    heddle.up()
    jobs = {job["name"]: job for job in heddle.jobs().values()}
    assert jobs["runs"]["state"] == "running" and jobs["runs"]["queue"] == "a"
    assert jobs["waits"]["position"] == 1 and jobs["waits"]["queue"] == "a"
    (tmp_path / "runs").touch()
    assert runs.wait(60) == 0 and waits.wait(60) == 0
    heddle.wait_empty()
    heddle.call("down", check=0)
    with contextlib.closing(sqlite3.connect(os.path.join(heddle.folder, "ledger.db"))) as ledger:
        past = dict(ledger.execute("SELECT queue, milli_device_seconds FROM queue_past"))
    assert past["a"] > 0 and past["b"] == 0, past
    heddle.up()
    assert heddle.call("run", "--queue", "b", "--", "true").returncode == 0
    heddle.call("down", check=0)
    heddle.up("--queues", "none")
    refused = heddle.call("run", "--queue", "b", "--", "true")
    assert refused.returncode == 2 and "there are no queues here" in refused.stderr
    assert heddle.call("run", "--", "true").returncode == 0


def test_a_bad_file_names_the_field_and_loses_nothing(machine, tmp_path):
    heddle = machine("h100x1", [queue("a", quotas="[{limit: 1}]")])
    heddle.call("down", check=0)
    bad = tmp_path / "bad.yaml"
    for text, why in ((queue("a", weight=0), "queue a: spec.weight: is 0"),
                      (queue("a", parent="b"), "queue a: spec.parent"),
                      ("kind: Pod\n", "kind: Pod is not read here; write AcceleratorQueue"),
                      (queue("a", wieght=2), "bad.yaml: queue a: spec.wieght: there is no such field; did you mean weight?"),
                      (queue("a", quotas="[{garanteed: 1, limt: 2}]"), "spec.quotas[0].garanteed: there is no such field"),
                      ("- a\n", "bad.yaml: document 1: is a list: write each object as a document of its own"),
                      ("a: [", "--queues"), ("", "has no AcceleratorQueue")):
        bad.write_text(text)
        refused = heddle.up("--queues", bad, check=1)
        assert why in refused.stderr, refused.stderr
    missing = heddle.up("--queues", tmp_path / "missing.yaml", check=1)
    assert "--queues" in missing.stderr
    heddle.up()
    heddle.start("--queue", "a", "--name", "runs", "--", "sleep", "1000")
    heddle.wait_state("runs", "running")
    assert heddle.call("run", "--queue", "a", "--no-wait", "--", "true").returncode == 2


def test_what_starves_is_not_passed_in_queues_either(machine, tmp_path):
    heddle = machine("h100x1", [queue("a"), queue("b")], "--starve-after", "0s")
    big = heddle.start("--queue", "a", "--memory", "60000Mi", "--name", "big", "--", *until(tmp_path / "big"))
    heddle.wait_state("big", "running")
    late = heddle.start("--queue", "b", "--memory", "60000Mi", "--name", "late", "--", "true")
    heddle.wait_state("late", "waiting")
    small = heddle.start("--queue", "a", "--memory", "1000Mi", "--priority", "9", "--name", "small", "--", "true")
    eventually(lambda: (job := heddle.job("small")) and job["reasons"] and job["reasons"][0]["code"] == "Behind", "held back")
    (tmp_path / "big").touch()
    assert big.wait(60) == 0 and late.wait(60) == 0 and small.wait(60) == 0


def reservation(name, start, end, cards, **spec):
    """Of so many cards; start and end in seconds from now."""
    when = lambda seconds: (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)).strftime("%FT%TZ")
    lines = "".join(f"\n  {key}: {value}" for key, value in spec.items())
    return (f"apiVersion: heddle.dev/v1alpha1\nkind: AcceleratorReservation\nmetadata: {{name: {name}}}\nspec:\n"
            f"  start: {when(start)}\n  end: {when(end)}\n  amounts: [{{amount: {cards}}}]{lines}\n")


def test_a_reservation_is_kept_free_and_a_deadline_is_kept(machine):
    heddle = machine("h100x1", [queue("a"), reservation("now", -3600, 3600, 1, queue="a"),
                                reservation("later", 3600, 7200, 1, namespaces=f"[{ME}]")])
    long = heddle.start("--queue", "a", "--name", "long", "--deadline", "5h", "--", "true")  # not inside of any
    waits = eventually(lambda: (job := heddle.job("long")) and job["reasons"] and job, "it waits")
    assert waits["reasons"][0]["code"] == "Reservation", waits
    assert heddle.call("run", "--queue", "a", "--reservation", "now", "--", "true").returncode == 0
    explained = heddle.start("--reservation", "later", "--name", "early", "--", "true")
    early = heddle.wait_state("early", "waiting")
    assert "reservation later starts at" in early["reasons"][0]["message"]
    assert "reserved   it runs inside reservation later only" in heddle.call("explain", "early", check=0).stdout
    for words, why in ((["--reservation", "now"], "is for queue a, and this is a job of"),
                       (["--reservation", "none"], "there is no reservation 'none': write one of later, now")):
        refused = heddle.call("run", *words, "--", "true")
        assert refused.returncode == 2 and why in refused.stderr, refused.stderr
    ended = heddle.call("run", "--queue", "a", "--reservation", "now", "--name", "short", "--deadline", "1s", "--", "sleep", "1000")
    assert ended.returncode == 143 and "did not end by itself: ended: its deadline of 1 s is over" in ended.stderr, ended
    assert "its deadline of 1 s is over" in eventually(
        lambda: next((job["outcome"] for job in heddle.status()["ended"] if job["name"] == "short"), None), "the end")
    for client in (long, explained):
        client.terminate()
        client.wait(60)


def test_a_reservation_of_more_than_there_is_is_warned_of(machine, tmp_path):
    heddle = machine("h100x1", [reservation("r", 3600, 7200, 2, namespaces=f"[{ME}]")])
    heddle.call("down", check=0)
    (tmp_path / "large.yaml").write_text(reservation("r", 3600, 7200, 2, namespaces=f"[{ME}]"))
    warned = heddle.up("--queues", tmp_path / "large.yaml").stdout
    assert "warning: reservation r keeps 2 devices free, and there are 1 devices here" in warned
    assert heddle.call("run", "--deadline", "1m", "--", "true").returncode == 0
    refused = heddle.call("run", "--no-wait", "--", "true")
    assert refused.returncode == 2 and "(--deadline of a job, " in refused.stderr, refused.stderr


def test_the_example_of_the_documentation_is_good(machine):
    text = textwrap.dedent("""\
        apiVersion: heddle.dev/v1alpha1
        kind: AcceleratorQueue
        metadata: {name: training}
        spec:
          weight: 2
          namespaces: [ann, trainers]
          quotas:
            - guaranteed: 1
              limit: 2
        """)
    heddle = machine("h100x2", [text])
    assert heddle.call("run", "--", "true").returncode == 0
