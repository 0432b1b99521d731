"""Measuring on a machine that others slow down for seconds at a time."""
import math
import os
import statistics
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is loaded
import numpy

del os.environ["OPENBLAS_NUM_THREADS"]  # those who are measured choose themselves


class Quiet:
    """Watches some cores with a small matrix product."""

    def __init__(self, cores, tries):
        self.fastest, self.tries = {core: math.inf for core in cores}, tries  # seconds of the product
        self.allowed = os.sched_getaffinity(0)
        self.matrix = numpy.random.default_rng(0).normal(size=(512, 512)).astype("float32")

    def disturbed(self):
        """True if some core is much slower now than it can be."""
        slow = False
        for core in self.fastest:
            os.sched_setaffinity(0, {core})
            seconds = []
            for _ in range(3):
                start = time.perf_counter()
                self.matrix @ self.matrix
                seconds.append(time.perf_counter() - start)
            self.fastest[core] = min(self.fastest[core], *seconds)
            slow = slow or statistics.median(seconds) > 1.25 * self.fastest[core]
        os.sched_setaffinity(0, self.allowed)
        return slow

    def undisturbed(self, measure, seconds):
        """The result of measure() on a quiet machine; if there is none, the one of the fewest seconds(result)."""
        results = []
        for _ in range(self.tries):
            limit = time.monotonic() + 5
            while self.disturbed() and time.monotonic() < limit:
                time.sleep(0.3)
            results.append(measure())
            if results[-1] is None or not self.disturbed():
                return results[-1]
        return min(results, key=seconds)
