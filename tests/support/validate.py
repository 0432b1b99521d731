#!/usr/bin/python3
"""Validates documents against the schemas with an implementation that is not ours.

usage: validate.py SCHEMAS FILE...

A file is a JSON document, .jsonl with one a line, or a model file with the document tl.json inside. Its
"format" names the schema: tl-plan is plan.schema.json.
"""

import json
import os
import sys
import zipfile

import jsonschema

schemas, *paths = sys.argv[1:]
formats = set()


def documents(path):
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            name = next(name for name in archive.namelist() if name.endswith("/extra/tl.json"))
            return [json.loads(archive.read(name))]
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file] if path.endswith(".jsonl") else [json.load(file)]


for path in paths:
    for document in documents(path):
        name = document["format"].removeprefix("tl-")
        with open(os.path.join(schemas, name + ".schema.json"), encoding="utf-8") as file:
            schema = json.load(file)
        formats.add(name)
        for error in jsonschema.Draft7Validator(schema).iter_errors(document):
            sys.exit(f"{path}: {name}: /{'/'.join(map(str, error.path))}: {error.message[:300]}")

print(*sorted(formats), sep="\n")
