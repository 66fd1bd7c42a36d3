"""Container images without a registry, by the tool that makes Heddle's own: a folder packed into a one-layer OCI archive."""
import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools"))

from make_image import build_image, default_name, library_closure, pack  # noqa: E402

__all__ = ["add_glibc", "build_image", "default_name", "library_closure", "pack", "shell_root"]


def shell_root(folder):
    """A root with a static busybox: sh, cat and their like."""
    folder = pathlib.Path(folder)
    for name in ("bin", "tmp", "etc", "usr/bin"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    shutil.copy("/usr/bin/busybox", folder / "bin/busybox")
    for applet in ("sh", "sleep", "cat", "ls", "env", "grep", "mkdir", "mknod", "kill", "ps", "id", "stat", "touch", "true",
                   "echo", "test", "mount", "wc", "head", "rm", "dd", "readlink", "cp", "chroot"):
        link = folder / "bin" / applet
        if not link.is_symlink():
            link.symlink_to("busybox")
    return folder


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
