"""The chart: it renders, is refused where it must be, and gives each program the rights it needs and no more."""
import subprocess

import pytest

from harness import objects
from harness.api import ApiError, refused
from harness.heddle import CHART, NAMESPACE, render
from harness.process import Failed, wait_until


def test_lint(cluster):
    done = subprocess.run([cluster.bin / "helm", "lint", "--strict", CHART], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


ACME = """vendor: acme
title: Acme
sources: [x]
domains: [{prefix: acme.example/}, {prefix: shared.example/, starts: [Acme-]}]
families:
  - {id: gpu, dialect: plugin, noun: Acme GPU, request: gpu, count: acme.example/gpu}
"""


@pytest.mark.parametrize("values, complaint", [
    ({"catalog": {"acme": "vendor: ["}}, "catalog.acme"),
    ({"catalog": {"acme": ACME.replace("vendor: acme", "vendor: other")}}, "its text is of the vendor other"),
    ({"catalog": {"acme": ACME.replace("acme.example/}", "acme.example}")}}, "no domain that ends with /"),
    ({"catalog": {"Acme'": ACME}}, "catalog"),
    ({"agent": {"policy": "kill"}}, "policy"),
    ({"agent": {"unguarded": "kill"}}, "unguarded"),
    ({"agent": {"stateDir": "relative"}}, "stateDir"),
    ({"controller": {"replicas": 0}}, "replicas"),
    ({"controller": {"provisioningClass": "Check Capacity"}}, "provisioningClass"),
    ({"contoller": {}}, "contoller"),
    ({"managedDrivers": ["gpu.example.com', 'x"]}, "managedDrivers"),
    ({"managedDrivers": ["accelerator.heddle.dev"]}, "managedDrivers"),
    ({"webhook": {"url": "http://plain"}}, "url"),
    ({"webhook": {"resourcePrefixes": ["nvidia.com/gpu', true] || ['"]}}, "resourcePrefixes"),
])
def test_bad_values_are_refused(cluster, values, complaint):
    with pytest.raises(Failed, match=complaint):
        render(cluster.bin, values)


@pytest.mark.parametrize("name, asks", [("", False), ("best-effort-atomic-scale-up.autoscaling.x-k8s.io", True)])
def test_nodes_are_asked_for_only_where_a_class_is_named(cluster, name, asks):
    found = {(body["kind"], body["metadata"]["name"]): body
             for body in render(cluster.bin, {"controller": {"provisioningClass": name}})}
    rules = [rule for rule in found["ClusterRole", "heddle-controller"]["rules"]
             if {"provisioningrequests", "podtemplates"} & set(rule["resources"])]
    assert [rule["verbs"] for rule in rules] == [["create", "delete"]] * (2 if asks else 0)
    args = found["Deployment", "heddle-controller"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert (f"--provisioning-class={name}" in args) == asks


def test_older_clusters_are_refused(cluster):
    done = subprocess.run([cluster.bin / "helm", "template", CHART, "--kube-version", "1.35.0"], capture_output=True, text=True,
                          check=False)
    assert done.returncode != 0 and "1.36" in done.stderr


def test_other_drivers(cluster):
    """Each is named to the controller, in the policy, and in a rule that keeps the stock scheduler off, which 1.36 does not have."""
    values = {"managedDrivers": ["gpu.example.com", "tpu.example.com"]}
    found = {(body["kind"], body["metadata"]["name"]): body for body in render(cluster.bin, values)}
    args = found["Deployment", "heddle-controller"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [word for word in args if "managed" in word] == ["--managed-driver=gpu.example.com", "--managed-driver=tpu.example.com"]
    policy = found["ValidatingAdmissionPolicy", "heddle-ledger"]["spec"]["validations"][0]["expression"]
    assert "in ['accelerator.heddle.dev', 'gpu.example.com', 'tpu.example.com']" in policy
    assert found["DeviceTaintRule", "heddle-tpu.example.com"]["spec"] == {
        "deviceSelector": {"driver": "tpu.example.com"}, "taint": {"key": "heddle.dev/managed", "effect": "NoSchedule"}}
    done = subprocess.run([cluster.bin / "helm", "template", CHART, "--kube-version", "1.36.2", "--set", "managedDrivers={gpu.example.com}"],
                          capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "1.37" in done.stderr


def test_an_administrators_vendor(cluster):
    """It has a class, its names pass the webhook, and the controller reads its file, in a folder of its name."""
    found = {(body["kind"], body["metadata"]["name"]): body for body in render(cluster.bin, {"catalog": {"acme": ACME}})}
    assert ("DeviceClass", "heddle-acme") in found and ("DeviceClass", "heddle-nvidia") in found
    condition = found["MutatingWebhookConfiguration", "heddle"]["webhooks"][0]["matchConditions"][0]["expression"]
    assert "|acme\\.example/|shared\\.example/acme-)" in condition
    classes = found["ValidatingWebhookConfiguration", "heddle"]["webhooks"][2]["matchConditions"][0]["expression"]
    assert "'heddle-acme'" in classes and "'heddle-amd'" in classes
    pod = found["Deployment", "heddle-controller"]["spec"]["template"]["spec"]
    assert "--catalog=/etc/heddle/catalog" in pod["containers"][0]["args"]
    assert pod["volumes"][0]["configMap"]["items"] == [{"key": "acme", "path": "acme/requests.yaml"}]
    assert found["ConfigMap", "heddle-catalog"]["data"] == {"acme": ACME}


@pytest.mark.parametrize("values", [
    {},
    {"catalog": {"acme": ACME}},
    {"managedDrivers": ["gpu.example.com", "tpu.example.com"]},
    {"webhook": {"url": "https://127.0.0.1:9443/"}, "metrics": {"services": False}},
    {"controller": {"hostNetwork": True, "podDisruptionBudget": False, "extraArgs": ["--a=b"], "extraEnv": [
        {"name": "A", "value": "b"}], "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "affinity": {
            "nodeAffinity": {}}},
     "agent": {"hostNetwork": True, "driverRoot": "/run/nvidia/driver", "policy": "enforce", "unguarded": "enforce", "nodeSelector": {"a": "b"},
               "maxUnavailable": 1, "extraArgs": ["--a=b"], "extraVolumes": [{"name": "x", "emptyDir": {}}],
               "extraVolumeMounts": [{"name": "x", "mountPath": "/x"}]},
     "imagePullSecrets": [{"name": "s"}]},
])
def test_every_object_is_accepted_by_the_api_server(cluster, chart, values):
    for body in render(cluster.bin, values):
        group, plural, namespaced = cluster.api._resource(body["apiVersion"], body["kind"])
        meta = body["metadata"]
        parts = [group] + (["namespaces", meta["namespace"]] if namespaced else []) + [plural, meta["name"]]
        answer = cluster.api.request("PATCH", "/".join(parts) + "?fieldManager=x&force=true&dryRun=All&fieldValidation=Strict",
                                     body, "application/apply-patch+yaml")
        assert answer["metadata"]["name"] == meta["name"]


def test_upgrade_leaves_the_certificate_alone(cluster, chart):
    api = cluster.api
    before = api.get("secrets", "heddle-webhook", NAMESPACE)
    chart.controller_api().patch("secrets", "heddle-webhook", {"data": {"probe": "eA=="}}, NAMESPACE)
    for body in render(cluster.bin):
        if body["kind"] == "Secret":
            api.apply(body, "helm")
    after = api.get("secrets", "heddle-webhook", NAMESPACE)
    assert after["data"] == {**before.get("data", {}), "probe": "eA=="}
    api.patch("secrets", "heddle-webhook", {"data": {"probe": None}}, NAMESPACE)


def can(user, verb, group, resource, namespace="", name="", sub=""):
    attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": name, "subresource": sub}
    answer = user.request("POST", "apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}})
    return answer["status"]["allowed"]


R, A = "resource.k8s.io", "admissionregistration.k8s.io"
CONTROLLER_MAY = [
    ("patch", "", "pods"), ("patch", "", "pods", "x", "", "status"), ("watch", "", "nodes"), ("list", R, "resourceslices"),
    ("create", R, "resourceclaims"), ("delete", R, "resourceclaims"), ("update", R, "resourceclaims", "", "", "status"),
    ("update", R, "resourceclaims", "", "", "binding"), ("create", "", "events"),
    ("update", "coordination.k8s.io", "leases", NAMESPACE, "heddle-controller"),
    ("create", "", "pods", "x", "", "eviction"), ("watch", "heddle.dev", "acceleratorqueues"), ("patch", "heddle.dev", "acceleratorqueues", "", "q", "status"),
    ("update", "", "secrets", NAMESPACE, "heddle-webhook"), ("patch", A, "mutatingwebhookconfigurations", "", "heddle"),
]
CONTROLLER_MAY_NOT = [
    ("create", "", "pods", "x"), ("delete", "", "pods", "x"), ("create", R, "resourceslices"), ("update", R, "resourceslices"),
    ("get", "", "secrets", NAMESPACE, "other"), ("list", "", "secrets", NAMESPACE), ("get", "", "secrets", "kube-system"),
    ("update", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler"),
    ("patch", A, "mutatingwebhookconfigurations", "", "other"), ("create", A, "mutatingwebhookconfigurations"),
    ("update", A, "validatingadmissionpolicies", "", "heddle-ledger"), ("patch", "", "nodes"), ("get", "", "configmaps", "x"),
    ("create", "heddle.dev", "acceleratorqueues"), ("patch", "heddle.dev", "acceleratorqueues"),
]
AGENT_MAY = [("create", R, "resourceslices"), ("get", R, "resourceclaims", "x"), ("get", "", "nodes"), ("create", "", "events", "x")]
AGENT_MAY_NOT = [
    ("update", R, "resourceclaims", "x"), ("update", R, "resourceclaims", "x", "", "status"), ("patch", "", "pods", "x"),
    ("delete", "", "pods", "x"), ("get", "", "secrets", NAMESPACE, "heddle-webhook"), ("patch", "", "nodes"),
    ("update", R, "resourceclaims", "", "", "binding"),
]


def test_rights(cluster, chart):
    controller, agent = chart.controller_api(), chart.agent_api("node-1")
    for user, may, may_not in ((controller, CONTROLLER_MAY, CONTROLLER_MAY_NOT), (agent, AGENT_MAY, AGENT_MAY_NOT)):
        assert [entry for entry in may if not can(user, *entry)] == []
        assert [entry for entry in may_not if can(user, *entry)] == []


DEAD = "https://127.0.0.1:1"


def webhook_matches(api, body, kind="pods"):
    """Whether the dead webhook is asked: nothing listens at its address, so what it matches is refused."""
    try:
        api.request("POST", api.path(kind, body["metadata"]["namespace"]) + "?dryRun=All", body)
    except ApiError as error:
        assert DEAD in str(error), error
        return True
    return False


@pytest.fixture(scope="module")
def dead_webhook(cluster, chart):
    """The chart's webhook configurations a second time, under another name, with an address where nothing listens."""
    kinds = {"MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
             "ValidatingWebhookConfiguration": "validatingwebhookconfigurations"}
    for body in render(cluster.bin, {"webhook": {"url": DEAD}}):
        if body["kind"] in kinds:
            body["metadata"]["name"] = "heddle-dead"
            cluster.api.apply(body, "helm")
    pod = objects.pod("probe", "default", limits={"nvidia.com/gpu": "1"})
    claim = objects.claim("probe", "default")

    def in_force():
        return webhook_matches(cluster.api, pod) and webhook_matches(cluster.api, claim, "resourceclaims")
    wait_until("the webhook configurations are in force", in_force, 30)
    yield
    for kind in kinds.values():
        cluster.api.delete(kind, "heddle-dead")
    wait_until("the dead webhook is out of force", lambda: not in_force(), 30)


@pytest.mark.parametrize("asked, change", [
    (False, {}),
    (False, {"labels": {"app": "x"}, "annotations": {"nvidia.com/note": "1"}}),
    (True, {"limits": {"nvidia.com/gpu": "1"}}),
    (True, {"limits": {"nvidia.com/gpumem": "10"}}),
    (True, {"limits": {"nvidia.com/gpumemory": "10"}}),
    (True, {"limits": {"nvidia.com/gpuMem": "10"}}),
    (True, {"limits": {"nvidia.com/mig-1g.5gb": "1"}}),
    (False, {"limits": {"nvidia.com/hostdev": "1", "nvidia.com/pgpu": "1", "example.com/gpu": "1", "google.com/rdma": "1"}}),
    (True, {"limits": {"amd.com/gpu": "1"}}),
    (True, {"limits": {"huawei.com/Ascend910B4": "1"}}),
    (True, {"limits": {"volcano.sh/vgpu-memory": "1"}}),
    (True, {"limits": {"habana.ai/gaudi": "1"}}),
    (True, {"limits": {"deviceclass.resource.kubernetes.io/heddle-nvidia": "1"}}),
    (False, {"limits": {"deviceclass.resource.kubernetes.io/other": "1"}}),
    (True, {"annotations": {"gpu-fraction": "0.5"}}),
    (True, {"annotations": {"mps": "true"}}),
    (True, {"annotations": {"heddle.dev/request": "[]"}}),
    (True, {"annotations": {"nvidia.com/gpumem": "3000"}}),
    (False, {"annotations": {"nvidia.com/use-gputype": "A100"}}),
    (True, {"labels": {"heddle.dev/gang": "a"}}),
    (True, {"labels": {"heddle.dev/placement-policy": "spread"}}),
    (True, {"annotations": {"heddle.dev/placement-policy": "spread"}}),
    (True, {"schedulingGates": [{"name": objects.GATE}]}),
    (False, {"schedulingGates": [{"name": "example.com/gate"}]}),
    (True, {"initContainers": [objects.container("first", limits={"nvidia.com/gpucores": "5"})]}),
])
def test_webhook_matches_only_what_it_may_change(cluster, chart, dead_webhook, asked, change):
    assert webhook_matches(cluster.api, objects.pod("probe", "default", **change)) is asked


def configured(driver):
    body = objects.claim("probe", "default", device_class="other")
    body["spec"]["devices"]["config"] = [{"opaque": {"driver": driver, "parameters": {"a": "b"}}}]
    return body


@pytest.mark.parametrize("asked, body", [
    (True, objects.claim("probe", "default")),
    (True, objects.claim("probe", "default", device_class="heddle-nvidia")),
    (False, objects.claim("probe", "default", device_class="gpu.example.com")),
    (False, objects.claim("probe", "default", device_class="heddles")),
    (True, configured(objects.DRIVER)),
    (False, configured("gpu.example.com")),
    (True, objects.claim("probe", "default", requests=[{"name": "r", "firstAvailable": [
        {"name": "a", "deviceClassName": "other"}, {"name": "b", "deviceClassName": "heddle"}]}])),
])
@pytest.mark.parametrize("kind", ["resourceclaims", "resourceclaimtemplates"])
def test_webhook_matches_only_claims_on_heddles_devices(cluster, chart, dead_webhook, kind, asked, body):
    if kind == "resourceclaimtemplates":
        body = {**body, "kind": "ResourceClaimTemplate", "spec": {"spec": body["spec"]}}
    assert webhook_matches(cluster.api, body, kind) is asked


def test_claims_that_exist_do_not_depend_on_the_webhook(cluster, chart, dead_webhook, ns):
    """The controller's own claims pass without it, and a claim can always be let go."""
    body = objects.claim("held", ns)
    body["metadata"]["finalizers"] = [objects.FINALIZER]
    chart.controller_api().create("resourceclaims", body)
    cluster.api.patch("resourceclaims", "held", {"metadata": {"finalizers": None, "labels": {"a": "b"}}}, ns)
    changed = {"spec": {"devices": {"requests": [{"name": "card", "exactly": {"deviceClassName": "heddle", "count": 5}}]}}}
    assert "immutable" in str(refused(lambda: cluster.api.patch("resourceclaims", "held", changed, ns), 422))
    cluster.api.delete("resourceclaims", "held", ns)
    cluster.api.wait_gone("resourceclaims", "held", ns)


def test_webhook_leaves_its_own_namespace_alone(cluster, chart, dead_webhook):
    cluster.api.wait_for("serviceaccounts", "default", NAMESPACE, bool, "exists")
    assert not webhook_matches(cluster.api, objects.pod("probe", NAMESPACE, limits={"nvidia.com/gpu": "1"}))


def test_api_server_stays_healthy_while_the_webhook_is_down(cluster, chart, dead_webhook, ns):
    error = refused(lambda: cluster.api.create("pods", objects.pod("asks", ns, limits={"nvidia.com/gpu": "1"})), 500)
    assert "translate.heddle.dev" in str(error)
    cluster.api.create("pods", objects.pod("plain", ns, command=["true"]))
    cluster.api.wait_for("pods", "plain", ns, objects.phase("Succeeded"), "runs without the webhook", 60)
    assert cluster.api.ready()
