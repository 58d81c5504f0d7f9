"""Plug-ins that cannot be used are left out with a warning; models without them do not notice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.conftest import SOURCE, environment

pytestmark = pytest.mark.slow
MODEL = """\
lgm 1
hyper s : positive ~ {prior}
latent m ~ normal(sd = s)
index obs
data y[obs] : real
let eta[obs] = m
observe y ~ normal(mean = eta, sd = 1)
"""
PRIOR = """
from dataclasses import dataclass
from typing import ClassVar
from acme_lgm import Lomax
from lgmdsl.extend import Signature

class {name}(Lomax):
    name: ClassVar[str] = "{word}"
    signature: ClassVar[Signature] = Signature(
        "{word}", "prior", Lomax.signature.parameters, observed=("positive",))
"""


def distribution(folder: Path, name: str, points: str, code: str) -> None:
    """An installed distribution `name` 0.3 of one module, by hand."""
    module = name.replace("-", "_")
    (folder / f"{module}.py").write_text(code)
    info = folder / f"{module}-0.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.3\n")
    (info / "entry_points.txt").write_text(points)


def check(folder: Path, prior: str) -> tuple[int, str]:
    """Exit status and messages of `lgm check` on a model with a prior."""
    (folder / "m.lgm").write_text(MODEL.format(prior=prior))
    done = subprocess.run(
        [sys.executable, "-m", "lgmdsl", "check", "m.lgm"],
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment(folder, SOURCE),
        timeout=120,
    )
    return done.returncode, done.stderr


BROKEN = {
    "raises": ("raise RuntimeError('no licence')\n", "RuntimeError: no licence"),
    "exits": ("raise SystemExit(3)\n", "SystemExit: 3"),
    "lacks": ("\n", "AttributeError"),
    "wrong": ("Broken = 3\n", "a part is a subclass of Site"),
    "other": ("from acme_lgm import Cosine as Broken\n", "a kernel, whose group is lgmdsl.kernels"),
    "taken": (PRIOR.format(name="Broken", word="gamma"), "called `gamma` exists already"),
    "undeclared": (
        "from acme_lgm import Lomax\nclass Broken(Lomax):\n    name = 'mine'\n",
        "its signature is of `lomax`, and the part is called `mine`",
    ),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_plug_in_is_left_out(tmp_path: Path, kind: str) -> None:
    code, reason = BROKEN[kind]
    distribution(tmp_path, "bad-parts", "[lgmdsl.priors]\nbroken = bad_parts:Broken\n", code)
    assert check(tmp_path, "gamma(shape = 2, rate = 1)") == (0, "")
    status, said = check(tmp_path, "broken(shape = 3)")
    assert status == 1
    assert "warning[W106]: the entry point `broken` (lgmdsl.priors) of bad-parts 0.3" in said
    assert reason in said and "uninstall bad-parts" in said
    assert "error[E103]: unknown hyperprior `broken`" in said
    assert "of bad-parts 0.3 is left out" in said.split("error[E103]")[1]
    assert "Traceback" not in said and "registry.py" not in said


@pytest.mark.thorough
def test_two_plug_ins_that_clash_are_both_left_out(tmp_path: Path) -> None:
    """Neither of two meanings of a word is taken in silence; what is no clash stays."""
    for name in ("first", "second"):
        code = PRIOR.format(name="Mine", word="mine") + PRIOR.format(name="Own", word=name)
        points = f"[lgmdsl.priors]\nmine = {name}:Mine\nown = {name}:Own\n"
        distribution(tmp_path, name, points, code)
    status, said = check(tmp_path, "mine(shape = 3)")
    assert status == 1 and said.count("warning[W106]") == 2
    assert "`mine` is declared by second 0.3 as well" in said
    assert "`mine` is declared by first 0.3 as well" in said
    status, said = check(tmp_path, "second(shape = 3)")
    assert status == 0 and "error" not in said


def test_a_plug_in_that_reads_a_model_while_it_is_imported(tmp_path: Path) -> None:
    code = "import lgmdsl as lgm\nlgm.loads('lgm 1\\nlatent m ~ normal(sd = 1)\\n')\n"
    try_word = "try:\n    lgm.nothing\nexcept AttributeError:\n    pass\n"
    code += try_word + PRIOR.format(name="Own", word="own")
    distribution(tmp_path, "eager", "[lgmdsl.priors]\nown = eager:Own\n", code)
    assert check(tmp_path, "own(shape = 3)")[0] == 0
