"""Kinds of samples that people write: enums, dict and list kinds, dataclasses."""

import collections
import enum
from collections.abc import Mapping, MutableMapping, MutableSequence
from dataclasses import dataclass


class Level(enum.IntEnum):
    """An integer with a name."""

    LOW = 1
    HIGH = 2


class Attributed(dict):
    """A dict that carries an attribute."""

    note = None


class OwnInit(dict):
    """A dict whose constructor takes something else than items."""

    def __init__(self, size, **items):
        super().__init__(**items)
        self.size = size


class ReadOnly(Mapping):
    """A Mapping that is no dict."""

    def __init__(self, data):
        self._data = dict(data)

    def __getitem__(self, key):
        return self._data[key]

    def __iter__(self):
        return iter(self._data)

    def __len__(self):
        return len(self._data)


class Writable(ReadOnly, MutableMapping):
    """A MutableMapping that keeps its items in an attribute."""

    def __setitem__(self, key, value):
        self._data[key] = value

    def __delitem__(self, key):
        del self._data[key]


class Pinnable(ReadOnly):
    """A Mapping that knows how to pin itself."""

    def pin_memory(self):
        """What torch calls from 2.11 on."""
        return "own pin_memory"


class Row(MutableSequence):
    """A MutableSequence that keeps its items in an attribute."""

    def __init__(self, items):
        self._items = list(items)

    def __getitem__(self, index):
        return self._items[index]

    def __setitem__(self, index, value):
        self._items[index] = value

    def __delitem__(self, index):
        del self._items[index]

    def __len__(self):
        return len(self._items)

    def insert(self, index, value):
        """As list.insert."""
        self._items.insert(index, value)


class ListKind(list):
    """A subclass of list."""


class TupleKind(tuple):
    """A subclass of tuple."""


Pair = collections.namedtuple("Pair", ["x", "y"])


@dataclass
class Data:
    """A dataclass sample."""

    x: int
