"""One machine: who is on a card outside its share, or without the guard that holds it there, is named, and ended on request."""
import contextlib
import os
import signal
import subprocess

import pytest

from harness import BUILD, NVSIM_RUN, Standalone, eventually

SHARE = ("--memory", "3000Mi")
UNGUARDED = {
    "cleared": ["env", "-u", "LD_PRELOAD", NVSIM_RUN],
    "dlmopen": [NVSIM_RUN, "via=dlmopen"],
}


@pytest.fixture
def heddle():
    machine = Standalone("h100x2")
    yield machine
    machine.close()


@contextlib.contextmanager
def outside(heddle, tmp_path, name="outside"):
    """A program on the first card that no `heddle run` started."""
    simulated = dict(os.environ, NVSIM_ROOT=os.path.join(heddle.folder, "simulation"),
                     LD_LIBRARY_PATH=str(BUILD / "sim" / "nvidia" / "lib"))
    with subprocess.Popen([NVSIM_RUN, "alloc=700Mi", f"touch={tmp_path / name}", "hold"], env=simulated,
                          stdout=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: (tmp_path / name).exists() or process.poll() is not None, f"the start of {name}")
            yield process
        finally:
            process.kill()


def strangers(heddle):
    return {entry["pid"]: entry for entry in heddle.status()["strangers"]}


@pytest.mark.parametrize("way", UNGUARDED)
def test_who_has_no_guard_is_named(heddle, way):
    heddle.up()
    heddle.start(*SHARE, "--name", "honest", "--", NVSIM_RUN, "alloc=1000Mi", "hold")
    heddle.start("--name", "whole", "--", *UNGUARDED[way], "alloc=1000Mi", "hold")
    heddle.start(*SHARE, "--name", "escaped", "--", *UNGUARDED[way], "alloc=1000Mi", "hold")
    found = eventually(lambda: strangers(heddle), "the report")
    assert len(found) == 1, "neither who is guarded nor who has a whole card"
    entry = next(iter(found.values()))
    assert "guard" in entry["what"] and entry["memoryBytes"] >= 1000 << 20
    assert {name: heddle.job(name)["state"] for name in ("honest", "whole", "escaped")} == dict.fromkeys(
        ("honest", "whole", "escaped"), "running")


@pytest.mark.parametrize("way", UNGUARDED)
def test_who_has_no_guard_is_ended_on_request(heddle, way):
    heddle.up("--enforce")
    heddle.start(*SHARE, "--name", "honest", "--", NVSIM_RUN, "alloc=1000Mi", "hold")
    heddle.start("--name", "whole", "--", *UNGUARDED[way], "alloc=1000Mi", "hold")
    escaped = heddle.start(*SHARE, "--name", "escaped", "--", *UNGUARDED[way], "alloc=1000Mi", "hold")
    assert escaped.wait(120) == 128 + signal.SIGKILL
    assert heddle.job("honest")["state"] == "running" and heddle.job("whole")["state"] == "running"


def test_who_comes_from_outside_is_ended_on_request_and_who_was_there_is_not(heddle, tmp_path):
    heddle.up()
    with outside(heddle, tmp_path, "before") as before:
        heddle.call("down", check=0)
        heddle.up("--enforce")
        heddle.start(*SHARE, "--name", "honest", "--", NVSIM_RUN, "alloc=1000Mi", "hold")
        eventually(lambda: before.pid in strangers(heddle), "the report")
        with outside(heddle, tmp_path) as after:
            assert after.wait(120) == -signal.SIGKILL
        assert before.poll() is None and before.pid in strangers(heddle)
        assert heddle.job("honest")["state"] == "running"
