"""`lgm` as a process: what it imports, pipes, colour, a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.processes import environment, python

HEAVY = {"lark", "numpy", "scipy", "xarray", "rich", "networkx", "numba", "h5py", "pandas"}


def lgm(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "lgmdsl", *arguments, env=environment(**more))


def shell(program: str, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, "-c", command], capture_output=True, text=True, timeout=120, env=environment()
    )


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["check", "m.lgm"],
        ["fmt", "--check", "m.lgm"],
        ["info", "m.lgm"],
        ["help", "E203"],
        ["fit", "--help"],
        ["compare", "--help"],
    ],
)
def test_light_commands_load_nothing_heavy(arguments: list[str], model: Path) -> None:
    script = (
        "import sys\nfrom lgmdsl.cli.main import main\n"
        f"status = main({arguments!r})\n"
        "print(status, *sorted(m for m in sys.modules if '.' not in m), file=sys.stderr)\n"
    )
    done = python("-c", script, cwd=model.parent)
    status, *loaded = done.stderr.splitlines()[-1].split()
    # Text is parsed by lark.
    heavy = HEAVY - {"lark"} if "m.lgm" in arguments else HEAVY
    assert status == "0" and not heavy & set(loaded)


def test_help_imports_no_command() -> None:
    script = (
        "import sys\nfrom lgmdsl.cli.main import main\nmain(['--help'])\n"
        "print(*(m for m in sys.modules if m.startswith('lgmdsl.')), file=sys.stderr)\n"
    )
    done = python("-c", script)
    assert "lgmdsl.cli.commands.fit" not in done.stderr.split()


@pytest.mark.thorough
def test_broken_pipe_is_quiet(model: Path) -> None:
    command = f'"{sys.executable}" -m lgmdsl graph "{model}" --to svg | head -c 10'
    done = shell("bash", f"set -o pipefail; {command}")
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("closed", "arguments", "status"),
    [
        (">&-", "methods", 0),
        ("2>&-", "check nowhere.lgm", 1),
        ("<&-", "methods", 0),
    ],
)
def test_closed_streams(closed: str, arguments: str, status: int) -> None:
    done = shell("sh", f'"{sys.executable}" -m lgmdsl {arguments} {closed}')
    assert done.returncode == status and "Traceback" not in done.stderr


def test_exit_status_of_the_process(model: Path) -> None:
    assert lgm("check", str(model)).returncode == 0
    assert lgm("check", "nowhere.lgm").returncode == 1
    assert lgm("chekc").returncode == 2


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_colour_on_terminals_only(tmp_path: Path) -> None:
    bad = tmp_path / "bad.lgm"
    bad.write_text("lgm 1\nindex a\nlatent u[a] = normal(sd = 1)\n")
    assert "\x1b[" not in lgm("check", str(bad)).stderr
    assert "\x1b[" in _on_terminal(["check", str(bad)])
    assert "\x1b[" not in _on_terminal(["check", str(bad)], NO_COLOR="1")


SLOW = """
import sys
from lgmdsl.cli import progress
from lgmdsl.inference.driver import TraceEntry
progress.PATIENCE = 0.0
with progress.Progress() as line:
    line.on_step(TraceEntry(7, -3.25, 0.5, 1.0))
    line.on_step(TraceEntry(8, -3.125, 0.1, 2.0))
print("rich" in sys.modules)
"""


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_progress_on_terminals_only() -> None:
    said = _python_on_terminal(["-c", SLOW])
    assert "step 8, objective -3.125" in said and "True" in said
    done = python("-c", SLOW)
    assert done.stdout == "False\n" and done.stderr == ""


def _on_terminal(arguments: list[str], **more: str) -> str:
    return _python_on_terminal(["-m", "lgmdsl", *arguments], **more)


def _python_on_terminal(arguments: list[str], **more: str) -> str:
    clean = {k: v for k, v in environment().items() if k not in ("NO_COLOR", "TERM")}
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, *arguments], stdin=theirs, stdout=theirs, stderr=theirs,
        env={**clean, "TERM": "xterm", **more},
    )  # fmt: skip
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        said += part
    process.wait(timeout=60)
    os.close(ours)
    return said.decode()


# Sends SIGINT to its own process when a module is looked for, or when the process is about to end.
INTERRUPTED_AT = """
import atexit, os, runpy, signal, sys
name = sys.argv.pop(1)

class Interrupts:
    def find_spec(self, wanted, path=None, target=None):
        if wanted == name:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

if name == "":
    atexit.register(os.kill, os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
runpy.run_module("lgmdsl", run_name="__main__", alter_sys=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to itself")
@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("lgmdsl.cli.main", []),
        ("click", ["--json"]),
        ("lgmdsl.errors", []),
        ("lgmdsl.cli.commands.check", []),
        ("numpy", []),
        ("scipy.sparse", ["--json"]),
        ("", []),
    ],
)
def test_interrupt_while_modules_are_imported(
    name: str, more: list[str], model: Path, data: Path
) -> None:
    done = python("-c", INTERRUPTED_AT, name, "check", str(model), str(data), *more)
    assert "Traceback" not in done.stderr
    if not name:  # the command is done: the signal alone ends the process
        assert done.returncode == -signal.SIGINT and not done.stderr
        return
    assert done.returncode == 130
    assert "interrupted before there was a result" in (done.stdout if more else done.stderr)
    assert not more or json.loads(done.stdout)["errors"][0]["code"] == "interrupted"


def test_installed_command_is_the_guarded_one(root: Path) -> None:
    scripts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert scripts["scripts"]["lgm"] == "lgmdsl.__main__:main"
