#!/usr/bin/env python3
"""Ascend's table: what is interposed is what the rules say, and a gap ends the build with a message that tells what to do.

ascend_coverage_test.py SOURCE_DIR HEADERS CLASSES GUARD_LIBRARY
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

source, headers, classes_file, guard = map(pathlib.Path, sys.argv[1:5])
coverage = source / "src/guard/coverage"
table = source / "src/guard/preload/ascend"


def classify(vendor, abi, hooks=table / "hooks.h"):
    return subprocess.run(
        [sys.executable, coverage / "classify.py", "--headers", vendor, "--headers", abi, "--hooks", hooks,
         "--acl-rules", coverage / "acl.rules", "--rt-rules", coverage / "rt.rules", "--out", abi / "out.h"],
        text=True, capture_output=True, check=False)


def expect(condition, text):
    if not condition:
        sys.exit(f"ascend_coverage_test: {text}")


def gaps_end_the_build(folder):
    vendor, abi = folder / "vendor", folder / "abi"
    shutil.copytree(headers, vendor)
    shutil.copytree(source / "abi", abi)
    expect(classify(vendor, abi).returncode == 0, "the rules do not fit the headers")
    acl, rt = vendor / "acl/acl_rt.h", abi / "ascend_abi/rt.h"
    texts = {path: path.read_text() for path in (acl, rt)}
    for path, addition, name in ((acl, "\nint aclrtMallocElsewhere(void **pointer, size_t size);\n", "aclrtMallocElsewhere"),
                                 (rt, '\nextern "C" rtError_t rtMallocElsewhere(void** pointer);\n', "rtMallocElsewhere")):
        path.write_text(texts[path] + addition)
        done = classify(vendor, abi)
        expect(done.returncode != 0 and name in done.stderr and "allocate (hooked)" in done.stderr,
               f"a new entry point passes: {done.stderr}")
        path.write_text(texts[path])
    hooks = folder / "hooks.h"
    hooks.write_text(re.sub(r"\n  ACL\(aclrtMallocAlign32\).*", "", (table / "hooks.h").read_text()))
    done = classify(vendor, abi, hooks)
    expect(done.returncode != 0 and "aclrtMallocAlign32" in done.stderr, f"a lost hook passes: {done.stderr}")


with tempfile.TemporaryDirectory() as name:
    gaps_end_the_build(pathlib.Path(name))
listing = subprocess.run(["nm", "-D", "--defined-only", guard], text=True, capture_output=True, check=True).stdout
exported = {line.split()[-1].split("@")[0] for line in listing.splitlines()}
hooked = {line.split()[0] for line in classes_file.read_text().splitlines() if line.endswith(" hooked")}
expect(len(hooked) > 50 and exported == hooked | {"dlopen", "dlsym", "dlvsym"},
       f"missing {hooked - exported}, beyond {exported - hooked}")
