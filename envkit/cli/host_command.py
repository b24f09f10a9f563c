"""envkit host."""

from pathlib import Path
from typing import Any

import click

from envkit.cli import options, render


@click.command()
@options.as_json
def command(as_json: bool) -> None:
    """Show what this machine is and what it can run: processor, limits, memory, driver, GPUs, virtual packages.

    \b
    Example:
      envkit host --json
    """
    import tempfile

    from envkit import compatibility, driver, engine, host

    told = driver.describe()
    machine = host.describe(Path(tempfile.gettempdir()))
    wanted = compatibility.Wanted(
        driver=told.version, driver_cuda=told.cuda, capability=told.oldest, platform=engine.platform()
    )
    runs = compatibility.best(wanted).row.cuda if told.cuda and told.visible_gpus else compatibility.CPU
    packages = compatibility.show(engine.host_packages())
    if as_json:
        render.record({"host": machine, "driver": told, "virtual_packages": packages, "runs": runs})
        return
    rows = [(name, str(value)) for name, value in _shown(machine)]
    rows.append(("driver", f"{told.state} {told.version or ''}".strip() + (f": {told.reason}" if told.reason else "")))
    if told.cuda:
        rows.append(("CUDA of the driver", told.cuda))
    rows += driver.as_facts(told).items()
    rows += [("virtual packages", packages), ("best template", f"envkit create --cuda {runs}")]
    render.table(("fact", "value"), rows)


def _shown(machine: Any) -> list[tuple[str, Any]]:
    """The facts for people: no flags, sizes in readable units."""
    told = []
    for name in machine.__struct_fields__:
        value = getattr(machine, name)
        if name == "cpu_flags":
            continue
        if name.endswith("_bytes") and isinstance(value, int):
            value = render.size(value)
        told.append((name.removesuffix("_bytes").replace("_", " "), "unknown" if value is None else value))
    return told
