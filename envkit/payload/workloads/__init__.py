"""The workloads of the benchmark: each deterministic and made on the fly."""

from workloads import jpeg, latency


def make(name, folder):
    """The workload of a name; raises ImportError where a library that it needs is absent."""
    return {"latency": latency.Latency, "jpeg": jpeg.Jpeg}[name](folder)
