"""Standalone Heddle from end to end, on simulated cards: queue, ledger, guard, and what is left after kill -9."""
import fcntl
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import termios
import urllib.error
import urllib.request

import pytest

from harness import BUILD, HEDDLE, NVSIM, NVSIM_RUN, Standalone, alive, children, eventually


@pytest.fixture
def heddle():
    machine = Standalone()
    machine.up()
    yield machine
    machine.close()


def until(path):
    """A command that runs until the file exists."""
    return ["/bin/sh", "-c", f"while [ ! -e {path} ]; do sleep 0.02; done"]


def test_two_share_a_card_and_a_third_waits(heddle, tmp_path):
    first = heddle.start("--memory", "30000Mi", "--cores", "30", "--name", "a", "--", *until(tmp_path / "a"))
    second = heddle.start("--memory", "40000Mi", "--cores", "50", "--name", "b", "--", *until(tmp_path / "b"))
    heddle.wait_state("a", "running")
    heddle.wait_state("b", "running")
    third = heddle.start("--memory", "20000Mi", "--name", "c", "--", "true")
    waiting = heddle.wait_state("c", "waiting")
    assert waiting["position"] == 1
    assert waiting["reasons"], "a job that waits says why"
    assert "gpu-0" in waiting["reasons"][0]["message"] or "Mi" in waiting["reasons"][0]["message"]
    assert heddle.check_books()["cards"][0]["grantedBytes"] == 70000 << 20
    assert heddle.call("run", "--memory", "20000Mi", "--no-wait", "--", "true").returncode == 2
    assert "SIMULATED" in heddle.call("ps", check=0).stdout
    (tmp_path / "a").touch()
    assert first.wait(60) == 0
    assert third.wait(60) == 0
    assert "waits, place 1" in third.stderr.read()
    (tmp_path / "b").touch()
    assert second.wait(60) == 0
    heddle.wait_empty()
    assert heddle.check_books()["cards"][0]["grantedBytes"] == 0


def test_a_small_job_passes_one_that_does_not_fit(heddle, tmp_path):
    heddle.start("--memory", "60000Mi", "--name", "big", "--", *until(tmp_path / "big"))
    heddle.wait_state("big", "running")
    late = heddle.start("--memory", "60000Mi", "--name", "late", "--", "true")
    heddle.wait_state("late", "waiting")
    heddle.call("run", "--memory", "10000Mi", "--", "true", check=0)
    assert heddle.job("late")["state"] == "waiting"
    (tmp_path / "big").touch()
    assert late.wait(60) == 0


def test_a_starved_job_is_not_passed(tmp_path):
    heddle = Standalone()
    try:
        heddle.up("--starve-after", "0s")
        heddle.start("--memory", "60000Mi", "--name", "big", "--", *until(tmp_path / "big"))
        heddle.wait_state("big", "running")
        late = heddle.start("--memory", "60000Mi", "--name", "late", "--", "true")
        heddle.wait_state("late", "waiting")
        small = heddle.start("--memory", "1000Mi", "--priority", "9", "--name", "small", "--", "true")
        reasons = heddle.wait_state("small", "waiting")["reasons"]
        assert reasons[0]["code"] == "Starved"
        (tmp_path / "big").touch()
        assert late.wait(60) == 0
        assert small.wait(60) == 0
    finally:
        heddle.close()


def test_memory_beyond_the_share_is_refused_to_the_program(heddle):
    within = heddle.call("run", "--memory", "3000Mi", "--", NVSIM_RUN, "--expect-total", "3000Mi", "--alloc", "2000Mi")
    assert within.returncode == 0, within.stdout + within.stderr
    beyond = heddle.call("run", "--memory", "3000Mi", "--", NVSIM_RUN, "--alloc", "2000Mi", "--expect-oom", "2000Mi")
    assert beyond.returncode == 0, beyond.stdout + beyond.stderr
    fits = heddle.call("run", "--memory", "3000Mi", "--", NVSIM_RUN, "--alloc", "4000Mi")
    assert fits.returncode != 0, "4000Mi must not fit in 3000Mi"


def test_virtual_memory_goes_beyond_the_share_and_the_card(heddle, tmp_path):
    """Two jobs address more than the card has; of the card each is granted, and takes for good, its share."""
    for name in ("a", "b"):
        job = heddle.start("--memory", "30Gi", "--virtual-memory", "100Gi", "--name", name, "--", NVSIM_RUN, "expect-total=100Gi",
                           "alloc=20Gi", "alloc=70Gi", "expect-oom=20Gi", f"touch={tmp_path / name}", "launch=1ms*10", "sync", "hold")
        eventually(lambda: (tmp_path / name).exists() or job.poll() is not None, f"90Gi of {name}")
        assert job.poll() is None, job.communicate()
    status = heddle.check_books()
    assert status["cards"][0]["grantedBytes"] == 60 << 30
    devices = [claim["devices"][0] for claim in json.loads(heddle.call("guard", "status", "-o", "json", check=0).stdout)["claims"]]
    assert [device["managedBytes"] for device in devices] == [70 << 30] * 2
    assert all(20 << 30 <= device["chargedBytes"] <= 30 << 30 for device in devices)
    heddle.call("run", "--memory", "10Gi", "--", NVSIM_RUN, "alloc=9Gi", check=0)
    refused = heddle.call("run", "--memory", "10Gi", "--virtual-memory", "10Gi", "--", "true", check=1)
    assert "--virtual-memory" in refused.stderr


def test_a_mask_is_held_by_mps(tmp_path):
    heddle = Standalone()
    pipe = tmp_path / "mps"
    pipe.mkdir()
    try:
        heddle.up("--mps-pipe", pipe)
        masked = ("run", "--memory", "3000Mi", "--cores", "30", "--isolation", "mps", "--no-wait", "--")
        nowhere = heddle.call(*masked, "true", check=2)
        assert "isolation mps" in nowhere.stderr
        (pipe / "control").touch()
        eventually(lambda: heddle.call(*masked, NVSIM_RUN, "alloc=1Gi", "launch=1ms*3", "sync", "expect-oom=2Gi").returncode == 0,
                   "a card that MPS serves")
        job = heddle.start("--memory", "3000Mi", "--cores", "30", "--isolation", "mps", "--name", "a", "--", NVSIM_RUN, "alloc=1Gi", "hold")
        eventually(lambda: "30% mps" in heddle.call("guard", "status").stdout and job.poll() is None, "a masked job")
        root = next(pathlib.Path(heddle.folder).rglob("nvidiactl")).parent.parent
        eventually(lambda: "mps 30%" in subprocess.run([NVSIM, "show", "--root", root], capture_output=True, text=True, check=True).stdout,
                   "a client of MPS")
    finally:
        heddle.close()


def test_used_bytes_come_from_the_guard(heddle):
    heddle.start("--memory", "3000Mi", "--name", "user", "--", NVSIM_RUN, "--alloc", "1024Mi", "--hold")
    eventually(lambda: (job := heddle.job("user")) and job["shares"] and (job["shares"][0]["usedBytes"] or 0) >= 1024 << 20,
               "1024Mi in use")
    assert heddle.job("user")["shares"][0]["usedBytes"] <= 3000 << 20


def test_whole_cards_and_what_never_fits(heddle):
    assert heddle.call("run", "--", "true").returncode == 0
    for words in (["--count", "2", "--", "true"], ["--memory", "90000Mi", "--", "true"],
                  ["--model", "A100", "--memory", "1Gi", "--", "true"]):
        refused = heddle.call("run", *words)
        assert refused.returncode == 2, refused.stderr
        assert refused.stderr.startswith("heddle: cannot run with"), refused.stderr
    assert heddle.call("run", "--memory", "16", "--", "true").returncode == 1
    assert not heddle.status()["jobs"]


def test_exit_codes_and_environment(heddle):
    assert heddle.call("run", "--memory", "1Gi", "--", "/bin/sh", "-c", "exit 7").returncode == 7
    assert heddle.call("run", "--memory", "1Gi", "--", "/bin/sh", "-c", "kill -9 $$").returncode == 137
    assert heddle.call("run", "--memory", "1Gi", "--", "no-such-command").returncode == 127
    seen = heddle.call("run", "--memory", "1Gi", "--", "/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES; pwd", cwd="/usr")
    assert seen.stdout.splitlines() == [heddle.status()["cards"][0]["uuid"], "/usr"]


def test_the_daemon_is_killed_and_comes_back(heddle, tmp_path):
    runs = heddle.start("--memory", "60000Mi", "--name", "runs", "--", *until(tmp_path / "runs"))
    heddle.wait_state("runs", "running")
    first = heddle.start("--memory", "50000Mi", "--name", "first", "--", "true")
    heddle.wait_state("first", "waiting")
    second = heddle.start("--memory", "50000Mi", "--name", "second", "--", *until(tmp_path / "second"))
    heddle.wait_state("second", "waiting")
    before = heddle.jobs()
    heddle.kill_daemon()
    heddle.up()
    after = heddle.jobs()
    assert after.keys() == before.keys()
    assert after[min(after)]["pid"] == before[min(before)]["pid"], "the same process"
    assert [after[i]["position"] for i in sorted(after)] == [0, 1, 2], "everyone keeps their place"
    heddle.check_books()
    (tmp_path / "runs").touch()
    assert runs.wait(60) == 0
    assert first.wait(60) == 0
    (tmp_path / "second").touch()
    assert second.wait(60) == 0


def test_what_ended_while_the_daemon_was_away_is_freed(heddle, tmp_path):
    ends = heddle.start("--memory", "60000Mi", "--name", "ends", "--", *until(tmp_path / "ends"))
    heddle.wait_state("ends", "running")
    gone = heddle.start("--memory", "60000Mi", "--name", "gone", "--", "true")
    heddle.wait_state("gone", "waiting")
    heddle.kill_daemon()
    (tmp_path / "ends").touch()
    assert ends.wait(60) == 0, "a command does not need the daemon to end"
    gone.kill()
    gone.wait(60)
    heddle.up()
    heddle.wait_empty()
    outcomes = {job["name"]: (job["outcome"], job["exitCode"]) for job in heddle.status()["ended"]}
    assert outcomes["ends"] == ("done", 0)
    assert outcomes["gone"][1] is None


@pytest.mark.parametrize("victim", ["client", "supervisor", "both", "command"])
def test_a_killed_part_frees_the_share(heddle, tmp_path, victim):
    client = heddle.start("--memory", "60000Mi", "--name", "job", "--", "/bin/sh", "-c",
                          f"setsid sleep 600 & echo $! > {tmp_path}/orphan; exec sleep 600")
    supervisor = heddle.wait_state("job", "running")["pid"]
    orphan = int(eventually(lambda: (tmp_path / "orphan").exists() and (tmp_path / "orphan").read_text().strip()))
    command = next(pid for pid in children(supervisor) if pid != orphan)
    waits = heddle.start("--memory", "60000Mi", "--name", "waits", "--", "true")
    heddle.wait_state("waits", "waiting")
    if victim in ("client", "both"):
        client.kill()
    if victim in ("supervisor", "both"):
        os.kill(supervisor, signal.SIGKILL)
    if victim == "command":
        os.kill(command, signal.SIGKILL)
    assert waits.wait(100) == 0, "the share is free again"
    assert not alive(command) and not alive(orphan), "and nobody uses it any more"
    assert client.wait(60) in (137, -9)


def test_every_ledger_write_survives_a_kill(tmp_path):
    """The daemon kills itself before and after each write, in turn; the job runs exactly once, and all is free at the end."""
    for point in range(3, 40):
        heddle = Standalone()
        try:
            mark = tmp_path / f"ran-{point}"
            up = heddle.up("--crash-at-write", point, check=None)
            if up.returncode != 0:
                heddle.up()
            client = heddle.start("--memory", "60000Mi", "--name", "job", "--", "/bin/sh", "-c", f"echo x >> {mark}")
            daemon = heddle.daemon()
            ended = lambda: client.poll() is not None and heddle.jobs() == {} and heddle.status() is not None
            eventually(lambda: not alive(daemon) or ended(), "the crash or the end")
            crashed = not alive(daemon)
            if crashed:
                heddle.up()
            code = client.wait(100)
            if code == 3 and not mark.exists():
                # The crash came before the client knew its number: it was told so, and asks again.
                heddle.call("run", "--memory", "60000Mi", "--", "/bin/sh", "-c", f"echo x >> {mark}", check=0)
                code = 0
            assert code == 0, (point, client.stderr.read())
            assert mark.read_text() == "x\n", f"point {point}: it ran once"
            heddle.wait_empty()
            assert heddle.check_books()["cards"][0]["grantedBytes"] == 0
            assert list(pathlib.Path(heddle.folder, "claims").iterdir()) == [], f"point {point}: no folder is left"
        finally:
            heddle.close()
        if not crashed and up.returncode == 0:
            assert point > 12, "the crash points were reached"
            return
    pytest.fail("the crash points do not end")


def test_cancel_and_signals(heddle, tmp_path):
    client = heddle.start("--memory", "60000Mi", "--name", "job", "--", "sleep", "600")
    heddle.wait_state("job", "running")
    waits = heddle.start("--memory", "60000Mi", "--name", "waits", "--", "true")
    heddle.wait_state("waits", "waiting")
    waits.send_signal(signal.SIGINT)
    assert waits.wait(60) == 130
    assert heddle.job("waits") is None
    heddle.call("cancel", "job", check=0)
    assert client.wait(60) == 143
    assert "job 1 did not end by itself: cancelled by " in client.stderr.read()
    heddle.wait_empty()
    assert "cancelled" in heddle.status()["ended"][0]["outcome"]
    assert heddle.call("cancel", "job").returncode == 2, "it has ended already"
    assert heddle.call("cancel", "9999").returncode == 3


def test_the_guard_is_looked_into_by_job(heddle, tmp_path):
    heddle.start("--memory", "3Gi", "--cores", "30", "--name", "looked-at", "--", *until(tmp_path / "end"))
    heddle.wait_state("looked-at", "running")
    claim = heddle.job("looked-at")["claim"]
    shown = heddle.call("guard", "status", check=0).stdout
    assert "JOB" in shown and "1 (looked-at)" in shown and claim in shown
    assert json.loads(heddle.call("guard", "status", "-o", "json", check=0).stdout)["claims"][0]["job"] == 1
    for what in ("1", "looked-at", claim, claim[:8]):
        assert "3072Mi" in heddle.call("guard", "trace", what, "--seconds", "1", check=0).stdout
    unknown = heddle.call("guard", "trace", "nobody")
    assert unknown.returncode == 3 and "no job and no claim matches 'nobody'" in unknown.stderr
    (tmp_path / "end").touch()
    heddle.wait_empty()
    ended = heddle.call("guard", "trace", "1")
    assert ended.returncode == 3 and "has no share now: `heddle explain 1`" in ended.stderr
    heddle.call("down", check=0)
    other = heddle.call("guard", "status", "--state-dir", tmp_path)
    assert other.returncode == 3 and "start one with `heddle up`" in other.stderr
    outside = heddle.call("guard", "selftest")
    assert outside.returncode == 3 and "heddle run --memory 8Gi -- heddle guard selftest" in outside.stderr


def test_the_guard_tests_itself_inside_a_job(heddle):
    tested = heddle.call("run", "--memory", "8Gi", "--", HEDDLE, "guard", "selftest")
    assert tested.returncode == 0, tested


def test_virtual_memory_is_more_than_what_is_granted(heddle):
    for words, why in ((["--memory-percent", "25"], "4Gi is not more than the 20389Mi that 25% of a card"),
                       ([], "4Gi is not more than the 81559Mi that the whole of a card")):
        refused = heddle.call("run", *words, "--virtual-memory", "4Gi", "--", "true")
        assert refused.returncode == 1 and "--virtual-memory: " + why in refused.stderr, refused.stderr


def test_a_description_that_is_wrong_is_named(tmp_path):
    wrong = tmp_path / "mine.yaml"
    wrong.write_text("cards: [{model: H100, cuont: 2}]\n")
    machine = Standalone(simulate=str(wrong))
    try:
        refused = machine.up(check=1)
        assert str(wrong) in refused.stderr and "simulation/cards.yaml" not in refused.stderr
    finally:
        machine.close()


def test_timeout(heddle):
    heddle.start("--memory", "60000Mi", "--name", "job", "--", "sleep", "600")
    heddle.wait_state("job", "running")
    late = heddle.call("run", "--memory", "60000Mi", "--timeout", "1s", "--", "true")
    assert late.returncode == 2
    assert "no room within 1 s" in late.stderr
    assert len(heddle.jobs()) == 1
    assert heddle.status()["ended"][0]["outcome"] == "not in time: no room came"


def test_a_detached_job(heddle, tmp_path):
    done = heddle.call("run", "--detach", "--memory", "1Gi", "--name", "d", "--", "/bin/sh", "-c",
                       f"echo out; echo err >&2; while [ ! -e {tmp_path}/end ]; do sleep 0.02; done; exit 5", check=0)
    number = int(done.stdout)
    heddle.wait_state("d", "running")
    (tmp_path / "end").touch()
    heddle.wait_empty()
    job = json.loads(heddle.call("explain", number, "-o", "json", check=0).stdout)
    assert job["exitCode"] == 5
    assert pathlib.Path(heddle.folder, "jobs", str(number), "output").read_text() == "out\nerr\n"
    assert job["output"] == os.path.join(heddle.folder, "jobs", str(number), "output")
    assert job["output"] in heddle.call("explain", number, check=0).stdout
    assert heddle.call("run", "--detach", "--memory", "90000Mi", "--", "true").returncode == 2


def test_down(heddle):
    client = heddle.start("--memory", "60000Mi", "--name", "job", "--", "sleep", "600")
    heddle.wait_state("job", "running")
    waits = heddle.start("--memory", "60000Mi", "--name", "waits", "--", "true")
    heddle.wait_state("waits", "waiting")
    refused = heddle.call("down")
    assert refused.returncode == 2 and "1 running and 1 waiting" in refused.stderr
    assert heddle.job("job")["state"] == "running"
    daemon = heddle.daemon()
    heddle.call("down", "--kill", check=0)
    eventually(lambda: not alive(daemon), "the end of the daemon")
    assert client.wait(60) == 143
    told = client.stderr.read()
    assert "did not end by itself: ended by `heddle down --kill`" in told or "Heddle does not run any more" in told
    assert waits.wait(60) in (2, 3)
    assert heddle.call("ps").returncode == 3
    assert heddle.call("down").returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_a_users_heddle_and_the_others():
    """A Heddle that is not root's serves its user, and says so to everybody else."""
    heddle = Standalone()
    try:
        os.chown(heddle.folder, 65534, 65534)

        def as_nobody(*words):
            return subprocess.run([HEDDLE, *words], env=heddle.environment, capture_output=True, text=True, timeout=100,
                                  user=65534, group=65534, extra_groups=[], stdin=subprocess.DEVNULL, cwd="/")

        if as_nobody("version").returncode != 0:
            pytest.skip("the build folder is closed to other users")
        grouped = as_nobody("up", "--simulate", "h100x1", "--dashboard-port", "off", "--group", "nogroup")
        assert grouped.returncode == 1 and grouped.stderr.startswith("heddle: --group: "), grouped.stderr
        assert as_nobody("up", "--simulate", "h100x1", "--dashboard-port", "off").returncode == 0
        assert as_nobody("run", "--memory", "1Gi", "--", NVSIM_RUN, "--expect-total", "1Gi").returncode == 0
        heddle.call("ps", check=0)
        roots = heddle.call("run", "--memory", "1Gi", "--", "true", check=2)
        assert "runs commands of that user only" in roots.stderr
        assert heddle.status()["ended"][0]["id"] == 1, "it did not enter the queue"
        assert as_nobody("down").returncode == 0

        os.chown(heddle.folder, 0, 0)
        for name in os.listdir(heddle.folder):
            path = pathlib.Path(heddle.folder, name)
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        heddle.up()
        for words in (["ps"], ["run", "--", "true"], ["explain", "1"], ["cancel", "1"], ["down"]):
            closed = as_nobody(*words)
            assert closed.returncode == 2 and "you may not use the Heddle in" in closed.stderr, words
        closed = as_nobody("guard", "status")
        assert closed.returncode == 2 and "you may not look into the claims in" in closed.stderr
    finally:
        heddle.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_full_disk(tmp_path):
    """It is named as what is wrong, and nothing is lost when there is room again."""
    heddle = Standalone()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "heddle-test", heddle.folder]).returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        filler = pathlib.Path(heddle.folder, "filler")

        def fill(leave):
            with open(filler, "ab") as file:
                free = os.statvfs(heddle.folder)
                file.write(b"x" * max(0, free.f_bavail * free.f_frsize - leave))

        heddle.up()
        heddle.call("down", check=0)
        fill(1 << 20)
        refused = heddle.up(check=3)
        assert "KiB are free" in refused.stderr and "--state-dir" in refused.stderr
        filler.unlink()
        heddle.up()
        heddle.start("--memory", "1Gi", "--name", "job", "--", *until(tmp_path / "job"))
        heddle.wait_state("job", "running")
        fill(0)
        refused = heddle.call("run", "--memory", "1Gi", "--", "true", check=3)
        assert "disk is full" in refused.stderr and "rollback" not in refused.stderr, refused.stderr
        assert heddle.job("job")["state"] == "running"
        command = heddle.job("job")["pid"]
        (tmp_path / "job").touch()
        eventually(lambda: not alive(command), "the end of the command")
        filler.unlink()
        heddle.wait_empty()
        assert "could not write it" in heddle.status()["ended"][0]["outcome"], "nobody knows how it ended"
        heddle.call("run", "--memory", "1Gi", "--", "true", check=0)
    finally:
        heddle.call("down", "--kill")
        subprocess.run(["umount", "-l", heddle.folder], check=True)
        heddle.close()


def test_a_heddle_that_was_killed_is_said_to_be_gone(heddle):
    heddle.kill_daemon()
    for words in (["ps"], ["run", "--", "true"], ["down"], ["explain", "1"], ["cancel", "1"]):
        gone = heddle.call(*words, check=3)
        assert "not running any more" in gone.stderr and "`heddle up`" in gone.stderr, gone.stderr
    heddle.up()


def test_what_cannot_be_printed_is_an_error(heddle):
    # More than a buffer, so that writing fails before the end, too.
    for words in (["ps"], ["ps", "-o", "json"], ["help"], ["version"], ["catalog", "list", "-o", "json"]):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([HEDDLE, *words], env=heddle.environment, stdout=full, stderr=subprocess.PIPE,
                                  text=True, timeout=100)
        assert done.returncode == 3 and "standard output" in done.stderr, (words, done)
        closed = subprocess.run(["sh", "-c", '"$@" >&-', "sh", HEDDLE, *words], env=heddle.environment, stderr=subprocess.PIPE,
                                text=True, timeout=100, check=False)
        assert closed.returncode == 3 and "standard output" in closed.stderr, (words, closed)


def test_a_lost_message_changes_no_exit_code(heddle):
    for words, code in ((["nosuch"], 1), (["explain", "77"], 3)):
        assert heddle.call(*words, check=code).stderr
        done = subprocess.run(["sh", "-c", '"$@" 2>&-', "sh", HEDDLE, *words], env=heddle.environment, check=False, timeout=100)
        assert done.returncode == code, (words, done)


def test_a_job_waits_on_and_runs_though_its_messages_go_nowhere(heddle):
    heddle.start("--memory", "60000Mi", "--name", "first", "--", "sleep", "600")
    heddle.wait_state("first", "running")
    with open("/dev/full", "w", encoding="ascii") as full:
        second = subprocess.Popen([HEDDLE, "run", "--memory", "60000Mi", "--name", "second", "--", "sh", "-c", "exit 7"],
                                  env=heddle.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=full)
    heddle.wait_state("second", "waiting")
    heddle.call("cancel", "first", check=0)
    assert second.wait(timeout=100) == 7


def test_one_daemon_a_state_folder(heddle):
    again = heddle.up(check=2)
    assert "runs here already" in again.stderr
    assert heddle.status() is not None


def test_other_cards_under_live_jobs_are_refused(heddle):
    heddle.start("--memory", "60000Mi", "--name", "job", "--", "sleep", "600")
    heddle.wait_state("job", "running")
    heddle.kill_daemon()
    heddle.simulate = "h100x2"
    refused = heddle.up(check=2)
    assert "--simulate h100x1" in refused.stderr
    heddle.simulate = "h100x1"
    heddle.up()


def test_bad_machines_are_refused(tmp_path):
    heddle = Standalone()
    try:
        for bad in ("h100", "h100x0", "nothingx2", "/no/such.yaml"):
            heddle.simulate = bad
            assert heddle.up(check=None).returncode in (1, 2), bad
        (tmp_path / "bad.yaml").write_text("cards: 7\n")
        heddle.simulate = str(tmp_path / "bad.yaml")
        assert "cards" in heddle.up(check=1).stderr
        assert heddle.call("up", "--nvml", "/no/such/library.so", "--dashboard-port", "off").returncode in (2, 3)
    finally:
        heddle.close()


def test_the_socket_and_the_page():
    heddle = Standalone()
    try:
        heddle.call("up", "--simulate", "h100x1", "--dashboard-port", "0", check=0)
        mode = os.stat(os.path.join(heddle.folder, "heddle.sock")).st_mode & 0o777
        assert mode == 0o600
        log = pathlib.Path(heddle.folder, "heddle.log").read_text()
        url = next(json.loads(line)["page"] for line in log.splitlines() if '"page"' in line)
        with urllib.request.urlopen(url, timeout=30) as page:
            text = page.read().decode()
        assert "SIMULATED" in text and "gpu-0" in text
        with urllib.request.urlopen(url + "v1/status", timeout=30) as page:
            assert json.load(page)["simulated"] is True
        for request in (urllib.request.Request(url + "v1/shutdown", method="POST", data=b"{}"),
                        urllib.request.Request(url, headers={"Host": "evil.example"})):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=30)
            assert refused.value.code == 403
    finally:
        heddle.close()


def test_garbage_on_the_socket_is_answered(heddle):
    for body in (b"", b"[]", b'{"request":{}}', b'{"request":{"command":["a"]},"client":{"pid":"x"}}',
                 b'{"request":{"command":["a"]},"client":{"pid":99999999}}', b"\xff" * 100,
                 b'{"request":{"name":' + b"[" * 200_000 + b"]" * 200_000 + b'},"client":{"pid":1}}',
                 b'{"x":' * 200_000 + b"1" + b"}" * 200_000):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(os.path.join(heddle.folder, "heddle.sock"))
            client.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" %
                           (len(body), body))
            answer = client.recv(65536)
        assert answer.split()[1] in (b"400", b"404"), (body, answer)
    assert not heddle.status()["jobs"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_another_user_may_not_touch_what_is_not_theirs():
    heddle = Standalone()
    try:
        heddle.call("up", "--simulate", "h100x1", "--dashboard-port", "off", "--group", "nogroup", check=0)
        heddle.start("--memory", "1Gi", "--name", "roots", "--", "sleep", "600")
        heddle.wait_state("roots", "running")

        def as_nobody(*words):
            return subprocess.run([HEDDLE, *words], env=heddle.environment, capture_output=True, text=True, timeout=100,
                                  user="nobody", group="nogroup", extra_groups=[], stdin=subprocess.DEVNULL, cwd="/")

        reachable = as_nobody("version").returncode == 0
        if not reachable:
            pytest.skip("the build folder is closed to other users")
        assert as_nobody("ps").returncode == 0
        refused = as_nobody("cancel", "roots")
        assert refused.returncode == 2 and "belongs to root" in refused.stderr
        assert as_nobody("down", "--kill").returncode != 0
        own = as_nobody("run", "--memory", "1Gi", "--", NVSIM_RUN, "--expect-total", "1Gi", "--alloc", "500Mi")
        assert own.returncode == 0, own.stdout + own.stderr
        limits = as_nobody("run", "--memory", "1Gi", "--", "/bin/sh", "-c",
                           "id -un; rm -f $HEDDLE_GUARD_DIR/limits; echo x > $HEDDLE_GUARD_DIR/limits; ls $HEDDLE_GUARD_DIR/..")
        assert limits.stdout == "nobody\n", "a user cannot change the own limits"
        assert limits.stderr.lower().count("permission denied") >= 2
        assert heddle.job("roots")["state"] == "running"
    finally:
        heddle.close()


def test_a_sick_card_gets_no_new_work():
    heddle = Standalone("h100x2")
    try:
        heddle.up()
        root = os.path.join(heddle.folder, "simulation")
        subprocess.run([NVSIM, "fault", "--root", root, "--card", "0", "--kind", "xid", "--value", "79"], check=True)
        sick = eventually(lambda: next((c for c in heddle.status()["cards"] if not c["healthy"]), None), "a sick card")
        assert sick["name"] == "gpu-0" and "79" in sick["healthMessage"]
        assert "UNHEALTHY" in heddle.call("ps", check=0).stdout
        for _ in range(2):
            heddle.start("--memory", "30000Mi", "--", "sleep", "600")
        eventually(lambda: [j["state"] for j in heddle.jobs().values()] == ["running"] * 2, "both to run")
        assert {share["card"] for job in heddle.jobs().values() for share in job["shares"]} == {"gpu-1"}
        heddle.start("--memory", "30000Mi", "--name", "third", "--", "true")
        assert heddle.wait_state("third", "waiting")["reasons"]
    finally:
        heddle.close()


def test_a_process_without_a_share_is_reported(heddle):
    simulated = dict(os.environ, NVSIM_ROOT=os.path.join(heddle.folder, "simulation"),
                     LD_LIBRARY_PATH=str(BUILD / "sim" / "nvidia" / "lib"))
    heddle.start("--memory", "3000Mi", "--name", "granted", "--", NVSIM_RUN, "--alloc", "1000Mi", "--hold")
    with subprocess.Popen([NVSIM_RUN, "--alloc", "700Mi", "--hold"], env=simulated, stdout=subprocess.DEVNULL) as outside:
        try:
            found = eventually(lambda: heddle.status()["strangers"], "the report")
            assert [stranger["pid"] for stranger in found] == [outside.pid], "and nobody who has a share"
            assert found[0]["card"] == "gpu-0" and found[0]["memoryBytes"] >= 700 << 20
            assert f"process {outside.pid}" in heddle.call("ps", check=0).stdout
        finally:
            outside.kill()
    eventually(lambda: not heddle.status()["strangers"], "the end of the report")
    assert heddle.job("granted")["state"] == "running"


def shares_of(client):
    """What `nvsim-run measure-share` printed, in percent."""
    out, err = client.communicate(timeout=300)
    assert client.returncode == 0, out + err
    return [float(line.split("share=")[1].split()[0]) * 100 for line in out.splitlines() if line.startswith("measure-share")]


def measuring(spans, *first):
    return [NVSIM_RUN, *first, "kernel=10ms", *[f"measure-share={span}" for span in spans]]


def test_an_idle_share_is_lent_and_comes_back(heddle, tmp_path):
    """Bounds are wide: the machine of the test may be busy with other things."""
    heddle.start("--memory", "8Gi", "--cores", "50", "--name", "owner", "--", *until(tmp_path / "owner"))
    heddle.wait_state("owner", "running")
    borrower = heddle.start("--memory", "8Gi", "--cores", "30", "--name", "borrower", "--", *measuring(["1s", "3s"]))
    alone = shares_of(borrower)
    assert 38 < alone[1] < 85, f"30 and what the owner leaves of its 50: {alone}"
    (tmp_path / "owner").touch()
    heddle.wait_empty()
    both = [heddle.start("--memory", "8Gi", "--cores", cores, "--", *measuring(["1s", "4s"])) for cores in (30, 50)]
    small, large = [shares_of(client)[1] for client in both]
    assert small < 38, f"both work: {small} and {large}"
    assert large > 25
    assert large > small


def test_lending_goes_on_after_kill_9(heddle, tmp_path):
    heddle.start("--memory", "8Gi", "--cores", "60", "--name", "owner", "--", *until(tmp_path / "owner"))
    heddle.wait_state("owner", "running")
    heddle.kill_daemon()
    heddle.up()
    borrower = heddle.start("--memory", "8Gi", "--cores", "20", "--", *measuring(["1s", "2s"]))
    assert shares_of(borrower)[1] > 28
    (tmp_path / "owner").touch()


def test_strict_shares_are_not_lent(tmp_path):
    heddle = Standalone()
    try:
        heddle.up("--strict-shares")
        heddle.start("--memory", "8Gi", "--cores", "50", "--name", "owner", "--", *until(tmp_path / "owner"))
        heddle.wait_state("owner", "running")
        borrower = heddle.start("--memory", "8Gi", "--cores", "30", "--", *measuring(["1s", "3s"]))
        assert shares_of(borrower)[1] < 36
        (tmp_path / "owner").touch()
    finally:
        heddle.close()


def test_the_guard_can_be_looked_into(heddle, tmp_path):
    """status, trace and the self-test, on simulated cards."""
    libraries = BUILD / "sim" / "nvidia" / "lib"
    job = heddle.start("--memory", "8Gi", "--cores", "30", "--name", "a", "--", NVSIM_RUN, "alloc=1Gi", "kernel=10ms", "measure-share=20s",
                       "hold")
    heddle.wait_state("a", "running")

    def claim():
        claims = json.loads(heddle.call("guard", "status", "-o", "json", check=0).stdout)["claims"]
        return claims and claims[0]["processes"] and claims[0]["devices"][0].get("chargedBytes", 0) > 1 << 30 and claims[0]
    shown = eventually(claim, "the charge of the job")
    assert shown["devices"][0]["memoryBytes"] == 8 << 30
    assert shown["devices"][0]["coresPercent"] == 30
    table = heddle.call("guard", "status", check=0).stdout
    assert shown["claim"] in table and "8192Mi" in table and "30%" in table
    trace = heddle.call("guard", "trace", shown["claim"][:8], "--seconds", "2", check=0).stdout
    assert "launched" in trace and "held back" in trace, trace
    assert heddle.call("guard", "trace", "no-such-claim").returncode != 0
    root = next(pathlib.Path(heddle.folder).glob("*/dev/nvidiactl"), None) or next(pathlib.Path(heddle.folder).rglob("nvidiactl"))
    environment = {**heddle.environment, "NVSIM_ROOT": str(root.parent.parent)}
    test = subprocess.run([HEDDLE, "guard", "selftest", "--libraries", libraries], env=environment, capture_output=True, text=True,
                          timeout=120, check=False)
    assert test.returncode == 0, test.stdout + test.stderr
    assert "The guard holds here." in test.stdout
    job.send_signal(signal.SIGTERM)


def test_the_selftest_says_what_is_missing(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "NVSIM_ROOT"}
    test = subprocess.run([HEDDLE, "guard", "selftest", "--libraries", tmp_path], env=environment, capture_output=True, text=True,
                          timeout=60, check=False)
    if "libcuda" not in test.stderr and test.returncode != 3:
        pytest.skip("this machine has a driver of its own")
    assert test.returncode == 3
    assert "--libraries" in test.stderr


def test_a_folder_with_other_things_is_left_alone(heddle, tmp_path):
    (tmp_path / "sh").write_text("")
    tmp_path.chmod(0o755)
    refused = heddle.up("--state-dir", tmp_path, check=1)
    assert "--state-dir" in refused.stderr and "holds other things" in refused.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["sh"] and tmp_path.stat().st_mode & 0o7777 == 0o755


def test_a_lost_socket_is_said_and_comes_back(heddle):
    client = heddle.start("--memory", "60000Mi", "--name", "job", "--", "sleep", "600")
    heddle.wait_state("job", "running")
    pid = heddle.daemon()
    os.unlink(os.path.join(heddle.folder, "heddle.sock"))
    for words in (["down"], ["ps"], ["cancel", "job"]):
        lost = heddle.call(*words, check=3)
        assert f"kill {pid}" in lost.stderr and "removed its socket" in lost.stderr, lost.stderr
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: not alive(pid), "the end of the daemon")
    heddle.up()
    assert heddle.job("job")["state"] == "running" and client.poll() is None


def test_a_terminal_that_hangs_up_ends_its_job(heddle):
    leader, terminal = os.openpty()
    # A session of its own, whose leader `heddle run` is: what `ssh -t machine heddle run ...` starts.
    client = subprocess.Popen([HEDDLE, "run", "--memory", "60000Mi", "--name", "job", "--", "sleep", "600"], env=heddle.environment,
                              stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
                              preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(terminal)
    heddle.wait_state("job", "running")
    os.close(leader)
    assert client.wait(timeout=100) == 129
    heddle.wait_empty()
