#!/usr/bin/python3
"""Prints the examples of a document as shell scripts, each ended by a NUL byte, in their order.

usage: examples.py man|help|markdown < TEXT

man:       section EXAMPLES: each run of .Dl lines, and each .Bd -literal block
help:      each line below "Examples:" up to one that is not indented
markdown:  each block fenced as ```sh
"""

import re
import sys


def of_man(lines):
    section, block, literal = "", [], False
    for line in lines:
        if line.startswith(".Sh "):
            section = line[4:]
        if section != "EXAMPLES":
            continue
        if line.startswith(".Bd -literal"):
            literal = True
        elif line == ".Ed":
            literal = False
            yield block
            block = []
        elif literal:
            block.append(line)
        elif line.startswith(".Dl "):
            block.append(line[4:])
        elif block:
            yield block
            block = []
    if block:
        yield block


def of_help(lines):
    inside = False
    for line in lines:
        if inside and not line.startswith("  "):
            return
        if inside:
            yield [line.strip()]
        inside = inside or line == "Examples:"


def of_markdown(lines):
    block = None
    for line in lines:
        if block is None:
            block = [] if line == "```sh" else None
        elif line == "```":
            yield block
            block = None
        else:
            block.append(line)


kind = sys.argv[1]
lines = sys.stdin.read().split("\n")
for script in {"man": of_man, "help": of_help, "markdown": of_markdown}[kind](lines):
    text = "\n".join(script)
    if kind == "man":
        text = re.sub(r"\\e", r"\\", text.replace("\\-", "-").replace("\\&", ""))
    sys.stdout.write(text + "\0")
