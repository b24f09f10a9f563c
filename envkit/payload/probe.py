"""One probe: an id, a tier, and the cells under it."""

FAST, WORKERS, DESTRUCTIVE = TIERS = ("fast", "workers", "destructive")
"""In a moment; with workers, up to a minute; opt-in: workers that die, full /dev/shm, too many open files."""


SPAWNS = 4
"""The patience with a probe whose workers each import torch anew."""


class Probe:
    """An id and a function that gives its cells: pairs of a name and a function without arguments.

    A probe that is not `compared` is recorded for people: its outcome depends on timing or is a long text. `patience`
    is how many times the usual limit one of its cells may take.
    """

    def __init__(self, id, cells, tier=FAST, compared=True, patience=1):
        self.id = id
        self.cells = cells
        self.tier = tier
        self.compared = compared
        self.patience = patience

    @property
    def family(self):
        """The part of the id before the dot."""
        return self.id.partition(".")[0]

    @property
    def title(self):
        """What it looks at, in a line."""
        return (self.cells.__doc__ or "").strip().splitlines()[0]
