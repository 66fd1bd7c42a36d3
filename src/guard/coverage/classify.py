#!/usr/bin/env python3
"""Classifies every entry point of a vendor's library by a rule table and writes the table that the guard compares the
driver with at its start. Fails when the header has an entry point that no rule names, and when a class that has to be
interposed has a form without a hook: what the guard does not know it cannot hold.
"""
import argparse
import fnmatch
import re
import subprocess
import sys

PROTOTYPE = {
    "cuda": re.compile(r"\bCUresult\s+(cu[A-Z]\w*)\s*\("),
    "nvml": re.compile(r"\b(?:nvmlReturn_t|const char\s*\*)\s*(nvml[A-Z]\w*)\s*\([^;{}]*\)\s*;"),
    "acl": re.compile(r"\b(acl(?!Error)(?:[A-Z]|rt|mdl|op|sys|dump)\w*)\s*\("),
    "rt": re.compile(r"\brtError_t\s+(rt[A-Z]\w*)\s*\("),
}
PRELUDE = {
    "cuda": "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n",
    "nvml": "#define NVML_NO_UNVERSIONED_FUNC_DEFS\n#include <nvml.h>\n",
    "acl": "#include <acl/acl.h>\n#include <acl/acl_rt_memory_soma.h>\n",
    "rt": "#include <ascend_abi/rt.h>\n",
}
LANGUAGE = {"rt": "c++"}
# Exported by the driver, in the header only as inline functions.
EXTRA = {"cuda": ["cuGetProcAddress_ptsz", "cuGetProcAddress_v2_ptsz"], "nvml": [], "acl": [], "rt": []}
SUFFIX = re.compile(r"(_v\d+)?(_ptsz|_ptds)?$")
HOOK = {"cuda": re.compile(r"^\s*CUDA\((\w+),", re.M), "nvml": re.compile(r"^\s*NVML\((\w+)\)", re.M),
        "acl": re.compile(r"^\s*ACL\((\w+)\)", re.M), "rt": re.compile(r"^\s*RT\((\w+)\)", re.M)}


def base_of(name):
    return SUFFIX.sub("", name)


def names_of_header(api, headers, compiler):
    folders = [argument for folder in headers for argument in ("-I", folder)]
    done = subprocess.run([compiler, "-E", "-P", "-x", LANGUAGE.get(api, "c"), *folders, "-"], input=PRELUDE[api], text=True,
                          capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"classify.py: the preprocessor failed on {api}: {done.stderr}")
    return sorted(set(PROTOTYPE[api].findall(done.stdout)) | set(EXTRA[api]))


def expand(pattern):
    match = re.search(r"\{([^}]*)\}", pattern)
    if not match:
        return [pattern]
    return [full for part in match.group(1).split(",")
            for full in expand(pattern[:match.start()] + part + pattern[match.end():])]


def read_rules(path):
    """The classes in the order of the file, as {class: hooked}; (pattern, class) pairs; and what is considered."""
    classes, rules, considered, current = {}, [], [], None
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            words = line.split("#", 1)[0].split()
            section = re.match(r"\[(\w+)\]$", words[0]) if words else None
            if section and words[1:] in (["hooked"], ["passed"]):
                current = section.group(1)
                classes[current] = words[1] == "hooked"
            elif words and words[0] == "consider":
                considered += words[1:]
            elif words and (section or current is None):
                sys.exit(f"{path}:{number}: write '[class] hooked' or '[class] passed', then names")
            else:
                rules += [(pattern, current) for word in words for pattern in expand(word)]
    return classes, rules, considered or ["*"]


def class_of(name, rules):
    """A full name is meant before a family, and an earlier family before a later one."""
    base = base_of(name)
    exact = [kind for pattern, kind in rules if pattern in (base, name)]
    family = [kind for pattern, kind in rules if "*" in pattern and fnmatch.fnmatchcase(base, pattern)]
    return (exact + family + [None])[0]


def gnu_hash(name):
    value = 5381
    for char in name.encode():
        value = (value * 33 + char) & 0xffffffff
    return value


def table(api, kinds, classes, rules):
    """Open addressing by the hash that ELF files carry, offsets instead of pointers: no relocation at start."""
    size = 1
    while size < 2 * len(kinds) + 1:
        size *= 2
    slots, blob, order = [(0, 0, 0)] * size, "\0", list(classes)
    for name, kind in sorted(kinds.items()):
        at = gnu_hash(name) & (size - 1)
        while slots[at][1]:
            at = (at + 1) & (size - 1)
        slots[at] = (gnu_hash(name), len(blob), order.index(kind))
        blob += name + "\0"
    families = "".join(pattern.rstrip("*") + "\0" for pattern, kind in rules if kind == "outside")
    text = blob.replace("\0", "\\0")
    lines = [text[i:i + 100] for i in range(0, len(text), 100)]
    # A cut must not fall between the backslash and the zero.
    for i in range(len(lines) - 1):
        if lines[i].endswith("\\"):
            lines[i], lines[i + 1] = lines[i][:-1], "\\" + lines[i + 1]
    prefix = "k" + api.capitalize()
    out = [f"inline constexpr char {prefix}Names[] ="]
    out += [f'    "{line}"' for line in lines[:-1]] + [f'    "{lines[-1]}";']
    out += [f"inline constexpr KnownName {prefix}Known[] = {{"]
    out += ["    " + " ".join(f"{{{h}u, {o}, {k}}}," for h, o, k in slots[i:i + 6]) for i in range(0, size, 6)]
    out += ["};", f'inline constexpr char {prefix}Outside[] = "{families}";'.replace("\0", "\\0")]
    hooked = sum(1 << i for i, name in enumerate(order) if classes[name])
    out += [f"inline constexpr uint32_t {prefix}Hooked = {hooked}u;  // bit n: class n", ""]
    return "\n".join(out)


def check(api, names, classes, rules, considered, hooks, path):
    wanted = [name for name in names if any(fnmatch.fnmatchcase(base_of(name), pattern) for pattern in considered)]
    kinds = {name: class_of(name, rules) for name in names}
    unknown = [name for name in wanted if kinds[name] is None]
    if unknown:
        choices = ", ".join(f"{kind}{' (hooked)' if hooked else ''}" for kind, hooked in classes.items())
        sys.exit(f"{path}: the vendor's header has entry points that no rule names: {', '.join(unknown)}\n"
                 f"  Read what each does to memory and time, and add it to the section of its class: {choices}.\n"
                 f"  A class that is hooked needs an interposer in src/guard/preload as well.")
    kinds = {name: kind for name, kind in kinds.items() if kind}
    missing = [name for name, kind in kinds.items() if classes[kind] and name not in hooks]
    if missing:
        sys.exit(f"{path}: has to be interposed and is not in hooks.h of its table: {', '.join(missing)}\n"
                 "  Add an interposer, or move the name to a class that is passed and say why.")
    idle = [name for name in hooks if name in kinds and not classes[kinds[name]]]
    if idle:
        sys.exit(f"{path}: is interposed but in a class that is passed: {', '.join(idle)}")
    return kinds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--headers", required=True, action="append")
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--hooks", required=True, help="hooks.h of the vendor's table")
    for api in PROTOTYPE:
        parser.add_argument(f"--{api}-rules")
    parser.add_argument("--out", required=True, help="the C++ header to write")
    parser.add_argument("--classes", help="also write 'name class hooked|passed' for every entry point, for tests")
    options = parser.parse_args()
    with open(options.hooks, encoding="utf-8") as file:
        hooks_text = file.read()
    text = ["// Generated by classify.py from the vendor's header and the rule tables. Do not edit.", "#pragma once",
            "#include <cstdint>", "namespace heddle::guard {",
            "struct KnownName {", "  uint32_t hash;", "  uint16_t name;   // offset; 0: free", "  uint16_t kind;", "};"]
    listing = []
    for api in PROTOTYPE:
        path = getattr(options, f"{api}_rules")
        if not path:
            continue
        classes, rules, considered = read_rules(path)
        names = names_of_header(api, options.headers, options.compiler)
        kinds = check(api, names, classes, rules, considered, HOOK[api].findall(hooks_text), path)
        listing += [f"{name} {kind} {'hooked' if classes[kind] else 'passed'}\n" for name, kind in sorted(kinds.items())]
        if api != "nvml":
            text.append(table(api, kinds, classes, rules))
    text.append("}  // namespace heddle::guard\n")
    with open(options.out, "w", encoding="utf-8") as file:
        file.write("\n".join(text))
    if options.classes:
        with open(options.classes, "w", encoding="utf-8") as file:
            file.writelines(listing)


if __name__ == "__main__":
    main()
