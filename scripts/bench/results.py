"""What the benchmarks share: programs that are run and timed, results that are kept after each step, and where they come from."""
import json
import os
import platform
import shlex
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


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


def export_network(architecture, file, *options):
    run("/usr/bin/python3", os.path.join(ROOT, "scripts", "export_torchvision.py"), architecture, *options, "-o", file)


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
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")
    return {"machine": f"{cpu}, {cores}, Linux {platform.release()}",
            "versions": run(program, "--version", stdout=subprocess.PIPE).stdout.strip(),
            "command": f"scripts/bench/{os.path.basename(sys.argv[0])} {shlex.join(sys.argv[1:])}"}
