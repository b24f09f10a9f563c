"""How single conda specs are written, and what is left open. Field reports A14, A29, A31."""

import re
from collections import Counter

from envkit.compatibility import release
from envkit.environment import Item
from envkit.finding import Severity
from envkit.rules.subject import Findings, Subject, finding

_HYPHENATED = frozenset(
    [
        "scikit-learn",
        "scikit-image",
        "opencv-python",
        "pytorch-lightning",
        "torch-geometric",
        "python-dateutil",
        "jupyter-lab",
        "tensorboard-data",
        "lightning-utilities",
        "more-itertools",
        "charset-normalizer",
        "importlib-metadata",
        "async-timeout",
        "sentence-transformers",
    ]
)
"""conda packages with a hyphen that people write with an underscore."""

_END_OF_LIFE = {(3, minor) for minor in range(10)} | {(2, 7)}
"""Python versions without support on 2026-11-30. Source: the Python developer's guide."""


def stars(subject: Subject) -> Findings:
    """`==2.1.*` and `>=9.*`: the star says nothing there."""
    for one in subject.specs:
        if re.search(r"(?<!!)(==|>=|<=|>|<)\s*[\d.]+\.\*", one.item.text):
            message = f"the star means nothing after an operator; it is read as {one.parsed.version}"
            yield finding("superfluous-star", "info", message, one.item)


def exact_by_blank(subject: Subject) -> Findings:
    """`pytorch 1.10` is exact, `pytorch=1.10` is a prefix."""
    for one in subject.specs:
        if re.fullmatch(r"[\w.:/-]+\s+\d[\w.]*", one.item.text):
            name, version = one.item.text.split()
            message = f"a blank means exactly {version}; {name}={version} would take {version}.*"
            yield finding("space-separated-version-is-exact", "warning", message, one.item)


def exact_of_two(subject: Subject) -> Findings:
    """`numpy==1.26` is 1.26.0 alone."""
    for one in subject.specs:
        if re.search(r"(?<![=!<>~])==\s*\d+\.\d+$", one.item.text) and not one.parsed.build:
            message = f"{one.item.text} takes {(one.parsed.version or '').removeprefix('==')}.0 alone, no later patch"
            following = f"write {one.item.text.replace('==', '=')} for all of them"
            yield finding("exact-eq-two-components", "warning", message, one.item, following=following)


def case(subject: Subject) -> Findings:
    """conda names are lower case."""
    for one in subject.specs:
        text = one.item.text.rpartition("::")[2]
        if text.lower().startswith(one.parsed.name) and not text.startswith(one.parsed.name):
            yield finding("noncanonical-name-case", "info", f"the package is called {one.parsed.name}", one.item)


def underscores(subject: Subject) -> Findings:
    """For conda `-` and `_` are different."""
    for one in subject.specs:
        proper = one.parsed.name.replace("_", "-")
        if proper != one.parsed.name and proper in _HYPHENATED:
            message = f"{one.parsed.name} is not {proper} for conda; it will not be found"
            yield finding("underscore-name", "warning", message, one.item, following=f"write {proper}")


def duplicates(subject: Subject) -> Findings:
    """The same package twice: conda reads no selectors in comments, so equal specs are two of one even with them."""
    for name, count in Counter(one.parsed.name for one in subject.specs).items():
        items = [one.item for one in subject.specs if one.parsed.name == name] if count > 1 else []
        twice = [item for item in items if any(_same(item, other) for other in items if other is not item)]
        if not twice:
            continue
        told = " and ".join(dict.fromkeys(item.text for item in twice))
        following = "envkit check --fix makes one of them"
        message = f"{name} is listed {len(twice)} times: {told}"
        yield finding("duplicate-spec", "warning", message, twice[-1], following=following)


def _same(one: Item, other: Item) -> bool:
    return one.text == other.text or one.selector == other.selector


def open_versions(subject: Subject) -> Findings:
    """Python and torch without a version: another one every month."""
    for name, code in (("python", "python-unpinned"), ("pytorch", "torch-unpinned")):
        spec = subject.spec(name)
        if spec is not None and spec.parsed.version is None and spec.parsed.build is None:
            yield finding(code, "warning", f"{name} has no version: the lock alone decides", spec.item)


def end_of_life(subject: Subject) -> Findings:
    """Python versions that get no fixes any more."""
    version = subject.version("python")
    spec = subject.spec("python")
    if version is None or spec is None:
        return
    minor = release(version)
    if minor in _END_OF_LIFE:
        severity: Severity = "warning" if minor < (3, 6) else "info"
        yield finding("python-eol", severity, f"Python {version} gets no fixes any more", spec.item)


def names_and_variables(subject: Subject) -> Findings:
    """Names in upper case are allowed; a variable that hides a fault is told."""
    name = subject.environment.name
    if name and name != name.lower():
        yield finding("env-name-upper-case", "info", f"the name {name!r} has upper case letters; that is allowed")
    if "KMP_DUPLICATE_LIB_OK" in subject.environment.variables:
        message = "KMP_DUPLICATE_LIB_OK hides that two OpenMP runtimes are loaded"
        yield finding(
            "variables", "warning", message, text="KMP_DUPLICATE_LIB_OK", following="find out who brings the second"
        )


RULES = (
    stars,
    exact_by_blank,
    exact_of_two,
    case,
    underscores,
    duplicates,
    open_versions,
    end_of_life,
    names_and_variables,
)
