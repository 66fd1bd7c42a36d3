"""The chart as users install it: Deployment and DaemonSet in pods, the webhook through its Service, tokens from the kubelet."""
import re

import pytest

from harness import image, objects
from harness.forward import Forward
from harness.heddle import NAMESPACE, WEBHOOKS, WORKLOADS, build_dir, render
from harness.process import wait_until
from test_share import tenant, wait_done, wait_line

GUARDS = ("libheddle_guard.so", "libheddle_guard_ascend.so")  # beside the programs, where the agent looks for them


def import_heddle_image(node):
    """As the README says it: `make image`, and the archive imported on the node. The chart's default name finds it."""
    archive = node.dir / "img/heddle-image.tar"
    image.build_image(build_dir(), archive, image.default_name())
    node.ctr("images", "import", archive)
    archive.unlink()


@pytest.fixture(scope="module")
def installed(heddle):
    """The processes of the other tests end, and the chart's workloads take over."""
    api, forward = heddle.api, Forward(heddle.cluster.gateway, 0, heddle.cluster.plane.port)
    heddle.stop()
    heddle.remove_webhooks()
    import_heddle_image(heddle.cluster.node)
    reach = [{"name": "KUBERNETES_SERVICE_HOST", "value": heddle.cluster.gateway},
             {"name": "KUBERNETES_SERVICE_PORT", "value": str(forward.port)}]
    values = heddle.values()
    values.pop("webhook")
    for part in ("controller", "agent"):
        values[part].update({"extraEnv": reach})
    values["agent"]["extraEnv"] = [*reach, {"name": "NVSIM_ROOT", "value": str(heddle.driver_root)}]
    # A device node can be written on a read-only mount; the simulated cards are ordinary files and cannot.
    values["agent"].update({"maxUnavailable": 1,
                            "extraVolumes": [{"name": "cards", "hostPath": {"path": f"{heddle.driver_root}/dev"}}],
                            "extraVolumeMounts": [{"name": "cards", "mountPath": f"{heddle.driver_root}/dev"}]})
    docs = render(heddle.cluster.bin, values)
    for body in docs:
        api.apply(body, "helm")
    yield heddle
    for body in docs:
        if body["kind"] in WORKLOADS + WEBHOOKS:
            _, plural, namespaced = api._resource(body["apiVersion"], body["kind"])
            api.delete(plural, body["metadata"]["name"], NAMESPACE if namespaced else None)
    wait_until("the pods of Heddle are gone", lambda: not api.list("pods", NAMESPACE), 90)
    forward.close()
    heddle.serve()
    heddle.start_agent()


def why(heddle):
    """What is known about Heddle's own pods."""
    text = []
    for body in heddle.api.list("pods", NAMESPACE):
        name = body["metadata"]["name"]
        text += [f"{name}: {body['status'].get('phase')} {body['status'].get('containerStatuses')}",
                 heddle.cluster.node.logs(body)[-2000:], heddle.api.story(NAMESPACE, name)]
    return "\n".join(text)


def test_deployment_and_daemonset_become_ready(installed):
    api = installed.api
    wait_until(lambda: f"two controllers are ready\n{why(installed)}", lambda: api.get(
        "deployments", "heddle-controller", NAMESPACE)["status"].get("readyReplicas") == 2, 120)
    wait_until(lambda: f"the agent is ready\n{why(installed)}", lambda: api.get(
        "daemonsets", "heddle-agent", NAMESPACE)["status"].get("numberReady") == 1, 120)
    for body in api.list("pods", NAMESPACE):
        assert all(entry["restartCount"] == 0 for entry in body["status"]["containerStatuses"]), why(installed)


def test_the_image_has_the_guard_of_each_vendor(installed):
    """The agent lays them out on the node, and takes away those that it does not have."""
    def laid_out():
        return {path.read_bytes() for path in (installed.state_dir / "guard").glob("*/lib/libheddle_guard.so")}
    wanted = {(build_dir() / "lib" / library).read_bytes() for library in GUARDS}
    assert len(wanted) == 2
    wait_until("the guards are laid out", lambda: laid_out() == wanted, 60)


def wait_serving(heddle):
    """The webhook answers through its Service, and the agent's cards are there and well."""
    heddle.wait_webhook(120)

    def taints():
        return [device.get("taints") for body in heddle.api.list("resourceslices", field="spec.nodeName=node-1")
                if body["spec"]["driver"] == objects.DRIVER for device in body["spec"]["devices"]]
    wait_until(lambda: f"two cards are published: {taints()}\n{why(heddle)}", lambda: [
        [taint["key"] for taint in entry] for entry in taints()] == [["heddle.dev/managed"]] * 2, 60)


def test_a_share_from_request_to_limit(installed, ns):
    wait_serving(installed)
    installed.api.create("pods", tenant("one", ns, "expect-total=3000Mi", "expect-oom=3001Mi", "alloc=1000Mi",
                                        limits=objects.share(memory=3000, cores=30)))
    assert re.search(r"^alloc ok=1", wait_done(installed, ns, "one", 120), re.M)


def test_slices_and_tenants_outlive_a_rolling_update_of_the_agent(installed, ns):
    wait_serving(installed)
    api = installed.api
    api.create("pods", tenant("stays", ns, "expect-total=900Mi", "hold", limits=objects.share(memory=900, cores=10)))
    wait_line(installed, ns, "stays", r"^expect-total ok=1")
    before = {body["metadata"]["uid"] for body in api.list("resourceslices", field="spec.nodeName=node-1")}
    api.patch("daemonsets", "heddle-agent", {"spec": {"template": {"metadata": {"annotations": {"roll": "1"}}}}}, NAMESPACE)
    wanted = api.get("daemonsets", "heddle-agent", NAMESPACE)["metadata"]["generation"]

    def rolled():
        status = api.get("daemonsets", "heddle-agent", NAMESPACE)["status"]
        return status.get("observedGeneration") == wanted and status.get("updatedNumberScheduled") == 1 and status.get("numberReady") == 1
    wait_until(lambda: f"the agent is rolled\n{why(installed)}", rolled, 120)
    assert {body["metadata"]["uid"] for body in api.list("resourceslices", field="spec.nodeName=node-1")} == before
    assert objects.phase("Running")(api.get("pods", "stays", ns))
    api.create("pods", tenant("next", ns, "expect-total=800Mi", limits=objects.share(memory=800, cores=10)))
    wait_done(installed, ns, "next", 120)


def test_the_leader_is_deleted_and_pods_still_start(installed, ns):
    wait_serving(installed)
    api = installed.api
    leader = api.get("leases", "heddle-controller", NAMESPACE)["spec"]["holderIdentity"]
    names = [body["metadata"]["name"] for body in api.list("pods", NAMESPACE, label="app.kubernetes.io/component=controller")]
    victim = next(name for name in names if leader.startswith(name))
    api.delete("pods", victim, NAMESPACE)

    def started():
        try:
            return api.create("pods", tenant("late", ns, "expect-total=700Mi", limits=objects.share(memory=700, cores=10)))
        except Exception:  # pylint: disable=broad-except
            return None  # the Service may still name the pod that ends
    wait_until("the other replica answers the webhook", started, 60)
    wait_done(installed, ns, "late", 120)
