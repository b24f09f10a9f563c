"""What an environment.yml asks for."""

import re
from collections.abc import Mapping

import msgspec

from envkit.environment.selectors import Selector, applies
from envkit.finding import Finding

_NAME = re.compile(r"^(?:.*::)?\s*(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)")


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A spec or pip line with its 1-based line in the file (0: not from a file).

    `raw` is the text as it stands in the file where `text` had to be cleaned.
    """

    text: str
    line: int = 0
    raw: str = ""
    selector: Selector | None = None
    quoted: bool = False

    @property
    def name(self) -> str:
        """The package's name, lower case."""
        match = _NAME.match(self.text)
        return match["name"].lower() if match else ""


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The file's content; `findings` are what its reading met, none of them an error.

    `pip_line` is the line of the first `- pip:`, `channel_line` that of the last channel, `prefix_line` that of
    `prefix:`; 0 where there is none.
    """

    name: str | None = None
    channels: tuple[str, ...] = ()
    specs: tuple[Item, ...] = ()
    pip: tuple[Item, ...] = ()
    platforms: tuple[str, ...] = ()
    pip_repositories: tuple[str, ...] = ()
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)
    prefix: str | None = None
    pip_line: int = 0
    channel_line: int = 0
    prefix_line: int = 0
    findings: tuple[Finding, ...] = ()

    @property
    def spec_texts(self) -> tuple[str, ...]:
        """The conda specs."""
        return tuple(item.text for item in self.specs)

    def for_platform(self, platform: str) -> "Environment":
        """The environment with only the items whose selector fits a platform."""
        return msgspec.structs.replace(
            self,
            specs=tuple(item for item in self.specs if applies(item.selector, platform)),
            pip=tuple(item for item in self.pip if applies(item.selector, platform)),
        )
