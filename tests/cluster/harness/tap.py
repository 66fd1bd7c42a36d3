"""A TLS proxy in front of the API server through which a program of Heddle talks: it counts the program's writes, and lets a
test act between two of them (kill the program before or after the write, hold the write back and let it through later).

The program is not changed and does not know: it sees an API server with a certificate of the cluster's authority.
"""
import http.client
import re
import socket
import ssl
import threading

WRITES = ("POST", "PUT", "PATCH", "DELETE")
# Asking who one is, and leading, are no writes of the ledger.
SILENT = re.compile(r"/(leases|events|tokenreviews|subjectaccessreviews|selfsubject\w+)\b|/secrets\b|webhookconfigurations")


class Write:
    def __init__(self, number, method, path, body):
        self.number, self.method, self.path, self.body = number, method, path.split("?")[0], body

    def __str__(self):
        return f"write {self.number}: {self.method} {self.path}"


class Tap:
    """before(write) runs before a write is passed on, after(write, status) before its answer goes back."""

    def __init__(self, plane):
        self.plane = plane
        self.lock = threading.Lock()
        self.log = []            # every ledger write that was passed on or held
        self.before = lambda write: None
        self.after = lambda write, status: None
        self.reads = lambda method, path: None
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(plane.dir / "apiserver.crt", plane.dir / "apiserver.key")
        self.client = ssl.create_default_context(cafile=str(plane.dir / "ca.crt"))
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.closing = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.closing = True
        self.listener.close()

    def reset(self):
        """Forgets the writes so far and every plan."""
        with self.lock:
            self.log.clear()
        self.before, self.after = (lambda write: None), (lambda write, status: None)
        self.reads = lambda method, path: None

    def _accept(self):
        while not self.closing:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, raw):
        upstream = http.client.HTTPSConnection("127.0.0.1", self.plane.port, context=self.client, timeout=3600)
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.server.wrap_socket(raw, server_side=True) as downstream:
                stream = downstream.makefile("rwb")
                while self._exchange(stream, upstream):
                    pass
        except (OSError, ValueError, http.client.HTTPException):
            pass  # either side went away, as when the program is killed
        finally:
            raw.close()
            upstream.close()

    def _exchange(self, stream, upstream):
        line = stream.readline()
        if not line.strip():
            return False
        method, path, _ = line.decode().split(" ", 2)
        headers = []
        while (entry := stream.readline().decode().strip()):
            headers.append(tuple(part.strip() for part in entry.split(":", 1)))
        named = {name.lower(): value for name, value in headers}
        body = self._body(stream, named)
        write = None
        if method in WRITES and not SILENT.search(path):
            with self.lock:
                write = Write(len(self.log) + 1, method, path, body)
                self.log.append(write)
            self.before(write)
        else:
            self.reads(method, path)
        passed = {name: value for name, value in headers if name.lower() not in (
            "host", "connection", "transfer-encoding", "content-length", "expect", "accept-encoding")}
        upstream.request(method, path, body if body or method in WRITES else None, passed)
        answer = upstream.getresponse()
        if write:
            self.after(write, answer.status)
        self._answer(stream, answer)
        return named.get("connection", "").lower() != "close"

    @staticmethod
    def _body(stream, headers):
        if headers.get("expect", "").lower() == "100-continue":
            stream.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            stream.flush()
        if headers.get("transfer-encoding", "").lower() == "chunked":
            parts = []
            while (size := int(stream.readline().split(b";")[0], 16)):
                parts.append(stream.read(size))
                stream.readline()
            stream.readline()
            return b"".join(parts)
        return stream.read(int(headers.get("content-length", 0)))

    @staticmethod
    def _answer(stream, answer):
        head = [f"HTTP/1.1 {answer.status} {answer.reason}"]
        head += [f"{name}: {value}" for name, value in answer.getheaders()
                 if name.lower() not in ("transfer-encoding", "connection", "content-length")]
        length = answer.getheader("Content-Length")
        if length is not None or answer.status in (204, 304):
            data = answer.read()
            head.append(f"Content-Length: {len(data)}")
            stream.write("\r\n".join(head).encode() + b"\r\n\r\n" + data)
            stream.flush()
            return
        stream.write("\r\n".join(head + ["Transfer-Encoding: chunked"]).encode() + b"\r\n\r\n")
        stream.flush()
        while (data := answer.read1(65536)):
            stream.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            stream.flush()
        stream.write(b"0\r\n\r\n")
        stream.flush()
