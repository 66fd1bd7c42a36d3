"""What happens to Heddle and to what it made: certificates change, claims, nodes and namespaces go away, Heddle itself is removed."""
import base64
import subprocess

import pytest

from harness import objects
from harness.heddle import NAMESPACE, program
from harness.process import wait_until
from test_controller import ask, claims_of, hold_ungate, pin, wait_bound, wait_waiting


def certificates(pem):
    return [part.split("-----END")[0].strip() for part in pem.split("-----BEGIN CERTIFICATE-----")[1:]]


def authorities(api):
    """The caBundle of every webhook of the chart, each as a list of certificates."""
    out = []
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        for webhook in api.get(kind, "heddle")["webhooks"]:
            out.append(certificates(base64.b64decode(webhook["clientConfig"].get("caBundle", "")).decode()))
    return out


def secret(api):
    data = api.get("secrets", "heddle-webhook", NAMESPACE).get("data", {})
    return {name: base64.b64decode(text).decode() for name, text in data.items()}


def wait_new_certificate(api, before):
    def changed():
        now = secret(api)
        trusted = certificates(now.get("ca.crt", ""))
        return now.get("tls.crt") not in (None, before["tls.crt"]) and all(entry == trusted for entry in authorities(api))
    wait_until("a new certificate is kept and trusted in every webhook", changed, 60)


def test_certificates_are_rotated(api, controller):
    before = secret(api)
    assert len(authorities(api)) == 4
    # A certificate without a name that is needed: a new one, and the old authority stays trusted beside its own.
    controller.restart_controller(webhook_name="another.name.example")
    wait_new_certificate(api, before)
    old = certificates(before["ca.crt"])[0]
    assert all(len(entry) == 2 and entry[1] == old for entry in authorities(api))
    controller.wait_webhook()


def test_a_lost_certificate_is_made_again(api, controller):
    before = secret(api)
    api.patch("secrets", "heddle-webhook", {"data": None}, NAMESPACE)
    wait_new_certificate(api, before)
    controller.wait_webhook()
    # As after an upgrade of the chart that cleared it.
    api.patch("validatingwebhookconfigurations", "heddle", [{"op": "remove", "path": "/webhooks/2/clientConfig/caBundle"}])
    wait_until("the bundle is back", lambda: all(authorities(api)), 30)


@pytest.mark.parametrize("gate", ["there", "gone"])
def test_a_claim_that_a_user_deletes_too_early_is_made_again(api, controller, ns, make_node, gate):
    node = make_node(cards=1)
    tap = hold_ungate(controller, ns)
    tap.drop = gate == "there"
    try:
        ask(api, ns, "one", objects.share(memory=1000), **pin(node))
        tap.reached.wait(60)
        claim, = claims_of(api, ns, "one")
        api.delete("resourceclaims", claim["metadata"]["name"], ns)
    finally:
        controller.controllers["controller-0"].kill()
        tap.release.set()
    controller.start_controller()
    controller.wait_webhook()

    def made_again():
        found = claims_of(api, ns, "one")
        return objects.bound(api.get("pods", "one", ns)) or (found and found[0]["metadata"]["uid"] != claim["metadata"]["uid"])
    wait_until(lambda: f"the claim is made again {api.story(ns, 'one')}", made_again, 60)
    wait_bound(api, ns, "one")
    tap.close()


def test_a_claim_in_use_outlives_its_deletion(api, controller, ns, make_node):
    node = make_node(cards=1)
    ask(api, ns, "one", objects.share(), **pin(node))
    wait_bound(api, ns, "one")
    claim, = claims_of(api, ns, "one")
    api.delete("resourceclaims", claim["metadata"]["name"], ns)
    ask(api, ns, "two", objects.share(), **pin(node))
    wait_waiting(api, ns, "two")
    assert objects.results(api.get("resourceclaims", claim["metadata"]["name"], ns)), "the card stays with the pod that has it"
    api.delete("pods", "one", ns, grace=0)
    api.wait_gone("resourceclaims", claim["metadata"]["name"], ns)
    wait_bound(api, ns, "two")


def test_a_node_that_is_lost_before_the_pod_is_bound(api, controller, ns, make_node):
    first, second = make_node(cards=1, labels={"pool": ns}), make_node(cards=1, labels={"pool": ns})
    tap = hold_ungate(controller, ns)
    try:
        ask(api, ns, "one", objects.share(memory=1000), nodeSelector={"pool": ns})
        tap.reached.wait(60)
        (pool, _), = objects.granted(claims_of(api, ns, "one"))
        lost = pool.split("/")[0]
        controller.remove_node(lost)
    finally:
        tap.release.set()
    body = wait_bound(api, ns, "one", 90)
    assert body["spec"]["nodeName"] in {first, second} - {lost}
    assert {card[0] for card in objects.granted(claims_of(api, ns, "one"))} == {body["spec"]["nodeName"] + "/nvidia"}
    controller.restart_controller()
    tap.close()


def test_a_claim_without_its_pod_goes(api, controller, ns, make_node):
    """Allocated and never reserved, its owner gone, as when a controller dies and the pod is deleted meanwhile."""
    node = make_node(cards=1)
    body = objects.claim("orphan", ns, device_class="heddle-nvidia")
    body["metadata"].update({"finalizers": [objects.FINALIZER], "labels": {"heddle.dev/managed": "true"}, "ownerReferences": [{
        "apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "00000000-0000-0000-0000-000000000001", "controller": True}]})
    user = controller.controller_api()
    claim = user.create("resourceclaims", body)
    claim["status"] = {"allocation": {"devices": {"results": [{
        "request": "card", "driver": objects.DRIVER, "pool": f"{node}/nvidia", "device": "gpu-0",
        "shareID": "11111111-2222-3333-4444-555555555555", "consumedCapacity": {"memory": "24000Mi", "cores": "100"}}]},
        "allocationTimestamp": "2026-01-01T00:00:00Z"}}
    try:
        user.update("resourceclaims", claim, "status")
    except Exception:  # pylint: disable=broad-except  # gone already
        pass
    api.wait_gone("resourceclaims", "orphan", ns, 90)
    ask(api, ns, "next", objects.share(), **pin(node))
    wait_bound(api, ns, "next")


def test_a_namespace_goes_with_all_that_is_in_it(api, controller, ns, make_node):
    node = make_node(cards=1)
    name = objects.unique("doomed")
    api.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    api.wait_for("serviceaccounts", "default", name, bool, "exists")
    for number in range(3):
        ask(api, name, f"p{number}", objects.share(), **pin(node))
    wait_until("one has the card", lambda: any(map(objects.bound, api.list("pods", name))), 60)
    api.delete("namespaces", name)

    def gone():
        for body in api.list("pods", name):
            if objects.bound(body):  # the node has no kubelet that would end it
                api.delete("pods", body["metadata"]["name"], name, grace=0)
        return api.find("namespaces", name) is None
    wait_until("the namespace is gone", gone, 60)
    ask(api, ns, "next", objects.share(), **pin(node))
    wait_bound(api, ns, "next")


def test_explain_says_why_a_pod_waits_and_what_one_has(api, controller, ns, make_node):
    node = make_node(cards=1, memory_mib=4000)
    ask(api, ns, "has", objects.share(memory=3000, cores=30), **pin(node))
    wait_bound(api, ns, "has")
    ask(api, ns, "waits", objects.share(memory=2000), **pin(node))
    reason = wait_waiting(api, ns, "waits")["message"]
    config = controller.cluster.plane.kubeconfig("explainer", api.token)

    def explain(name):
        return subprocess.run([program("heddle"), "explain", "--kubeconfig", config, "-n", ns, name], capture_output=True, text=True,
                              check=False, timeout=60)
    waits, has, absent = explain("waits"), explain("has"), explain("absent")
    assert waits.returncode == 0 and reason in waits.stdout and "HeddleWaiting" in waits.stdout, waits
    assert has.returncode == 0 and f"{node}/nvidia/gpu-0" in has.stdout and "3000Mi" in has.stdout, has
    assert absent.returncode == 3 and "absent" in absent.stderr, absent


def test_pods_that_were_there_before_heddle_are_reported(api, controller, ns, make_node):
    """They passed admission untranslated and cannot be changed any more: their owners are told what to do."""
    make_node(cards=1)
    leader = controller.wait_leading()
    controller.remove_webhooks()
    try:
        wait_until("no webhook is in the way", lambda: not objects.gated(api.request(
            "POST", api.path("pods", ns) + "?dryRun=All", objects.pod("probe", ns, limits=objects.share()))), 30)
        ask(api, ns, "early", objects.share(memory=100))
        api.create("pods", objects.pod("plain", ns, nodeSelector={"no": "node"}))
    finally:
        controller.install_webhooks()
        controller.wait_webhook()

    def told():
        return [message for reason, message, _ in api.events(ns, "early") if reason == "HeddleWaiting"]
    message = wait_until("an event on the pod", told, 60)[0]
    assert "before Heddle could translate" in message and "create it again" in message, message
    wait_until("they are counted", lambda: controller.metrics(leader)["heddle_controller_untranslated_pods"] == 1, 30)
    assert not any(reason.startswith("Heddle") for reason, _, _ in api.events(ns, "plain"))
    api.delete("pods", "early", ns, grace=0)
    wait_until("nobody is left", lambda: controller.metrics(leader)["heddle_controller_untranslated_pods"] == 0, 30)


def test_uninstall(api, controller, ns, make_node):
    """Nothing stays stuck: gates, finalizers and taints go. Heddle is installed again for the tests that follow."""
    node = make_node(cards=1)
    ask(api, ns, "runs", objects.share(), **pin(node))
    wait_bound(api, ns, "runs")
    ask(api, ns, "waits", objects.share(), **pin(node))
    wait_waiting(api, ns, "waits")
    tap = hold_ungate(controller, ns)
    other = make_node(cards=1)
    ask(api, ns, "granted", objects.share(memory=10), **pin(other))
    tap.reached.wait(60)
    controller.controllers["controller-0"].kill()
    tap.drop = True
    tap.release.set()
    claim, = claims_of(api, ns, "granted")

    config = controller.cluster.plane.kubeconfig("uninstaller", api.token)

    def heddle(*argv):
        return subprocess.run([program("heddle"), "uninstall", "--kubeconfig", config, *argv], capture_output=True, text=True,
                              check=False, timeout=60)
    plan = heddle("--plan")
    assert plan.returncode == 0, plan.stderr
    for line in ("webhook configuration heddle: delete", f"pod {ns}/waits: remove the scheduling gate",
                 f"pod {ns}/granted: remove the scheduling gate",
                 f"claim {ns}/{claim['metadata']['name']}: clear the allocation", f"resource slice {node}-heddle-nvidia-0: delete"):
        assert line in plan.stdout, plan.stdout
    assert "is in use by pod runs" in plan.stdout and "Nothing was changed" in plan.stdout
    assert objects.gated(api.get("pods", "waits", ns)) and api.find("mutatingwebhookconfigurations", "heddle")
    try:
        done = heddle("--yes")
        assert done.returncode == 0, done.stdout + done.stderr
        assert not any(objects.gated(body) for body in api.list("pods", ns))
        assert not api.find("mutatingwebhookconfigurations", "heddle") and not api.find("validatingwebhookconfigurations", "heddle")
        assert api.list("resourceslices", field=f"spec.nodeName={node}") == []
        assert {body["metadata"]["name"] for body in api.list("resourceclaims", ns) if objects.results(body)} == {
            body["metadata"]["name"] for body in claims_of(api, ns, "runs")}
        assert heddle("--plan").stdout.count("\n") <= 2
        for name in ("runs", "waits", "granted"):
            api.delete("pods", name, ns, grace=0)
        wait_until("no claim stays", lambda: not api.list("resourceclaims", ns), 60)
    finally:
        controller.serve()
        tap.close()
