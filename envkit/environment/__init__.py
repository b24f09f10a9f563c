"""environment.yml: reading it with the line of every item, writing it, and editing it with its comments kept."""

from envkit.environment.reading import parse, read
from envkit.environment.record import Environment, Item
from envkit.environment.selectors import PLATFORMS, applies
from envkit.environment.writing import apply, with_channels

__all__ = ["PLATFORMS", "Environment", "Item", "applies", "apply", "parse", "read", "with_channels"]
