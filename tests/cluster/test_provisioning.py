"""Nodes asked of an autoscaler: a ProvisioningRequest for a pod that would fit on one more node, and its end with the need.

There is no autoscaler here: the test makes the kind of its requests, with what of the schema matters, and looks at what is asked."""
import pytest

from harness import objects
from harness.api import ApiError
from harness.heddle import render
from harness.process import wait_until

CLASS = "check-capacity.autoscaling.x-k8s.io"
GROUP, VERSION = "autoscaling.x-k8s.io", "v1"
KIND = "node.kubernetes.io/instance-type"


def provisioning_requests_crd():
    text = {"type": "string"}
    reference = {"type": "object", "required": ["name"], "properties": {"name": text}}
    pod_set = {"type": "object", "required": ["count", "podTemplateRef"],
               "properties": {"count": {"type": "integer", "format": "int32", "minimum": 1}, "podTemplateRef": reference}}
    spec = {"type": "object", "required": ["podSets", "provisioningClassName"],
            "properties": {"podSets": {"type": "array", "minItems": 1, "maxItems": 32, "items": pod_set},
                           "provisioningClassName": {**text, "maxLength": 253},
                           "parameters": {"type": "object", "additionalProperties": text}}}
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"provisioningrequests.{GROUP}"},
            "spec": {"group": GROUP, "scope": "Namespaced",
                     "names": {"kind": "ProvisioningRequest", "plural": "provisioningrequests", "singular": "provisioningrequest",
                               "listKind": "ProvisioningRequestList"},
                     "versions": [{"name": VERSION, "served": True, "storage": True, "subresources": {"status": {}}, "schema": {
                         "openAPIV3Schema": {"type": "object", "required": ["spec"],
                                             "properties": {"spec": spec, "status": status}}}}]}}


def asked(api, ns):
    return api.request("GET", f"apis/{GROUP}/{VERSION}/namespaces/{ns}/provisioningrequests")["items"]


def templates(api, ns):
    return api.request("GET", f"api/v1/namespaces/{ns}/podtemplates")["items"]


@pytest.fixture(scope="module")
def asking(controller):
    """The chart with controller.provisioningClass, where the API server serves the kind."""
    api, crd = controller.api, provisioning_requests_crd()
    api.apply(crd)

    def served():
        try:
            return api.request("GET", f"apis/{GROUP}/{VERSION}/provisioningrequests")
        except ApiError:
            return None
    wait_until("ProvisioningRequests are served", served, 60)

    def rights(values):
        for body in render(controller.cluster.bin, values):
            if body["kind"] == "ClusterRole" and body["metadata"]["name"] == "heddle-controller":
                api.apply(body, "helm")
    rights({"controller": {"provisioningClass": CLASS}})
    controller.restart_controller(provisioning_class=CLASS)
    yield controller
    rights({})
    controller.restart_controller()
    api.request("DELETE", f"apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}")


@pytest.fixture
def waits(asking, ns, make_node):
    """waits(pod) -> its fleet's labels: a pod that would fit on one more node like the one there, which is taken."""
    api, mine = asking.api, objects.unique("fleet")
    labels = {"heddle-test/fleet": mine, KIND: f"with-one-card-{mine}"}
    node = make_node(cards=1, labels=labels)
    api.create("pods", objects.pod("holder", ns, limits=objects.share(), nodeSelector={"heddle-test/fleet": mine}))
    api.wait_for("pods", "holder", ns, objects.bound, "bound", 60)

    def make(name):
        api.create("pods", objects.pod(name, ns, limits=objects.share(), nodeSelector={"heddle-test/fleet": mine}))
        waiting = api.wait_for("pods", name, ns, lambda body: f"an empty node like {node} would take it" in objects.condition(
            body, "heddle.dev/Allocated").get("message", ""), "says which node would take it", 60)
        wait_until(lambda: f"a node is asked for; {api.story(ns, name)}", lambda: asked(api, ns) and templates(api, ns), 90)
        return waiting, labels
    return make


def test_a_node_is_asked_for_and_no_longer_when_it_is_there(asking, ns, waits, make_node):
    api = asking.api
    waiting, labels = waits("waits")
    (request,), (template,) = asked(api, ns), templates(api, ns)
    name = f"heddle-{waiting['metadata']['uid']}"
    assert request["metadata"]["name"] == template["metadata"]["name"] == name
    assert request["spec"] == {"provisioningClassName": CLASS, "podSets": [{"count": 1, "podTemplateRef": {"name": name}}]}
    for body in (request, template):
        (owner,) = body["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("Pod", "waits", waiting["metadata"]["uid"])
    assert template["template"]["spec"]["nodeSelector"] == labels, "a node of the kind that is there"
    assert any(reason == "HeddleNodesAsked" and labels[KIND] in message for reason, message, *_ in api.events(ns, "waits"))
    make_node(cards=1, labels=labels)
    api.wait_for("pods", "waits", ns, objects.bound, "bound", 60)
    wait_until("nothing is asked for any more", lambda: not asked(api, ns) and not templates(api, ns), 60)


def test_the_request_goes_with_its_pod(asking, ns, waits):
    api = asking.api
    waits("waits")
    api.delete("pods", "waits", ns, grace=0)
    wait_until("nothing is asked for any more", lambda: not asked(api, ns) and not templates(api, ns), 150)
