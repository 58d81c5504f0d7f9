"""Khan 2012, figures 4.13 to 4.15: EP against the variational Gaussian in
Gaussian-process classification, on the ionosphere data and on USPS threes and fives.

Of both posteriors both measures are taken, the ELBO and EP's approximation to the log evidence, and
the cross entropy of the test rows' labels in bits. One case a data set for the grid over log s and
log sd, one for the posteriors of figure 4.13.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.joint import row_covariance
from lgmdsl.contract.objectives.elbo import ElboPoint, elbo_at
from lgmdsl.inference.plan import plan
from lgmdsl_backends.ep.matching import Matched, matched, target_of
from tests.reproductions.courses import Classification
from tests.reproductions.record import COLOURS, figure, table

pytestmark = pytest.mark.reproduction
FOLDER = Path(__file__).parent
LOG_S = tuple(float(x) for x in range(-1, 6))
LOG_SD = tuple(float(x) for x in range(-1, 5))
METHODS = {"variational": "natural-gradient", "EP": "ep"}
MEASURES = ("minus ELBO", "minus EP evidence", "cross entropy (bits)")
SHOWN = ((-1.0, -1.0), (-1.0, 4.0))  # (log s, log sd) of figure 4.13
# (log s, log sd) where importance sampling tells the truth, k-hat below 0.7.
AUDITED = ((-1.0, -1.0), (1.0, 0.0), (3.0, 0.0), (5.0, 1.0))


@dataclass(frozen=True)
class Split:
    """Rows to learn from and rows to predict; the labels in the thesis's panels by measure."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    levels: tuple[tuple[float, ...], ...]

    def at(self, log_s: float, log_sd: float) -> Classification:
        return Classification(self.X, self.y, log_sd, log_s)


def ionosphere(shared: Path) -> Split:
    """200 of 351 rows, all standardised, as in `ionosphere_flops`."""
    data = np.load(shared / "data" / "ionosphere.npz")
    spread = data["X"].std(axis=0)
    X = (data["X"] - data["X"].mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    levels = ((70.0, 100.0, 130.0, 160.0), (65.0, 85.0, 105.0, 125.0), (0.3, 0.5, 0.7, 0.9))
    return _split(X, data["y"] > 0, 200, levels)


def usps(shared: Path) -> Split:
    """767 of 1,540 digits, pixels in [-1, 1]: a split of our own."""
    data = np.load(shared / "data" / "usps_3v5.npz")
    levels = (
        (100.0, 300.0, 500.0, 700.0),
        (100.0, 200.0, 300.0, 400.0),
        (0.1, 0.3, 0.5, 0.7, 0.9),
    )
    return _split(data["X"].astype(np.float64), data["y"] > 0, 767, levels)


def _split(X: Array, y: BoolArray, rows: int, levels: tuple[tuple[float, ...], ...]) -> Split:
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:rows], order[rows:]
    label = y.astype(np.float64)
    return Split(X[train], label[train], X[test], label[test], levels)


DATA: dict[str, Callable[[Path], Split]] = {"ionosphere": ionosphere, "usps": usps}


def fitted(given: Classification, method: str) -> Fit:
    fit = lgm.fit(lgm.loads(given.text), given.data, METHODS[method], tol=1e-8)
    assert fit.converged, (given.log_s, given.log_sd, method)
    return fit


def elbo_of(fit: Fit) -> float:
    """The ELBO at a fit's posterior, whatever found it."""
    point = elbo_at(plan(fit.canonical, "natural-gradient").at(fit.theta), fit.weight, fit.shift)
    assert isinstance(point, ElboPoint), point
    return point.elbo


def ep_evidence_of(fit: Fit) -> float:
    """EP's log evidence one step of EP after a fit's posterior, as the thesis takes it."""
    problem = plan(fit.canonical, "ep").at(fit.theta)
    at = matched(problem, np.concatenate(fit.weight), np.concatenate(fit.shift), 1.0)
    assert isinstance(at, Matched), at
    following = matched(problem, *target_of(at), 1.0)
    assert isinstance(following, Matched), following
    return following.value


def cross_entropy(fit: Fit, split: Split) -> float:
    """Of the test labels, in bits a row."""
    p = fit.predict({"X": split.X_test}).response("y")["probability"].to_numpy()[:, 1]
    return float(-np.mean(np.log2(np.where(split.y_test == 1.0, p, 1.0 - p))))


@pytest.mark.parametrize("name", DATA)
def test_grid(name: str, shared: Path) -> None:
    """Figures 4.14 and 4.15."""
    split = DATA[name](shared)
    rows: list[tuple[object, ...]] = []
    found = {m: np.empty((len(MEASURES), len(LOG_SD), len(LOG_S))) for m in METHODS}
    for j, log_s in enumerate(LOG_S):
        for i, log_sd in enumerate(LOG_SD):
            cells: list[float] = []
            for method in METHODS:
                fit = fitted(split.at(log_s, log_sd), method)
                measured = (-elbo_of(fit), -ep_evidence_of(fit), cross_entropy(fit, split))
                found[method][:, i, j] = measured
                cells += measured
            rows.append((log_s, log_sd, *cells))
    header = [f"{m}: {what}" for m in METHODS for what in MEASURES]
    table(FOLDER, ("log s", "log sd", *header), rows, name=name, digits=5)
    _contours(name, split, found)
    (bound, near, bits), (ep_bound, ep, ep_bits) = found["variational"], found["EP"]
    assert (bound <= ep_bound + 1e-5).all()  # the largest of all Gaussians' bounds
    assert (bound >= ep - 1e-5).all()  # so too the truth, to which EP comes close
    if name == "usps":  # at log s = -1 each row is on its own, and by symmetry worth log 2
        assert ep[:, 0] == pytest.approx(len(split.y) * np.log(2.0), abs=1e-4)
    assert near == pytest.approx(ep, rel=0.03) and bits == pytest.approx(ep_bits, abs=0.06)
    easy = np.s_[:2]  # log sd = -1 and 0
    assert found["variational"][:, easy] == pytest.approx(found["EP"][:, easy], rel=1e-3)


def _contours(name: str, split: Split, found: dict[str, Array]) -> None:
    with figure(FOLDER, 9.0, 5.2, name=name, dpi=100) as picture:
        axes = picture.subplots(len(METHODS), len(MEASURES), sharex=True, sharey=True)
        for line, (method, values) in zip(axes, found.items(), strict=True):
            for panel, what, z, levels in zip(line, MEASURES, values, split.levels, strict=True):
                lines = panel.contour(LOG_S, LOG_SD, z, levels=levels, cmap="viridis")
                for label in panel.clabel(lines, fmt="%g"):
                    label.set_clip_on(False)
                panel.set_title(f"{method}: {what}")
            line[0].set_ylabel("log sd")
        for panel in axes[-1]:
            panel.set_xlabel("log s")


def test_posteriors(shared: Path) -> None:
    """Figure 4.13, on the ionosphere data, and the evidence against importance sampling."""
    split = ionosphere(shared)
    rows: list[tuple[object, ...]] = []
    moments: dict[tuple[float, float], dict[str, tuple[Array, Array]]] = {}
    for log_s, log_sd in dict.fromkeys([*SHOWN, *AUDITED]):
        fits = {m: fitted(split.at(log_s, log_sd), m) for m in METHODS}
        at = moments[log_s, log_sd] = {m: _moments(fit) for m, fit in fits.items()}
        (mean, cov), (ep_mean, ep_cov) = at["variational"], at["EP"]
        sd = np.sqrt(np.diag(ep_cov))
        narrower, further = np.diag(cov) / np.diag(ep_cov), np.abs(mean) / np.abs(ep_mean)
        audit = fits["EP"].audit(4000)
        rows.append((
            log_s, log_sd,
            float(np.abs((mean - ep_mean) / sd).max()),
            float(np.median(further)), float(np.median(narrower)),
            -fits["variational"].log_evidence, -fits["EP"].log_evidence,
            -audit.log_evidence, audit.log_evidence_se, audit.k_hat,
        ))  # fmt: skip
        # The variational q shrinks and shifts from zero; where sd is small there is no difference.
        assert (narrower < 1.0 + 1e-6).all()
        if log_sd < 0.0:
            assert np.abs((mean - ep_mean) / sd).max() < 1e-4 and narrower.min() > 1.0 - 1e-4
        if log_sd > 3.0:
            assert (further > 1.0).all() and np.median(narrower) < 0.6
        if (log_s, log_sd) in AUDITED:
            truth, error = audit.log_evidence, 4.0 * audit.log_evidence_se
            assert audit.k_hat < 0.7
            assert fits["variational"].log_evidence <= truth + error
            assert abs(fits["EP"].log_evidence - truth) < max(error, 0.05)
    table(
        FOLDER,
        (
            *("log s", "log sd", "means apart, at most (EP sds)", "|mean| over EP's, median"),
            *("variance over EP's, median", "minus ELBO", "minus EP evidence"),
            *("minus log evidence, importance sampling", "its se", "its k-hat"),
        ),
        rows,
        name="posteriors",
    )
    _scatter(moments)


def _moments(fit: Fit) -> tuple[Array, Array]:
    """Mean and covariance of f at the rows."""
    linear = plan(fit.canonical, "ep").at(fit.theta).engine.linear
    q = fit.posterior.conditioned
    return np.concatenate(q.mean), row_covariance(q, linear)


def _scatter(moments: dict[tuple[float, float], dict[str, tuple[Array, Array]]]) -> None:
    with figure(FOLDER, 7.0, 6.0, name="posteriors", dpi=90) as picture:
        axes = picture.subplots(2, len(SHOWN))
        for (log_s, log_sd), (above, below) in zip(SHOWN, axes.T, strict=True):
            (mean, cov), (ep_mean, ep_cov) = moments[log_s, log_sd].values()
            off = np.triu_indices(len(mean), 1)
            look = {"markersize": 2.5, "linestyle": ""}
            above.plot(ep_mean, mean, "o", color=COLOURS[0], **look)
            entries = (
                ("off the diagonal", "o", off),
                ("diagonal", "s", np.diag_indices(len(mean))),
            )
            for colour, (label, marker, at) in zip(COLOURS[1::-1], entries, strict=True):
                below.plot(ep_cov[at], cov[at], marker, color=colour, label=label, **look)
            above.set_title(f"mean, log s = {log_s:g}, log sd = {log_sd:g}")
            below.set_title("covariance")
            below.legend()
            for panel in (above, below):
                panel.axline((0.0, 0.0), slope=1.0, color="grey", linewidth=0.8, dashes=(3, 3))
                panel.set(xlabel="EP", ylabel="variational")
