"""Kills and full disks on the real command line: no file is lost, and nothing is left over.

A campaign, never run unless asked for:

    python -m pytest -m reproduction tests/benchmarks/test_lost_files.py -s
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from tests.processes import environment

pytestmark = pytest.mark.reproduction

MODEL = """lgm 1
index obs
data x[obs] : real
data y[obs] : count
latent b ~ normal(sd = 1)
latent e[obs] ~ normal(sd = 0.3)
let eta[obs] = b * x + e
observe y ~ poisson(log_rate = eta)
"""
ROWS = 40_000
KILLS, DISKS = 100, 50
LIMIT = "import resource, sys\nn = int(sys.argv.pop(1))\nresource.setrlimit(resource.RLIMIT_FSIZE, (n, n))\n"  # noqa: E501
RUN = "import sys\nfrom lgmdsl.cli.main import main\nsys.exit(main())\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    x = rng.normal(size=ROWS)
    (tmp_path / "m.lgm").write_text(MODEL)
    np.savez(tmp_path / "d.npz", x=x, y=rng.poisson(np.exp(0.3 * x)))
    return tmp_path


def command(folder: Path, name: str, output: Path) -> list[str]:
    read = [str(folder / "m.lgm"), str(folder / "d.npz")]
    method = ["--method", "laplace"] if name == "fit" else []
    return [name, *read, *method, "-o", str(output)]


def start(arguments: list[str], before: str = "") -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", before + RUN, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(),
    )


def ended(arguments: list[str]) -> int:
    """The exit status of a command that is left alone."""
    process = start(arguments)
    process.communicate()
    return process.returncode


def whole(output: Path) -> bool:
    """Whether a result can be read to its end."""
    if output.suffix == ".nc":
        return lgm.load_fit(output).converged
    with np.load(output) as held:
        return len(held["y"]) == ROWS


def test_kills(folder: Path) -> None:
    """Half at a random moment of the command's time, half while the file is written."""
    chance, ends = random.Random(3), Counter[str]()
    for name, output in (("fit", folder / "out" / "f.nc"), ("simulate", folder / "out" / "s.npz")):
        output.parent.mkdir(exist_ok=True)
        began = time.monotonic()
        assert ended(command(folder, name, output)) == 0
        usual = time.monotonic() - began
        for k in range(KILLS // 2):
            before = output.read_bytes()
            process = start([*command(folder, name, output), "--seed", str(k + 1)])
            if k % 2:
                time.sleep(chance.random() * usual)
            else:
                while process.poll() is None and not list(output.parent.glob(".lgm-*")):
                    time.sleep(1e-4)
                time.sleep(chance.random() * 0.02)
            process.kill()
            process.communicate()
            ends["left over"] += len(list(output.parent.glob(".lgm-*")))
            ends["old" if output.read_bytes() == before else "new"] += 1
            assert whole(output)
        assert ended(command(folder, name, output)) == 0
        assert whole(output)
    assert sorted(os.listdir(folder / "out")) == ["f.nc", "s.npz"]
    print(f"\n{KILLS} kills: {dict(ends)}; after the next run nothing")
    assert ends["old"] and ends["left over"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path | None]:
    """A disk that the user may fill (root only)."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    made = (
        mount is not None
        and os.geteuid() == 0
        and not subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)], capture_output=True
        ).returncode
    )
    yield place if made else None
    if made:
        subprocess.run(["umount", str(place)], check=True)


def test_full_disks(folder: Path, disk: Path | None) -> None:
    """Where it can be mounted, half of them are real; elsewhere files may not pass a length."""
    chance, ends = random.Random(4), Counter[str]()
    for k in range(DISKS):
        name, file = (("fit", "f.nc"), ("simulate", "s.npz"))[k % 2]
        real = disk is not None and k % 4 < 2
        place = disk if disk is not None and real else folder / "out"
        place.mkdir(exist_ok=True)
        output = place / file
        if not output.exists():
            assert ended(command(folder, name, output)) == 0
        before = output.read_bytes()
        arguments, limit = [*command(folder, name, output), "--seed", str(k + 1)], ""
        if real:
            room = shutil.disk_usage(place).free - int(0.9 * chance.random() * len(before))
            (place / "ballast").write_bytes(b"\0" * room)
        else:
            arguments, limit = [str(int(0.9 * chance.random() * len(before))), *arguments], LIMIT
        process = start(arguments, limit)
        said = process.communicate()[1].decode()
        assert process.returncode == 1 and "error[E306]: cannot write" in said, said
        assert output.read_bytes() == before and not list(place.glob(".lgm-*"))
        ends["a disk" if real else "a limit"] += 1
        (place / "ballast").unlink(missing_ok=True)
    print(f"\n{DISKS} full disks: {dict(ends)}; all refused (E306), all old files whole")
