"""Compiles the shim against the torch that is installed here, once, and keeps it.

It needs g++ (or what CXX names) and the headers of the CUDA runtime, which come with torch's own
dependencies; no nvcc. The key of what is kept covers all that decides whether a library fits: torch, its
ABI, the compiler and the sources.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "shim"
FLAGS = ["-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra"]
LIMIT_S = 600


class BuildError(RuntimeError):
    """The shim could not be compiled; the text has the command and what the compiler said."""


def shim(surroundings: Path | None = None, cache: Path | None = None, flags: tuple[str, ...] = ()) -> Path:
    """The compiled shim; builds it if there is none that fits.

    `surroundings` is a source that stands in for the calls to CUDA, for tests.
    """
    plan = _Plan(surroundings, flags)
    folder = _folder(cache) / plan.key()
    library = folder / "libstitchpool_torch.so"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            plan.build(library)
    return library


class _Plan:
    def __init__(self, surroundings: Path | None, flags: tuple[str, ...]) -> None:
        self.compiler = os.environ.get("CXX", "g++")
        if shutil.which(self.compiler.split()[0]) is None:
            raise BuildError(
                f"the compiler {self.compiler!r} is not there: install g++, or set CXX. The backend is compiled "
                "once against the torch that is installed"
            )
        sources = sorted(SOURCES.glob("*.cpp"))
        if surroundings is not None:
            sources = [source for source in sources if source.name != "surroundings_cuda.cpp"] + [surroundings]
        self.sources = sources
        self.header = _header()
        self.flags = [*FLAGS, *flags, f"-D_GLIBCXX_USE_CXX11_ABI={_abi()}"]

    def key(self) -> str:
        import torch

        digest = hashlib.sha256()
        for part in (torch.__version__, torch.version.git_version, str(torch.version.cuda), *self.flags, self._compiler()):
            digest.update(part.encode() + b"\0")
        for path in [*self.sources, *sorted(SOURCES.glob("*.h")), self.header]:
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()[:24]

    def build(self, library: Path) -> None:
        includes = [f"-I{SOURCES}", f"-I{self.header.parent}", *(f"-isystem{folder}" for folder in _include_folders())]
        with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
            # All at once: torch's headers are read once, and a call from one file into another costs nothing.
            whole = Path(scratch) / "whole.cpp"
            whole.write_text("".join(f'#include "{source}"\n' for source in self.sources))
            linked = os.path.join(scratch, library.name)
            # Torch's libraries by path, so that the very ones are named that it has loaded.
            _run([
                *self.compiler.split(), *self.flags, *includes, "-shared", "-o", linked, str(whole),
                *_torch_libraries(), *_runtime(), "-ldl", "-lpthread",
            ])
            os.replace(linked, library)

    def _compiler(self) -> str:
        return subprocess.run(
            [*self.compiler.split(), "--version"], capture_output=True, text=True, check=True, timeout=LIMIT_S
        ).stdout


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}\nanswers {done.returncode}:\n{done.stderr[-8000:]}")


def _runtime() -> list[str]:
    """The C++ library that this process has loaded. Where g++ has only a static one, the shim would get a second
    copy, and streams and locales of the two do not know each other."""
    import torch  # noqa: F401  (loads it)

    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if Path(path).name.startswith("libstdc++.so"):
            return [path]
    return []


def _abi() -> int:
    import torch

    return int(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))


def _header() -> Path:
    """stitchpool.h: beside the package, or in the repository it stands in."""
    package = HERE.parent.parent
    for path in (package / "stitchpool.h", package.parent.parent / "crates" / "capi" / "include" / "stitchpool.h"):
        if path.exists():
            return path
    raise BuildError(f"stitchpool.h is not in {package}: the package is not whole")


def _include_folders() -> list[str]:
    import torch

    own = os.path.join(os.path.dirname(torch.__file__), "include")
    site = os.path.dirname(os.path.dirname(torch.__file__))
    homes = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    # Torch's own dependencies first: they have the version that torch was built for.
    found = sorted(glob.glob(os.path.join(site, "nvidia", "*", "include")))
    found += [os.path.join(home, "include") for home in homes if home]
    found += [folder for home in homes if home for folder in glob.glob(os.path.join(home, "targets", "*", "include"))]
    cuda = [folder for folder in found if os.path.exists(os.path.join(folder, "cuda_runtime_api.h"))]
    # Newer runtimes have parts of their headers in packages of their own.
    complete = [folder for folder in cuda if os.path.exists(os.path.join(folder, "crt", "host_defines.h"))]
    if not complete:
        raise BuildError(
            "the headers of the CUDA runtime (cuda_runtime_api.h and crt/host_defines.h) are not there: install "
            "nvidia-cuda-runtime and nvidia-cuda-crt of torch's CUDA version, or set CUDA_HOME"
        )
    return [own, complete[0]]


def _torch_libraries() -> list[str]:
    """The files of torch and of the CUDA runtime that this process has loaded."""
    import torch

    with open("/proc/self/maps") as maps:
        mapped: list[str] = sorted(set(re.findall(r"(/\S+\.so[.\d]*)$", maps.read(), re.MULTILINE)))

    def one(stem: str) -> str:
        for path in mapped:
            if re.match(rf"{stem}[-.]", os.path.basename(path)):
                return path
        raise BuildError(f"torch {torch.__version__} has not loaded {stem}: it is a build without CUDA")

    return [one("libc10_cuda"), one("libc10"), one("libcudart")]


def _folder(cache: Path | None) -> Path:
    if cache is not None:
        return cache
    named = os.environ.get("STITCHPOOL_CACHE")
    if named:
        return Path(named)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stitchpool"
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            return home
    except OSError:
        # A folder that others could write to would let them choose what we load.
        own = Path(tempfile.gettempdir()) / f"stitchpool-{os.getuid()}"
        own.mkdir(mode=0o700, exist_ok=True)
        if own.stat().st_uid != os.getuid() or own.stat().st_mode & 0o077:
            raise BuildError(f"{own} is not this user's alone: set STITCHPOOL_CACHE to a folder that is") from None
        return own
