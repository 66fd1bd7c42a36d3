#!/usr/bin/env python3
"""Every function that the vendor's header declares is exported by the simulated library, under every name that the
header gives it, and nothing else is. The names are read from the text of the header, not by the generator's way."""
import re
import subprocess
import sys


def declared_cuda(text):
    names = set(re.findall(r"\bCUresult\s+CUDAAPI\s+(cu\w+)\s*\(", text))
    for base, target in re.findall(r"^\s*#define\s+(cu[A-Z]\w*)\s+(\S+)\s*$", text, re.M):
        variant = re.fullmatch(r"__CUDA_API_(PTSZ|PTDS)\((\w+)\)", target)
        if variant:
            names |= {variant.group(2), variant.group(2) + "_" + variant.group(1).lower()}
        elif re.fullmatch(r"cu[A-Z]\w*", target):
            names.add(target)
    # Defined inline or as a macro alone: there is no such symbol in a library.
    names.discard("cuGetProcAddress_v2_ptsz")
    return names


def declared_nvml(text):
    # nvmlBlacklist* and the Grid functions of old are macros for the functions of today.
    return set(re.findall(r"\bDECLDIR\s+(nvml\w+)\s*\(", text))


def exported(library):
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
    return {line.split()[-1].split("@")[0] for line in listing.stdout.splitlines()}


def main():
    api, library, header = sys.argv[1:]
    with open(header, encoding="utf-8") as file:
        text = file.read()
    names = {"cuda": declared_cuda, "nvml": declared_nvml}[api](text)
    have = exported(library)
    missing = sorted(names - have)
    foreign = sorted(name for name in have if not name.startswith({"cuda": "cu", "nvml": "nvml"}[api]))
    print(f"{len(names)} names in the header, {len(have)} exported")
    if len(names) < 300 or missing or foreign:
        sys.exit(f"missing: {missing}\nnot of the API: {foreign}")
    soname = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    wanted = {"cuda": "libcuda.so.1", "nvml": "libnvidia-ml.so.1"}[api]
    if f"[{wanted}]" not in soname:
        sys.exit(f"the SONAME is not {wanted}")
    needed = set(re.findall(r"NEEDED\).*\[(.+)\]", soname))
    if not needed <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "libpthread.so.0", "libdl.so.2"}:
        sys.exit(f"needs more than glibc: {sorted(needed)}")


main()
