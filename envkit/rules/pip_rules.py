"""The lines of the `pip:` section. Field reports A4 to A13, A25, A30."""

import re
from pathlib import PurePosixPath

from envkit.names import canonical
from envkit.rules.subject import Findings, Line, Subject, finding

_MAC_ONLY = frozenset({"appnope", "pyobjc", "pyobjc-core"})
_LOCAL = re.compile(r"==[\w.]+\+(cu|cpu|rocm)")
_COMMIT = re.compile(r"[0-9a-f]{7,40}$")


def _kinds(subject: Subject, *kinds: str) -> list[Line]:
    return [one for one in subject.lines if one.parsed.kind in kinds]


def invalid(subject: Subject) -> Findings:
    """Lines that pip refuses, after conda has done its half."""
    for one in _kinds(subject, "INVALID"):
        glued = re.search(r"\S#", one.item.text) is not None
        code = "comment-glued" if glued else "pip-invalid-requirement"
        yield finding(code, "error", f"pip cannot read {one.item.text!r}: {one.parsed.problem}", one.item)


def malformed(subject: Subject) -> Findings:
    """Options that pip reads in another way than they look."""
    for one in subject.lines:
        if one.parsed.problem and one.parsed.kind != "INVALID":
            yield finding("malformed-option", "error", f"pip refuses {one.item.text!r}: {one.parsed.problem}", one.item)


def options(subject: Subject) -> Findings:
    """Index options: conda hands them to pip, conda-lock cannot."""
    found = _kinds(subject, "option")
    if found:
        told = ", ".join(one.item.text.partition("=")[0].partition(" ")[0] for one in found)
        yield finding("pip-option-lines", "warning", f"options of pip stand among the packages: {told}", found[0].item)
        message = "conda-lock and others cannot lock option lines"
        following = "envkit check --fix moves indexes to `pip-repositories:`"
        yield finding("not-lockable", "warning", message, found[0].item, following=following)
    quoted = [one for one in subject.lines if one.parsed.kind.startswith("editable") and one.item.text.startswith("-e")]
    if not found and any(one.item.quoted for one in quoted):
        yield finding("pip-option-lines", "warning", "quotes around a pip line are YAML's: pip gets the same text")


def vcs(subject: Subject) -> Findings:
    """Version control: no ref, a ref that moves, a login, a checkout in ./src."""
    for one in _kinds(subject, "vcs", "editable-vcs"):
        name = one.parsed.name or PurePosixPath(one.parsed.value.partition("#")[0].partition("@")[0]).stem
        ref = one.parsed.ref
        if one.parsed.problem:
            continue
        if ref is None:
            yield finding("vcs-unpinned", "warning", f"{name} has no commit: every build takes another one", one.item)
        elif not _COMMIT.match(ref):
            yield finding("vcs-moving-ref", "warning", f"{name}@{ref} can move", one.item, following="name the commit")
        if re.search(r"://[^/@]+@", one.parsed.value):
            yield finding("vcs-user-in-url", "warning", f"the address of {name} holds a login", one.item)
        if one.parsed.kind == "editable-vcs":
            message = f"{name} is checked out into ./src of wherever the build runs"
            yield finding("editable-vcs", "info", message, one.item)


def editable(subject: Subject) -> Findings:
    """Editable folders: they need the checkout, at a fixed place."""
    found = _kinds(subject, "editable-path")
    if not found:
        return
    message = f"{len(found)} editable line(s) need the project's folder beside this file"
    yield finding("editable-local", "warning", message, found[0].item)
    for one in found:
        if one.parsed.value.startswith(".."):
            message = f"{one.parsed.value} lies outside the project"
            yield finding("outside-project-path", "warning", message, one.item)
            message = "the environment cannot be rebuilt from this file alone"
            yield finding("not-portable", "warning", message, one.item)


def includes(subject: Subject) -> Findings:
    """Files that are read besides this one, from this file's folder."""
    found = _kinds(subject, "include")
    if found:
        told = ", ".join(one.parsed.value for one in found)
        yield finding("requirements-include", "warning", f"more requirements are read from {told}", found[0].item)
        message = "a change in an included file does not change this one: the lock would look fresh"
        yield finding("hash-input", "info", message, found[0].item)
    for one in _kinds(subject, "constraint"):
        yield finding("constraint-file", "warning", f"versions are constrained by {one.parsed.value}", one.item)


def wheels(subject: Subject) -> Findings:
    """Direct addresses of wheels: for one Python, one platform, and often without a hash."""
    found = _kinds(subject, "url")
    if found:
        yield finding(
            "direct-wheel-url", "warning", f"{len(found)} package(s) come from a direct address", found[0].item
        )
    python = (subject.version("python") or "").replace(".", "")
    for one in found:
        wheel = one.parsed.wheel
        if "#sha256=" not in one.parsed.value and "#md5=" not in one.parsed.value:
            yield finding("wheel-without-hash", "warning", "the address names no hash", one.item)
        if wheel is None:
            continue
        tags = re.findall(r"cp(\d+)", wheel["python"])
        if tags and python and not any(python.startswith(tag) or tag.startswith(python) for tag in tags):
            message = f"the wheel is for Python {', '.join(tags)}, the environment has {subject.version('python')}"
            yield finding("wheel-python-mismatch", "error", message, one.item)
        if wheel["platform"] != "any":
            yield finding("wheel-platform", "warning", f"the wheel is for {wheel['platform']} only", one.item)


def pip_itself(subject: Subject) -> Findings:
    """A pip section without pip, and a pip that is too new for old metadata."""
    if subject.environment.pip_line and subject.spec("pip") is None:
        message = "there is a `pip:` section but pip is not in the list; envkit and others add it"
        yield finding("pip-section-without-pip", "warning", message, following="add `- pip`")
    for one in subject.lines:
        old = one.parsed.name.lower() == "pytorch-lightning" and re.match(r"==1\.[5-8]\.", one.parsed.spec)
        if old and subject.version("pip") is None:
            message = f"{one.item.text} has metadata that pip 24.1 and newer refuse"
            yield finding("pip-too-new", "warning", message, one.item, following="pin pip<24.1")


def without_index(subject: Subject) -> list[Line]:
    """Lines with a local version such as `+cu118`, where the file names no index that could have it."""
    has_index = bool(subject.environment.pip_repositories) or any(
        re.match(r"(-i|-f|--index-url|--extra-index-url|--find-links)\b", one.item.text)
        for one in _kinds(subject, "option")
    )
    return [] if has_index else [one for one in subject.lines if _LOCAL.search(one.parsed.spec)]


def indexes(subject: Subject) -> Findings:
    """`+cu118` is on no public index but PyTorch's own."""
    local = without_index(subject)
    if local:
        told = ", ".join(one.item.text for one in local)
        flavour = re.search(r"\+(\w+)", local[0].parsed.spec)
        address = f"https://download.pytorch.org/whl/{flavour[1] if flavour else 'cu118'}"
        message = f"{told}: files with a local version are on PyTorch's own index only"
        following = f"add `pip-repositories: [{address}]`, or --extra-index-url {address}"
        yield finding("pip-local-version-without-index", "error", message, local[0].item, following=following)


def names(subject: Subject) -> Findings:
    """What pip installs, and names that are the same to pip."""
    listed = [one for one in subject.lines if one.parsed.kind == "pep508"]
    if listed:
        told = ", ".join(one.parsed.name for one in listed)
        yield finding("pip-installs", "info", f"pip installs {told}", listed[0].item)
    for one in listed:
        if "_" in one.parsed.name:
            proper = canonical(one.parsed.name)
            yield finding("pip-names-normalised", "info", f"{one.parsed.name} is {proper} for pip", one.item)
        if one.parsed.name.lower() in _MAC_ONLY:
            message = f"{one.parsed.name} exists for macOS only"
            yield finding("pip-package-mac-only", "warning", message, one.item, following="drop it elsewhere")


RULES = (invalid, malformed, options, vcs, editable, includes, wheels, pip_itself, indexes, names)
