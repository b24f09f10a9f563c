"""Real things for the tests: a channel made of this machine's interpreters and wheels, served as a folder and over
HTTP on loopback; a real environment with torch in it; envkit as a process of its own.
"""

import atexit
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"
CACHE = ROOT / ".cache"
sys.path.insert(0, str(ROOT / "tools"))

import interpreters  # noqa: E402

TORCH = "torch==2.13.0"
WHEELS = {
    "3.9": ["pip", "setuptools<82", "numpy==1.26.4", "pillow==10.4.0"],
    "3.10": ["pip", "setuptools<82", "numpy==1.26.4", "pillow==10.4.0"],
    "3.11": ["pip", "setuptools<82", "numpy==1.26.4", "numpy==2.2.6", "pillow==10.4.0", "pillow==11.3.0", TORCH],
}
Run = Callable[..., "subprocess.CompletedProcess[str]"]


_status = 0


def _leave_at_once() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_status)


# Registered first, so it runs last: rattler's threads sometimes crash an interpreter that shuts down.
atexit.register(_leave_at_once)


def pytest_sessionfinish(exitstatus: int) -> None:
    global _status
    _status = int(exitstatus)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("gpu") and not Path("/proc/driver/nvidia/version").exists():
            item.add_marker(pytest.mark.skip(reason="NO GPU HERE: this test needs an NVIDIA driver and card"))
        if item.get_closest_marker("shared") and not SHARED.is_dir():
            item.add_marker(pytest.mark.skip(reason=f"NO SNAPSHOT: {SHARED.name}/ does not lie beside the checkout"))


@pytest.fixture(scope="session", autouse=True)
def own_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A home folder and caches of the tests' own; the package cache outlives the session for a quicker next one."""
    home = tmp_path_factory.mktemp("home")
    own = {
        "HOME": str(home),
        "ENVKIT_CACHE_DIR": str(home / "cache"),
        "ENVKIT_ENVS_PATH": str(home / "envs"),
        "RATTLER_CACHE_DIR": str(CACHE / "rattler"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    dropped = [name for name in os.environ if name.startswith(("CONDA_", "MAMBA_", "XDG_"))]
    with pytest.MonkeyPatch.context() as patch:
        for name in dropped:
            patch.delenv(name)
        for name, value in own.items():
            patch.setenv(name, value)
        yield own


@pytest.fixture(scope="session")
def envkit() -> Run:
    """envkit as a process: `envkit("lock", path, status=3)` checks the exit status."""

    def run(*words: object, status: int | None = 0, **options: object) -> "subprocess.CompletedProcess[str]":
        command = [str(Path(sys.executable).parent / "envkit"), *map(str, words)]
        environ = os.environ | options.pop("environ", {})  # type: ignore[operator]
        told = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=environ,
            stdin=subprocess.DEVNULL,
            **options,  # type: ignore[call-overload]
        )
        if status is not None:
            assert told.returncode == status, f"{words}: {told.returncode}\n{told.stdout}\n{told.stderr}"
        return told

    return run


@pytest.fixture(scope="session")
def pythons() -> dict[str, str]:
    """The interpreters of this machine that can be packaged, by minor version; at least the one that runs this."""
    found = {minor: path for minor in WHEELS if (path := interpreters.find(minor))}
    return found or {f"3.{sys.version_info.minor}": getattr(sys, "_base_executable", sys.executable)}


@pytest.fixture(scope="session")
def channel(pythons: dict[str, str], envkit: Run) -> Path:
    """A channel folder; made once for a set of interpreters, wheels and packaging code."""
    sources = sorted((ROOT / "envkit" / "channel").glob("*.py"))
    made_of = json.dumps([sorted(pythons.items()), WHEELS]).encode() + b"".join(path.read_bytes() for path in sources)
    folder = CACHE / f"channel-{hashlib.sha256(made_of).hexdigest()[:12]}"
    if not (folder / "made").exists():
        shutil.rmtree(CACHE / "rattler", ignore_errors=True)
        for minor, path in pythons.items():
            wheels = [part for wheel in WHEELS.get(minor, WHEELS["3.9"]) for part in ("--wheel", wheel)]
            envkit("channel", "make", folder, "--python", path, *wheels)
        (folder / "made").touch()
    return folder


@pytest.fixture(scope="session")
def torch_project(
    channel: Path, pythons: dict[str, str], envkit: Run, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder with the three files of `create`; its environment `t1` is built, probed and measured."""
    if "3.11" not in pythons:
        pytest.skip("NO PYTHON 3.11 HERE that can be packaged: the CPU wheel of torch is for 3.11")
    folder = tmp_path_factory.mktemp("project") / "t1"
    envkit("create", "-n", "t1", "--cuda", "cpu", "--python", "3.11", "--channel", channel, "-d", folder)
    return folder


@pytest.fixture
def small_project(channel: Path, pythons: dict[str, str], tmp_path: Path) -> Path:
    """An environment.yml that solves to Python, pip and setuptools; not yet locked."""
    minor = "3.10" if "3.10" in pythons else next(iter(pythons))
    folder = tmp_path / "small"
    folder.mkdir()
    lines = ["name: small", "channels:", f"  - {channel.as_uri()}", "  - nodefaults", "dependencies:"]
    lines += [f"  - python={minor}", "  - pip", "  - setuptools<82", "variables:", "  GREETING: hello"]
    (folder / "environment.yml").write_text("\n".join(lines) + "\n")
    return folder


class Server(http.server.ThreadingHTTPServer):
    """Serves a folder; `faults` maps a part of a path to what is answered the next times: a status, or half a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.faults: dict[str, list[str]] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.login: str | None = None
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.SimpleHTTPRequestHandler):
    server: Server

    def translate_path(self, path: str) -> str:
        return str(self.server.folder) + super().translate_path(path).removeprefix(str(Path.cwd()))

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def send_head(self):  # type: ignore[no-untyped-def]
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        if self.server.login is not None and self.headers.get("Authorization") != self.server.login:
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Basic")
            self.end_headers()
            return None
        if self.path.startswith("/t/"):
            self.path = "/" + self.path.split("/", 3)[3]
        for part, answers in self.server.faults.items():
            if part in self.path and answers:
                return self.fault(answers.pop(0))
        return super().send_head()

    def fault(self, answer: str):  # type: ignore[no-untyped-def]
        if answer.isdigit():
            self.send_error(int(answer))
            return
        data = Path(self.translate_path(self.path)).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2])
        self.close_connection = True
        return


@pytest.fixture
def serve() -> Iterator[Callable[[Path], Server]]:
    """Serve a folder over HTTP on loopback."""
    servers: list[Server] = []

    def start(folder: Path) -> Server:
        server = Server(folder)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def tiny_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package index in a folder (PEP 503), with one tiny pure wheel that has a script."""
    import zipfile

    folder = tmp_path_factory.mktemp("index")
    project = folder / "simple" / "tinypkg"
    project.mkdir(parents=True)
    name = "tinypkg-1.0-py3-none-any.whl"
    info = "tinypkg-1.0.dist-info"
    with zipfile.ZipFile(project / name, "w") as archive:
        archive.writestr("tinypkg.py", "def main():\n    import sys\n    print('tiny', sys.executable)\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinypkg\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/entry_points.txt", "[console_scripts]\ntinypkg = tinypkg:main\n")
        rows = "".join(f"{one},,\n" for one in [*archive.namelist(), f"{info}/RECORD"])
        archive.writestr(f"{info}/RECORD", rows)
    digest = hashlib.sha256((project / name).read_bytes()).hexdigest()
    (project / "index.html").write_text(f'<html><body><a href="{name}#sha256={digest}">{name}</a></body></html>')
    return folder
