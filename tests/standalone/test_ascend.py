"""Standalone Heddle on simulated Ascend NPUs, and on a machine that has cards of both vendors."""
import json
import os
import pathlib
import subprocess

import pytest

from harness import BUILD, NVSIM_RUN, Standalone, alive, eventually

ASCENDSIM = str(BUILD / "bin" / "ascendsim")
NPU_RUN = str(BUILD / "bin" / "ascendsim-run")


@pytest.fixture
def npus():
    machine = Standalone("ascend910B4x2")
    machine.up()
    yield machine
    machine.close()


@pytest.fixture
def both():
    machine = Standalone("h100x1,ascend310Px1")
    machine.up()
    yield machine
    machine.close()


def until(path):
    return ["/bin/sh", "-c", f"while [ ! -e {path} ]; do sleep 0.02; done"]


def test_two_share_an_npu_within_their_limits(npus):
    assert [(c["name"], c["vendor"], c["model"]) for c in npus.status()["cards"]] == \
        [("npu-0", "ascend", "910B4"), ("npu-1", "ascend", "910B4")]
    for memory, within, beyond in (("8Gi", "6Gi", "3Gi"), ("3000Mi", "2000Mi", "1500Mi")):
        ran = npus.call("run", "--memory", memory, "--cores", "30", "--", NPU_RUN, "mem", f"alloc={within}",
                        f"expect-oom={beyond}", f"rt-expect-oom={beyond}", f"physical-oom={beyond}", "mem")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        total = {"8Gi": 8192, "3000Mi": 3000}[memory]
        assert all(line.endswith(f"total={total}") for line in ran.stdout.splitlines()), ran.stdout
    refused = npus.call("run", "--memory", "40Gi", "--", "true", check=2)
    assert "npu-0" in refused.stderr or "32768Mi" in refused.stderr, refused.stderr


def test_what_is_shown_of_an_npu_job(npus):
    job = npus.start("--memory", "8Gi", "--cores", "30", "--name", "a", "--", NPU_RUN, "alloc=2Gi", "ready")
    eventually(lambda: (now := npus.job("a")) and now["shares"] and (now["shares"][0]["usedBytes"] or 0) >= 2 << 30, "2Gi in use")
    share = npus.check_books()["jobs"][0]["shares"][0]
    assert share["card"] in ("npu-0", "npu-1") and share["memoryBytes"] == 8 << 30 and share["cores"] == 30
    assert share["usedBytes"] < 3 << 30
    table = npus.call("ps", check=0).stdout
    assert "910B4" in table and share["card"] in table and "SIMULATED" in table
    assert share["card"] in npus.call("explain", "a", check=0).stdout
    status = npus.call("guard", "status", check=0).stdout
    assert "8192Mi" in status and "30%" in status, status
    claim = json.loads(npus.call("guard", "status", "-o", "json", check=0).stdout)["claims"][0]
    assert claim["devices"][0]["chargedBytes"] >= 2 << 30
    seen = eventually(lambda: (card := next(c for c in npus.status()["cards"] if c["name"] == share["card"]))["usedBytes"] and card,
                      "the driver's account")
    assert seen["usedBytes"] >= 2 << 30, "as DCMI counts it"
    assert not npus.status()["strangers"], "DCMI's list of processes names the job's own"
    job.terminate()
    npus.wait_empty()


def test_a_command_sees_its_own_npus_only(npus, tmp_path):
    npus.start("--name", "first", "--", *until(tmp_path / "end"))
    taken = npus.wait_state("first", "running")["shares"][0]["card"]
    other = {"npu-0": 1, "npu-1": 0}[taken]
    assert npus.call("run", "--", NPU_RUN, "physical-id", check=0).stdout == f"physical={other}\n"
    assert npus.call("run", "--", NPU_RUN, "device=1").returncode == 2, "there is one"
    outside = npus.call("run", "--memory", "1Gi", "--", "/bin/sh", "-c",
                        f"unset ASCEND_RT_VISIBLE_DEVICES; exec {NPU_RUN} device={1 - other} alloc=100Mi")
    assert outside.returncode != 0, "memory of an NPU that was not granted is refused"
    (tmp_path / "end").touch()
    npus.wait_empty()
    whole = npus.call("run", "--count", "2", "--", NPU_RUN, "physical-id", "device=1", "physical-id", "alloc=30Gi", check=0)
    assert whole.stdout == "physical=0\nphysical=1\n"


def test_a_share_of_the_time_holds_and_is_lent(npus, tmp_path):
    """Bounds are wide: the machine of the test may be busy with other things."""
    npus.close()
    npus.simulate = "ascend910B4x1"
    os.makedirs(npus.folder, exist_ok=True)
    npus.up("--strict-shares")
    npus.start("--memory", "8Gi", "--cores", "50", "--name", "owner", "--", *until(tmp_path / "end"))
    npus.wait_state("owner", "running")
    share = npus.call("run", "--memory", "8Gi", "--cores", "30", "--", NPU_RUN, "share=2000:2000", check=0).stdout
    assert 15 < float(share.split("=")[1].split()[0]) < 38, share
    npus.kill_daemon()
    npus.up()
    share = npus.call("run", "--memory", "8Gi", "--cores", "30", "--", NPU_RUN, "share=2000:3000", check=0).stdout
    assert 36 < float(share.split("=")[1].split()[0]) < 90, share
    (tmp_path / "end").touch()


def test_a_process_without_a_share_is_reported(npus):
    npus.start("--memory", "3000Mi", "--name", "granted", "--", NPU_RUN, "alloc=1000Mi", "ready")
    npus.wait_state("granted", "running")
    simulated = dict(os.environ, ASCENDSIM_ROOT=os.path.join(npus.folder, "simulation"),
                     LD_LIBRARY_PATH=str(BUILD / "sim" / "ascend" / "lib"))
    with subprocess.Popen([NPU_RUN, "alloc=700Mi", "ready"], env=simulated, stdout=subprocess.DEVNULL) as outside:
        try:
            found = eventually(lambda: npus.status()["strangers"], "the report")
            assert [stranger["pid"] for stranger in found] == [outside.pid], "and nobody who has a share"
            assert found[0]["card"] == "npu-0" and found[0]["memoryBytes"] >= 700 << 20
        finally:
            outside.kill()
    eventually(lambda: not npus.status()["strangers"], "the end of the report")


def test_kill_9_of_the_daemon_and_a_sick_npu(npus, tmp_path):
    npus.start("--memory", "20Gi", "--name", "runs", "--", NPU_RUN, "alloc=1Gi", "ready")
    before = npus.wait_state("runs", "running")
    npus.kill_daemon()
    assert alive(before["pid"])
    npus.up()
    assert npus.job("runs")["pid"] == before["pid"] and npus.job("runs")["shares"][0]["card"] == before["shares"][0]["card"]
    sick = {"npu-0": "1", "npu-1": "0"}[before["shares"][0]["card"]]
    root = os.path.join(npus.folder, "simulation")
    subprocess.run([ASCENDSIM, "fault", "--root", root, "--card", sick, "--kind", "error", "--value", "2149974016"], check=True)
    card = eventually(lambda: next((c for c in npus.status()["cards"] if not c["healthy"]), None), "a sick NPU")
    assert card["name"] == f"npu-{sick}" and "0x80260000" in card["healthMessage"].lower(), card
    npus.start("--memory", "20Gi", "--name", "waits", "--", "true")
    assert npus.wait_state("waits", "waiting")["reasons"]
    assert npus.call("run", "--memory", "5Gi", "--", NPU_RUN, "alloc=1Gi", check=0).returncode == 0


def test_both_vendors_on_one_machine(both):
    assert [(c["name"], c["vendor"]) for c in both.status()["cards"]] == [("gpu-0", "nvidia"), ("npu-0", "ascend")]
    assert both.status()["cards"][1]["memoryBytes"] == 21527 << 20, "what the driver leaves of a 310P's 24 GiB"
    unclear = both.call("run", "--memory", "1Gi", "--", "true", check=2)
    assert "--vendor ascend or --vendor nvidia" in unclear.stderr
    gpu = both.call("run", "--vendor", "nvidia", "--memory", "3000Mi", "--", NVSIM_RUN, "--expect-total", "3000Mi", "--alloc", "2000Mi",
                    "--expect-oom", "2000Mi")
    assert gpu.returncode == 0, gpu.stdout + gpu.stderr
    npu = both.call("run", "--model", "310P", "--memory", "3000Mi", "--", NPU_RUN, "alloc=2000Mi", "expect-oom=2000Mi")
    assert npu.returncode == 0, npu.stdout + npu.stderr
    for words in (["--vendor", "amd"], ["--vendor", "ascend", "--model", "H100"], ["--vendor", "ascend", "--count", "2"]):
        both.call("run", *words, "--", "true", check=2)
    env = both.call("run", "--vendor", "ascend", "--", "env", check=0).stdout
    assert "ASCEND_RT_VISIBLE_DEVICES=0\n" in env and "CUDA_VISIBLE_DEVICES" not in env
    shown = both.call("run", "--vendor", "ascend", "--name", "n", "--detach", "--memory", "1Gi", "--", "true", check=0)
    assert "(ascend)" in both.call("explain", shown.stdout.strip(), check=0).stdout
    both.check_books()


def test_one_vendor_that_hangs_does_not_hold_the_other(both):
    root = os.path.join(both.folder, "simulation")
    subprocess.run([ASCENDSIM, "fault", "--root", root, "--card", "0", "--kind", "lost"], check=True)
    eventually(lambda: any(not c["healthy"] for c in both.status()["cards"]), "a lost NPU")
    both.call("run", "--vendor", "nvidia", "--memory", "1Gi", "--", "true", check=0)
    both.kill_daemon()
    both.up()
    assert [c["name"] for c in both.status()["cards"]][0] == "gpu-0"
    both.call("run", "--vendor", "nvidia", "--memory", "1Gi", "--", "true", check=0)


def test_a_description_in_a_file(tmp_path):
    (tmp_path / "npus.yaml").write_text("cards: [{model: 910C, count: 2}]\n")
    (tmp_path / "bad.yaml").write_text("cards: [{model: 910B9}]\n")
    heddle = Standalone(f"ascend:{tmp_path}/npus.yaml")
    try:
        heddle.up()
        assert [c["model"] for c in heddle.status()["cards"]] == ["Ascend910", "Ascend910"]
        heddle.call("down", check=0)
        for bad, words in ((f"ascend:{tmp_path}/bad.yaml", "910B9"), ("ascend910B9x1", "910B9"),
                           (f"h100x1,ascend310Px1,ascend:{tmp_path}/npus.yaml", "a file describes all cards of ascend")):
            heddle.simulate = bad
            assert words in heddle.up(check=1).stderr
    finally:
        heddle.close()
