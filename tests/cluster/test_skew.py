"""Programs of two versions: only with those of another one at hand (tools/skew.sh, make test-skew)."""
import os
import pathlib
import re
import time
import urllib.error

import pytest

from harness import objects
from harness.process import wait_until
from test_metrics import scrape, value
from test_share import HELD, tenant, wait_done, wait_line

MIB = 2**20
ROOT = pathlib.Path(__file__).parents[2]


def guard_layout(tree):
    """The version of the guard's files that a tree's agent writes."""
    return int(re.search(r"HEDDLE_GUARD_VERSION = (\d+)", (pathlib.Path(tree) / "src/guard/layout.h").read_text()).group(1))


def serves_metrics(heddle):
    try:
        return scrape(heddle, "agent")
    except urllib.error.URLError:
        return None


@pytest.mark.skipif(not os.environ.get("HEDDLE_AGENT_TREE"), reason="needs the agent of another version")
@pytest.mark.parametrize("way", ["upgrade", "downgrade"])
def test_an_agent_takes_over_from_one_of_another_version(heddle, ns, monkeypatch, way):
    """With a tenant at work: what the other agent prepared is read, counted and in the end taken down."""
    other = os.environ["HEDDLE_AGENT_TREE"]

    def change_agent(tree):
        heddle.agent.stop()
        monkeypatch.setenv("HEDDLE_AGENT_TREE", tree)
        heddle.start_agent()
        heddle.wait_slices(2)  # those of the agent before may do
        wait_until("the agent serves its metrics", lambda: serves_metrics(heddle))
    first, second = (other, "") if way == "upgrade" else ("", other)
    change_agent(first)
    api = heddle.api
    api.create("pods", tenant("works", ns, "alloc=1000Mi", "launch=1ms*5", HELD, limits=objects.share(memory=3000, cores=30)))
    wait_line(heddle, ns, "works", r"^launch ok=1")
    claim, = api.list("resourceclaims", ns)
    change_agent(second)
    if second and guard_layout(second) < guard_layout(ROOT):
        # An agent reads its own layout and the one before; it can't know the next. It must leave the tenant alone all the same.
        time.sleep(6)  # one round of supervision
        assert value(scrape(heddle, "agent"), "heddle_agent_ungranted_processes", reason="ungranted") == 0
        assert objects.phase("Running")(api.get("pods", "works", ns))
        monkeypatch.undo()
        heddle.agent.stop()
        heddle.start_agent()
        heddle.wait_slices(2)
        pytest.skip(f"the other agent has layout {guard_layout(second)} of the guard's files, the tenant's are of {guard_layout(ROOT)}")
    wait_until("its use is read by the next agent", lambda: any(
        has.get("claim") == claim["metadata"]["name"] and 1000 * MIB <= number <= 3000 * MIB
        for _, has, number in scrape(heddle, "agent")["heddle_claim_memory_charged_bytes"][1]), 60)
    assert value(scrape(heddle, "agent"), "heddle_agent_ungranted_processes", reason="ungranted") == 0
    # Its folder is written anew by the second agent, and what is left of the card is exactly the rest.
    api.create("pods", tenant("beside", ns, "expect-total=2000Mi", "expect-oom=2100Mi", limits=objects.share(memory=2000, cores=30)))
    wait_done(heddle, ns, "beside", 90)
    assert objects.phase("Running")(api.get("pods", "works", ns))
    api.delete("pods", "works", ns)
    api.wait_gone("pods", "works", ns)
    folder = heddle.state_dir / "claims" / claim["metadata"]["uid"]
    wait_until("what the first one prepared is taken down", lambda: not folder.exists(), 60)
    monkeypatch.undo()
    heddle.agent.stop()
    heddle.start_agent()
    heddle.wait_slices(2)
