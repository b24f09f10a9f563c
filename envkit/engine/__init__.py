"""The only part that talks to rattler: index a channel, solve specs, install records, name this machine."""

from envkit.engine.index import index
from envkit.engine.install import Installed, install
from envkit.engine.machine import host_packages, platform, unmet
from envkit.engine.solve import solve
from envkit.engine.specs import bad_specs, read_spec

__all__ = ["Installed", "bad_specs", "host_packages", "index", "install", "platform", "read_spec", "solve", "unmet"]
