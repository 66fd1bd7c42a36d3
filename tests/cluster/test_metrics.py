"""What both programs show at /metrics on a cluster at work: well-formed, and the numbers are those of the cluster."""
import re
import urllib.request

from harness import objects
from harness.process import wait_until
from test_controller import ask, wait_waiting
from test_share import HELD, tenant, wait_line

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? ([^ ]+)')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
MIB = 2**20


def scrape(heddle, name):
    """Prometheus' text of a program, read strictly -> {family: (type, [(series, {label: value}, number)])}."""
    with urllib.request.urlopen(f"http://127.0.0.1:{heddle.metrics_ports[name]}/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = answer.read().decode()
    assert text.endswith("\n")
    families, family = {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split(" ", 3)[2]
            assert family not in families and len(line.split(" ", 3)[3]) > 5, line
            families[family] = ("", [])
        elif line.startswith("# TYPE "):
            _, _, named, kind = line.split(" ")
            assert named == family and kind in ("counter", "gauge", "histogram"), line
            families[family] = (kind, [])
        else:
            series, labels, number = SAMPLE.fullmatch(line).groups()
            kind, samples = families[family]
            assert series == family if kind != "histogram" else series in [family + end for end in ("_bucket", "_sum", "_count")], line
            found = dict(LABEL.findall(labels or ""))
            assert not any(known == (series, found) for *known, _ in map(list, samples)), f"twice: {line}"
            samples.append((series, found, float(number)))
    for name_of, (kind, samples) in families.items():
        assert re.fullmatch(r"heddle_[a-z_]+", name_of) and (kind != "counter" or name_of.endswith("_total")), name_of
        assert all(number >= 0 for _, _, number in samples), name_of
    return families


def value(families, family, **labels):
    """The one sample of the family with these labels (it may have more)."""
    found = [number for _, has, number in families[family][1] if labels.items() <= has.items()]
    assert len(found) == 1, (family, labels, families[family])
    return found[0]


def check_histogram(families, family, **labels):
    samples = [(series, has, number) for series, has, number in families[family][1] if labels.items() <= has.items()]
    buckets = [(float(has["le"]), number) for series, has, number in samples if series.endswith("_bucket")]
    assert buckets == sorted(buckets) and [count for _, count in buckets] == sorted(count for _, count in buckets)
    count, = [number for series, _, number in samples if series.endswith("_count")]
    total, = [number for series, _, number in samples if series.endswith("_sum")]
    assert buckets[-1] == (float("inf"), count) and total >= 0
    return count


def test_the_agent_shows_cards_claims_and_what_they_use(heddle, ns):
    api = heddle.api
    api.create("pods", tenant("one", ns, "alloc=1000Mi", "launch=1ms*5", HELD, limits=objects.share(memory=3000, cores=30)))
    wait_line(heddle, ns, "one", r"^launch ok=1")
    claim, = api.list("resourceclaims", ns)
    result, = objects.results(claim)
    devices = {device["name"]: device for body in api.list("resourceslices", field="spec.nodeName=node-1")
               for device in body["spec"]["devices"]}
    uuid = devices[result["device"]]["attributes"]["uuid"]["string"]

    def charged():
        found = scrape(heddle, "agent")
        samples = [number for _, has, number in found["heddle_claim_memory_charged_bytes"][1]
                   if has.get("claim") == claim["metadata"]["name"]]
        return found if samples and 1000 * MIB <= samples[0] <= 3000 * MIB else None
    found = wait_until("what the claim uses is shown", charged, 30)
    mine = {"namespace": ns, "claim": claim["metadata"]["name"], "uuid": uuid}
    assert value(found, "heddle_claim_memory_bytes", **mine, request="gpu", device=result["device"], share=result["shareID"]) == 3000 * MIB
    assert value(found, "heddle_claim_cores_percent", **mine) == 30
    assert value(found, "heddle_agent_info", node="node-1") == 1 and value(found, "heddle_agent_vendor_up", vendor="nvidia") == 1
    assert value(found, "heddle_agent_vendor_worker_starts_total", vendor="nvidia") >= 1
    for device in devices.values():
        card = {"uuid": device["attributes"]["uuid"]["string"], "vendor": "nvidia", "minor": str(device["attributes"]["minor"]["int"])}
        assert value(found, "heddle_accelerator_healthy", **card) == 1
        total = value(found, "heddle_accelerator_memory_total_bytes", **card)
        assert total // MIB == objects.mib(device["capacity"]["memory"]["value"])
        assert 0 <= value(found, "heddle_accelerator_utilization_percent", **card) <= 100

    def seen_outside():
        now = scrape(heddle, "agent")
        return (value(now, "heddle_accelerator_memory_used_bytes", uuid=uuid) >= 1000 * MIB
                and value(now, "heddle_accelerator_processes", uuid=uuid) == 1)
    wait_until("the driver's own numbers are shown", seen_outside, 30)
    assert value(found, "heddle_agent_ungranted_processes", reason="ungranted") == 0
    assert value(found, "heddle_agent_slice_writes_total") >= 1 and value(found, "heddle_agent_api_requests_total") >= 1

    api.delete("pods", "one", ns)
    wait_until("a claim that ended is not shown", lambda: not any(
        has.get("claim") == claim["metadata"]["name"] for family in ("heddle_claim_memory_bytes", "heddle_claim_memory_charged_bytes")
        for _, has, _ in scrape(heddle, "agent")[family][1]), 60)


def test_the_controller_shows_decisions_writes_and_who_waits(heddle, ns, make_node):
    api, name = heddle.api, heddle.wait_leading()
    node = make_node(cards=1, memory_mib=4000)
    before = scrape(heddle, name)
    ask(api, ns, "has", objects.share(memory=3000), nodeSelector={"kubernetes.io/hostname": node})
    api.wait_for("pods", "has", ns, objects.bound, "bound", 60)
    ask(api, ns, "waits", objects.share(memory=2000), nodeSelector={"kubernetes.io/hostname": node})
    reason = wait_waiting(api, ns, "waits")["reason"]

    def counted():
        found = scrape(heddle, name)
        waiting = [number for _, has, number in found["heddle_controller_pending_pods"][1] if has["reason"] == reason]
        grown = [value(found, "heddle_controller_decisions_total", outcome=outcome) -
                 value(before, "heddle_controller_decisions_total", outcome=outcome) for outcome in ("assigned", "waiting")]
        return found if waiting == [1] and min(grown) >= 1 else None
    found = wait_until("the decisions are counted", counted, 30)
    assert value(found, "heddle_controller_leading") == 1 and value(found, "heddle_controller_synced") == 1
    assert value(found, "heddle_controller_tracked_pods") >= 2
    assert value(found, "heddle_controller_reviews_total", path="/mutate", verdict="changed") >= 2
    assert check_histogram(found, "heddle_controller_webhook_seconds", path="/mutate") >= 2
    assert check_histogram(found, "heddle_controller_place_seconds") >= 2
    kinds = {has["kind"] for _, has, number in found["heddle_controller_writes_total"][1] if number and has["result"] == "ok"}
    assert {"create_claim", "allocate_claim", "ungate_pod"} <= kinds, found["heddle_controller_writes_total"]
    assert value(found, "heddle_controller_over_commits_cleared_total") == value(before, "heddle_controller_over_commits_cleared_total")
    api.delete("pods", "waits", ns)
    wait_until("nobody waits any more", lambda: not any(
        has["reason"] == reason and number for _, has, number in scrape(heddle, name)["heddle_controller_pending_pods"][1]), 30)
