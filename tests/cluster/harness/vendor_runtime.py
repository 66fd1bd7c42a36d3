#!/usr/bin/env python3
"""Stands where NVIDIA's container runtime stands on many nodes: in front of runc, it gives a container whose environment has
NVIDIA_VISIBLE_DEVICES every card that the variable names, and the driver's libraries, whoever granted them.

  vendor_runtime.py RUNC DRIVER-ROOT RUNC'S ARGUMENTS...
"""
import json
import os
import pathlib
import sys

LIBRARIES = "/usr/lib/x86_64-linux-gnu"


def mount(source, target):
    return {"destination": target, "source": str(source), "type": "bind", "options": ["rbind", "rw", "nosuid"]}


def add_cards(spec, driver_root):
    environment = dict(entry.split("=", 1) for entry in spec.get("process", {}).get("env", []) if "=" in entry)
    asked = environment.get("NVIDIA_VISIBLE_DEVICES", "void")
    if asked in ("", "void", "none"):
        return False
    nodes = [node for node in sorted((driver_root / "dev").glob("nvidia*"))
             if asked == "all" or not node.name[6:].isdigit() or node.name[6:] in asked.split(",")]
    spec["mounts"] += [mount(node, f"/dev/{node.name}") for node in nodes]
    spec["mounts"] += [mount(path, f"{LIBRARIES}/{path.name}") for path in sorted((driver_root / "lib").glob("*.so*"))]
    return True


def main():
    runc, driver_root, arguments = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    if "create" in arguments:
        config = pathlib.Path(arguments[arguments.index("--bundle") + 1], "config.json")
        spec = json.loads(config.read_text())
        if add_cards(spec, driver_root):
            config.write_text(json.dumps(spec))
    os.execv(runc, [runc, *arguments])


if __name__ == "__main__":
    main()
