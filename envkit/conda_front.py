"""A small conda-compatible executable for conda-lock to call: solves are answered by the engine.

It knows what conda-lock 4 asks: `--version`, `create|install|update --dry-run --json`, `list --json`, `info --json`.
"""

import argparse
import json
import os
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import msgspec

from envkit.errors import EnvkitError
from envkit.record import CondaRecord, VirtualPackage

# The version that conda-lock sees: one that has all of these commands.
_VERSION = "conda 24.11.0"
ERROR_FILE = "ENVKIT_CONDA_ERROR_FILE"
"""The variable that names a file for the structured form of an error: conda-lock keeps only its text."""


def main() -> None:
    """Answer one call of conda-lock."""
    arguments = _parser().parse_intermixed_args()
    status = 0
    if arguments.version:
        print(_VERSION)
    else:
        try:
            print(json.dumps(_ANSWERS[arguments.command](arguments)))
        except EnvkitError as error:
            _fail(error)
            status = 1
    sys.stdout.flush()
    # No ordinary exit: about 2 of 100 end in a segmentation fault in rattler's threads while Python shuts down
    # (py-rattler 0.28), and conda-lock would take the good answer for a failure.
    os._exit(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="envkit-conda", description="answers conda-lock's calls to conda")
    parser.add_argument("--version", "-V", action="store_true")
    parser.add_argument("command", nargs="?", choices=sorted(_ANSWERS))
    parser.add_argument("specs", nargs="*")
    parser.add_argument("--prefix", "-p")
    parser.add_argument("--channel", "-c", action="append", default=[])
    for flag in ("--dry-run", "--json", "--override-channels", "--no-pip", "--yes"):
        parser.add_argument(flag, action="store_true")
    return parser


def _fail(error: EnvkitError) -> None:
    """conda's own form of an error on stdout, the full one in the file that the locker named."""
    kept = os.environ.get(ERROR_FILE)
    if kept:
        fields = {"kind": error.kind, "message": error.message, "hint": error.hint, "details": list(error.details)}
        Path(kept).write_text(json.dumps(fields), encoding="utf-8")
    message = "\n".join([error.message, *error.details])
    print(json.dumps({"success": False, "error": message, "message": message, "exception_name": type(error).__name__}))


def _create(arguments: argparse.Namespace) -> dict[str, Any]:
    records = _solve(arguments, specs=arguments.specs, locked=())
    return _actions(arguments, records)


def _install(arguments: argparse.Namespace) -> dict[str, Any]:
    """Bring the named packages up to date in a prefix; every other one stays where it still fits."""
    installed = _installed(Path(arguments.prefix))
    named = {spec.split("=")[0].split(" ")[0].split("::")[-1].strip("<>!~") for spec in arguments.specs}
    others = [one.name for one in installed if one.name not in named]
    kept = tuple(one for one in installed if one.name not in named)
    records = _solve(arguments, specs=[*arguments.specs, *others], locked=kept)
    present = {one.url for one in installed}
    return _actions(arguments, tuple(one for one in records if one.url not in present))


def _list(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    return [_linked(one) | {"fn": one.fn} for one in _installed(Path(arguments.prefix))]


def _info(arguments: argparse.Namespace) -> dict[str, Any]:
    return {"pkgs_dirs": [os.environ.get("CONDA_PKGS_DIRS", "")], "platform": os.environ.get("CONDA_SUBDIR", "")}


_ANSWERS = {"create": _create, "install": _install, "update": _install, "list": _list, "info": _info}


def _solve(
    arguments: argparse.Namespace, *, specs: list[str], locked: tuple[CondaRecord, ...]
) -> tuple[CondaRecord, ...]:
    from envkit import engine

    platform = os.environ.get("CONDA_SUBDIR") or engine.platform()
    channels, virtual = [], []
    for channel in arguments.channel:
        packages = _virtual_channel(channel, platform)
        if packages is None:
            channels.append(channel)
        else:
            virtual += packages
    return engine.solve(
        specs,
        channels=channels,
        platform=platform,
        virtual_packages=virtual or engine.host_packages(),
        locked=locked,
    )


def _virtual_channel(channel: str, platform: str) -> list[VirtualPackage] | None:
    """The virtual packages that conda-lock passes as a file channel; None for a channel with real packages."""
    if not channel.startswith("file:"):
        return None
    folder = Path(urllib.request.url2pathname(urllib.parse.urlsplit(channel).path))
    found = []
    for subdir in (platform, "noarch"):
        path = folder / subdir / "repodata.json"
        if not path.is_file() or path.stat().st_size > 100_000:
            continue
        packages = json.loads(path.read_text(encoding="utf-8")).get("packages", {}).values()
        if any(one.get("package_type") != "virtual_system" for one in packages):
            return None
        found += [VirtualPackage(name=one["name"], version=one["version"], build=one["build"]) for one in packages]
    return found or None


def _installed(prefix: Path) -> tuple[CondaRecord, ...]:
    records = []
    for path in sorted((prefix / "conda-meta").glob("*.json")):
        records.append(msgspec.convert(json.loads(path.read_text(encoding="utf-8")), CondaRecord))
    return tuple(records)


def _actions(arguments: argparse.Namespace, records: tuple[CondaRecord, ...]) -> dict[str, Any]:
    link = [_linked(one) for one in records]
    fetch = [_fetch(one) for one in records]
    return {"success": True, "dry_run": True, "prefix": arguments.prefix, "actions": {"FETCH": fetch, "LINK": link}}


def _linked(one: CondaRecord) -> dict[str, Any]:
    """A record as conda lists it."""
    return {
        "name": one.name,
        "version": one.version,
        "build_string": one.build,
        "build_number": one.build_number,
        "channel": one.channel,
        "base_url": one.channel,
        "platform": one.subdir,
        "dist_name": f"{one.name}-{one.version}-{one.build}",
    }


def _fetch(one: CondaRecord) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(one)
    fields.setdefault("depends", [])
    fields.setdefault("constrains", [])
    return fields


if __name__ == "__main__":
    main()
