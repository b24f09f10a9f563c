"""envkit builds PyTorch conda environments that a team can rebuild, verify and compare."""

__version__ = "0.1.0"
