"""Pickles and copies of public results: nothing is lost, and no digit is another one."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.api.predict.predict import Prediction
from lgmdsl.language.tree.ast import MAX_CHAIN
from lgmdsl.sites import catalogue
from tests.stored_fits.cases import CASES


@cache
def fitted(name: str) -> Fit:
    case = CASES[name]
    return lgm.fit(lgm.loads(case.text), case.data(), **case.arguments)


@cache
def predicted(name: str) -> Prediction:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lgm.PredictionWarning)
        return fitted(name).predict(CASES[name].new())


def of_fit(fit: Fit) -> Iterator[tuple[str, Any]]:
    """What a fit answers, as plain values."""
    for name in fit.names:
        yield f"mean {name}", fit.mean(name).values
        yield f"sd {name}", fit.sd(name).values
        yield f"quantile {name}", fit.quantile(name, [0.05, 0.5, 0.95]).values
    for name_, draws in fit.sample(7, seed=5).items():
        yield f"draws {name_}", draws.values
    yield "page", fit.summary()
    yield "repr", repr(fit)
    yield "warnings", [str(w.render()) for w in fit.warnings]
    yield "accuracy", repr(fit.accuracy)
    yield "text", fit.model.to_lgm()


def of_data(fit: Fit) -> Iterator[tuple[str, Any]]:
    """What takes the responses, which a result file lacks and a pickle does not."""
    yield "waic", str(fit.waic())
    for name, values in fit.impute().items():
        yield f"imputed {name}", values.values
    yield "replicated", fit.sample_predictive(3, seed=2)


def of_prediction(prediction: Prediction) -> Iterator[tuple[str, Any]]:
    for name, values in prediction.to_dataset().items():
        yield str(name), values.values
    for name, values in prediction.sample(4, seed=9).items():
        yield f"draws {name}", values.values
    yield "repr", repr(prediction)
    yield "warnings", prediction.warnings


def identical(a: Any, b: Any, tolerance: float = 0.0) -> None:
    first, second = dict(a), dict(b)
    assert list(first) == list(second)
    for name, value in first.items():
        if tolerance and isinstance(value, np.ndarray):
            scale = np.abs(value).max()
            np.testing.assert_allclose(value, second[name], atol=tolerance * scale, err_msg=name)
        elif isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, second[name], err_msg=name)
        elif hasattr(value, "identical"):
            assert value.identical(second[name]), name
        else:
            assert value == second[name], name


def answers(pickled: bytes) -> dict[str, Any]:
    """What a fit and its prediction answer in another process."""
    fit, prediction = pickle.loads(pickled)
    return {**dict(of_fit(fit)), **{f"new {k}": v for k, v in of_prediction(prediction)}}


@pytest.mark.filterwarnings("ignore:warning.W611")  # sds that are off, which is said
@pytest.mark.few(3)
@pytest.mark.parametrize("name", CASES)
def test_a_fit_and_its_prediction_come_back_with_every_digit(name: str) -> None:
    fit = fitted(name)
    prediction = predicted(name if CASES[name].new() else "fixed")
    pickled = pickle.dumps((fit, prediction))
    again, new = pickle.loads(pickled)
    assert again is not fit
    # Solutions of the iterative engine are warm in the fit, which the pickle's are not.
    tolerance = 1e-8 if name == "iterative" else 0.0
    identical(of_fit(again), of_fit(fit), tolerance)
    identical(of_prediction(new), of_prediction(prediction), tolerance)
    # What was computed since is no part of the pickle.
    assert len(pickle.dumps((fit, prediction))) == len(pickled)


@pytest.mark.parametrize("name", ["integrated", "drawn"])
def test_a_pickle_holds_the_responses(name: str) -> None:
    fit = fitted(name)
    identical(of_data(pickle.loads(pickle.dumps(fit))), of_data(fit))


@pytest.mark.thorough
def test_copies_are_fits_of_their_own() -> None:
    fit = fitted("integrated")
    for made in (copy.copy(fit), copy.deepcopy(fit)):
        identical(of_fit(made), of_fit(fit))
    deep = copy.deepcopy(fit)
    assert not np.shares_memory(deep.weight[0], fit.weight[0])


@pytest.mark.thorough
def test_another_process_has_the_same_digits() -> None:
    """A spawned one, which knows nothing but the pickle."""
    names = ["integrated", "drawn", "sparse"]
    pickles = [pickle.dumps((fitted(n), predicted(n))) for n in names]
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        found = list(pool.map(answers, pickles))
    for name, values in zip(names, found, strict=True):
        here = {**dict(of_fit(fitted(name)))}
        here |= {f"new {k}": v for k, v in of_prediction(predicted(name))}
        identical(values, here)


def test_a_fit_read_from_a_file_is_pickled_too(tmp_path: Path) -> None:
    fitted("integrated").save(tmp_path / "f.nc")
    fit = lgm.load_fit(tmp_path / "f.nc")
    again = pickle.loads(pickle.dumps(fit))
    identical(of_fit(again), of_fit(fit))
    again.save(tmp_path / "again.nc")
    identical(of_fit(lgm.load_fit(tmp_path / "again.nc")), of_fit(fit))
    with pytest.raises(lgm.DataError, match="E305"):  # it never had the responses
        again.waic()


THREADS = """
import pickle
import numpy as np
import lgmdsl as lgm
model = lgm.loads("lgm 1\\nindex t\\ndata when[t] : real\\ndata y[t] : real\\n"
    "latent f[t] ~ gp(at = when, kernel = se(sd = 1, length = 3))\\n"
    "observe y ~ normal(mean = f, sd = 0.5)\\n")
when = np.linspace(0.0, 30.0, 150)
fit = lgm.fit(model, {"when": when, "y": np.sin(when)})
again = pickle.loads(pickle.dumps(fit))
print(np.array_equal(again.mean("f"), fit.mean("f")), np.array_equal(again.sd("f"), fit.sd("f")))
"""


@pytest.mark.thorough
def test_threads_of_blas_do_not_change_what_comes_back() -> None:
    """A fit conditions on one thread; so do its pickles, whatever the process takes."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    command = [sys.executable, "-c", THREADS]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["True", "True"]


class TestModels:
    TEXT = CASES["integrated"].text

    @pytest.mark.parametrize("how", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy])
    def test_a_model_comes_back_as_its_text(self, how: Any) -> None:
        model = lgm.loads("# counts\n" + self.TEXT, "counts.lgm")
        again = how(model)
        assert again == model and again.to_lgm() == model.to_lgm()
        assert again.checked.source == model.checked.source

    def test_a_model_that_is_not_finished(self) -> None:
        model = lgm.Model()
        model.index("obs")
        again = pickle.loads(pickle.dumps(model))
        assert again == model
        again.data("y", ["obs"], "real")
        assert again != model and len(again.tree.statements) == 2

    def test_a_model_that_grew_since_it_was_read(self) -> None:
        model = lgm.loads(self.TEXT)
        model.report("twice", [], 2 * model.report("once", [], 1.0))
        assert pickle.loads(pickle.dumps(model)) == model

    @pytest.mark.thorough
    def test_long_rows_of_operators(self) -> None:
        """Trees as deep as the language allows: pickle recurses, a text does not."""
        row = " + ".join(["x"] * MAX_CHAIN)
        lets = "\n".join(f"let e{k}[obs] = e{k - 1} + {row}" for k in range(1, 6))
        text = (
            "lgm 1\nindex obs\ndata x[obs] : real\ndata y[obs] : real\nlatent b ~ normal(sd = 1)\n"
            f"let e0[obs] = b * x\n{lets}\nobserve y ~ normal(mean = e5, sd = 1)\n"
        )
        fit = lgm.fit(lgm.loads(text), {"x": [0.0, 1.0], "y": [1.0, 2.0]})
        identical(of_fit(pickle.loads(pickle.dumps(fit))), of_fit(fit))
        identical(of_fit(copy.deepcopy(fit)), of_fit(fit))


@pytest.mark.thorough
def test_other_public_results() -> None:
    fit, case = fitted("integrated"), CASES["integrated"]
    model = fit.model
    results = [
        fit.audit(n=200),
        fit.loo(),
        fit.waic(),
        fit.dic(),
        fit.pit(),
        fit.convergence(),
        fit.impute(),
        fit["u"],
        lgm.compare(model, case.data(), ["laplace", "ep"]),
        lgm.calibrate(model, sizes={"obs": 12, "subject": 3}, runs=2, method="laplace"),
        lgm.explain(model, case.data()),
        lgm.methods(model),
    ]
    for result in results:
        for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
            assert type(again) is type(result)
            assert str(again) == str(result) and repr(again) == repr(result)


def test_errors_and_their_warnings() -> None:
    with pytest.raises(lgm.ModelError) as caught:
        lgm.loads("lgm 1\nlatent u ~ nrmal(sd = 1)\n")
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.diagnostics == caught.value.diagnostics and str(again) == str(caught.value)


@pytest.mark.parametrize("size", [30, 3000])
def test_texts_of_results_are_short(size: int) -> None:
    text = CASES["integrated"].text
    rng = np.random.default_rng(0)
    who = np.array([f"person {k}" for k in range(size // 3)])[np.arange(size) % (size // 3)]
    data = {"y": rng.poisson(2, size), "x": rng.normal(size=size), "time": np.ones(size)}
    fit = lgm.fit(lgm.loads(text), data | {"who": who}, fixed={"s": 0.5}, method="laplace")
    prediction = fit.predict({"x": np.zeros(size), "time": np.ones(size), "who": who})
    comparison = lgm.compare(
        fit.model, data | {"who": who}, ["laplace"], fixed={"s": 0.5}, hyper="fixed"
    )
    for result in (
        fit, fit.model, prediction, comparison, fit.audit(n=100), fit.loo(), fit.waic(), fit.dic(),
        fit.pit(), fit.impute(), lgm.explain(fit.model), lgm.methods(fit.model),
    ):  # fmt: skip
        assert 0 < len(repr(result)) < 500, repr(result)[:1000]
        assert "\n" not in repr(result)


def test_names_and_entries() -> None:
    fit = fitted("integrated")
    assert fit.names == ("b", "u", "eta", "rate", "s") == tuple(fit)
    assert "u" in fit and "v" not in fit
    assert fit._ipython_key_completions_() == list(fit.names)
    entry = fit["u"]
    assert entry["mean"].identical(fit.mean("u").rename("mean"))
    assert entry["sd"].dims == ("subject",) and entry["quantiles"].dims == ("quantile", "subject")
    np.testing.assert_allclose(
        entry["quantiles"].sel(quantile=0.5), fit.quantile("u", [0.5]).values[0]
    )
    with pytest.raises(lgm.ModelError, match="E103"):
        fit["v"]


def test_parts_of_the_registry_are_the_same_objects() -> None:
    """Classes of sites are pickled by name."""
    buffer = io.BytesIO()
    pickle.dump(fitted("integrated").canonical.blocks[0].family, buffer)
    assert pickle.loads(buffer.getvalue()) is catalogue.find_site("poisson.log_rate")


@pytest.mark.thorough
def test_fits_are_equal_where_they_answer_alike() -> None:
    fit, case = fitted("integrated"), CASES["integrated"]
    same = lgm.fit(lgm.loads(case.text), case.data(), **case.arguments)
    assert same is not fit and same == fit and hash(same) == hash(fit)
    assert pickle.loads(pickle.dumps(fit)) == fit
    other = case.data() | {"x": case.data()["x"] + 1e-9}
    assert lgm.fit(lgm.loads(case.text), other, **case.arguments) != fit
    assert fitted("fixed") != fit and fit != "fit"
