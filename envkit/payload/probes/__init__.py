"""The probes, in families of one module each; their modules import torch only when they run."""

from recorder import record

from probes import collate, numerics, rng, sampler, workers

# In the order in which they run: those that start threads come last.
_FAMILIES = (collate, workers, sampler, rng, numerics)


class Probe:
    """An id and the cells under it: pairs of a name and a function without arguments."""

    def __init__(self, id, cells):
        self.id = id
        self.cells = cells

    def run(self):
        """Record each cell in turn; a family that needs an absent library is one absent cell."""
        try:
            cells = self.cells()
        except Exception as error:
            yield "setup", record(_raising(error))
            return
        for name, work in cells:
            yield name, record(work)


def _raising(error):
    def work():
        raise error

    return work


def all_probes():
    """Every probe."""
    return [Probe(id, cells) for family in _FAMILIES for id, cells in family.PROBES]
