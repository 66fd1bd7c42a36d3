#!/usr/bin/env python3
"""Checks every file of catalog/ against its JSON Schema with an independent validator, so that the schemas that users
write against and the strict reader of src/catalog say the same. Prints one line a finding; exit 1 when there are any.

  tests/catalog_schema.py [CATALOG_DIRECTORY]
"""
import json
import pathlib
import sys

import jsonschema
import yaml


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1] / "catalog")
    findings, files = [], 0
    for schema_file in sorted((root / "schema").glob("*.schema.json")):
        schema = json.loads(schema_file.read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        kind = schema_file.name.removesuffix(".schema.json")
        for file in sorted(root.glob(f"*/{kind}.yaml")):
            files += 1
            document = yaml.safe_load(file.read_text(encoding="utf-8"))
            for error in sorted(validator.iter_errors(document), key=lambda e: list(map(str, e.absolute_path))):
                place = "/".join(map(str, error.absolute_path))
                findings.append(f"{file.relative_to(root)}: {place}: {error.message}")
    print("\n".join(findings + [f"{files} files, {len(findings)} findings"]))
    return 1 if findings or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
