"""The arrows of `create`, one after the other; each leaves its file whole, so that the next run goes on from it."""

import os
import shlex
from pathlib import Path
from typing import Any

import msgspec

from envkit import (
    activation,
    codec,
    compatibility,
    driver,
    engine,
    environment,
    inside,
    locker,
    mirror,
    probe,
    report,
    template,
)
from envkit import bench as benches
from envkit import lock as locks
from envkit import prefix as prefixes
from envkit.cli import flow, options, summary
from envkit.cli.render import Talk
from envkit.compatibility import Wanted
from envkit.errors import InputError
from envkit.spec import CPU, NO_TORCH, Spec
from envkit.template import Choice


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command."""

    name: str | None
    prefix: Path | None
    cuda: str
    python_version: str | None
    torch_version: str | None
    channels: tuple[str, ...]
    variants: tuple[str, ...]
    add: tuple[str, ...]
    pip: tuple[str, ...]
    mirror: str | None
    directory: Path
    stop_after: str | None
    no_bench: bool
    report_path: Path | None
    as_json: bool
    yes: bool


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What was made; None for what was not reached."""

    environment_file: str
    reasons: tuple[str, ...]
    lock_file: str | None = None
    prefix: str | None = None
    selector: str = ""
    report_file: str | None = None
    summary: tuple[str, ...] = ()


def create(wish: Wish, talk: Talk) -> Made:
    """Walk from options to report, as far as was asked."""
    if wish.mirror is not None:
        _use_mirror(wish.mirror, wish.directory, talk)
    cuda, why = _cuda(wish)
    choice = template.choose(_spec(wish, cuda))
    reasons = (*why, *choice.reasons)
    for reason in reasons:
        talk.note(reason)
    source = wish.directory / "environment.yml"
    _write_environment(source, choice, wish)
    made = Made(environment_file=str(source), reasons=reasons)
    if wish.stop_after == "spec":
        return made
    lock_path = flow.lock_beside(source, None)
    held = _lock(source, lock_path, cuda, talk)
    made = msgspec.structs.replace(made, lock_file=str(lock_path))
    if wish.stop_after == "lock":
        return made
    asked = environment.read(source)
    prefix = options.prefix_from(wish.name, wish.prefix, asked.name)
    flow.build_lock(prefix, held, lock_path, asked, talk, offline=False, force=wish.yes and _other(prefix, held))
    chosen = f"-p {shlex.quote(str(prefix))}" if wish.prefix else f"-n {shlex.quote(prefix.name)}"
    made = msgspec.structs.replace(made, prefix=str(prefix), selector=chosen)
    if wish.stop_after == "build":
        return made
    return _report(made, wish, prefix, talk)


def _use_mirror(name: str, folder: Path, talk: Talk) -> None:
    """Write the settings that a mirror needs beside the environment, and use them for this run."""
    path = folder / "condarc"
    codec.write(path, mirror.condarc(name).encode())
    os.environ["CONDARC"] = str(path.absolute())
    talk.note(f"wrote {path}: put its lines into ~/.condarc, so that every tool uses the mirror")


def _other(prefix: Path, held: locks.Lock) -> bool:
    """Whether what stands at the prefix is something else than the lock: -y replaces only that."""
    done = prefixes.completion(prefix)
    return done is None or done.lock_digest != held.digest(done.platform)


def _spec(wish: Wish, cuda: str) -> Spec:
    return Spec(
        name=wish.name or (wish.prefix.name if wish.prefix else None),
        cuda=cuda,
        python=wish.python_version,
        torch=wish.torch_version,
        channels=tuple(options.channel(one) for one in wish.channels),
        variants=tuple(dict.fromkeys((*wish.variants, *_for_board(cuda)))),
        add=wish.add,
        pip=wish.pip,
    )


def _cuda(wish: Wish) -> tuple[str, tuple[str, ...]]:
    """The CUDA to build for, and why: `auto` is the first template that fits this machine and what was asked."""
    if wish.cuda != "auto":
        return wish.cuda, ()
    release = driver.jetson_release()
    if release is not None:
        return _on_jetson(release)
    told = driver.describe()
    if told.cuda is None or not told.visible_gpus:
        why = f"no usable NVIDIA GPU ({told.reason or 'CUDA_VISIBLE_DEVICES hides all'}): building for the CPU"
        return CPU, (why, "for a machine with a GPU: envkit create --cuda 11.8 (or 12.4, 12.9, 13.0)")
    glibc = next((one.version for one in engine.host_packages() if one.name == "__glibc"), None)
    wanted = Wanted(
        python=wish.python_version,
        torch=None if wish.torch_version == NO_TORCH else wish.torch_version,
        driver=told.version,
        driver_cuda=told.cuda,
        capability=told.oldest,
        platform=engine.platform(),
        glibc=glibc,
    )
    chosen = compatibility.best(wanted).row
    shown = f", {told.visible_gpus[0].name}" + (
        f" and {len(told.visible_gpus) - 1} more" if told.visible_gpus[1:] else ""
    )
    return chosen.cuda, (f"driver {told.version} runs CUDA up to {told.cuda}{shown}: chose {chosen.cuda}",)


def _on_jetson(release: int) -> tuple[str, tuple[str, ...]]:
    """The CUDA for a Jetson by its L4T release. Source: conda-forge/cuda-feedstock and pytorch-cpu-feedstock."""
    if release >= 38:
        return "13.0", (f"a Jetson with L4T {release} (JetPack 7): chose 13.0",)
    if release >= 36:
        return "12.9", (f"a Jetson with L4T {release} (JetPack 6): chose 12.9 with arm-variant tegra",)
    raise InputError(
        f"this is a Jetson with L4T {release or 'of unknown release'}: conda-forge's builds need JetPack 6 (L4T 36)",
        hint="update JetPack, or take NVIDIA's own wheels for this JetPack; --cuda cpu works too",
    )


def _for_board(cuda: str) -> tuple[str, ...]:
    """What a Jetson needs beside the template: before CUDA 13 the builds for its chips are a variant of their own."""
    if driver.jetson_release() is None or cuda == CPU or cuda.startswith("13"):
        return ()
    if cuda != "12.9":
        raise InputError(
            f"--cuda {cuda} on a Jetson: builds for its chips begin with CUDA 12.9", hint="take --cuda 12.9 or 13.0"
        )
    return ("jetson",)


def _write_environment(source: Path, choice: Choice, wish: Wish) -> None:
    """Write environment.yml; one that is there is kept if it says the same, and edited only with -y."""
    if not source.exists():
        codec.write(source, environment.apply(choice.text, choice.environment).encode())
        return
    present = codec.read_text(source)
    was = environment.parse(present, str(source))
    edited = environment.apply(present, choice.environment)
    now = environment.parse(edited, str(source))
    if _asks(was) == _asks(now):
        return
    if not wish.yes:
        raise InputError(
            f"{source} exists and asks for something else; it is left alone",
            hint=f"-y edits it (comments stay); `envkit lock {source}` and `envkit build {source}` use it as it is",
        )
    codec.write(source, edited.encode())


def _asks(one: environment.Environment) -> Any:
    return one.name, one.channels, one.spec_texts, [item.text for item in one.pip]


def _lock(source: Path, lock_path: Path, cuda: str, talk: Talk) -> locks.Lock:
    """The lock at hand if it is fresh and for this target, else a new one."""
    asked = environment.read(source)
    present = locks.read(lock_path) if lock_path.exists() else None
    wanted = flow.target(asked, cuda=cuda, platforms=(), present=present)
    if present is not None and locker.check(source, present).fresh:
        recorded = {platform: present.virtual_packages(platform) for platform in wanted.platforms}
        if recorded == dict(wanted.packages):
            return present
    return locker.write(source, lock_path, wanted, tell=talk)


def _report(made: Made, wish: Wish, prefix: Path, talk: Talk) -> Made:
    target = inside.Target(
        python=prefixes.python(prefix),
        environ=activation.environ(prefix, os.environ),
        prefix=prefix,
        name=wish.name,
    )
    plan = None if wish.no_bench else benches.plan(flow.cores())
    told = probe.probe(target, bench=plan, tell=talk)
    path = wish.report_path or wish.directory / flow.REPORT
    report.write(path, told)
    return msgspec.structs.replace(made, report_file=str(path), summary=summary.lines(told))
