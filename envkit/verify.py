"""Is this the environment of the lock, and does it behave as the reference says? One list of findings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from envkit import behaviour, files, names, redact
from envkit import prefix as prefixes
from envkit.cells import Difference
from envkit.files import Checked
from envkit.lock import Lock, Package
from envkit.locker import Freshness
from envkit.prefix import PipRecord, PrefixRecord
from envkit.progress import Step, Tell, silent
from envkit.record import CondaRecord
from envkit.report import Report

Code = Literal[
    "lock-stale",
    "platform",
    "virtual-package",
    "unfinished",
    "package-missing",
    "package-extra",
    "package-version",
    "package-build",
    "package-channel",
    "package-hash",
    "file-missing",
    "file-modified",
    "file-unreadable",
    "pip-missing",
    "pip-extra",
    "pip-version",
    "pip-over-conda",
    "module",
    "outside-prefix",
    "behaviour",
]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be: what, expected, found, and what to do."""

    code: Code
    item: str
    expected: str
    found: str
    next: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The findings, and how much was looked at. `behaviour_cells` is None where there was no reference."""

    findings: tuple[Finding, ...]
    packages: int
    files: int
    bytes: int
    behaviour_cells: int | None

    @property
    def good(self) -> bool:
        """Nothing was found."""
        return not self.findings


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What is verified against what."""

    prefix: Path
    lock: Lock
    platform: str
    freshness: Freshness | None
    unmet: tuple[str, ...] = ()
    reference: Report | None = None
    current: Report | None = None


def verify(subject: Subject, *, workers: int, tell: Tell = silent) -> Verdict:
    """Compare an environment with its lock, its files with its packages, its behaviour with a reference.

    Raises BrokenEnvironmentError when there is no environment or its records cannot be read.
    """
    prefixes.check(subject.prefix)
    tell(Step(stage="check", item="packages"))
    present = prefixes.records(subject.prefix)
    locked = {one.name: one for one in subject.lock.conda(subject.platform)}
    owned = prefixes.owned_files(subject.prefix, present)
    pip = prefixes.pip_records(subject.prefix, owned)
    checked = files.check(subject.prefix, present, workers=workers, tell=tell)
    over = _pip_over_conda(present, pip)
    findings = [
        *_lock(subject),
        *_completion(subject),
        *_packages(subject, present),
        *over,
        *_files(checked, {finding.item for finding in over}),
        *_pip(subject, pip, {finding.item for finding in over}),
        *_modules(subject),
        *_origins(subject),
        *_behaviour(subject),
    ]
    compared = subject.reference is not None and subject.current is not None
    return Verdict(
        findings=tuple(findings),
        packages=len(locked) + len(subject.lock.pip(subject.platform)),
        files=checked.files,
        bytes=checked.bytes,
        behaviour_cells=len(_compared(subject)) if compared else None,
    )


def _lock(subject: Subject) -> list[Finding]:
    found = []
    if subject.freshness is not None and subject.freshness.stale:
        found.append(
            Finding(
                code="lock-stale",
                item="conda-lock.yml",
                expected="locked from the environment.yml that lies here",
                found=f"another one ({', '.join(subject.freshness.stale)})",
                next="envkit lock environment.yml, then envkit build --force",
            )
        )
    for line in subject.unmet:
        package, _, machine = line.partition(" | ")
        found.append(
            Finding(
                code="virtual-package",
                item=package,
                expected=package,
                found=f"this machine has {machine}",
                next="lock for a machine like this one (--cuda, older glibc)",
            )
        )
    return found


def _completion(subject: Subject) -> list[Finding]:
    done = prefixes.completion(subject.prefix)
    if done is None:
        return [
            Finding(
                code="unfinished",
                item=str(subject.prefix.name),
                expected="a completion record of envkit",
                found="none: made by another tool, or damaged",
                next="envkit build --force makes it from the lock",
            )
        ]
    return []


def _packages(subject: Subject, present: Sequence[PrefixRecord]) -> list[Finding]:
    locked = {one.name: one for one in subject.lock.conda(subject.platform)}
    have = {one.name: one for one in present}
    again = "envkit build --force makes it from the lock"
    found = []
    for name in sorted(locked.keys() - have.keys()):
        found.append(
            Finding(code="package-missing", item=name, expected=locked[name].title, found="no record", next=again)
        )
    for name in sorted(have.keys() - locked.keys()):
        title = f"{name} {have[name].version} {have[name].build}"
        found.append(Finding(code="package-extra", item=name, expected="not in the lock", found=title, next=again))
    for name in sorted(locked.keys() & have.keys()):
        different = _package(locked[name], have[name])
        if different is not None:
            code, expected, there = different
            found.append(Finding(code=code, item=name, expected=expected, found=there, next=again))
    return found


def _package(locked: CondaRecord, have: PrefixRecord) -> tuple[Code, str, str] | None:
    checks: tuple[tuple[Code, str, str], ...] = (
        ("package-version", locked.version, have.version),
        ("package-build", locked.build, have.build),
        ("package-channel", _address(locked.url), _address(have.url)),
        ("package-hash", locked.sha256 or "", have.sha256 or "" if locked.sha256 else ""),
    )
    return next(((code, a, b) for code, a, b in checks if a != b), None)


def _address(url: str) -> str:
    """A package's folder in a channel, without a login."""
    return redact.url(url).rpartition("/")[0]


def _files(checked: Checked, over: set[str]) -> list[Finding]:
    """Changed files one by one; those of a package that pip wrote over are told with it."""
    told = [one for one in checked.changed if one.package not in over]
    codes: dict[str, Code] = {"missing": "file-missing", "modified": "file-modified", "unreadable": "file-unreadable"}
    return [
        Finding(
            code=codes[one.state],
            item=one.path,
            expected=f"{one.package}: sha256 {one.expected[:16]}..." if one.expected else one.package,
            found=f"sha256 {one.found[:16]}..." if one.state == "modified" else one.found or one.state,
            next="envkit build --force makes it from the lock",
        )
        for one in told
    ]


def _pip_over_conda(present: Sequence[PrefixRecord], pip: Sequence[PipRecord]) -> list[Finding]:
    conda = {one.name: one for one in present}
    found = []
    for one in pip:
        name = names.conda_name(one.name)
        if name in conda:
            found.append(
                Finding(
                    code="pip-over-conda",
                    item=name,
                    expected=f"conda record {conda[name].version} {conda[name].build}",
                    found=f"files of {one.installer} {one.name} {one.version}",
                    next=f"pin it in environment.yml instead of `pip install`; envkit build --force restores {name}",
                )
            )
    return found


def _pip(subject: Subject, pip: Sequence[PipRecord], over: set[str]) -> list[Finding]:
    locked = {names.canonical(one.name): one for one in subject.lock.pip(subject.platform)}
    have = {one.name: one for one in pip if names.conda_name(one.name) not in over}
    again = "envkit build --force makes it from the lock"
    found = [_missing_pip(locked[name], again) for name in sorted(locked.keys() - have.keys())]
    for name in sorted(have.keys() - locked.keys()):
        title = f"{name} {have[name].version} by {have[name].installer}"
        following = f"add it under `pip:` in environment.yml, or {again}"
        found.append(Finding(code="pip-extra", item=name, expected="not in the lock", found=title, next=following))
    for name in sorted(locked.keys() & have.keys()):
        if locked[name].source is None and locked[name].version != have[name].version:
            expected, there = locked[name].version, have[name].version
            found.append(Finding(code="pip-version", item=name, expected=expected, found=there, next=again))
    return found


def _missing_pip(locked: Package, again: str) -> Finding:
    return Finding(code="pip-missing", item=locked.name, expected=locked.version, found="no distribution", next=again)


def _modules(subject: Subject) -> list[Finding]:
    """Modules that could be imported where the reference was made, and cannot be here."""
    if subject.reference is None or subject.current is None:
        return []
    now = subject.current.interpreter.modules
    return [
        Finding(
            code="module",
            item=name,
            expected=f"imports, {module.title}",
            found=f"{now[name].state}: {error.message if (error := now[name].error) else ''}".rstrip(": "),
            next="see the findings on its files; envkit build --force makes it from the lock",
        )
        for name, module in sorted(subject.reference.interpreter.modules.items())
        if module.state == "ok" and name in now and now[name].state != "ok"
    ]


def _origins(subject: Subject) -> list[Finding]:
    """Modules that were not imported from the prefix: user site-packages or PYTHONPATH win over it."""
    if subject.current is None:
        return []
    return [
        Finding(
            code="outside-prefix",
            item=name,
            expected="<prefix>/...",
            found=module.file,
            next="unset PYTHONPATH, or uninstall the copy in the user's site-packages",
        )
        for name, module in sorted(subject.current.interpreter.modules.items())
        if module.file and not module.file.startswith("<prefix>")
    ]


def _compared(subject: Subject) -> set[str]:
    assert subject.reference is not None and subject.current is not None
    return subject.reference.cells.keys() & subject.current.cells.keys()


def _behaviour(subject: Subject) -> list[Finding]:
    if subject.reference is None or subject.current is None:
        return []
    return [
        Finding(code="behaviour", item=one.id, expected=one.before, found=one.after, next=_because(one))
        for one in behaviour.grouped(behaviour.compare(subject.reference, subject.current).differences)
        if one.kind != "hardware"
    ]


def _because(one: Difference) -> str:
    suspects = f"suspect: {', '.join(one.suspects)}" if one.suspects else one.reason
    return f"{one.sentence} ({suspects})" if one.sentence else suspects
