"""Modules that the process of `lgm` runs when first used."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from tests.processes import python


def run(script: str, *arguments: str) -> str:
    done = python("-c", textwrap.dedent(script), *arguments, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


SLOW = {
    "numpy.f2py.crackfortran",
    "numpy.testing._private.utils",
    "scipy.special._ufuncs",
    "lgmdsl.engines.choose",
    "lgmdsl.bounds.catalogue",
    "lgmdsl_backends.catalogue",
}


@pytest.mark.thorough
def test_check_with_data_runs_none_of_them(root: Path) -> None:
    example = root / "models" / "linear_regression"
    script = """
        import sys
        from lgmdsl.cli.main import main
        assert main(sys.argv[1:]) == 0
        print(*sys.modules)
    """
    loaded = run(script, "check", str(example / "model.lgm"), str(example / "data.npz"))
    assert "lgmdsl.canonical.model" in loaded.split()
    assert not SLOW & set(loaded.split())


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "use",
    [
        "from scipy import special; value = special.gammaln(3.0)",
        "from scipy.special import gammaln; value = gammaln(3.0)",
        "import scipy.special; value = scipy.special.gammaln(3.0)",
        "import scipy.special._ufuncs; value = scipy.special._ufuncs.gammaln(3.0)",
        "import scipy.stats; value = scipy.special.gammaln(3.0)",
    ],
)
def test_a_deferred_module_is_whole_when_it_is_used(use: str) -> None:
    script = f"""
        from lgmdsl.cli.deferred_imports import defer
        defer()
        {use}
        import sys, types
        import scipy.special
        assert type(sys.modules["scipy.special"]) is types.ModuleType
        assert scipy.special.__file__ and scipy.special.__name__ == "scipy.special"
        print(float(value))
    """
    assert abs(float(run(script)) - 0.6931471805599453) < 1e-15


def test_threads_that_come_at_once_all_see_it_whole() -> None:
    script = """
        import sys, threading
        from lgmdsl.cli.deferred_imports import defer
        defer()
        sys.setswitchinterval(1e-6)
        from scipy import special
        gate, wrong, right = threading.Barrier(8), [], []
        def use():
            gate.wait()
            try:
                right.append(float(special.zeta(2.0) + special.owens_t(0.0, 1.0)))
            except Exception as error:
                wrong.append(error)
        threads = [threading.Thread(target=use) for _ in range(8)]
        [t.start() for t in threads]; [t.join() for t in threads]
        assert not wrong, wrong
        print(len(right), len(set(right)))
    """
    assert run(script).split() == ["8", "1"]


def test_a_module_that_fails_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "frail.py").write_text(
        "import os\nif 'WELL' not in os.environ: raise RuntimeError('not yet')\nvalue = 3\n"
    )
    script = """
        import os, sys
        from lgmdsl.cli import deferred_imports as deferred
        deferred.DEFERRED = frozenset({"frail"})
        deferred.defer()
        sys.path.insert(0, sys.argv[1])
        import frail
        try:
            frail.value
        except RuntimeError as error:
            print(error)
        os.environ["WELL"] = "1"
        print(frail.value)
    """
    assert run(script, str(tmp_path)).split("\n")[:2] == ["not yet", "3"]


@pytest.mark.thorough
def test_importing_the_library_defers_nothing() -> None:
    script = """
        import sys
        import lgmdsl, lgmdsl.api.fit.fitting
        print([type(f).__name__ for f in sys.meta_path])
    """
    assert "DeferringFinder" not in run(script)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders here")
@pytest.mark.parametrize("command", ["fit", "check", "explain"])
def test_a_pipe_is_refused_before_anything_is_loaded(
    root: Path, tmp_path: Path, command: str
) -> None:
    os.mkfifo(tmp_path / "d.csv")
    script = """
        import sys
        from lgmdsl.cli.main import main
        assert main(sys.argv[1:]) == 1
        print(*sys.modules)
    """
    model = root / "models" / "linear_regression" / "model.lgm"
    loaded = run(script, command, str(model), str(tmp_path / "d.csv")).split()
    assert not {"lgmdsl.api.fit.fitting", "lgmdsl.canonical.model", "scipy.sparse"} & {*loaded}
