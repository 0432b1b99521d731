"""What the benchmarks share: programs that are run and timed, results that are kept after each step, and where they come from."""
import argparse
import importlib.util
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time

with open("/proc/cpuinfo", encoding="utf-8") as _file:
    PROCESSOR = _file.read()
if "GenuineIntel" in PROCESSOR and "avx512vl" in PROCESSOR:
    # The peers get the kernels that our programs choose (tools/network.cpp): as installed, they are several times slower.
    os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def bench_parser(doc, state="folder for what it works with"):
    """Of the options that every benchmark has; `doc`: its description. It is called as its results are."""
    name = os.path.basename(sys.argv[0])
    parser = argparse.ArgumentParser(description=doc.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", default=os.path.join(ROOT, "build", "bin"), help="folder of the programs")
    parser.add_argument("--state", default="/tmp/tl-bench-" + name, help=state)
    parser.add_argument("-o", "--output", default=os.path.join(ROOT, "docs", "bench", name + ".json"))
    parser.add_argument("--report", metavar="FILE", help="print what was measured before")
    return parser


def parse(parser, **shows):
    """The arguments. With --report FILE, and what else has a function here, it shows the results in that file and ends. A
    dataset is needed where there is one, and its path becomes absolute."""
    arguments = parser.parse_args()
    for name, show in shows.items():
        if getattr(arguments, name):
            show(load(getattr(arguments, name)))
            sys.exit()
    if "dataset" in arguments:
        if not arguments.dataset:
            parser.error("which DATASET?")
        arguments.dataset = os.path.abspath(arguments.dataset)
    return arguments


def run(*command, **options):
    """A call that must succeed."""
    return subprocess.run(list(map(str, command)), check=True, text=True, **options)


def timed(*command, **options):
    """Wall-clock seconds and the largest resident set, descendants and all, of a call that must succeed."""
    command = list(map(str, command))
    start = time.monotonic()
    process = subprocess.Popen(command, **options)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return {"seconds": seconds, "peak_memory_bytes": 1024 * usage.ru_maxrss}


def in_turns(calls, runs):
    """Runs each call of {name: call} so many times, in turns, so that what else the machine does falls on all of them. A call
    returns seconds. {name: {"seconds": median, "least": ..., "most": ...}}"""
    found = {name: [] for name in calls}
    for _ in range(runs):
        for name, call in calls.items():
            found[name].append(call())
    return {name: {"seconds": statistics.median(values), "least": min(values), "most": max(values)} for name, values in found.items()}


def export_network(architecture, file, *options):
    run("/usr/bin/python3", os.path.join(ROOT, "scripts", "export_torchvision.py"), architecture, *options, "-o", file)


def exporter():
    """scripts/export_torchvision.py as a module: its networks."""
    spec = importlib.util.spec_from_file_location("exporter", os.path.join(ROOT, "scripts", "export_torchvision.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load(path):
    """Nothing if there is no such file."""
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def save(path, document):
    """The file appears whole or not at all."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)


def origin(program, cores):
    """The machine, the version of a program, and the command: part of every document of results."""
    cpu = next((line.split(":")[1].strip() for line in PROCESSOR.splitlines() if line.startswith("model name")), "unknown")
    return {"machine": f"{cpu}, {cores}, Linux {platform.release()}",
            "versions": run(program, "--version", stdout=subprocess.PIPE).stdout.strip(),
            "command": f"scripts/bench/{os.path.basename(sys.argv[0])} {shlex.join(sys.argv[1:])}"}
