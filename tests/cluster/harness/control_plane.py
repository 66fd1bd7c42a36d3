"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler, as users run them: RBAC, real identities, defaults."""
import json
import secrets
import subprocess

from .api import Api
from .process import Process, free_ports, wait_until

USERS = {  # name -> groups
    "admin": "system:masters",
    "system:kube-scheduler": "",
    "system:kube-controller-manager": "",
    "mallory": "cluster-admins",  # everything by RBAC, as an ordinary cluster administrator has it
    "alice": "tenants",           # the pods and claims of a namespace
}


def _sh(*argv, cwd):
    subprocess.run([str(word) for word in argv], cwd=cwd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


class ControlPlane:
    """Starts on construction order: start() returns when the API server is ready and the built-in roles exist."""

    def __init__(self, scratch, binaries, node_names=("node-1",), manager_qps=None, addresses=(), profiling=False,
                 native_gangs=False):
        self.scratch, self.bin, self.manager_qps, self.addresses = scratch, binaries, manager_qps, addresses
        self.profiling = profiling
        # PodGroups of scheduling.k8s.io, which 1.37 does not serve by itself.
        self.gates = ["--feature-gates=GenericWorkload=true"] if native_gangs else []
        self.dir = scratch.path
        self.etcd_port, self.etcd_peer, self.port, self.kcm_port, self.scheduler_port = free_ports(5)
        self.tokens = {name: secrets.token_hex(16) for name in (*USERS, *(f"system:node:{node}" for node in node_names))}
        self.processes = {}
        self.api = None

    def start(self):
        self._certificates()
        self._start_etcd()
        self._start_apiserver()
        self.api = Api(self.port, self.dir / "ca.crt", self.tokens["admin"])
        wait_until("the API server is ready", self.api.ready, 120, check=self.processes["kube-apiserver"].check)
        wait_until("the built-in roles exist", lambda: self.api.find("clusterroles", "system:kube-scheduler"), 60)
        for name, kind in (("cluster-admins", "cluster-admin"), ("tenants", "edit")):
            self.api.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                            "metadata": {"name": f"test-{name}"},
                            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": kind},
                            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name}]})
        self._start_controller_manager()
        self.start_scheduler()
        return self

    def user(self, name):
        return self.api.as_user(self.tokens[name], name)

    def kubeconfig(self, name, token=None):
        """A kubeconfig file for a user of the token file, or for any token."""
        path = self.dir / f"{name.replace(':', '-')}.kubeconfig"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": f"https://127.0.0.1:{self.port}",
                                                      "certificate-authority": str(self.dir / "ca.crt")}}],
            "users": [{"name": "user", "user": {"token": token or self.tokens[name]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}]}))
        return path

    def _certificates(self):
        ec = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        _sh("openssl", "req", "-x509", *ec, "-keyout", "ca.key", "-out", "ca.crt", "-days", "3", "-subj", "/CN=test-ca", cwd=self.dir)
        _sh("openssl", "req", *ec, "-keyout", "apiserver.key", "-out", "apiserver.csr", "-subj", "/CN=kube-apiserver", cwd=self.dir)
        (self.dir / "san.ext").write_text(
            "subjectAltName=DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,"
            "IP:127.0.0.1,IP:10.96.0.1" + "".join(f",IP:{address}" for address in self.addresses) + "\n")
        _sh("openssl", "x509", "-req", "-in", "apiserver.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "3", "-extfile", "san.ext", "-out", "apiserver.crt", cwd=self.dir)
        _sh("openssl", "genrsa", "-out", "sa.key", "2048", cwd=self.dir)
        _sh("openssl", "rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub", cwd=self.dir)
        lines = []
        for number, (name, token) in enumerate(self.tokens.items()):
            group = USERS.get(name, "system:nodes")
            lines.append(f'{token},{name},{number}' + (f',"{group}"' if group else ""))
        (self.dir / "tokens.csv").write_text("\n".join(lines) + "\n")

    def _run(self, name, *argv, env=None):
        process = Process(self.scratch, name, [self.bin / name, *argv], env).start()
        self.processes[name] = process
        return process

    def _start_etcd(self):
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{self.etcd_peer}"
        self._run("etcd", "--data-dir", self.dir / "etcd", "--listen-client-urls", client, "--advertise-client-urls", client,
                  "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
                  "--unsafe-no-fsync", "--log-level", "warn")

    def _start_apiserver(self):
        self._run("kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self.etcd_port}", f"--secure-port={self.port}",
                  "--bind-address=127.0.0.1", f"--tls-cert-file={self.dir}/apiserver.crt",
                  f"--tls-private-key-file={self.dir}/apiserver.key", f"--client-ca-file={self.dir}/ca.crt",
                  f"--token-auth-file={self.dir}/tokens.csv", "--authorization-mode=Node,RBAC",
                  "--enable-admission-plugins=NodeRestriction", "--service-account-issuer=https://kubernetes.default.svc",
                  f"--service-account-key-file={self.dir}/sa.pub", f"--service-account-signing-key-file={self.dir}/sa.key",
                  "--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged=true",
                  "--enable-aggregator-routing=true", f"--profiling={str(self.profiling).lower()}",
                  *self.gates, *(["--runtime-config=scheduling.k8s.io/v1beta1=true"] if self.gates else []))

    def _start_controller_manager(self):
        config = self.kubeconfig("system:kube-controller-manager")
        limits = [f"--kube-api-qps={self.manager_qps}", f"--kube-api-burst={2 * self.manager_qps}"] if self.manager_qps else []
        self._run("kube-controller-manager", f"--kubeconfig={config}", f"--secure-port={self.kcm_port}",
                  f"--service-account-private-key-file={self.dir}/sa.key", f"--root-ca-file={self.dir}/ca.crt",
                  f"--cluster-signing-cert-file={self.dir}/ca.crt", f"--cluster-signing-key-file={self.dir}/ca.key",
                  f"--cert-dir={self.dir}/kcm", "--use-service-account-credentials", "--leader-elect=false",
                  "--bind-address=127.0.0.1",
                  # Nodes that a test makes as objects have no kubelet to renew their lease.
                  "--node-monitor-grace-period=1h", *limits, *self.gates)

    def start_scheduler(self, qps=None, burst=None):
        """The stock scheduler; with qps its client limits are raised, otherwise they are upstream's defaults."""
        connection = {"kubeconfig": str(self.kubeconfig("system:kube-scheduler"))}
        if qps:
            connection.update({"qps": qps, "burst": burst or 2 * qps})
        path = self.dir / "scheduler.yaml"
        path.write_text(json.dumps({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
                                    "leaderElection": {"leaderElect": False}, "clientConnection": connection}))
        self._run("kube-scheduler", f"--config={path}", f"--secure-port={self.scheduler_port}",
                  "--bind-address=127.0.0.1", f"--cert-dir={self.dir}/scheduler", *self.gates)

    def restart_scheduler(self, qps=None, burst=None):
        self.processes["kube-scheduler"].stop()
        self.start_scheduler(qps, burst)

    def check(self):
        for process in self.processes.values():
            process.check()

    def stop(self):
        for name in ("kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"):
            if name in self.processes:
                self.processes[name].stop()
