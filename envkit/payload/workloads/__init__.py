"""The workloads of the benchmark: each deterministic and made on the fly."""


def make(name, folder):
    """The workload of a name; raises ImportError where a library that it needs is absent."""
    from workloads import jpeg, latency

    return {"latency": latency.Latency, "jpeg": jpeg.Jpeg}[name](folder)
