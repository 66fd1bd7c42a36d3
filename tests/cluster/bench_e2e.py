#!/usr/bin/env python3
"""Pods per second from the first create to the last pod bound: the stock DRA path of kube-scheduler against Heddle.

Both sides: the same API server, scheduler and machine, one after the other in one run; nodes made as objects, 8 devices a
node; each pod takes one device. Stock: a ResourceClaim and a pod that names it, devices without taint, allocated by
kube-scheduler. Heddle: a pod with `nvidia.com/gpu: 1`, through webhook, controller and kube-scheduler. Each side twice: with
kube-scheduler's default client limits, and with limits raised so far that the CPU binds.

Then the same pods as gangs of 8, with raised limits: Heddle's by annotation, and, in a cluster of its own, kube-scheduler's native
ones (PodGroups of scheduling.k8s.io/v1beta1, which 1.37 has behind the feature gate GenericWorkload).

  bench_e2e.py [--small] [--nodes N] [--pods N] [--creators N] [--only stock|heddle|gangs] [--profile DIR]
  HEDDLE_BENCH_RESULTS   the file to add numbers to (default build/bench/results.json)
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import re
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from harness import objects  # noqa: E402
from harness.cluster import Cluster, REPOSITORY  # noqa: E402
from harness.heddle import Heddle  # noqa: E402
from harness.process import Failed, wait_until  # noqa: E402

DEVICES = 8
GANG = 8  # members
CREATORS = 16
STOCK_DRIVER = "stock.example.com"
RAISED_QPS = 5000
POD_GROUPS = "apis/scheduling.k8s.io/v1beta1"


def request_counts(api):
    """Answered requests since the API server's start: {"POST pods/binding": n}."""
    counts = collections.Counter()
    for line in api.request("GET", "metrics", raw=True).decode().splitlines():
        if line.startswith("apiserver_request_total{"):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            name = labels["verb"] + " " + "/".join(part for part in (labels["resource"], labels["subresource"]) if part)
            counts[name] += int(float(line.rsplit(" ", 1)[1]))
    return counts


def machine_seconds():
    """CPU seconds of everything on this machine so far."""
    user, nice, system, _, _, irq, softirq = map(int, pathlib.Path("/proc/stat").read_text().split(None, 8)[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def save_profile(api, seconds, path):
    """The API server's CPU profile of the next seconds, for `go tool pprof`; from a thread of its own."""
    def work():
        path.write_bytes(api.request("GET", f"debug/pprof/profile?seconds={seconds}", raw=True))
    threading.Thread(target=work, daemon=True).start()


def in_parallel(items, call, threads=None):
    """call(item) for all items, from several threads; the first error is raised."""
    iterator, lock, errors = iter(items), threading.Lock(), []

    def work():
        while not errors:
            with lock:
                item = next(iterator, None)
            if item is None:
                return
            try:
                call(item)
            except Exception as error:  # pylint: disable=broad-except
                errors.append(error)
    workers = [threading.Thread(target=work) for _ in range(threads or CREATORS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]


class BoundWatch:
    """Counts the pods of a namespace that have a node, by watch."""

    def __init__(self, api, namespace):
        self.api, self.namespace = api, namespace
        self.names, self.last = set(), 0.0
        self.stop = threading.Event()
        self.changed = threading.Condition()
        threading.Thread(target=self._run, args=(self._list(),), daemon=True).start()

    def _list(self):
        body = self.api.request("GET", self.api.path("pods", self.namespace) + "?fieldSelector=spec.nodeName!%3D")
        for pod in body["items"]:
            self._seen(pod)
        return body["metadata"]["resourceVersion"]

    def _seen(self, pod):
        with self.changed:
            if pod["metadata"]["name"] not in self.names:
                self.names.add(pod["metadata"]["name"])
                self.last = time.monotonic()
                self.changed.notify_all()

    def _run(self, version):
        while not self.stop.is_set():  # the API server ends the watch of a client that is slow to read
            for kind, pod in self.api.watch("pods", self.namespace, version, self.stop, field="spec.nodeName!="):
                if kind in ("ADDED", "MODIFIED"):
                    self._seen(pod)
            version = self._list()

    def wait(self, count, timeout, describe):
        deadline = time.monotonic() + timeout
        with self.changed:
            while len(self.names) < count:
                if not self.changed.wait(max(0.0, min(1.0, deadline - time.monotonic()))) and time.monotonic() > deadline:
                    raise Failed(f"{len(self.names)} of {count} pods bound after {timeout} s\n{describe()}")
        self.stop.set()
        return self.last


class Bench:
    def __init__(self, cluster, nodes, pods, creators, profiles):
        self.cluster, self.api, self.nodes, self.pods = cluster, cluster.api, nodes, pods
        self.creators, self.profiles = creators, profiles
        self.heddle = Heddle(cluster)
        self.count = 0

    def make_nodes(self):
        in_parallel(range(self.nodes), lambda n: self.heddle.make_node(f"node-{n}", cpu="64"))

    def node_devices(self, name, taints):
        return [objects.card(number, 80000, node_name=name, taints=taints) for number in range(DEVICES)]

    def stock_slices(self):
        def make(n):
            name = f"node-{n}"
            self.api.create("resourceslices", objects.slices(name, self.node_devices(name, ()), driver=STOCK_DRIVER))
        in_parallel(range(self.nodes), make)
        self.api.create("deviceclasses", {
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "stock"},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{STOCK_DRIVER}"'}}]}})

    def remove_stock_slices(self):
        for body in self.api.list("resourceslices", field=f"spec.driver={STOCK_DRIVER}"):
            self.api.delete("resourceslices", body["metadata"]["name"])
        self.api.delete("deviceclasses", "stock")

    def heddle_slices(self):
        def make(n):
            name = f"node-{n}"
            self.heddle.agent_api(name).create("resourceslices", objects.slices(
                name, self.node_devices(name, (objects.MANAGED_TAINT,))))
        in_parallel(range(self.nodes), make)

    def run(self, create, describe):
        """Creates all pods and waits until all are bound; returns pods a second, and requests and CPU a pod."""
        self.count += 1
        namespace = f"bench-{self.count}"
        self.api.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        self.api.wait_for("serviceaccounts", "default", namespace, bool, "made by the controller manager")
        watch = BoundWatch(self.api, namespace)
        requests = request_counts(self.api)
        if self.profiles:
            save_profile(self.api, 15, self.profiles / f"{namespace}.pprof")
            (self.profiles / f"{namespace}.before").write_bytes(self.api.request("GET", "metrics", raw=True))
        before, machine, start = self.cpu_seconds(), machine_seconds(), time.monotonic()
        in_parallel(range(self.pods), lambda n: create(namespace, f"pod-{n}"), self.creators)
        created, bound = time.monotonic() - start, len(watch.names)
        seconds = watch.wait(self.pods, 600, describe) - start
        after, machine = self.cpu_seconds(), machine_seconds() - machine
        used = {name: (after[name] - before.get(name, 0)) * 1000 / self.pods for name in after}
        print(f"{namespace}: {seconds:.1f} s, all created after {created:.1f} s, {bound} bound by then", flush=True)
        other = machine * 1000 / self.pods - sum(used.values())  # high: the machine was busy, and the run is worth little
        print(f"  ms of CPU a pod: {', '.join(f'{name} {each:.1f}' for name, each in used.items())}; other work {other:.1f}")
        if self.profiles:
            (self.profiles / f"{namespace}.after").write_bytes(self.api.request("GET", "metrics", raw=True))
        more = {name: count / self.pods for name, count in (request_counts(self.api) - requests).most_common()}
        print(f"  requests a pod: {', '.join(f'{name} {each:.2f}' for name, each in more.items() if each > 0.05)}", flush=True)
        self.clear(namespace)
        return {"pods_per_second": self.pods / seconds, "requests_per_pod": sum(more.values()),
                "cpu_ms_per_pod": sum(used.values())}

    def cpu_seconds(self):
        """Of each program so far; tells what binds, and can be compared on a machine that others use too."""
        programs = {**self.cluster.plane.processes, **{name: one for name, one in self.heddle.controllers.items()}}
        used = {name: process.cpu_seconds() for name, process in programs.items() if process.running()}
        return {**used, "load generator": time.process_time()}

    def clear(self, namespace):
        in_parallel([body["metadata"]["name"] for body in self.api.list("pods", namespace)],
                    lambda name: self.api.delete("pods", name, namespace, grace=0))

        def gone():
            left = self.api.list("resourceclaims", namespace)
            for body in left:
                if not objects.results(body) and not body["metadata"].get("ownerReferences"):
                    self.api.delete("resourceclaims", body["metadata"]["name"], namespace)
            return not left
        wait_until(f"the claims of {namespace} are gone", gone, 300, every=2)
        self.api.delete("namespaces", namespace)

    def create_stock(self, namespace, name):
        self.api.request("POST", self.api.path("resourceclaims", namespace), objects.claim(
            name, namespace, device_class="stock"), raw=True)
        self.api.request("POST", self.api.path("pods", namespace), objects.claim_user(
            name, namespace, {"card": {"resourceClaimName": name}}), raw=True)

    def create_heddle(self, namespace, name):
        self.api.request("POST", self.api.path("pods", namespace), objects.pod(
            name, namespace, limits=objects.share()), raw=True)

    def create_heddle_member(self, namespace, name):
        gang, index = divmod(int(name.removeprefix("pod-")), GANG)
        marks = {"heddle.dev/gang": f"gang-{gang}", "heddle.dev/gang-size": str(GANG), "heddle.dev/gang-index": str(index)}
        self.api.request("POST", self.api.path("pods", namespace), objects.pod(
            name, namespace, limits=objects.share(), annotations=marks), raw=True)

    def create_native_member(self, namespace, name):
        """Of a PodGroup that the first member makes."""
        gang, index = divmod(int(name.removeprefix("pod-")), GANG)
        if index == 0:
            self.api.request("POST", f"{POD_GROUPS}/namespaces/{namespace}/podgroups", {
                "apiVersion": POD_GROUPS.removeprefix("apis/"), "kind": "PodGroup",
                "metadata": {"name": f"gang-{gang}", "namespace": namespace},
                "spec": {"schedulingPolicy": {"gang": {"minCount": GANG}}}}, raw=True)
        self.api.request("POST", self.api.path("resourceclaims", namespace), objects.claim(
            name, namespace, device_class="stock"), raw=True)
        self.api.request("POST", self.api.path("pods", namespace), objects.claim_user(
            name, namespace, {"card": {"resourceClaimName": name}}, schedulingGroup={"podGroupName": f"gang-{gang}"}), raw=True)

    def stock(self, qps):
        self.cluster.plane.restart_scheduler(qps)
        return self.run(self.create_stock, self.cluster.plane.processes["kube-scheduler"].tail)

    def native_gangs(self):
        self.cluster.plane.restart_scheduler(RAISED_QPS)
        return self.run(self.create_native_member, self.cluster.plane.processes["kube-scheduler"].tail)

    def ours(self, qps):
        self.cluster.plane.restart_scheduler(qps)
        return self.run(self.create_heddle, self.heddle.controllers["controller-0"].tail)

    def our_gangs(self):
        self.cluster.plane.restart_scheduler(RAISED_QPS)
        return self.run(self.create_heddle_member, self.heddle.controllers["controller-0"].tail)


def merge(numbers):
    path = pathlib.Path(os.environ.get("HEDDLE_BENCH_RESULTS", REPOSITORY / "build/bench/results.json"))
    path.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, **numbers}, indent=1, sort_keys=True) + "\n")


@contextlib.contextmanager
def fleet(arguments, native_gangs=False):
    """A cluster with empty nodes. The controller manager has no part in the measured path; its limits would only make clearing up
    slow."""
    with Cluster(with_node=False, manager_qps=RAISED_QPS, profiling=arguments.profile is not None, native_gangs=native_gangs) as cluster:
        bench = Bench(cluster, arguments.nodes, arguments.pods, arguments.creators, arguments.profile)
        bench.make_nodes()
        yield bench


def schedule(arguments):
    numbers = {}
    wanted = {arguments.only} if arguments.only else {"stock", "heddle", "gangs"}
    limits = [("e2e.", RAISED_QPS)] + ([] if arguments.small or arguments.raised else [("e2e.stocklimits.", None)])

    def add(prefix, found):
        numbers.update({prefix + name: value for name, value in found.items()})
    with fleet(arguments) as bench:
        if "stock" in wanted:
            bench.stock_slices()
            for prefix, qps in limits:
                add(f"{prefix}stock_", bench.stock(qps))
            bench.remove_stock_slices()
        if wanted & {"heddle", "gangs"}:
            bench.heddle.install_objects()
            bench.heddle_slices()
            controller = bench.heddle.serve()
            if "heddle" in wanted:
                for prefix, qps in limits:
                    add(prefix, bench.ours(qps))
                numbers["controller.rss_mib"] = controller.peak_rss_mib()
            if "gangs" in wanted:
                add("e2e.gang.", bench.our_gangs())
            bench.heddle.stop()
    if "gangs" in wanted:
        with fleet(arguments, native_gangs=True) as bench:
            bench.stock_slices()
            add("e2e.gang.native_", bench.native_gangs())
    return {**numbers, **ratios(numbers, [prefix for prefix, _ in limits])}


def ratios(numbers, prefixes):
    """Pods a second against the peer's, where both were measured."""
    pairs = [(f"{prefix}ratio", f"{prefix}pods_per_second", f"{prefix}stock_pods_per_second") for prefix in prefixes]
    pairs += [("e2e.gang.ratio", "e2e.gang.pods_per_second", "e2e.gang.native_pods_per_second"),
              ("e2e.gang.stock_ratio", "e2e.gang.pods_per_second", "e2e.stock_pods_per_second")]
    return {name: numbers[ours] / numbers[theirs] for name, ours, theirs in pairs if ours in numbers and theirs in numbers}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="tiny sizes: only that it runs")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--pods", type=int)
    parser.add_argument("--only", choices=["stock", "heddle", "gangs"])
    parser.add_argument("--raised", action="store_true", help="only with raised limits")
    parser.add_argument("--creators", type=int, default=CREATORS, help="threads that create pods")
    parser.add_argument("--profile", type=pathlib.Path, metavar="DIR", help="keep CPU profiles of the API server here")
    arguments = parser.parse_args()
    arguments.nodes = arguments.nodes or (4 if arguments.small else 130)
    arguments.pods = arguments.pods or (24 if arguments.small else 1000)
    numbers = {key: round(value, 3) for key, value in schedule(arguments).items()}
    merge(numbers)
    print(f"{arguments.pods} pods on {arguments.nodes} nodes of {DEVICES} devices")
    for key, value in numbers.items():
        print(f"  {key:40} {value:>10}")


if __name__ == "__main__":
    main()
