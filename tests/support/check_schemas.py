#!/usr/bin/python3
"""Checks JSON Schemas: valid draft 7, named and versioned, closed objects, every field described.

usage: check_schemas.py FILE...
"""

import json
import sys

import jsonschema

problems = []


def walk(schema, place, is_field):
    """Visits a schema and the schemas inside it; `is_field`: it describes a property of a document."""
    if not isinstance(schema, dict):
        return
    if is_field and "description" not in schema and "$ref" not in schema and "const" not in schema:
        problems.append(f"{place}: no description")
    if "properties" in schema and "additionalProperties" not in schema:
        problems.append(f"{place}: additionalProperties is missing")
    for name, inner in schema.get("properties", {}).items():
        walk(inner, f"{place}.{name}", True)
    for name in ("definitions", "patternProperties"):
        for key, inner in schema.get(name, {}).items():
            walk(inner, f"{place}/{name}/{key}", False)
    for name in ("items", "additionalProperties", "not"):
        walk(schema.get(name), f"{place}/{name}", False)
    for name in ("anyOf", "oneOf", "allOf"):
        for number, inner in enumerate(schema.get(name, [])):
            walk(inner, f"{place}/{name}[{number}]", False)


for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        schema = json.load(file)
    try:
        jsonschema.Draft7Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        problems.append(f"{path}: {error.message}")
        continue
    for field in ("format", "version"):
        if "const" not in schema.get("properties", {}).get(field, {}):
            problems.append(f"{path}: properties.{field} has no const")
        if field not in schema.get("required", []):
            problems.append(f"{path}: {field} is not required")
    walk(schema, path, False)

print("\n".join(problems), end="\n" if problems else "")
sys.exit(1 if problems else 0)
