#!/usr/bin/env python3
"""Writes docs/vendors.md from catalog/*/hardware.yaml, or says whether it is up to date.

  tools/docs/vendors.py           writes docs/vendors.md
  tools/docs/vendors.py --check   exit 1 when docs/vendors.md is not what this would write
"""
import pathlib
import re
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "vendors.md"

SUPPORT = {
    "verified": "it ran on the real hardware",
    "simulated": "it ran against a simulation with the vendor's own interface, not on the hardware",
    "documented": "written from the vendor's documents or code, not run",
    "unverified": "known at second hand only",
}
ISOLATION = {
    "hard": "the hardware or the vendor's driver cuts the card",
    "mask": "compute units are masked; memory is not",
    "soft": "a limit in software: the guard, or the vendor's own",
    "whole": "whole devices only",
}

INTRO = """<!-- Generated from catalog/ by tools/docs/vendors.py (`make docs`). Do not edit. -->
# Vendors

What Heddle knows of each vendor's hardware: models, the forms a card can be cut into, what a container needs, and how
sure all that is. The data is `catalog/<vendor>/hardware.yaml`; this page is made from it, and
`heddle catalog list` and `heddle catalog show VENDOR[/MODEL]` print the same. How requests are written is in
`catalog/<vendor>/requests.yaml` and on its own page.

**How to read it.** Every figure names a source. Sources are the vendor's own documents or code, those of third parties,
or, marked *(unverified)*, general knowledge that no document confirmed. An empty cell means that no figure was found;
the driver on the node is asked. Where a driver reports another number than this page, the driver's holds.

**Support levels** speak about Heddle's own use of the hardware:
"""

ADD = """
## Adding a model

A model is data. Write a folder with a file of the same form, which may hold just what is new:

```yaml
# my-catalog/nvidia/hardware.yaml
vendor: nvidia
sources:
  lab: {title: Measured in our lab, version: 2026-10}
models:
  - name: X900
    products: [NVIDIA X900 128GB]   # as nvidia-smi -L prints it
    memory: 128Gi
    source: lab
```

```
heddle catalog validate my-catalog/nvidia/hardware.yaml
heddle catalog show nvidia/X900 --catalog my-catalog
```

Errors name the file, the line, the field and the nearest known key. A model, table, system, node, variable or source of
the same name takes the place of the built-in one. `catalog/schema/hardware.schema.json` is the JSON Schema of the form,
for editors. A partition table lists profiles; in a table of mode `mixed` they go together as long as slots and counters
last (a profile may begin only at its `starts`), in one of mode `uniform` the whole card is in one of them.

## Adding resource names

What pods write is data too: `my-catalog/<vendor>/requests.yaml` takes the place of the built-in file of that vendor, or
adds a vendor. The form is `catalog/schema/requests.schema.json`; what each field means is in `src/catalog/requests.h`.

```yaml
# my-catalog/mine/requests.yaml
vendor: mine
title: My cards
sources: [our own device plugin]
domains: [{prefix: mine.example.com/}]
families:
  - id: card
    dialect: our device plugin
    noun: card
    request: card
    count: mine.example.com/card
    memory: {keys: mine.example.com/card-memory, unit: 1Mi}
```

```
heddle catalog validate my-catalog/mine/requests.yaml
heddle translate -f pod.yaml --catalog my-catalog
```

`validate` reads the file as `translate --catalog` would, with the `hardware.yaml` beside it, and prints for each trouble the
file, the line, the field and what to write.
"""


def cell(value) -> str:
    return "" if value is None else str(value).replace("|", "\\|")


def table(header: list[str], rows: list[list]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def texts(value) -> list[str]:
    return [] if value is None else [str(item) for item in (value if isinstance(value, list) else [value])]


def source_mark(vendor: dict, source: str) -> str:
    unverified = vendor["sources"][source].get("kind") == "unverified"
    return f"{source} *(unverified)*" if unverified else source


def figure(vendor: dict, owner: dict, key: str, unit: str = "") -> str:
    value = owner.get(key)
    if value is None:
        return ""
    if not isinstance(value, dict):
        return f"{value}{unit}"
    own = value.get("source", owner["source"])
    mark = "" if own == owner["source"] else f" ({source_mark(vendor, own)})"
    return f"{value['value']}{unit}{mark}"


def starts(profile: dict) -> str:
    if "starts" not in profile:
        return ""
    places = ", ".join(map(str, profile["starts"]))
    return f"{places} (size {profile.get('size', 1)})"


def partition_section(vendor: dict, name: str, tab: dict) -> str:
    of = [model["name"] for model in vendor.get("models", []) if model.get("partitions") == name]
    mode = ("partitions mix as long as slots and counters last" if tab["mode"] == "mixed"
            else "the whole card is in one of these modes")
    parts = []
    if "slots" in tab:
        parts.append(f"{tab['slots']} slots ({tab['slot']})")
    parts += [f"{amount} {counter}" for counter, amount in tab.get("counters", {}).items()]
    has = f" A card has {', '.join(parts)}." if parts else ""
    out = f"**Partitions `{name}`** (of {', '.join(of)}): {mode}.{has} Source: {source_mark(vendor, tab['source'])}.\n\n"
    columns = [("Partition", lambda p: f"`{p['name']}`"), ("Number", lambda p: p.get("id")),
               ("Memory", lambda p: p.get("memory")), ("Compute units", lambda p: p.get("compute_units")),
               ("At most", lambda p: p["count"]), ("Starts", starts),
               ("Consumes", lambda p: ", ".join(f"{n} {c}" for c, n in p.get("consumes", {}).items()))]
    used = [(title, read) for title, read in columns if any(read(p) not in (None, "") for p in tab["profiles"])]
    out += table([title for title, _ in used], [[read(p) for _, read in used] for p in tab["profiles"]])
    notes = texts(tab.get("notes"))
    return out + ("\n" + "".join(f"- {note}\n" for note in notes) if notes else "")


def models_section(vendor: dict) -> str:
    rows, notes = [], []
    for model in vendor.get("models", []):
        names = texts(model.get("products")) + [f"*…{part}…*" for part in texts(model.get("contains"))]
        unit = f" {model['compute_unit']}" if "compute_unit" in model else ""
        rows.append([model["name"], "; ".join(names), model.get("architecture"), figure(vendor, model, "memory"),
                     figure(vendor, model, "allocatable"), figure(vendor, model, "compute_units", unit),
                     model.get("partitions"), source_mark(vendor, model["source"])])
        notes += [f"- {model['name']}: {note}\n" for note in texts(model.get("notes"))]
    out = table(["Model", "Product names", "Architecture", "Memory", "Allocatable", "Compute", "Partitions", "Source"], rows)
    return out + ("\n" + "".join(notes) if notes else "")


def systems_section(vendor: dict) -> str:
    rows, notes = [], []
    for system in vendor["systems"]:
        rows.append([system["name"], system["kind"], system.get("link"), ", ".join(texts(system["models"])),
                     system.get("devices"), system.get("devices_per_node"), system.get("nodes"),
                     source_mark(vendor, system["source"])])
        if "shapes" in system:
            shapes = ", ".join("x".join(map(str, shape)) for shape in system["shapes"])
            notes.append(f"- {system['name']}: a host is {'x'.join(map(str, system['host']))}; shapes: {shapes}.\n")
        notes += [f"- {system['name']}: {note}\n" for note in texts(system.get("notes"))]
    out = table(["System", "Kind", "Link", "Models", "Devices", "Per node", "Nodes", "Source"], rows)
    return "**Systems**\n\n" + out + ("\n" + "".join(notes) if notes else "")


def vendor_section(vendor: dict) -> str:
    support = vendor["support"]
    out = [f"## {vendor['title']}\n",
           f"`{vendor['vendor']}`, {vendor['kind']}. Support: **{support['level']}**. {' '.join(support['text'].split())}\n",
           f"Isolation: {', '.join(vendor.get('isolation', []))}. "
           + (f"Management library: `{vendor['library']}`.\n" if "library" in vendor else "No management library.\n"),
           models_section(vendor)]
    out += [partition_section(vendor, name, tab) for name, tab in vendor.get("partition_tables", {}).items()]
    if vendor.get("systems"):
        out.append(systems_section(vendor))
    out.append("**Device nodes**\n\n" + table(
        ["Node", "Once for each", "When", "Source"],
        [[f"`{n['path']}`", n["per"], n.get("when"), source_mark(vendor, n["source"])] for n in vendor["device_nodes"]]))
    if vendor.get("variables"):
        out.append("**Variables**\n\n" + table(
            ["Variable", "Read by", "Meaning", "Heddle sets", "Source"],
            [[f"`{v['name']}`", v["read_by"], v["meaning"], v.get("in_claim"), source_mark(vendor, v["source"])]
             for v in vendor["variables"]]))
    if vendor.get("versions"):
        out.append("**Versions that work together**\n\n" + table(
            ["Runtime", "Driver", "Source"],
            [[v["runtime"], f"{v['rule']} {v['driver']}", source_mark(vendor, v["source"])] for v in vendor["versions"]]))
    if vendor.get("notes"):
        out.append("".join(f"- {note}\n" for note in texts(vendor["notes"])))
    rows = [[f"`{key}`", f"[{s['title']}]({s['url']})" if "url" in s else s["title"], s.get("version"),
             s.get("kind", "vendor")] for key, s in vendor["sources"].items()]
    out.append("**Sources**\n\n" + table(["Name", "What", "Version", "Whose"], rows))
    return "\n".join(out)


def page() -> str:
    vendors = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in sorted(ROOT.glob("catalog/*/hardware.yaml"))]
    out = INTRO + "\n" + "".join(f"- **{level}**: {meaning}\n" for level, meaning in SUPPORT.items())
    out += "\n**Isolation** is what keeps tenants of one card apart:\n\n"
    out += "".join(f"- **{kind}**: {meaning}\n" for kind, meaning in ISOLATION.items()) + "\n"
    rows = []
    for vendor in vendors:
        anchor = re.sub(r"[^a-z0-9 -]", "", vendor["title"].lower()).replace(" ", "-")
        rows.append([f"[{vendor['title']}](#{anchor})", f"`{vendor['vendor']}`", vendor["support"]["level"],
                     ", ".join(vendor.get("isolation", [])), len(vendor.get("models", [])),
                     ", ".join(vendor.get("partition_tables", {}))])
    out += table(["Vendor", "Word", "Support", "Isolation", "Models", "Partition tables"], rows)
    out += "\n" + "\n".join(vendor_section(vendor) for vendor in vendors)
    return out + ADD


def main() -> int:
    wanted = page()
    if sys.argv[1:] == ["--check"]:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == wanted:
            return 0
        print(f"{PAGE.relative_to(ROOT)} is not what the catalogue says: run `make docs`")
        return 1
    if sys.argv[1:]:
        print(__doc__)
        return 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
