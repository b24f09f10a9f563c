"""torch in a file: twice, from pip alone, with CUDA versions that do not fit, with neighbours that break it.

Field reports A29, B7, C1, D3; the facts' rules numpy2-old-torch and mkl-ijit.
"""

import re

from envkit.compatibility import CUDA_PACKAGES, release
from envkit.rules.subject import Findings, Subject, finding

_TORCH = ("pytorch", "pytorch-gpu", "pytorch-cpu")


def from_pip_only(subject: Subject) -> Findings:
    """torch as a wheel in a conda environment without conda's."""
    lines = [one for one in subject.lines if one.parsed.name.lower() == "torch"]
    if lines and not any(subject.spec(name) for name in _TORCH):
        yield finding(
            "torch-from-pip-only", "warning", "torch comes from pip: conda knows nothing of it", lines[0].item
        )


def twice(subject: Subject) -> Findings:
    """The same project from both sides: pip writes over conda's files."""
    conda = {one.parsed.name: one for one in subject.specs}
    torch = next((conda[name] for name in _TORCH if name in conda), None)
    for line in subject.lines:
        if line.parsed.name.lower() == "torch" and torch is not None:
            message = f"torch is installed twice: {torch.item.text} by conda and {line.item.text} by pip"
            yield finding("torch-installed-twice", "error", message, line.item, following="keep one of them")
            yield finding("pip-clobbers-conda", "warning", f"pip's {line.parsed.name} writes over conda's", line.item)
        elif line.conda_name in conda and line.conda_name != "pip":
            message = f"{line.parsed.name} is in both lists; pip writes over conda's"
            yield finding("package-in-conda-and-pip", "warning", message, line.item)
        elif line.parsed.name.lower() == "numpy" and torch is not None:
            message = "numpy comes with conda's pytorch too; pip writes over it"
            yield finding("pip-clobbers-conda", "warning", message, line.item, following="list numpy above `pip:`")


def cuda_versions(subject: Subject) -> dict[str, str]:
    """The CUDA versions that specs name: from the toolkit packages and from channel labels."""
    found = {}
    for one in subject.specs:
        if one.parsed.name in CUDA_PACKAGES and one.parsed.version:
            number = re.search(r"\d+\.\d+", one.parsed.version)
            if number:
                found[one.parsed.name] = number[0]
        label = re.search(r"cuda-(\d+\.\d+)", one.parsed.channel or "")
        if label:
            found[f"{one.parsed.name} from label"] = label[1]
    return found


def conflicts(subject: Subject) -> Findings:
    """Two CUDA versions in one file."""
    versions = cuda_versions(subject)
    if len(set(versions.values())) > 1:
        told = ", ".join(f"{name} {version}" for name, version in versions.items())
        yield finding("cuda-pins-conflict", "warning", f"several CUDA versions are asked for: {told}")


def from_build_string(subject: Subject) -> Findings:
    """The CUDA of an exported file stands in torch's build string."""
    for one in subject.specs:
        number = re.search(r"cuda_?(\d+\.\d+)", one.parsed.build or "")
        if one.parsed.name == "pytorch" and number and "*" not in (one.parsed.build or ""):
            yield finding("cuda-from-build-string", "info", f"CUDA {number[1]}, by the build string", one.item)


def neighbours(subject: Subject) -> Findings:
    """An old torch with neighbours that moved on."""
    torch, spec = subject.version("pytorch"), subject.spec("pytorch")
    if torch is None or spec is None or release(torch) >= (2, 3):
        return
    numpy, exported = subject.spec("numpy"), spec.parsed.build is not None
    if numpy is not None and numpy.parsed.version is None:
        message = f"torch {torch} was built for NumPy 1: numpy is not held below 2"
        yield finding("abi-unpinned", "warning", message, numpy.item, following="pin numpy<2")
    if "pytorch" in subject.channels and subject.spec("mkl") is None and not exported and numpy is not None:
        message = f"torch {torch} of the channel pytorch breaks with mkl 2024.1 and newer (iJIT_NotifyEvent)"
        yield finding("abi-unpinned", "warning", message, spec.item, following="pin mkl<2024.1")


def architectures(subject: Subject) -> Findings:
    """CUDA before 11.8 knows no GPU newer than sm_86."""
    for name, version in cuda_versions(subject).items():
        if release(version) < (11, 8) and "label" not in name:
            message = f"builds for CUDA {version} have no kernels for sm_90 and newer (sm_89 runs the sm_86 code)"
            spec = subject.spec(name)
            yield finding("cuda-vs-gpu", "info", message, spec.item if spec else None)
            return


def pairing(subject: Subject) -> Findings:
    """torchvision and torchaudio of another torch release."""
    torch = subject.version("pytorch")
    if torch is None:
        return
    for name, offset in (("torchvision", 15), ("torchaudio", 0)):
        version, spec = subject.version(name), subject.spec(name)
        minor = release(torch)
        if version is None or spec is None or minor < (2, 0) or release(version)[:1] == ():
            continue
        # From torch 2.12 on torchaudio stays at 2.11, from 2.15 on torchvision at 0.29 (the facts' release table).
        wanted = (0, min(offset + minor[1], 29)) if name == "torchvision" else min(minor, (2, 11))
        if release(version) != wanted:
            proper = ".".join(map(str, wanted))
            message = f"{name} {version} belongs to another torch than {torch}"
            yield finding("torch-pairing", "error", message, spec.item, following=f"{name}={proper}")


RULES = (from_pip_only, twice, conflicts, from_build_string, neighbours, architectures, pairing)
