"""What a person asked `create` for."""

import re

import msgspec

from envkit.errors import InputError

CPU = "cpu"
NO_TORCH = "none"


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `create` that decide what the environment holds."""

    name: str | None = None
    cuda: str = CPU
    python: str | None = None
    torch: str | None = None
    channels: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    add: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        problems = []
        if self.cuda != CPU and not re.fullmatch(r"\d{1,2}\.\d{1,2}", self.cuda):
            problems.append(f"--cuda {self.cuda}: write auto, cpu or a version such as 11.8")
        for option, value in (("--python", self.python), ("--torch", self.torch)):
            if value is not None and not re.fullmatch(r"\d+\.\d+(\.\d+)?", value) and value != NO_TORCH:
                problems.append(f"{option} {value}: write a version such as {'3.11' if 'py' in option else '2.5.1'}")
        if problems:
            raise InputError("these options cannot be read", details=tuple(problems))
