"""conda settings for people behind a mirror: the names of channels stay, their addresses change.

Source: the mirrors' own help pages, read 2026-06 to 2026-08 (SJTUG's address: from memory). TUNA and USTC have no
`nvidia`; SUSTech has.
"""

from envkit.errors import InputError

_NVIDIA = "https://mirrors.sustech.edu.cn/anaconda-extra/cloud"
MIRRORS = {
    "tuna": "https://mirrors.tuna.tsinghua.edu.cn/anaconda",
    "ustc": "https://mirrors.ustc.edu.cn/anaconda",
    "sjtug": "https://mirror.sjtu.edu.cn/anaconda",
}
_WITHOUT_DEFAULTS = ("ustc", "sjtug")


def condarc(mirror: str) -> str:
    """The lines of a condarc for a mirror by name or by the address that holds its `cloud` folder."""
    base = MIRRORS.get(mirror, mirror).rstrip("/")
    if "://" not in base:
        raise InputError(f"--mirror {mirror!r}: not a mirror's name or address", hint=f"names: {', '.join(MIRRORS)}")
    lines = [
        f"# conda through the mirror {mirror}; put these lines into ~/.condarc",
        "custom_channels:",
        *(f"  {name}: {base}/cloud" for name in ("conda-forge", "pytorch", "bioconda")),
        *([f"  nvidia: {_NVIDIA}  # {mirror} has no nvidia channel"] if mirror in MIRRORS else []),
    ]
    if mirror not in _WITHOUT_DEFAULTS:
        lines += ["default_channels:", *(f"  - {base}/pkgs/{name}" for name in ("main", "r"))]
    return "\n".join(lines) + "\n"
