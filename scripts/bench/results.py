"""What the benchmarks share: results that are kept after each step, and the machine that made them."""
import json
import os
import platform


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


def machine(cores):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")
    return f"{cpu}, {cores}, Linux {platform.release()}"
