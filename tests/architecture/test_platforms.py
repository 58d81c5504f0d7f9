"""Windows and macOS, by stand-ins: a process without what only POSIX has, where open files can be
neither renamed nor removed, imports everything, fits, writes and reads."""

from __future__ import annotations

import ctypes
import errno
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lgmdsl import memory
from lgmdsl.cli import main as command

WINDOWS = """
import builtins, importlib, os, pkgutil, sys
# Libraries choose by the real platform.
import h5netcdf, h5py, networkx, numba, numpy, pandas, scipy.linalg, scipy.optimize, xarray
import concurrent.futures.process, multiprocessing.spawn
import matplotlib.pyplot, rich.console, click, subprocess, tempfile, shutil
import arviz_stats, narwhals, pyarrow, sklearn.pipeline

ABSENT = {"fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "posix", "syslog"}

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name in ABSENT:
            raise ImportError(f"no module {name} on Windows")

sys.meta_path.insert(0, Refusing())
for name in ABSENT:
    sys.modules.pop(name, None)
sys.platform = "win32"
for name in ("fork", "geteuid", "getuid", "sysconf", "O_NOFOLLOW", "O_NONBLOCK", "killpg", "setsid",
             "register_at_fork", "sched_getaffinity", "mkfifo", "getpgid", "statvfs"):
    if hasattr(os, name):
        delattr(os, name)

def opened(path):
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            pass
    return os.path.realpath(path) in found

real = {name: getattr(os, name) for name in ("replace", "rename", "unlink", "remove")}

def guarded(name):
    def act(*paths, **options):
        for path in paths:
            if opened(path):
                raise PermissionError(13, "the file is open in a process", path)
        return real[name](*paths, **options)
    return act

for name in real:
    setattr(os, name, guarded(name))

import lgmdsl
for module in pkgutil.walk_packages(lgmdsl.__path__, "lgmdsl."):
    if ".testing" not in module.name and not module.name.endswith("__main__"):
        importlib.import_module(module.name)

import lgmdsl as lgm
text = "lgm 1\\nindex obs\\ndata y[obs] : real\\nlatent a ~ normal(sd = 3)\\n"
model = lgm.loads(text + "observe y ~ normal(mean = a, sd = 1)\\n")
fit = lgm.fit(model, {"y": [1.0, 2.0]})
for _ in range(2):  # over a file that is there
    fit.save("f.nc")
again = lgm.load_fit("f.nc")
assert float(again.mean("a")) == float(fit.mean("a"))
fit.save("f.nc")  # the fit that was read holds no file open
from lgmdsl.files import append
append("record.jsonl", b"{}\\n")
assert not [n for n in os.listdir(".") if n.endswith(".unfinished")]
open(".lgm-old.unfinished", "w").close()
fit.save("g.nc")  # removes what a killed process left
assert sorted(os.listdir(".")) == ["f.nc", "g.nc", "record.jsonl"], os.listdir(".")
held = open("g.nc", "rb")
try:
    fit.save("g.nc")
except lgm.DataError as error:
    assert "open in a process" in str(error), error
else:
    raise AssertionError("a file that is open was replaced")
assert sorted(os.listdir(".")) == ["f.nc", "g.nc", "record.jsonl"], os.listdir(".")
print("done")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a stand-in for other systems")
@pytest.mark.thorough
def test_a_stand_in_for_windows(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(WINDOWS)]
    out = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert out.stdout == "done\n", out.stderr[-3000:]


def test_the_memory_of_windows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def installed(kilobytes: Any) -> int:
        kilobytes._obj.value = 8 * 1024 * 1024
        return 1

    kernel = SimpleNamespace(GetPhysicallyInstalledSystemMemory=installed)
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False)
    monkeypatch.delattr("os.sysconf")
    assert memory.total(tmp_path) == 8 * 2**30
    monkeypatch.setattr(kernel, "GetPhysicallyInstalledSystemMemory", lambda _: 0)
    assert memory.total(tmp_path) == 0


@pytest.mark.parametrize(
    ("platform", "error", "closed"),
    [
        ("linux", BrokenPipeError(errno.EPIPE, "broken pipe"), True),
        ("win32", OSError(errno.EINVAL, "invalid argument"), True),
        ("linux", OSError(errno.EINVAL, "invalid argument"), False),
        ("win32", OSError(errno.ENOSPC, "no space"), False),
    ],
)
def test_a_reader_that_has_gone(
    platform: str, error: OSError, closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert command._closed(error) is closed
