"""Keeps cores busy whatever the programs under test do: what one core is slowed down by another is then always the same."""
import contextlib
import os
import subprocess
import sys

# Products of matrices and passes over memory, about as a convolutional network mixes them.
WORK = """
import numpy
a = numpy.ones((384, 384), "float32")
b = numpy.ones(1 << 21, "float32")
while True:
    for _ in range(8):
        a @ a
    b += 1
"""


@contextlib.contextmanager
def ballast(cores):
    """On each of the cores, a process that runs only while nothing else of this session wants to (SCHED_IDLE). Other sessions
    would get their share of the core only, as Linux shares it between sessions first (autogroups)."""
    processes = []
    try:
        for core in cores:
            # It dies with this process.
            command = ["setpriv", "--pdeathsig", "KILL", "chrt", "--idle", "0", "taskset", "-c", str(core), sys.executable, "-c", WORK]
            environment = dict(os.environ, OPENBLAS_NUM_THREADS="1")
            processes.append(subprocess.Popen(command, env=environment))
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
