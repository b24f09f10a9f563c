"""conda's configuration, as far as envkit shares it: channels, aliases, mirrors, priority, proxies.

Files and their order: conda's documentation of its search path; variables `CONDA_*` win over files.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from envkit.errors import InputError

DEFAULT_ALIAS = "https://conda.anaconda.org/"
DEFAULT_CHANNELS = ("https://repo.anaconda.com/pkgs/main", "https://repo.anaconda.com/pkgs/r")
_NAMES = (".condarc", "condarc")
_LISTS = ("channels", "default_channels", "envs_dirs")
_MAPS = ("custom_channels", "custom_multichannels", "proxy_servers")


class Condarc(msgspec.Struct, frozen=True, kw_only=True):
    """The settings. Channel lists hold names or URLs, the most preferred first."""

    channels: tuple[str, ...] = ()
    default_channels: tuple[str, ...] = DEFAULT_CHANNELS
    custom_channels: Mapping[str, str] = msgspec.field(default_factory=dict)
    custom_multichannels: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    channel_alias: str = DEFAULT_ALIAS
    channel_priority: str = "strict"
    offline: bool = False
    proxy_servers: Mapping[str, str] = msgspec.field(default_factory=dict)
    ssl_verify: bool | str = True
    envs_dirs: tuple[str, ...] = ()

    def urls(self, channel: str) -> tuple[str, ...]:
        """The addresses of a channel: multichannels first, then custom channels, then the alias; URLs stay."""
        if channel == "defaults":
            return tuple(url for one in self.default_channels for url in self.urls(one))
        if channel in self.custom_multichannels:
            return tuple(url for one in self.custom_multichannels[channel] for url in self.urls(one))
        if "://" in channel or channel.startswith((".", "/", "~")):
            return (channel,)
        # `pytorch/label/x` is looked up as a whole, then by its first part, as conda does.
        for name in (channel, channel.partition("/")[0]):
            if name in self.custom_channels:
                return (f"{self.custom_channels[name].rstrip('/')}/{channel}",)
        return (f"{self.channel_alias.rstrip('/')}/{channel}",)


def load(environ: Mapping[str, str] | None = None) -> Condarc:
    """Read all files and variables; raises InputError that names the file or the setting that is wrong."""
    own = os.environ if environ is None else environ
    merged: dict[str, Any] = {}
    for path in _files(own):
        _merge(merged, _read(path))
    _merge(merged, dict(_from_variables(own)))
    known = {name: merged[name] for name in Condarc.__struct_fields__ if merged.get(name) is not None}
    try:
        return msgspec.convert(known, Condarc, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"conda's configuration: {error}", hint="conda config --show-sources") from error


def _files(environ: Mapping[str, str]) -> Iterator[Path]:
    """The files that exist, the least important first."""
    home = Path(environ.get("HOME") or Path.home())
    folders = [Path("/etc/conda"), Path("/var/lib/conda")]
    folders += [Path(environ["XDG_CONFIG_HOME"]) / "conda"] if environ.get("XDG_CONFIG_HOME") else []
    folders += [home / ".config" / "conda", home / ".conda"]
    for folder in folders:
        yield from _in_folder(folder)
    yield from (path for path in [home / ".condarc"] if path.is_file())
    if environ.get("CONDA_PREFIX"):
        yield from _in_folder(Path(environ["CONDA_PREFIX"]))
    if environ.get("CONDARC"):
        yield from (path for path in [Path(environ["CONDARC"])] if path.is_file())


def _in_folder(folder: Path) -> Iterator[Path]:
    yield from (folder / name for name in _NAMES if (folder / name).is_file())
    yield from sorted([*folder.glob("condarc.d/*.yml"), *folder.glob("condarc.d/*.yaml")])


def _read(path: Path) -> dict[str, Any]:
    import yaml

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path}: conda's configuration cannot be read: {error}") from error
    if not isinstance(document, dict):
        return {}
    # Values such as ${TOKEN} come from the environment.
    return {str(key): _expanded(value) for key, value in document.items()}


def _expanded(value: Any) -> Any:
    if isinstance(value, str):
        return os.path.expandvars(value)
    if isinstance(value, list):
        return [_expanded(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _expanded(one) for key, one in value.items()}
    return value


def _merge(low: dict[str, Any], high: Mapping[str, Any]) -> None:
    """Put more important settings over less important ones: lists come first, maps are joined, the rest wins."""
    for name, value in high.items():
        if name in _LISTS and isinstance(value, list):
            low[name] = [*value, *(one for one in low.get(name) or [] if one not in value)]
        elif name in _MAPS and isinstance(value, dict):
            low[name] = {**(low.get(name) or {}), **value}
        elif value is not None:
            low[name] = value


def _from_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """CONDA_CHANNEL_ALIAS and its like; lists are separated by commas."""
    for name in Condarc.__struct_fields__:
        value = environ.get(f"CONDA_{name.upper()}")
        if value is None or name in _MAPS or name == "envs_dirs":
            continue
        yield name, [part for part in value.split(",") if part] if name in _LISTS else _scalar(value)


def _scalar(value: str) -> Any:
    return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(value.lower(), value)
