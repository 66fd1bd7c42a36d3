"""A client of the API server on the standard library alone: JSON over kept-alive connections, one a thread."""
import http.client
import json
import ssl
import threading
import time
import urllib.parse

from .process import Failed, wait_until

# Kinds that the tests name; everything else is found by discovery when an object of that kind is applied.
V1, RESOURCE, ADMISSION = "api/v1", "apis/resource.k8s.io/v1", "apis/admissionregistration.k8s.io/v1"
HEDDLE = "apis/heddle.dev/v1alpha1"
KINDS = {
    "pods": (V1, True), "events": (V1, True), "secrets": (V1, True), "services": (V1, True), "configmaps": (V1, True),
    "serviceaccounts": (V1, True), "resourcequotas": (V1, True), "namespaces": (V1, False), "nodes": (V1, False),
    "deployments": ("apis/apps/v1", True), "daemonsets": ("apis/apps/v1", True), "jobs": ("apis/batch/v1", True),
    "resourceclaims": (RESOURCE, True), "resourceclaimtemplates": (RESOURCE, True),
    "resourceslices": (RESOURCE, False), "deviceclasses": (RESOURCE, False), "devicetaintrules": (RESOURCE, False),
    "leases": ("apis/coordination.k8s.io/v1", True),
    "clusterroles": ("apis/rbac.authorization.k8s.io/v1", False),
    "clusterrolebindings": ("apis/rbac.authorization.k8s.io/v1", False),
    "mutatingwebhookconfigurations": (ADMISSION, False), "validatingwebhookconfigurations": (ADMISSION, False),
    "validatingadmissionpolicies": (ADMISSION, False),
    "acceleratorqueues": (HEDDLE, False), "acceleratorreservations": (HEDDLE, False), "acceleratortopologies": (HEDDLE, False),
    "poddisruptionbudgets": ("apis/policy/v1", True), "priorityclasses": ("apis/scheduling.k8s.io/v1", False),
    "runtimeclasses": ("apis/node.k8s.io/v1", False),
}


class ApiError(Exception):
    def __init__(self, method, path, status, body):
        self.status = status
        try:
            self.message = json.loads(body).get("message", "")
        except (ValueError, AttributeError):
            self.message = body.decode(errors="replace")
        super().__init__(f"{method} {path}: {status} {self.message}")


class Api:
    """One user's view of the API server. Thread-safe."""

    def __init__(self, port, ca_file, token, name="admin"):
        self.port, self.token, self.name = port, token, name
        self.context = ssl.create_default_context(cafile=str(ca_file))
        self.local = threading.local()
        self.discovered = {}

    def as_user(self, token, name):
        other = Api.__new__(Api)
        other.port, other.token, other.name, other.context = self.port, token, name, self.context
        other.local, other.discovered = threading.local(), self.discovered
        return other

    def _connect(self, timeout):
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=timeout)

    def request(self, method, path, body=None, content_type="application/json", raw=False):
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            headers["Content-Type"] = content_type
        for attempt in (0, 1):
            connection = getattr(self.local, "connection", None)
            if connection is None:
                connection = self.local.connection = self._connect(60)
            try:
                connection.request(method, "/" + path, data, headers)
                answer = connection.getresponse()
                text = answer.read()
                break
            except (OSError, http.client.HTTPException):
                connection.close()
                self.local.connection = None
                if attempt or method == "POST":
                    raise
        if answer.status >= 300:
            raise ApiError(method, path, answer.status, text)
        return text if raw else json.loads(text)

    @staticmethod
    def path(kind, namespace=None, name=None, sub=None):
        group, namespaced = KINDS[kind]
        parts = [group]
        if namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (kind, name, sub) if part]
        return "/".join(parts)

    def get(self, kind, name, namespace=None):
        return self.request("GET", self.path(kind, namespace, name))

    def find(self, kind, name, namespace=None):
        """The object, or None."""
        try:
            return self.get(kind, name, namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, kind, namespace=None, **selectors):
        query = urllib.parse.urlencode({f"{key}Selector": value for key, value in selectors.items()})
        return self.request("GET", self.path(kind, namespace) + ("?" + query if query else ""))["items"]

    def create(self, kind, body, namespace=None):
        namespace = namespace or body.get("metadata", {}).get("namespace")
        return self.request("POST", self.path(kind, namespace), body)

    def update(self, kind, body, sub=None):
        meta = body["metadata"]
        return self.request("PUT", self.path(kind, meta.get("namespace"), meta["name"], sub), body)

    def patch(self, kind, name, body, namespace=None, sub=None):
        """JSON patch for a list, merge patch for a dict."""
        form = "application/json-patch+json" if isinstance(body, list) else "application/merge-patch+json"
        return self.request("PATCH", self.path(kind, namespace, name, sub), body, form)

    def delete(self, kind, name, namespace=None, grace=None):
        body = None if grace is None else {"gracePeriodSeconds": grace}
        try:
            return self.request("DELETE", self.path(kind, namespace, name), body)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def _resource(self, api_version, kind):
        group = ("api/" if "/" not in api_version else "apis/") + api_version
        if (group, kind) not in self.discovered:
            for resource in self.request("GET", group)["resources"]:
                if "/" not in resource["name"]:
                    self.discovered[group, resource["kind"]] = (resource["name"], resource["namespaced"])
        return group, *self.discovered[group, kind]

    def apply(self, body, manager="heddle-test"):
        """Server-side apply of any object, as `kubectl apply --server-side` does it."""
        group, plural, namespaced = self._resource(body["apiVersion"], body["kind"])
        meta = body["metadata"]
        parts = [group] + (["namespaces", meta.get("namespace", "default")] if namespaced else [])
        path = "/".join(parts + [plural, meta["name"]]) + f"?fieldManager={manager}&force=true"
        return self.request("PATCH", path, body, "application/apply-patch+yaml")

    def token_for(self, account, namespace, seconds=36000, bound=None):
        """A service account's token; bound: {"kind", "apiVersion", "name", "uid"} of a node, pod or secret."""
        spec = {"audiences": [], "expirationSeconds": seconds}
        if bound:
            spec["boundObjectRef"] = bound
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return self.request("POST", self.path("serviceaccounts", namespace, account, "token"), body)["status"]["token"]

    def wait_for(self, kind, name, namespace, condition, what, timeout=60, check=None):
        """Waits until condition(object or None) is truthy; returns the object (or True for an absent one)."""
        seen = [None]

        def look():
            seen[0] = self.find(kind, name, namespace)
            return condition(seen[0]) and (seen[0] or True)

        def describe():
            status = json.dumps((seen[0] or {}).get("status", seen[0]))[:1500]
            return f"{kind} {namespace}/{name}: {what}; status {status}\n{self.story(namespace, name)}"

        return wait_until(describe, look, timeout, check=check)

    def wait_gone(self, kind, name, namespace=None, timeout=60):
        return self.wait_for(kind, name, namespace, lambda found: found is None, "gone", timeout)

    def events(self, namespace, name):
        """Events about an object, oldest first: [(reason, message, reporting component)]."""
        found = self.list("events", namespace, field=f"involvedObject.name={name}")
        found.sort(key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")
        return [(event.get("reason", ""), event.get("message", ""),
                 event.get("reportingComponent") or event.get("source", {}).get("component", "")) for event in found]

    def story(self, namespace, name):
        try:
            return "\n".join(f"  event {reason}: {message[:300]}" for reason, message, _ in self.events(namespace, name))
        except ApiError as error:
            return str(error)

    def watch(self, kind, namespace=None, version="", stop=None, **selectors):
        """Yields (type, object) on a connection of its own until `stop` (a threading.Event) is set or the stream ends."""
        query = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version}
        query.update({f"{key}Selector": value for key, value in selectors.items()})
        connection = self._connect(3600)
        connection.request("GET", "/" + self.path(kind, namespace) + "?" + urllib.parse.urlencode(query), headers={
            "Authorization": f"Bearer {self.token}", "Accept": "application/json"})
        answer = connection.getresponse()
        try:
            if answer.status != 200:
                raise ApiError("WATCH", kind, answer.status, answer.read())
            while not (stop and stop.is_set()):
                line = answer.readline()
                if not line:
                    return
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise Failed(f"watch of {kind}: {event['object']}")
                if event["type"] != "BOOKMARK":
                    yield event["type"], event["object"]
        finally:
            connection.close()

    def ready(self):
        try:
            return self.request("GET", "readyz", raw=True) == b"ok"
        except (ApiError, OSError, http.client.HTTPException):
            return False


def refused(call, status=None):
    """Runs call(), which must be refused by the API server; returns the error."""
    try:
        call()
    except ApiError as error:
        if status and error.status not in (status if isinstance(status, tuple) else (status,)):
            raise
        return error
    raise AssertionError("the API server accepted what it had to refuse")


def stopwatch():
    start = time.monotonic()
    return lambda: time.monotonic() - start
