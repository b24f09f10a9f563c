"""What `probe` was asked for, and its answer for people."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from envkit import host, owndata, probe
from envkit.bench import Plan as Measurement
from envkit.bench import plan
from envkit.cli import options, render, summary
from envkit.errors import InputError
from envkit.report import Report


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Which probes, which measurement, whose data; None for none."""

    probes: probe.Plan | None
    bench: Measurement | None
    data: owndata.Source | None


def asked(
    *,
    only: str | None,
    tier: str | None,
    timeout: float,
    dataset: str | None,
    loader: str | None,
    no_bench: bool,
    **_: Any,
) -> Asked:
    """The options as a plan; raises InputError for a probe, a tier or a factory that there is not."""
    if dataset is not None and loader is not None:
        raise InputError("give --dataset or --loader, not both")
    named, tiers = _parts(only), _tiers(_parts(tier))
    if named:
        probe.check_names(named, probe.known(Path(sys.executable), os.environ))
    text = dataset or loader
    chosen = bool(named or tier)
    wanted = probe.Plan(only=named, tiers=tiers, timeout_s=timeout)
    return Asked(
        probes=wanted if chosen or text is None else None,
        bench=None if no_bench or chosen or text is not None else plan(host.usable_cores()),
        data=None if text is None else options.data_source(text),
    )


def _parts(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _tiers(named: Sequence[str]) -> tuple[str, ...]:
    unknown = [name for name in named if name not in probe.TIERS]
    if unknown:
        raise InputError(f"no such tier: {', '.join(unknown)}", hint=f"the tiers are {', '.join(probe.TIERS)}")
    return tuple(named) or probe.EVERYDAY.tiers


def show_list(there: Sequence[probe.Known], *, as_json: bool) -> None:
    """All probes, with their tiers."""
    if as_json:
        render.record({"probes": there})
        return
    rows = [(one.id, one.tier, one.title + ("" if one.compared else " (recorded, not compared)")) for one in there]
    render.table(("probe", "tier", "what it looks at"), rows)


def show(told: Report, output: Path | None, *, as_json: bool) -> None:
    """The report as JSON, or in a few lines with the findings about the user's data."""
    if as_json:
        render.record(told)
        return
    for line in summary.lines(told):
        render.say(line)
    if told.data is not None:
        _show_findings(told)
    if output is not None:
        render.say(f"wrote {output}")


def _show_findings(told: Report) -> None:
    assert told.data is not None
    for finding in told.data.findings:
        render.say(finding.told(told.data.factory))
    if not told.data.findings:
        render.say(f"{told.data.factory}: nothing found")
    if owndata.needs_recipe(told.data.findings):
        render.say("\nA collate function that drops samples that are None:\n\n" + owndata.RECIPE)
