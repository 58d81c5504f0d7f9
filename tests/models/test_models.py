"""Every model that ships: its data, its stored results, and an independent computation of them."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm

from .dense import computed
from .independent import CASES

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.parent.name for path in (ROOT / "models").glob("*/model.lgm"))


def program(path: Path) -> dict[str, Any]:
    """The names that a program of the models' folder defines."""
    return runpy.run_path(str(path), run_name=path.stem)


@pytest.fixture(scope="module")
def fits() -> dict[str, lgm.Fit]:
    """Fits made so far, so that each model is fitted once."""
    return {}


def fitted(name: str, fits: dict[str, lgm.Fit]) -> lgm.Fit:
    if name not in fits:
        fits[name] = program(ROOT / "models" / "update_expected.py")["fit"](name)
    return fits[name]


def test_there_are_enough_models_and_each_has_a_case() -> None:
    assert len(NAMES) >= 7
    assert set(NAMES) == set(CASES)
    table = (ROOT / "models" / "README.md").read_text()
    for name in NAMES:
        assert f"`{name}`" in table
        assert (ROOT / "models" / name / "README.md").is_file()


@pytest.mark.few(10)
@pytest.mark.parametrize("name", NAMES)
def test_generator_makes_the_data(name: str) -> None:
    made: dict[str, Any] = program(ROOT / "models" / name / "make_data.py")["make"]()
    with np.load(ROOT / "models" / name / "data.npz", allow_pickle=False) as stored:
        assert set(stored.files) == set(made)
        for key in stored.files:
            given = np.asarray(made[key])
            if given.dtype.kind in "US":
                assert np.array_equal(stored[key], given)
            elif given.dtype.kind == "i":  # draws next to a limit fall by the processor's rounding
                assert np.abs(stored[key] - given).max() <= 1
                assert np.mean(stored[key] != given) <= 1e-3
            else:
                np.testing.assert_allclose(stored[key], given, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", NAMES)
def test_fit_equals_the_stored_results(name: str, fits: dict[str, lgm.Fit]) -> None:
    fit = fitted(name, fits)
    expected = json.loads((ROOT / "models" / name / "expected.json").read_text())
    assert fit.converged
    assert fit.log_evidence == pytest.approx(expected["log_evidence"], rel=1e-6, abs=1e-6)
    for what in ("mean", "sd"):
        assert expected[what]
        for key, values in expected[what].items():
            found = np.ravel(getattr(fit, what)(key))[: len(values)]
            np.testing.assert_allclose(found, values, rtol=1e-6, atol=1e-6, err_msg=f"{what} {key}")


@pytest.mark.few(3)
@pytest.mark.parametrize("name", NAMES)
def test_fit_equals_an_independent_computation(name: str, fits: dict[str, lgm.Fit]) -> None:
    fit = fitted(name, fits)
    with np.load(ROOT / "models" / name / "data.npz", allow_pickle=False) as data:
        case = CASES[name](dict(data))
    answer = computed(case)
    assert fit.log_evidence == pytest.approx(answer.log_evidence, rel=2e-6, abs=2e-6)
    start = 0
    for latent, size in case.latents:
        mean, sd = np.ravel(fit.mean(latent)), np.ravel(fit.sd(latent))
        part = slice(start, start + size)
        np.testing.assert_allclose(mean, answer.mean[part], atol=2e-5, err_msg=latent)
        np.testing.assert_allclose(sd, answer.sd[part], rtol=2e-5, atol=2e-6, err_msg=latent)
        start += size
    assert start == answer.mean.size
