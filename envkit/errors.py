"""The error tree: every expected failure is one of these, with its exit code and the next action."""


class EnvkitError(Exception):
    """An expected failure. `message` names the file, line or package; `hint` says what to do next."""

    exit_code = 2
    kind = "error"

    def __init__(self, message: str, *, hint: str = "", details: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details


class InputError(EnvkitError):
    """A file, option or name that cannot be read or makes no sense."""

    exit_code = 2
    kind = "input"


class UnsolvableError(EnvkitError):
    """No set of packages satisfies the specs."""

    exit_code = 3
    kind = "unsolvable"


class WrongBuildError(EnvkitError):
    """The solution holds a CPU build where a CUDA build was asked for."""

    exit_code = 4
    kind = "wrong-build"


class BuildError(EnvkitError):
    """The environment could not be built; nothing half-made is left behind."""

    exit_code = 5
    kind = "build"


class BrokenEnvironmentError(EnvkitError):
    """A prefix that is no environment, is unfinished, or whose interpreter cannot start."""

    exit_code = 6
    kind = "broken-environment"


class NetworkError(EnvkitError):
    """A channel or package index did not answer, or answered with an error."""

    exit_code = 7
    kind = "network"


class DamagedPackageError(EnvkitError):
    """A package whose bytes are not the ones the lock names, or that cannot be unpacked."""

    exit_code = 8
    kind = "damaged-package"


class PlatformError(EnvkitError):
    """Something made for another platform or architecture."""

    exit_code = 9
    kind = "platform"


class StorageError(EnvkitError):
    """A disk that is full, a folder that cannot be written."""

    exit_code = 10
    kind = "storage"


class ToolError(EnvkitError):
    """A program that envkit needs is missing or failed."""

    exit_code = 11
    kind = "tool"


KINDS: dict[str, type[EnvkitError]] = {
    error.kind: error
    for error in (
        InputError,
        UnsolvableError,
        WrongBuildError,
        BuildError,
        BrokenEnvironmentError,
        NetworkError,
        DamagedPackageError,
        PlatformError,
        StorageError,
        ToolError,
    )
}
