"""Bad requests get a clear answer at admission: the field, what was asked, what to write instead."""
import pytest

from harness import objects
from harness.api import refused

FIELD = "spec.containers[0].resources.limits"


@pytest.mark.parametrize("limits, field, fix", [
    ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "16Gi"}, "nvidia.com/gpumem", "write 16384"),
    ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "16G"}, "nvidia.com/gpumem", "MiB"),
    ({"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "0"}, "nvidia.com/gpumem-percentage", "1 to 100"),
    ({"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "101"}, "nvidia.com/gpumem-percentage", "1 to 100"),
    ({"nvidia.com/gpu": "1", "nvidia.com/gpucores": "150"}, "nvidia.com/gpucores", "0 to 100"),
    ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "100", "nvidia.com/gpumem-percentage": "50"}, "percentage", "only one"),
    ({"nvidia.com/gpu": "33"}, "nvidia.com/gpu", "32"),
    ({"nvidia.com/gpu": "1", "nvidia.com/gpumen": "100"}, "nvidia.com/gpumen", "nvidia.com/gpumem"),
])
def test_refused_with_the_field_and_the_fix(api, controller, ns, limits, field, fix):
    error = refused(lambda: api.create("pods", objects.pod("bad", ns, limits=limits)), (400, 403, 422))
    assert f"{FIELD}[" in str(error) and field in str(error) and fix in str(error), error
    assert api.list("pods", ns) == []


@pytest.mark.parametrize("limits", [{"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "-1"},
                                    {"nvidia.com/gpu": "-1"}, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "0.5"}])
def test_what_is_no_amount_is_refused(api, controller, ns, limits):
    """By the webhook, or by the API server itself; in no case taken as 0."""
    refused(lambda: api.create("pods", objects.pod("bad", ns, limits=limits)), (400, 403, 422))
    assert api.list("pods", ns) == []


def test_every_fault_of_a_pod_is_named_at_once(api, controller, ns):
    containers = [objects.container("a", limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "16Gi"}),
                  objects.container("b", limits={"nvidia.com/gpu": "1", "nvidia.com/gpucores": "150"})]
    error = str(refused(lambda: api.create("pods", objects.pod("bad", ns, containers))))
    assert "spec.containers[0]" in error and "spec.containers[1]" in error, error


def test_a_deployment_of_bad_pods_shows_the_reason(api, controller, ns):
    """Pods of a workload are refused one by one: the reason must reach the ReplicaSet's events."""
    from harness.process import wait_until
    template = objects.pod("x", ns, limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "16Gi"})
    template["spec"].pop("restartPolicy")
    api.create("deployments", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "bad", "namespace": ns}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": "bad"}},
        "template": {"metadata": {"labels": {"app": "bad"}}, "spec": template["spec"]}}})
    wait_until("an event names the fix", lambda: any(
        "write 16384" in event.get("message", "") for event in api.list("events", ns)), 60)
