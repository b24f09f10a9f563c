"""Reading conda specs as conda does, which is leniently."""

from collections.abc import Sequence

from envkit.record import CondaSpec


def read_spec(text: str) -> CondaSpec:
    """A spec taken apart; raises ValueError with one line for what cannot be read."""
    from rattler import MatchSpec

    try:
        match = MatchSpec(text, strict=False)
    except Exception as problem:
        raise ValueError(str(problem).splitlines()[0]) from problem
    return CondaSpec(
        name=match.name.normalized if hasattr(match.name, "normalized") else str(match.name),
        version=str(match.version) if match.version else None,
        build=str(match.build) if match.build else None,
        channel=match.channel.name if match.channel else None,
        subdir=str(match.subdir) if match.subdir else None,
    )


def bad_specs(specs: Sequence[str]) -> dict[str, str]:
    """The specs that cannot be read at all, each with the reason."""
    problems = {}
    for spec in specs:
        try:
            read_spec(spec)
        except ValueError as problem:
            problems[spec] = str(problem)
    return problems
