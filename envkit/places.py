"""Where things lie for this user: environments, caches, locks, conda's own list of environments."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from envkit import condarc
from envkit.errors import InputError

_FORBIDDEN_IN_NAME = set("/\\:#$\"'`;&|<>*?!~%=\0\n\r\t")


def envs_directories(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Folders where an environment may be found by name; new ones are made in the first.

    ENVKIT_ENVS_PATH; then conda's own order: CONDA_ENVS_PATH or CONDA_ENVS_DIRS, `envs_dirs` of condarc, `envs` of an
    installed conda, `~/.conda/envs`; then the platform's data folder. Source: conda's documentation of `envs_dirs`.
    """
    listed = environ.get("ENVKIT_ENVS_PATH") or environ.get("CONDA_ENVS_PATH") or environ.get("CONDA_ENVS_DIRS") or ""
    folders = [Path(part).expanduser() for part in listed.split(os.pathsep) if part]
    folders += [Path(part).expanduser() for part in condarc.load(environ).envs_dirs]
    root = _conda_root(environ)
    if root is not None:
        folders += [root / "envs", Path("~/.conda/envs").expanduser()]
    folders.append(platformdirs.user_data_path("envkit", appauthor=False) / "envs")
    writable = [folder for folder in folders if _writable(folder)]
    return tuple(dict.fromkeys([*writable[:1], *folders]))


def _conda_root(environ: Mapping[str, str]) -> Path | None:
    """Where this user's conda, mamba or micromamba keeps its base environment and `envs`."""
    executables = [environ.get("CONDA_EXE"), environ.get("MAMBA_EXE"), shutil.which("conda"), shutil.which("mamba")]
    roots = [environ.get("MAMBA_ROOT_PREFIX"), *(str(Path(one).parent.parent) for one in executables if one)]
    usual = ("miniforge3", "mambaforge", "miniconda3", "anaconda3", "micromamba")
    roots += [str(Path.home() / name) for name in usual]
    return next((Path(root) for root in roots if root and _is_root(Path(root))), None)


def _is_root(folder: Path) -> bool:
    return (folder / "conda-meta").is_dir() or ((folder / "envs").is_dir() and folder.name == "micromamba")


def _writable(folder: Path) -> bool:
    existing = next((parent for parent in (folder, *folder.parents) if parent.exists()), None)
    return existing is not None and os.access(existing, os.W_OK)


def prefix_of(name: str, environ: Mapping[str, str]) -> Path:
    """The prefix of the environment called `name`: the first that exists, else where it would be made."""
    check_name(name)
    folders = envs_directories(environ)
    return next((folder / name for folder in folders if (folder / name).exists()), folders[0] / name)


def check_name(name: str) -> None:
    """Refuse what conda refuses as a name, and what no shell should ever see."""
    offenders = sorted({character for character in name if character in _FORBIDDEN_IN_NAME})
    if not name or name.strip() != name or name.startswith(("-", ".")) or offenders:
        raise InputError(
            f"{name!r} cannot be the name of an environment"
            + (f": it holds {' '.join(offenders)!r}" if offenders else ""),
            hint="use letters, digits, '-', '_' and '.'; for any other place give the path with -p",
        )


def environments_list() -> Path:
    """conda's list of known prefixes, one per line."""
    return Path("~/.conda/environments.txt").expanduser()


def cache() -> Path:
    """envkit's own cache: wheels of pip entries, by hash."""
    return Path(os.environ.get("ENVKIT_CACHE_DIR") or platformdirs.user_cache_path("envkit", appauthor=False))


def locks() -> Path:
    """Lock files that keep two builds of one prefix apart."""
    return cache() / "locks"


def data(name: str) -> Path:
    """A data file that is shipped inside the package."""
    return Path(__file__).parent / "data" / name


def transitions() -> Path:
    """The known changes of behaviour."""
    return Path(__file__).parent / "transitions.yml"


def templates() -> Path:
    """The templates: inside the wheel, or the top-level folder of a checkout."""
    packaged = Path(__file__).parent / "_templates"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / "templates"


def payload() -> Path:
    """The folder that a target interpreter runs."""
    return Path(__file__).parent / "payload"
