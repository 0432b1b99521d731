"""A link of any speed on one machine: two network namespaces and a cable between them, shaped by a token bucket."""
import subprocess
import sys

from results import run

STORAGE, COMPUTE = "tl-bench-s", "tl-bench-c"  # the namespaces
ADDRESS, PORT = "10.77.13.2", 47113  # of the compute side


def bits(link):
    number, unit = link.replace("/s", "").split("bit")[0], 1
    for prefix, factor in (("k", 1e3), ("M", 1e6), ("G", 1e9)):
        if number.endswith(prefix):
            number, unit = number[:-1], factor
    return float(number) * unit


class Link:
    """Two network namespaces and a shaped cable between them."""

    def __enter__(self):
        self.remove()
        try:
            for name in (STORAGE, COMPUTE):
                run("ip", "netns", "add", name)
            run("ip", "link", "add", "tl0", "netns", STORAGE, "type", "veth", "peer", "name", "tl1", "netns", COMPUTE)
            for name, device, address in ((STORAGE, "tl0", "10.77.13.1"), (COMPUTE, "tl1", ADDRESS)):
                run("ip", "-n", name, "addr", "add", address + "/24", "dev", device)
                run("ip", "-n", name, "link", "set", device, "up")
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            self.remove()
            sys.exit(f"{sys.argv[0]}: error: cannot make network namespaces ({error}); run as root where the kernel allows it")
        return self

    def __exit__(self, *_):
        self.remove()

    @staticmethod
    def remove():
        for name in (STORAGE, COMPUTE):
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)

    @staticmethod
    def shape(link):
        rate = bits(link)
        burst = max(128 << 10, int(rate / 8 * 0.004))
        for name, device in ((STORAGE, "tl0"), (COMPUTE, "tl1")):
            run("tc", "-n", name, "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{int(rate)}bit",
                "burst", str(burst), "latency", "50ms")
