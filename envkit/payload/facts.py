"""Versions and build facts of the interpreter that runs this, of torch and of the libraries of its data path."""

import importlib
import multiprocessing
import os
import platform
import re
import sys
import traceback


def parts():
    """The parts in order: pairs of a name and a function without arguments that gives plain data."""
    modules = (("numpy", _numpy), ("PIL", _pillow), ("torch", _torch), ("torchvision", _torchvision))
    return (
        [("python", _python)]
        + [("module." + name, lambda name=name, more=more: _module(name, more)) for name, more in modules]
        + [("processes", _processes), ("distributions", _distributions), ("libraries", _libraries)]
    )


def _python():
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "build": " ".join(platform.python_build()),
        "compiler": platform.python_compiler(),
        "prefix": sys.prefix,
        "executable": sys.executable,
        "free_threaded": bool(getattr(sys, "_is_gil_enabled", lambda: True)() is False),
    }


def _module(name, more):
    """A module that is absent or broken is an outcome with its error, never an exception here."""
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        absent = isinstance(error, ModuleNotFoundError) and error.name == name
        return {"state": "absent" if absent else "broken", "error": _error(error)}
    except BaseException as error:  # torch raises OSError for a missing library, others raise what they like
        return {"state": "broken", "error": _error(error)}
    told = {
        "state": "ok",
        "version": str(getattr(module, "__version__", "unknown")),
        "file": str(getattr(module, "__file__", None)),
    }
    try:
        told["details"] = more(module)
    except Exception as error:
        told["details"] = {"error": _error(error)}
    return told


def _error(error):
    last = traceback.format_exception_only(type(error), error)[-1].strip()
    return {"type": type(error).__module__ + "." + type(error).__qualname__, "message": last[:2000]}


def _numpy(numpy):
    return {"version_abi": str(getattr(numpy, "_core", numpy).__name__), "kernels": _kernels()}


def _kernels():
    """The instruction sets that NumPy may use here, as one text; None where this NumPy does not say."""
    for name in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):
        try:
            features = importlib.import_module(name).__cpu_features__
        except (ImportError, AttributeError):
            continue
        return " ".join(sorted(feature for feature, usable in features.items() if usable))
    return None


def _pillow(pil):
    from PIL import features

    told = {}
    for name in ("jpg", "zlib", "libtiff", "webp", "jpg_2000"):
        told[name] = features.version(name) if features.check(name) else None
    for name in ("libjpeg_turbo", "zlib_ng"):
        # A feature that this Pillow does not know is unknown, not absent.
        known = name in features.features
        told[name] = features.version(name) or bool(features.check(name)) if known else None
    return told


def _torch(torch):
    cudnn = torch.backends.cudnn
    asked = {
        "git_version": lambda: torch.version.git_version,
        "debug": lambda: torch.version.debug,
        "cuda": lambda: torch.version.cuda,
        "hip": lambda: getattr(torch.version, "hip", None),
        "cudnn": lambda: cudnn.version() if torch.version.cuda else None,
        "cuda_available": torch.cuda.is_available,
        "mkl": torch.backends.mkl.is_available,
        "mkldnn": torch.backends.mkldnn.is_available,
        "openmp": torch.backends.openmp.is_available,
        "threads": torch.get_num_threads,
        "interop_threads": torch.get_num_interop_threads,
        "default_dtype": lambda: str(torch.get_default_dtype()),
        "cpu_capability": lambda: _cpu_capability(torch),
        "build": torch.__config__.show,
        "cudnn_benchmark": lambda: cudnn.benchmark,
        "cudnn_deterministic": lambda: cudnn.deterministic,
        "cudnn_tf32": lambda: getattr(cudnn, "allow_tf32", None),
        "matmul_tf32": lambda: getattr(torch.backends.cuda.matmul, "allow_tf32", None),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
        "sharing_strategy": torch.multiprocessing.get_sharing_strategy,
        "arch_list": lambda: torch.cuda.get_arch_list() if torch.version.cuda else [],
        "gpus": lambda: _gpus(torch) if torch.cuda.is_available() else [],
    }
    return {name: _known(ask) for name, ask in asked.items()}


def _known(ask):
    """A fact, or None where this build cannot tell it: a CUDA build without its libraries fails in some."""
    try:
        return ask()
    except Exception:
        return None


def _cpu_capability(torch):
    ask = getattr(getattr(torch.backends, "cpu", None), "get_cpu_capability", None)
    if ask is not None:
        return ask()
    found = re.search(r"CPU capability usage: (\S+)", torch.__config__.show())
    return found.group(1) if found else None


def _gpus(torch):
    found = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        gpu = {
            "name": properties.name,
            "capability": [properties.major, properties.minor],
            "memory_bytes": properties.total_memory,
        }
        try:
            gpu["kernel"] = float((torch.ones(8, device="cuda:%d" % index) * 2).sum().item()) == 16.0
        except Exception as error:
            gpu["kernel"] = _error(error)["message"]
        found.append(gpu)
    return found


def _torchvision(torchvision):
    from torchvision import ops

    return {"nms": hasattr(ops, "nms")}


def _processes():
    return {
        "default_start_method": multiprocessing.get_context().get_start_method(),
        "start_methods": multiprocessing.get_all_start_methods(),
        "cpu_count": os.cpu_count(),
    }


def _distributions():
    """Name, version and installer of each distribution that this interpreter sees."""
    from importlib import metadata

    found = set()
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            installer = (distribution.read_text("INSTALLER") or "unknown").strip()
            found.add((name, distribution.version, installer))
    return [list(entry) for entry in sorted(found)]


def _libraries():
    """Loaded libraries whose origin matters: CUDA, cuDNN, OpenMP, MKL, OpenBLAS. None where it cannot be read."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(None, 5)[5].strip() for line in maps if line.count("/") and ".so" in line}
    except (OSError, IndexError):
        return None
    wanted = re.compile(r"lib(cu[a-z]+|nv[a-zA-Z]+|g?omp|iomp\w*|mkl_\w+|openblas\w*|torch\w*|c10\w*)[-.]")
    return sorted(path for path in paths if wanted.search(os.path.basename(path)))
