"""Specs and channels in, the records of one platform out."""

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from envkit import condarc, redact
from envkit.engine import translate
from envkit.engine.specs import bad_specs
from envkit.errors import EnvkitError, InputError, UnsolvableError
from envkit.record import CondaRecord, VirtualPackage

if TYPE_CHECKING:
    from rattler import Channel, Client, Gateway, MatchSpec, RepoDataRecord

_RETRIES = 3
_MOST_LINES = 24


def solve(
    specs: Sequence[str],
    *,
    channels: Sequence[str],
    platform: str,
    virtual_packages: Sequence[VirtualPackage],
    locked: Sequence[CondaRecord] = (),
) -> tuple[CondaRecord, ...]:
    """The records that satisfy `specs`, in an order in which each comes after what it depends on.

    Channel priority is strict unless conda's configuration disables it;
    `locked` records are kept wherever they still fit. Raises UnsolvableError with
    every spec that has no candidate at all, NetworkError, DamagedPackageError.
    """
    matches = _match_specs(specs)
    sources = [channel for name in channels for channel in _channels(name)]
    try:
        return asyncio.run(_solve(matches, sources, platform, virtual_packages, locked))
    except EnvkitError:
        raise
    except Exception as problem:
        failure = translate.error(problem, doing="solving")
        if isinstance(failure, UnsolvableError):
            missing = asyncio.run(_without_candidates(specs, matches, sources, platform))
            failure = _unsolvable(failure, missing, platform, channels)
        raise failure from problem


async def _solve(
    matches: "list[MatchSpec]",
    sources: "list[Channel]",
    platform: str,
    virtual_packages: Sequence[VirtualPackage],
    locked: Sequence[CondaRecord],
) -> tuple[CondaRecord, ...]:
    from rattler import BuildString, ChannelPriority, GenericVirtualPackage, PackageName, PackageRecord, Version, solve

    disabled = condarc.load().channel_priority == "disabled"
    solved = await solve(
        sources,
        matches,
        channel_priority=ChannelPriority.Disabled if disabled else ChannelPriority.Strict,
        gateway=_gateway(),
        platforms=[platform, "noarch"],  # type: ignore[list-item]
        locked_packages=[_to_rattler(record) for record in locked],
        virtual_packages=[
            GenericVirtualPackage(PackageName(one.name), Version(one.version), BuildString(one.build))
            for one in virtual_packages
        ],
    )
    ordered = PackageRecord.sort_topologically(list(solved))
    by_name = {record.name.normalized: record for record in solved}
    return tuple(_from_rattler(by_name[record.name.normalized]) for record in ordered)


def _match_specs(specs: Sequence[str]) -> "list[MatchSpec]":
    from rattler import MatchSpec

    problems = bad_specs(specs)
    if problems:
        raise InputError(
            f"{len(problems)} spec(s) cannot be read", details=tuple(f"{spec}: {why}" for spec, why in problems.items())
        )
    return [MatchSpec(spec, strict=False) for spec in specs]


def _channels(name: str) -> "list[Channel]":
    """A channel by name, URL or folder, where conda's configuration puts it; `defaults` is several."""
    from rattler import Channel

    try:
        return [Channel(url) for url in condarc.load().urls(name)]
    except EnvkitError:
        raise
    except Exception as problem:
        raise translate.error(problem, doing=f"channel {name}") from problem


def _gateway() -> "Gateway":
    from rattler import Gateway

    return Gateway(client=client())


def client() -> "Client":
    """The client for channels: retries, logins of netrc and keyring, proxies and certificates as conda has them."""
    from rattler import Client, Config

    settings = condarc.load()
    lines = ["tls-no-verify = true"] if settings.ssl_verify is False else []
    proxies = {name: url for name, url in settings.proxy_servers.items() if name in ("http", "https")}
    if proxies:
        lines += ["[proxy-config]", *(f"{name} = {json.dumps(url)}" for name, url in sorted(proxies.items()))]
    if not lines:
        return Client.default_client(max_retries=_RETRIES)
    return Client.from_config(Config.from_toml("\n".join(lines)), max_retries=_RETRIES)


async def _without_candidates(
    specs: Sequence[str], matches: "list[MatchSpec]", sources: "list[Channel]", platform: str
) -> list[str]:
    """A line for each spec that no record of the channels matches, with the nearest versions that exist."""
    names = [match.name.normalized for match in matches if match.name is not None]
    found = await _gateway().query(sources, [platform, "noarch"], names, recursive=False)  # type: ignore[list-item]
    records = [record for part in found for record in part]
    lines = []
    for spec, match in zip(specs, matches, strict=True):
        name = match.name.normalized if match.name is not None else ""
        if name.startswith("__") or any(match.matches(record) for record in records):
            continue
        versions = sorted({record.version for record in records if record.name.normalized == name})
        there = ", ".join(str(version) for version in versions[-5:]) if versions else "no version at all"
        lines.append(f"{spec}: not for {platform}; the channels have {there}")
    return lines


def _unsolvable(
    failure: UnsolvableError, missing: list[str], platform: str, channels: Sequence[str]
) -> UnsolvableError:
    where = ", ".join(redact.url(channel) for channel in channels)
    if missing:
        return UnsolvableError(
            f"{len(missing)} spec(s) match no package on {platform} in {where}",
            details=tuple(missing),
            hint="change these specs or add the channel that has them",
        )
    lines = [line for line in failure.message.splitlines() if line.strip()]
    more = [f"... {len(lines) - _MOST_LINES} more lines"] if len(lines) > _MOST_LINES else []
    return UnsolvableError(
        f"no set of packages fits on {platform} from {where}",
        details=tuple(lines[:_MOST_LINES] + more),
        hint="loosen one of the specs named above",
    )


def _to_rattler(record: CondaRecord) -> "RepoDataRecord":
    from rattler import BuildString, PackageRecord, RepoDataRecord

    package = PackageRecord(
        name=record.name,
        version=record.version,
        build=BuildString(record.build),
        build_number=record.build_number,
        subdir=record.subdir,
        arch=None,
        platform=None,
        noarch=None,
        depends=list(record.depends),
        constrains=list(record.constrains),
        sha256=bytes.fromhex(record.sha256) if record.sha256 else None,
        md5=bytes.fromhex(record.md5) if record.md5 else None,
        size=record.size,
    )
    return RepoDataRecord(package, record.fn, record.url, record.channel)


def _from_rattler(record: "RepoDataRecord") -> CondaRecord:
    return CondaRecord(
        name=record.name.normalized,
        version=str(record.version),
        build=str(record.build),
        build_number=record.build_number,
        subdir=record.subdir,
        url=record.url,
        fn=record.file_name,
        channel=record.channel or "",
        md5=record.md5.hex() if record.md5 else None,
        sha256=record.sha256.hex() if record.sha256 else None,
        size=record.size,
        depends=tuple(record.depends),
        constrains=tuple(record.constrains),
    )
