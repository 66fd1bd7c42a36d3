#!/usr/bin/env python3
"""Holds the layers of ARCHITECTURE.md: which folder of src/ may include which, what the core may never include, how long
a file may be, and who may read and write JSON by the library's own calls. Prints one line a finding; exit 1 when there are any."""
import pathlib
import re
import sys

CORE = ["base", "model", "catalog", "cel", "allocator", "placement", "queueing", "engine", "simulation", "codec", "dialects", "classes"]
# Folder -> what it may include besides itself.
ALLOWED = {
    "base": [],
    "model": ["base"],
    "codec": ["base", "model"],
    "catalog": ["base", "model"],
    "cel": ["base", "model"],
    "allocator": ["base", "model", "catalog", "cel", "codec"],
    "placement": ["base", "model", "catalog", "cel", "codec", "allocator"],
    "queueing": ["base", "model", "catalog", "cel", "codec", "allocator", "placement"],
    "engine": ["base", "model", "catalog", "cel", "codec", "allocator", "placement", "queueing"],
    "simulation": ["base", "model", "codec", "queueing", "engine"],
    "dialects": ["base", "model", "catalog", "codec"],
    "classes": ["base", "model", "catalog", "codec"],
    "guard": ["base"],
    "kube": ["base", "model", "codec"],
    "vendors": ["base", "model", "catalog"],
    "agent": ["base", "model", "catalog", "codec", "kube", "vendors", "guard"],
    "controller": ["base", "model", "catalog", "cel", "codec", "kube", "allocator", "queueing", "engine", "dialects", "classes"],
    "standalone": ["base", "model", "catalog", "cel", "codec", "kube", "allocator", "queueing", "engine", "vendors", "guard", "agent"],
    "cli": ["base", "model", "catalog", "cel", "codec", "kube", "allocator", "placement", "engine", "dialects", "classes",
            "controller", "standalone", "vendors", "guard", "agent", "queueing", "simulation"],
}
# The core decides; it never talks to the network or a database.
CORE_FORBIDDEN = re.compile(r"^(curl/|openssl/|grpc|sqlite3|boost/asio|boost/beast|prometheus/|sys/socket\.h)")
# What tenants write may be nested without end or be no UTF-8: base/json.h has the two that bear it.
BARE_JSON = re.compile(r"\bjson::parse\(|\.dump\(\s*\d*\s*\)", re.I)
MAY_USE_BARE_JSON = re.compile(r"(_test|/testing|/fake_\w+)\.(cc|h)$|^src/base/json\.cc$")
# It throws when a terminal has gone, in the middle of whatever was done: base/print.h has those that do not.
THROWING_PRINT = re.compile(r"\bfmt::print\(")
MAX_LINES = 600
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def findings(root: pathlib.Path):
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in (".h", ".cc", ".c") or not path.is_file():
            continue
        name = path.relative_to(root)
        folder = name.parts[1]
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        if lines > MAX_LINES:
            yield f"{name}: {lines} lines, more than {MAX_LINES}: split it"
        if folder not in ALLOWED:
            yield f"{name}: the folder src/{folder} has no place in the layers (tools/lint/layers.py)"
            continue
        is_test = path.stem.endswith("_test")
        for kind, target in INCLUDE.findall(text):
            top = target.split("/")[0]
            if kind == '"' and top in ALLOWED and "/" in target and top != folder and top not in ALLOWED[folder]:
                yield f"{name}: src/{folder} must not include {target}"
            if folder in CORE and not is_test and CORE_FORBIDDEN.match(target):
                yield f"{name}: the core must not include {target}"
    for path in sorted([*(root / "src").rglob("*"), *(root / "apps").rglob("*")]):
        name = str(path.relative_to(root))
        if path.suffix not in (".h", ".cc"):
            continue
        text = path.read_text(encoding="utf-8")
        if not MAY_USE_BARE_JSON.search(name):
            for found in BARE_JSON.finditer(text):
                yield f"{name}: {found.group(0)} where parse_json() or dump_json() of base/json.h belongs"
        if THROWING_PRINT.search(text):
            yield f"{name}: fmt::print( where print_to() or print_out() of base/print.h belongs"
    for path in sorted((root / "sim").rglob("*")):
        if path.suffix in (".h", ".cc", ".c") and path.is_file():
            for kind, target in INCLUDE.findall(path.read_text(encoding="utf-8")):
                if kind == '"' and target.split("/")[0] in set(ALLOWED) - {"base"} and "/" in target:
                    yield f"{path.relative_to(root)}: a simulated device knows nothing of Heddle, yet includes {target}"


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2])
    found = list(findings(root))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
