#!/usr/bin/env python3
"""What the guard interposes is what the rule tables say, and a gap ends the build with a message that tells what to do.

coverage_test.py SOURCE_DIR HEADERS CLASSES GUARD_LIBRARY DRIVER...
"""
import pathlib
import re
import subprocess
import sys
import tempfile

source, headers, classes_file, guard = map(pathlib.Path, sys.argv[1:5])
drivers = sys.argv[5:]
coverage = source / "src/guard/coverage"


def classify(folder, hooks=None, cuda_rules=None):
    return subprocess.run(
        [sys.executable, coverage / "classify.py", "--headers", folder,
         "--hooks", hooks or source / "src/guard/preload/cuda/hooks.h",
         "--cuda-rules", cuda_rules or coverage / "cuda.rules", "--nvml-rules", coverage / "nvml.rules",
         "--out", pathlib.Path(folder) / "out.h"], text=True, capture_output=True, check=False)


def exported(library):
    text = subprocess.run(["nm", "-D", "--defined-only", library], text=True, capture_output=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in text.splitlines()}


def expect(condition, text):
    if not condition:
        sys.exit(f"coverage_test: {text}")


def gaps_end_the_build():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        cuda = (headers / "cuda.h").read_text()
        (folder / "nvml.h").write_text((headers / "nvml.h").read_text())
        (folder / "cuda.h").write_text(cuda)
        done = classify(folder)
        expect(done.returncode == 0, done.stderr)

        (folder / "cuda.h").write_text(cuda + "\nCUresult CUDAAPI cuMemAllocElsewhere(CUdeviceptr *out, size_t bytes);\n")
        done = classify(folder)
        expect(done.returncode != 0 and "cuMemAllocElsewhere" in done.stderr and "allocate (hooked)" in done.stderr,
               f"a new entry point passes: {done.stderr}")

        # A new form of a name that is known needs its interposer too.
        (folder / "cuda.h").write_text(cuda + "\nCUresult CUDAAPI cuMemAlloc_v9(CUdeviceptr *out, size_t bytes);\n")
        done = classify(folder)
        expect(done.returncode != 0 and "cuMemAlloc_v9" in done.stderr and "hooks.h" in done.stderr, done.stderr)
        (folder / "cuda.h").write_text(cuda)

        hooks = (source / "src/guard/preload/cuda/hooks.h").read_text()
        (folder / "hooks.h").write_text(re.sub(r"\n  CUDA\(cuMemAllocAsync_ptsz,.*", "", hooks))
        done = classify(folder, hooks=folder / "hooks.h")
        expect(done.returncode != 0 and "cuMemAllocAsync_ptsz" in done.stderr, f"a lost hook passes: {done.stderr}")

        rules = (coverage / "cuda.rules").read_text().replace("cuMemCreate ", "")
        (folder / "cuda.rules").write_text(rules + "\n[late] passed\ncuMemCreate\n")
        done = classify(folder, cuda_rules=folder / "cuda.rules")
        expect(done.returncode != 0 and "cuMemCreate" in done.stderr, f"a hook in a passed class passes: {done.stderr}")

        (folder / "cuda.rules").write_text("cuMemAlloc\n")
        done = classify(folder, cuda_rules=folder / "cuda.rules")
        expect(done.returncode != 0 and "cuda.rules:1" in done.stderr, f"names before a class pass: {done.stderr}")


def the_library_interposes_what_the_table_says():
    lines = [line.split() for line in classes_file.read_text().splitlines()]
    wanted = {name for name, _, how in lines if how == "hooked"}
    ours = {name for name in exported(guard) if name.startswith(("cu", "nvml"))}
    expect(ours == wanted, f"missing: {sorted(wanted - ours)}, too many: {sorted(ours - wanted)}")
    for kind in ("allocate", "free", "launch", "context", "reference", "query"):
        expect(any(word == kind and how == "hooked" for _, word, how in lines), f"no hooked class {kind}")


def drivers_have_nothing_unknown():
    known = {line.split()[0] for line in classes_file.read_text().splitlines()}
    for driver in drivers:
        names = {name for name in exported(driver) if re.match(r"cu[A-Z]", name)}
        expect(names and names <= known, f"{driver} exports names that are not classified: {sorted(names - known)}")


gaps_end_the_build()
the_library_interposes_what_the_table_says()
drivers_have_nothing_unknown()
