"""Channels: markers, frozen and unknown ones, and specs that name others. Field reports A18, A19, A28, B4."""

import re

from envkit.compatibility import release
from envkit.rules.subject import Findings, Subject, finding

KNOWN = frozenset(
    [
        "conda-forge",
        "pytorch",
        "pytorch-nightly",
        "pytorch-lts",
        "nvidia",
        "defaults",
        "main",
        "r",
        "msys2",
        "free",
        "anaconda",
        "bioconda",
        "intel",
        "pyg",
        "fastai",
        "huggingface",
        "rapidsai",
        "rapidsai-nightly",
        "xformers",
        "esri",
        "dglteam",
        "pyviz",
        "plotly",
        "numba",
        "omnia",
        "menpo",
        "fastchan",
        "robostack",
        "robostack-staging",
        "ai2cm",
        "pkgs/main",
        "pkgs/r",
        "iopath",
        "fvcore",
        "pytorch3d",
        "open3d-admin",
        "ska",
    ]
)


def channels_missing(subject: Subject) -> Findings:
    """No channels at all: each tool adds its own."""
    if not subject.channels:
        message = "no channels are listed: each tool takes its own"
        yield finding("channels-missing", "warning", message, following="list conda-forge and nodefaults")


def nodefaults(subject: Subject) -> Findings:
    """The marker that keeps `defaults` out; it is no channel."""
    if "nodefaults" in subject.environment.channels:
        yield finding("nodefaults-marker", "info", "`nodefaults` is a marker, not a channel: it keeps `defaults` out")


def defaults(subject: Subject) -> Findings:
    """Anaconda's own channels."""
    if "defaults" in subject.channels or "anaconda" in subject.channels:
        message = "the channel `defaults` is under Anaconda's terms of service"
        yield finding("defaults-channel", "warning", message, following="conda-forge has the same packages")


def frozen(subject: Subject) -> Findings:
    """The pytorch channel ended with torch 2.5.1 (pytorch/pytorch#138506)."""
    named = {one.parsed.channel for one in subject.specs}
    if "pytorch" not in subject.channels and "pytorch" not in named:
        return
    spec = subject.spec("pytorch")
    version = subject.version("pytorch")
    newer = version is not None and release(version) >= (2, 6)
    if spec is not None and newer:
        message = f"the channel pytorch has no torch {version}: it ended at 2.5.1"
        following = "take it from conda-forge: pytorch-gpu with cuda-version"
        yield finding("version-not-on-channel", "error", message, spec.item, following=following)
    yield finding(
        "channel-frozen-pytorch", "warning", "the channel pytorch got no release after torch 2.5.1 (October 2024)"
    )


def unknown(subject: Subject) -> Findings:
    """Names that are no well-known channel: they may be gone, or never were one."""
    for one in subject.channels:
        if one == "pypi":
            message = "`pypi` is not a conda channel"
            yield finding("unknown-channel", "error", message, text=one, following="list these packages under `pip:`")
        elif re.fullmatch(r"[\w-]+", one) and one not in KNOWN:
            message = f"the channel {one} is not a well-known one; it may be gone"
            yield finding("unknown-channel", "warning", message, text=one)


def order(subject: Subject) -> Findings:
    """conda-forge before pytorch together with pytorch-cuda gives builds that do not fit (pytorch/pytorch#75532)."""
    listed = list(subject.channels)
    if {"conda-forge", "pytorch"} <= set(listed) and listed.index("conda-forge") < listed.index("pytorch"):
        spec = subject.spec("pytorch-cuda")
        if spec is not None and spec.parsed.channel is None:
            message = (
                "conda-forge stands before pytorch, so pytorch comes from conda-forge and pytorch-cuda does not fit"
            )
            yield finding("channel-order", "warning", message, spec.item, following="list pytorch and nvidia first")


def not_in_list(subject: Subject) -> Findings:
    """A channel that only a spec names is asked for that package alone."""
    for one in subject.specs:
        channel = one.parsed.channel
        if channel and channel not in subject.channels:
            message = f"the channel {channel} is named in this spec only"
            official = channel in ("pytorch", "conda-forge", "nvidia")
            yield finding("channel-not-in-list", "info" if official else "warning", message, one.item)


RULES = (channels_missing, nodefaults, defaults, frozen, unknown, order, not_in_list)
