"""A local conda channel made from this machine's interpreters and from wheels."""

from envkit.channel.make import Made, make

__all__ = ["Made", "make"]
