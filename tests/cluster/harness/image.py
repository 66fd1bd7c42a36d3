"""Container images without a registry: a folder packed into a one-layer OCI archive that containerd imports."""
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import tarfile


def _digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def pack(name, rootfs, entrypoint, out, env=("PATH=/bin:/usr/bin",)):
    """Packs the folder `rootfs` as image `name` ("host/repo:tag") into the archive `out`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(rootfs, arcname=".")
    layer = buffer.getvalue()
    config = json.dumps({
        "architecture": "amd64", "os": "linux",
        "config": {"Entrypoint": list(entrypoint), "Env": list(env)},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }).encode()

    def descriptor(media_type, data, **more):
        return {"mediaType": media_type, "digest": _digest(data), "size": len(data), **more}

    manifest = json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
    }).encode()
    annotations = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.split(":")[-1]}
    index = json.dumps({"schemaVersion": 2, "manifests": [descriptor(
        "application/vnd.oci.image.manifest.v1+json", manifest, annotations=annotations)]}).encode()
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": index}
    files.update({"blobs/sha256/" + _digest(blob)[7:]: blob for blob in (config, manifest, layer)})
    with tarfile.open(out, "w") as tar:
        for path, data in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out


def shell_root(folder):
    """A root with a static busybox: sh, cat and their like."""
    folder = pathlib.Path(folder)
    for name in ("bin", "tmp", "etc", "usr/bin"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    shutil.copy("/usr/bin/busybox", folder / "bin/busybox")
    for applet in ("sh", "sleep", "cat", "ls", "env", "grep", "mkdir", "mknod", "kill", "ps", "id", "stat", "touch", "true",
                   "echo", "test", "mount", "wc", "head", "rm", "dd", "readlink"):
        link = folder / "bin" / applet
        if not link.is_symlink():
            link.symlink_to("busybox")
    return folder


def library_closure(*programs):
    """{name in the image: host file} of the shared libraries that the programs load, and their dynamic loader."""
    found = {}
    for program in programs:
        text = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
        for line in text.splitlines():
            words = line.split()
            if "=>" in words and len(words) > 2 and words[2].startswith("/"):
                found[words[0]] = words[2]
            elif words and words[0].startswith("/"):
                found[words[0]] = words[0]
    return found


def add_glibc(folder, programs=(), extra=("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1")):
    """The C library as an ordinary image has it, and what `programs` (copied to /bin) need beyond it."""
    folder = pathlib.Path(folder)
    host = pathlib.Path("/lib/x86_64-linux-gnu")
    target = folder / "lib/x86_64-linux-gnu"
    target.mkdir(parents=True, exist_ok=True)
    (folder / "lib64").mkdir(exist_ok=True)
    (folder / "bin").mkdir(exist_ok=True)
    shutil.copy(os.path.realpath("/lib64/ld-linux-x86-64.so.2"), folder / "lib64/ld-linux-x86-64.so.2")
    for name in extra:
        shutil.copy(os.path.realpath(host / name), target / name)
    for program in programs:
        shutil.copy(program, folder / "bin" / pathlib.Path(program).name)
    for name, source in library_closure(*programs).items():
        if not name.startswith("/"):
            shutil.copy(os.path.realpath(source), target / name)
    return folder
