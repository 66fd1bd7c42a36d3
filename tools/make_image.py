#!/usr/bin/env python3
"""Packs Heddle's container image as an OCI archive. Needs no docker, no registry and no root.

  tools/make_image.py [--build build/release] [--out build/heddle-image.tar] [--name heddle:VERSION]

In the image: heddle-controller, heddle-agent and heddle-oci-hook without their debug information, the guards beside them, the
shared libraries that they load from this machine's packages, and the copyright file of each of those packages. There is no
shell and no package manager. The same programs and packages give the same bytes. The archive is an OCI layout that has
docker's own index too: `docker load -i`, `podman load -i`, `ctr -n k8s.io images import` and `kind load image-archive` take it.
"""
import argparse
import datetime
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ("heddle-controller", "heddle-agent", "heddle-oci-hook")
GUARDS = ("libheddle_guard.so", "libheddle_guard_ascend.so")  # beside the programs, where the agent looks for them
# What a vendor's library may ask of the C library by name, beyond what the programs do.
C_LIBRARY = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Refused(Exception):
    """What is missing, and what makes it."""


def _digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _layer(rootfs, epoch):
    """The folder as a tar file that says nothing of who packed it and when: names in order, one owner, one time."""
    def plain(info):
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime = epoch
        return info
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        tar.add(rootfs, arcname=".", filter=plain)  # tarfile sorts each folder
    return buffer.getvalue()


def full_name(name):
    """The name with the registry that docker means when there is none: what containerd and the kubelet look for."""
    first, _, rest = name.partition("/")
    if rest and ("." in first or ":" in first or first == "localhost"):
        return name
    return "docker.io/" + (name if rest else "library/" + name)


def pack(name, rootfs, entrypoint, out, env=("PATH=/bin:/usr/bin",), labels=None, epoch=0):
    """Packs the folder `rootfs` as image `name` ("host/repo:tag") into the archive `out`; `epoch` dates it, in seconds."""
    layer = _layer(rootfs, epoch)
    created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = json.dumps({
        "created": created, "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()), "os": "linux",
        "config": {"Entrypoint": list(entrypoint), "Env": list(env), "Labels": labels or {}},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        "history": [{"created": created, "created_by": "tools/make_image.py"}],
    }).encode()

    def descriptor(media_type, data, **more):
        return {"mediaType": media_type, "digest": _digest(data), "size": len(data), **more}

    def blob(data):
        return "blobs/sha256/" + _digest(data)[7:]

    manifest = json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
    }).encode()
    annotations = {"io.containerd.image.name": full_name(name), "org.opencontainers.image.ref.name": name.rsplit(":", 1)[-1]}
    index = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [descriptor(
        "application/vnd.oci.image.manifest.v1+json", manifest, annotations=annotations)]}).encode()
    # What docker and podman read: a list of its own, that names the same blobs.
    listed = json.dumps([{"Config": blob(config), "RepoTags": [name], "Layers": [blob(layer)]}]).encode()
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": index, "manifest.json": listed}
    files.update({blob(data): data for data in (config, manifest, layer)})
    partial = pathlib.Path(f"{out}.part")
    with tarfile.open(partial, "w", format=tarfile.GNU_FORMAT) as tar:
        for path, data in files.items():
            info = tarfile.TarInfo(path)
            info.size, info.mtime = len(data), epoch
            tar.addfile(info, io.BytesIO(data))
    partial.replace(out)
    return out


def library_closure(*programs):
    """{name in the image: host file} of the shared libraries that the programs load, and their dynamic loader."""
    found = {}
    for program in programs:
        text = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
        for line in text.splitlines():
            words = line.split()
            if "=>" in words and words[words.index("=>") + 1] == "not":
                raise Refused(f"{program} needs {words[0]}, which is not on this machine")
            if "=>" in words and len(words) > 2 and words[2].startswith("/"):
                found[words[0]] = words[2]
            elif words and words[0].startswith("/"):
                found[words[0]] = words[0]
    return found


def packages_of(files):
    """{package: version} of the Debian packages that the files are of; empty where there is no dpkg."""
    if not shutil.which("dpkg-query"):
        return {}
    # /lib is a link to /usr/lib, and dpkg knows a file by the name under which its package brought it.
    asked = sorted({name for path in files for name in (path, "/usr" + path, path.removeprefix("/usr"))})
    owners = subprocess.run(["dpkg-query", "-S", *asked], capture_output=True, text=True, check=False).stdout.splitlines()
    found = sorted({line.split(": ")[0].split(", ")[0] for line in owners if not line.startswith("diversion ")})
    listed = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *found], capture_output=True, text=True, check=True)
    return dict(sorted(line.split() for line in listed.stdout.splitlines()))


def _copy(source, target, mode):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(os.path.realpath(source), target)
    target.chmod(mode)


def fill(root, build):
    """Lays Heddle's image out in the folder `root`; returns {package: version} of what is not Heddle's own."""
    programs = [build / "bin" / name for name in PROGRAMS]
    missing = [str(path) for path in (*programs, *(build / "lib" / name for name in GUARDS)) if not path.is_file()]
    if missing:
        raise Refused(f"{missing[0]} is not built: run tools/build.sh release")
    for link in ("bin", "lib", "lib64"):
        (root / "usr" / link).mkdir(parents=True)
        (root / link).symlink_to(f"usr/{link}")
    for program in programs:
        target = root / "usr/bin" / program.name
        _copy(program, target, 0o755)
        subprocess.run(["strip", "--strip-debug", target], check=True)
    for guard in GUARDS:
        _copy(build / "lib" / guard, root / "usr/bin" / guard, 0o755)
    libraries = library_closure(*programs)
    triple = f"{platform.machine()}-linux-gnu"
    for name in C_LIBRARY:
        libraries.setdefault(name, f"/lib/{triple}/{name}")
    for name, source in sorted(libraries.items()):
        _copy(source, root / (f"usr{name}" if name.startswith("/lib") else f"usr/lib/{triple}/{name}"), 0o755)
    packages = packages_of({os.path.realpath(source) for source in libraries.values()})
    for package in packages:
        licence = pathlib.Path("/usr/share/doc", package, "copyright")
        if licence.exists():
            _copy(licence, root / "usr/share/doc" / package / "copyright", 0o644)
    _copy(REPOSITORY / "LICENSE", root / "usr/share/doc/heddle/LICENSE", 0o644)
    listing = root / "usr/share/doc/heddle/packages"
    listing.write_text("".join(f"{package} {version}\n" for package, version in sorted(packages.items())))
    (root / "etc").mkdir()
    # The user that the chart runs the controller as has a name.
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/sbin/nologin\nheddle:x:65532:65532:Heddle:/:/sbin/nologin\n")
    (root / "etc/group").write_text("root:x:0:\nheddle:x:65532:\n")
    (root / "tmp").mkdir()
    for folder, _, names in os.walk(root):  # whatever the umask of who builds is
        os.chmod(folder, 0o755)
        for name in names:
            path = pathlib.Path(folder, name)
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
    (root / "tmp").chmod(0o1777)
    return packages


def _git(*words):
    done = subprocess.run(["git", "-C", REPOSITORY, *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def version():
    return re.search(r"VERSION (\S+)", (REPOSITORY / "CMakeLists.txt").read_text().split("project(", 1)[1]).group(1)


def default_name():
    """What the chart asks for when no value says otherwise."""
    return f"heddle:{version()}"


def labels():
    """What is true of the image: the revision says when the tree had changes of its own, and is left out where it is not known."""
    known = {"org.opencontainers.image.title": "heddle", "org.opencontainers.image.version": version(),
             "org.opencontainers.image.description": "Heddle's controller, node agent and guards, and the libraries that they load",
             "dev.heddle.libraries": "/usr/share/doc/heddle/packages", "dev.heddle.license": "Apache-2.0"}
    system = pathlib.Path("/etc/os-release")
    if system.exists():
        name = re.search(r'^PRETTY_NAME="?([^"\n]*)', system.read_text(), re.M)
        known["dev.heddle.libraries-of"] = name.group(1) if name else "unknown"
    revision = _git("rev-parse", "HEAD")
    if revision:
        known["org.opencontainers.image.revision"] = revision + ("-dirty" if _git("status", "--porcelain") else "")
    return dict(sorted(known.items()))


def epoch():
    """The time of the last commit, or what SOURCE_DATE_EPOCH says: an image has no time of its own."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct") or 0)


def build_image(build, out, name):
    """Writes the archive; returns how many packages of others are in it."""
    if ":" not in name.rsplit("/", 1)[-1]:
        name = f"{name}:{version()}"
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="heddle-image-") as folder:
        root = pathlib.Path(folder, "root")
        root.mkdir()
        packages = fill(root, build)
        pack(name, root, ["/usr/bin/heddle-controller"], out, ("PATH=/usr/bin:/bin",), labels(), epoch())
    return name, len(packages)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build/release", help="folder with the built programs")
    parser.add_argument("--out", type=pathlib.Path, default=REPOSITORY / "build/heddle-image.tar")
    parser.add_argument("--name", default=default_name(), help="name and tag in the archive (default: what the chart asks for)")
    arguments = parser.parse_args()
    try:
        name, packages = build_image(arguments.build, arguments.out, arguments.name)
    except (Refused, OSError, subprocess.CalledProcessError) as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    print(f"image: {arguments.out}: {name}, {arguments.out.stat().st_size >> 20} MiB, libraries of {packages} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
