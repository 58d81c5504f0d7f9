"""Models whose hyperparameters are learned: factor analyses, graphical models, items of a test."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.cli.main import main

from .data import Data
from .learned import LEARNED, LOADERS, learned_text


def case(name: str, shared: Path) -> tuple[lgm.Model, Data]:
    text = learned_text(name)
    data = LOADERS[name](shared / "data")
    return lgm.loads(text), {k: v for k, v in data.items() if k != "W" or "data W" in text}


def test_every_model_has_data() -> None:
    assert set(LOADERS) == {p.stem for p in LEARNED.glob("*.lgm")}


@pytest.mark.parametrize("name", LOADERS)
def test_it_checks_with_its_data(
    name: str, shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "data.npz", **case(name, shared)[1])  # type: ignore[arg-type]
    status = main(["check", str(LEARNED / f"{name}.lgm"), str(tmp_path / "data.npz")])
    told = capsys.readouterr()
    assert not status and "ok" in told.out, told.out + told.err


# Marginal maximum likelihood by quadrature, as R's ltm prints it for these data (Rizopoulos 2006):
# log likelihood, easiness, discrimination.
PUBLISHED = {
    "lsat_1pl": (-2466.938, (2.730, 0.999, 0.240, 1.306, 2.099), (0.755,)),
    "lsat_2pl": (
        -2466.653,
        (2.773, 0.990, 0.249, 1.285, 2.053),
        (0.825, 0.723, 0.891, 0.688, 0.657),
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", PUBLISHED)
def test_items_of_the_law_schools_test(name: str, shared: Path) -> None:
    """Exactly the published maximum but for the bound, which is 0.0005 nats a student below."""
    log_likelihood, easiness, discrimination = PUBLISHED[name]
    fit = lgm.fit(*case(name, shared), hyper="em")
    assert fit.converged
    assert log_likelihood - 0.6 < fit.log_evidence < log_likelihood
    np.testing.assert_allclose(fit.theta["c"], easiness, atol=0.015)
    np.testing.assert_allclose(np.ravel(fit.theta["a"]), discrimination, atol=0.025)
    assert exact(fit.theta, case(name, shared)[1]["y"]) > log_likelihood - 0.02


def exact(theta: object, y: Array) -> float:
    """The log likelihood at our estimates, by quadrature."""
    values = dict(theta)  # type: ignore[call-overload]
    x, w = np.polynomial.hermite_e.hermegauss(61)
    eta = values["c"] + np.ravel(values["a"]) * x[:, None]
    inside = (y[:, None] * eta - np.logaddexp(0.0, eta)).sum(axis=2)
    return float(np.log(np.exp(inside) @ (w / w.sum())).sum())


@pytest.mark.thorough
def test_principal_components_are_the_closed_form(shared: Path) -> None:
    """Tipping and Bishop (1999), of the members whose every vote is known."""
    model, data = case("votes_ppca", shared)
    y = data["y"][~np.isnan(data["y"]).any(axis=1)]
    fit = lgm.fit(model, {"y": y}, hyper="em")
    values = np.linalg.eigvalsh(np.cov(y.T, bias=True))[::-1]
    noise = values[2:].mean()
    d, n = len(values), len(y)
    log_det = np.log(values[:2]).sum() + (d - 2) * np.log(noise)
    assert fit.log_evidence == pytest.approx(
        -0.5 * n * (d * np.log(2 * np.pi) + log_det + d), abs=1e-4
    )
    assert float(fit.theta["s"]) ** 2 == pytest.approx(noise, rel=1e-3)
    squares = (fit.theta["L"] ** 2).sum(axis=0)
    np.testing.assert_allclose(squares, values[:2] - noise, rtol=2e-3)


@pytest.mark.thorough
@pytest.mark.slow
def test_factors_of_votes_know_the_party_and_missing_votes(shared: Path) -> None:
    model, data = case("votes_factors", shared)
    rng = np.random.default_rng(0)
    hidden = (rng.random(data["y"].shape) < 0.1) & ~np.isnan(data["y"])
    given = np.where(hidden, np.nan, data["y"])
    fit = lgm.fit(model, {"y": given}, hyper="em", bound="jaakkola")
    assert fit.converged
    with np.load(shared / "data" / "house_votes_84.npz") as d:
        party = d["y"].astype(float)
    known = np.corrcoef(fit.mean("z").values[:, 0], party)[0, 1]
    assert abs(known) > 0.7

    def loss(p: Array) -> float:
        y = data["y"][hidden]
        return -float(np.mean(y * np.log(p[hidden]) + (1 - y) * np.log1p(-p[hidden])))

    share = np.broadcast_to(np.nanmean(given, axis=0), given.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lgm.PredictionWarning)  # an sd of 6,960 by draws
        found = fit.impute()["y"].values
    assert loss(np.clip(found, 1e-6, 1 - 1e-6)) < 0.6 * loss(share)


@pytest.mark.thorough
@pytest.mark.slow
def test_edges_of_segments_and_none_of_coins(shared: Path) -> None:
    """Seven segments and five coin tosses: every coin is on its own, segments are joined."""
    model, data = case("led_sparse", shared)
    fit = lgm.fit(model, {"y": data["y"][:, :12]}, hyper="em", bound="jaakkola")
    assert fit.converged
    edges = fit.precision("S").values != 0.0
    np.fill_diagonal(edges, False)
    assert edges[:7, :7].sum() >= 8
    assert edges[7:].sum() <= 2


@pytest.mark.thorough
@pytest.mark.slow
def test_mixed_columns_are_fitted_and_imputed(shared: Path) -> None:
    """Numbers, a count, a binary, ordered classes and a category: each is missing once in ten, and
    told better by the factors than by its own frequencies."""
    model, data = case("auto_mixed", shared)
    rng = np.random.default_rng(1)
    rows = rng.permutation(392)[:150]
    given, hidden = {}, {}
    for name, values in data.items():
        part = np.array(values[rows])
        hidden[name] = rng.random(part.shape) < 0.1
        if part.dtype.kind == "U":
            given[name] = np.where(hidden[name], "", part)
        else:
            given[name] = np.where(hidden[name], np.nan, part)
    fit = lgm.fit(model, given, hyper="em")
    assert fit.converged
    filled = fit.impute()
    for name in ("x", "k"):
        truth, own = data[name][rows][hidden[name]], np.nanmean(given[name], axis=0)
        error = filled[name].values[hidden[name]] - truth
        base = np.broadcast_to(own, hidden[name].shape)[hidden[name]] - truth
        assert (error**2).mean() < 0.6 * (base**2).mean()
    p = filled["b"].values[hidden["b"]]
    assert ((p > 0.5) == (data["b"][rows][hidden["b"]] > 0.5)).mean() > 0.6
    for name in ("a", "o"):
        found = filled[name]
        assert found.sizes["car"] == 150 and found.shape[-1] == 3
        np.testing.assert_allclose(found.values[hidden[name]].sum(axis=-1), 1.0, atol=1e-6)
    classes = filled["o"]["origin"].values[filled["o"].values[hidden["o"]].argmax(axis=-1)]
    truth = data["o"][rows][hidden["o"]]
    assert (classes == truth).mean() >= (truth == "America").mean()


@pytest.mark.thorough
@pytest.mark.slow
def test_endgames_tell_who_has_won(shared: Path) -> None:
    """A fit of 250 boards knows the result of others better than its frequency does."""
    model, data = case("tic_tac_toe", shared)
    rows = np.random.default_rng(0).permutation(958)[:250]
    win = data["win"][rows].astype(float)
    given = {**data, "y": data["y"][rows], "win": win.copy()}
    given["win"][200:] = np.nan
    fit = lgm.fit(model, given, hyper="em", bound="bohning", tol=1e-5)
    assert fit.converged
    p = np.clip(fit.impute()["win"].values[200:, 0], 1e-6, 1 - 1e-6)
    truth, share = win[200:, 0], win[:200].mean()
    loss = -np.mean(truth * np.log(p) + (1 - truth) * np.log1p(-p))
    base = -np.mean(truth * np.log(share) + (1 - truth) * np.log1p(-share))
    assert loss < base
