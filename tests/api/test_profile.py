"""fit.profile against closed forms and R's lme4."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import lgmdsl as lgm
from lgmdsl.api.solve.again import maximised_objective
from lgmdsl.arrays import Array
from lgmdsl.learning.profile import Profile, Reached
from tests.api import mixed_models as mixed

SAMPLE = """lgm 1
index obs
data y[obs] : real
hyper a     : real ~ flat
hyper noise : positive ~ flat
observe y ~ normal(mean = a, sd = noise)
"""
THREE = """lgm 1
index obs
index g
index term = {"one", "x", "z"}
data y[obs] : real
data x[obs] : real
data z[obs] : real
data in[obs] : g
hyper S[term, term] : covariance ~ flat
hyper noise         : positive ~ flat
latent d[g, term] ~ iid * dense(cov = S)
observe y ~ normal(mean = d[in, "one"] + d[in, "x"] * x + d[in, "z"] * z, sd = noise)
"""
# R 4.2.2, lme4 1.1-31: confint(fit, method = "profile", oldNames = FALSE) of
# fit <- lmer(y ~ x + (x | who), d, REML = FALSE), and with level = 0.8
SLOPES = {
    "a": (239.0402289353, 267.039424272),
    "b": (6.2076908068, 11.844975393),
    "sd(S[level])": (18.6468137013, 40.023071206),
    "correlation(S[level, slope])": (0.1370675579, 1.0),
    "sd(S[slope])": (3.1522703351, 7.776508631),
    "noise": (12.5679397415, 17.157047581),
}
SLOPES_80 = {
    "a": (244.138704730, 261.8867562301),
    "b": (7.229935891, 10.8054629918),
    "sd(S[level])": (21.076184607, 34.5544308334),
    "correlation(S[level, slope])": (0.353692719, 0.9494920042),
    "sd(S[slope])": (3.730665904, 6.6418448007),
    "noise": (13.205391678, 16.1813237664),
}
# fit <- lmer(y ~ x + (1 | on) + (1 | of), d, REML = FALSE)
CROSSED = {
    "a": (18.74561645449, 22.2717968715),
    "b": (-0.07580807825, 0.5651185873),
    "s": (0.56686676480, 2.2176698042),
    "t": (0.65853182181, 3.1069158014),
    "noise": (0.46624721173, 0.9664252532),
}
# fit <- glmer(cbind(y, size - y) ~ x + (1 | in), d, family = binomial)
HERDS = {
    "a": (-1.2677079115, -0.2076983529),
    "b": (-0.6713749638, -0.2349483865),
    "s": (0.2759811286, 1.1025837159),
}


def numbers(frame: pd.DataFrame, term: str) -> list[float]:
    """Estimate, lower and upper end of a term."""
    row = frame[frame["term"] == term].iloc[0]
    return [float(row[name]) for name in ("estimate", "lower", "upper")]


@pytest.mark.parametrize(
    ("text", "data", "level", "wanted"),
    [
        (mixed.SLOPES, mixed.slopes(), 0.95, SLOPES),
        (mixed.SLOPES, mixed.slopes(), 0.8, SLOPES_80),
        (mixed.CROSSED, mixed.crossed(), 0.95, CROSSED),
        (mixed.HERDS, mixed.herds(), 0.95, HERDS),
    ],
)
def test_the_intervals_are_those_of_lme4(
    text: str, data: dict[str, Array], level: float, wanted: dict[str, tuple[float, float]]
) -> None:
    fit = lgm.fit(lgm.loads(text), data, method="laplace", hyper="map")
    frame = fit.profile(level=level).set_index("term")
    assert {*frame.index} == {*wanted}
    for term, (lower, upper) in wanted.items():
        tolerance = 1e-3 * (upper - lower)
        assert frame.lower[term] == pytest.approx(lower, abs=tolerance)
        assert frame.upper[term] == pytest.approx(upper, abs=tolerance)
        assert frame.note[term] == ("upper: 1 is the end of its range" if upper == 1.0 else "")


def test_closed_forms_of_a_normal_sample() -> None:
    y = 3.0 + 2.0 * mixed.normals(25, 7)
    frame = lgm.fit(lgm.loads(SAMPLE), {"y": y}, hyper="map").profile()
    n, sd, chi = len(y), y.std(), stats.chi2.ppf(0.95, 1)
    half = sd * np.sqrt(np.expm1(chi / n))
    wanted = [y.mean(), y.mean() - half, y.mean() + half]
    assert numbers(frame, "a") == pytest.approx(wanted, rel=1e-5)

    def beyond(s: float) -> float:
        return float(n * (2.0 * np.log(s / sd) + (sd / s) ** 2 - 1.0) - chi)

    ends = [optimize.brentq(beyond, *pair) for pair in ((0.1 * sd, sd), (sd, 10.0 * sd))]
    assert numbers(frame, "noise") == pytest.approx([sd, *ends], rel=1e-5)


def test_intervals_of_functions_are_functions_of_intervals() -> None:
    """Of a precision those of the sd, turned round."""
    y = 3.0 + 2.0 * mixed.normals(25, 7)
    turned = SAMPLE.replace("noise)", "1 / sqrt(noise))")
    sd, precision = (
        lgm.fit(lgm.loads(text), {"y": y}, hyper="map").profile("noise").iloc[0]
        for text in (SAMPLE, turned)
    )
    assert precision.lower == pytest.approx(sd.upper**-2, rel=1e-5)
    assert precision.upper == pytest.approx(sd.lower**-2, rel=1e-5)


def test_an_sd_that_may_be_zero() -> None:
    data = mixed.crossed()
    data["y"] = 3.0 + mixed.normals(len(data["y"]), 7)
    frame = lgm.fit(lgm.loads(mixed.CROSSED), data, hyper="map").profile(["s", "noise"])
    first = frame.iloc[0]
    assert (first.term, first.lower, first.note) == ("s", 0.0, "lower: 0 is the end of its range")
    assert first.upper > first.estimate
    assert frame.note[1] == ""


def test_every_correlation_of_three() -> None:
    """Whichever member of a covariance comes first, its intervals are the same."""
    g, n = 20, 100
    x, z = mixed.normals(n, 37), mixed.normals(n, 11)
    level, slope = mixed.normals(g, 7), mixed.normals(g, 3)
    other = 0.4 * level - 0.2 * slope + 0.8 * mixed.normals(g, 9)
    who = np.repeat(np.arange(g), 5)
    y = level[who] + slope[who] * x + other[who] * z + 0.5 * mixed.normals(n, 19)
    data = {"y": y, "x": x, "z": z, "in": who}
    frames = [
        lgm.fit(lgm.loads(text), data, hyper="map").profile("S", level=0.5)
        for text in (THREE, THREE.replace('{"one", "x", "z"}', '{"z", "x", "one"}'))
    ]
    assert len(frames[0]) == 6
    for term, note in zip(frames[0]["term"], frames[0]["note"], strict=True):
        first, comma, second = term.removeprefix("correlation(S[").partition(", ")
        turned = f"correlation(S[{second.removesuffix('])')}, {first}])" if comma else term
        other_way = frames[1][frames[1]["term"] == turned]
        assert other_way["note"].tolist() == [note]
        wanted = numbers(frames[1], turned)
        assert numbers(frames[0], term) == pytest.approx(wanted, rel=2e-4, abs=2e-4)


def test_a_fit_from_a_file_needs_its_data(tmp_path: Path) -> None:
    data = mixed.crossed()
    fit = lgm.fit(lgm.loads(mixed.CROSSED), data, hyper="map")
    fit.save(tmp_path / "fit.nc")
    again = lgm.load_fit(tmp_path / "fit.nc")
    with pytest.raises(lgm.DataError, match="E305"):
        again.profile("s")
    assert again.profile("s", data=data).equals(fit.profile("s"))


@pytest.mark.parametrize(
    ("asked", "error", "code"),
    [
        ({"names": "none"}, lgm.ModelError, "E103"),
        ({"level": 1.0}, lgm.ModelError, "E108"),
        ({"level": "most"}, lgm.ModelError, "E108"),
        ({"names": "t"}, lgm.MethodError, "E501"),
        ({"backend": "r"}, lgm.MethodError, "E104"),
    ],
)
def test_what_is_refused(asked: dict[str, object], error: type[lgm.LgmError], code: str) -> None:
    fit = lgm.fit(lgm.loads(mixed.CROSSED), mixed.crossed(), hyper="map", fixed={"t": 1.2})
    with pytest.raises(error, match=code):
        fit.profile(**asked)  # type: ignore[arg-type]


def test_given_values_stay_as_they_are() -> None:
    fit = lgm.fit(lgm.loads(mixed.CROSSED), mixed.crossed(), hyper="map", fixed={"t": 1.2})
    assert fit.profile().term.tolist() == ["a", "b", "s", "noise"]


def test_what_was_not_maximised() -> None:
    text = SAMPLE.replace("noise : positive ~ flat", "noise : positive ~ pc_sd(u = 5, alpha = 0.1)")
    text = text.replace("hyper a     : real ~ flat", "latent a ~ normal(sd = 10)")
    fit = lgm.fit(lgm.loads(text), {"y": mixed.normals(9, 2)}, hyper="integrate")
    with pytest.raises(lgm.MethodError, match="E501"):
        fit.profile()


def test_what_has_no_profile_says_why() -> None:
    text = """lgm 1
index obs
index class = {"low", "mid", "high"}
index cut = head(class)
data y[obs] : class
data x[obs] : real
hyper c[cut] : ordered ~ flat
hyper b      : real ~ flat
observe y ~ ordinal(logit = b * x, cuts = c)
"""
    x = mixed.normals(40, 7)
    y = np.array(["low", "mid", "high"])[np.digitize(x + 1.5 * mixed.normals(40, 11), [-0.7, 0.7])]
    frame = lgm.fit(lgm.loads(text), {"y": y, "x": x}, hyper="map").profile()
    notes = frame["note"].tolist()
    assert frame["name"].tolist() == ["c", "c", "b"]
    assert notes[2] == "" and all("not profiled" in note for note in notes[:2])
    assert frame["lower"].isna().tolist() == [True, True, False]


def test_a_profile_that_rises_says_so() -> None:
    """About a place that is no maximum: towards it there is no end."""
    y = 3.0 + 2.0 * mixed.normals(25, 7)
    fit = lgm.fit(lgm.loads(SAMPLE), {"y": y}, hyper="map", start={"a": 3.5}, tol=1e-9)
    objective = maximised_objective(fit, fit.canonical, "a test")
    x = objective.coordinates.pack(fit.theta)
    away = objective.at(x + np.array([0.8, 0.0]))
    assert away is not None
    about = Profile.about(objective, away)
    assert about is not None
    lower, upper = about.interval(0, 0.95)
    assert lower.reached is Reached.HIGHER and upper.reached is Reached.ROOT


def test_others_leave_the_end_of_their_range() -> None:
    """Groups whose means are alike, so that their sd is best at 0: far from the mean of all it is
    not, and the interval of the mean is wider than that without groups."""
    who = np.repeat(np.arange(5), 6)
    y = 2.0 + mixed.normals(30, 7)
    means = np.bincount(who, y) / 6
    within = float(np.sum((y - means[who]) ** 2))

    def minus(a: float, v: float, log: float) -> float:
        """Minus the log likelihood, but for a constant: variance v of groups, e^log of noise."""
        noise = float(np.exp(log))
        total = noise + 6.0 * v
        between = 6.0 * float(np.sum((means - a) ** 2))
        logs = 25.0 * log + 5.0 * float(np.log(total))
        return 0.5 * (logs + within / noise + between / total)

    def best(a: float) -> float:
        def inner(v: float) -> float:
            return float(optimize.minimize_scalar(lambda x: minus(a, v, x)).fun)

        return float(optimize.minimize_scalar(inner, bounds=(0.0, 4.0), method="bounded").fun)

    lowest, half = best(float(y.mean())), 0.5 * float(stats.chi2.ppf(0.95, 1))
    upper = optimize.brentq(lambda a: best(a) - lowest - half, y.mean(), y.mean() + 2.0)
    text = mixed.CROSSED.replace(" + b * x", "").replace(" + v[of]", "")
    names = ("x[obs]", "of[obs]", "v[", " b ", " t ", "index sample")
    lines = [line for line in text.splitlines() if not any(n in line for n in names)]
    fit = lgm.fit(lgm.loads("\n".join(lines) + "\n"), {"y": y, "on": who}, hyper="map")
    frame = fit.profile()
    without = float(np.sqrt(np.var(y) * np.expm1(2.0 * half / 30)))
    assert upper > y.mean() + 1.0001 * without
    assert numbers(frame, "a")[1:] == pytest.approx([2.0 * y.mean() - upper, upper], rel=1e-5)
    assert numbers(frame, "s")[1] == 0.0


def test_an_end_that_is_not_there_is_not_found() -> None:
    """Counts that are hardly overdispersed: however large the size is, it does as well."""
    text = "lgm 1\nindex obs\ndata y[obs] : count\nhyper a : real ~ flat\n"
    text += "hyper k : positive ~ flat\nobserve y ~ negbinomial(log_mean = a, size = k)\n"
    y = np.repeat([0, 1, 2, 3, 4, 5, 6, 7, 9, 11], [1, 3, 6, 7, 6, 4, 3, 2, 1, 1])
    row = lgm.fit(lgm.loads(text), {"y": y}, hyper="map").profile("k").iloc[0]
    assert row.lower < row.estimate and np.isnan(row.upper)
    assert row.note.startswith("upper: not found, the profile has not fallen far enough up to")


def test_an_end_is_that_of_its_side() -> None:
    """An sd that data would have above the bound of its prior ends there."""
    text = SAMPLE.replace(
        "noise : positive ~ flat", "noise : positive ~ uniform(lower = 0.1, upper = 1)"
    )
    fit = lgm.fit(lgm.loads(text), {"y": 3.0 + 1.5 * mixed.normals(25, 7)}, hyper="map")
    row = fit.profile("noise").iloc[0]
    assert 0.8 < row.lower < row.estimate <= row.upper == 1.0
    assert row.note == "upper: 1 is the end of its range"


def test_a_prior_with_another_hyper_in_it_has_no_profile() -> None:
    text = SAMPLE.replace("flat\nobserve", "half_normal(sd = t)\nobserve")
    text = text.replace("hyper noise", "hyper t : positive ~ half_normal(sd = 5)\nhyper noise")
    frame = lgm.fit(lgm.loads(text), {"y": mixed.normals(25, 7)}, hyper="map").profile()
    notes = frame.set_index("term")["note"]
    assert notes["noise"] == "not profiled: its prior depends on other hyperparameters"
    assert notes["a"] == ""


@pytest.mark.thorough
def test_two_covariances_of_three_each_have_their_own() -> None:
    """Two halves of the data that have nothing in common, one after the other: those of each."""
    text = THREE.replace("index term", "index h\nindex term").replace(
        "in[obs] : g", "in[obs] : g\ndata q[obs] : real"
    )
    text = text.replace("data in", "data of[obs] : h\ndata in")
    text = text.replace("hyper noise", "hyper T[term, term] : covariance ~ flat\nhyper noise")
    text = text.replace("observe", "latent e[h, term] ~ iid * dense(cov = T)\nobserve")
    first = 'd[in, "one"] + d[in, "x"] * x + d[in, "z"] * z'
    second = first.replace("d[in", "e[of")
    text = text.replace(first, f"(1 - q) * ({first}) + q * ({second})")
    rng = np.random.default_rng(1)
    who, x, z = np.repeat(np.arange(16), 8), rng.normal(size=128), rng.normal(size=128)
    effects = rng.normal(size=(16, 3)) @ np.array(
        [[1.0, 0.6, -0.4], [0.0, 0.9, 0.3], [0.0, 0.0, 0.8]]
    )
    y = effects[who, 0] + effects[who, 1] * x + effects[who, 2] * z + 0.7 * rng.normal(size=128)
    half = (who >= 8).astype(float)
    data = {"y": y, "x": x, "z": z, "in": who % 8, "of": who % 8, "q": half}
    fit = lgm.fit(lgm.loads(text), data, hyper="map")
    columns = ["estimate", "lower", "upper"]
    both, alone = fit.profile(["S", "T"], level=0.5), fit.profile("T", level=0.5)
    assert both[columns].to_numpy()[6:] == pytest.approx(alone[columns].to_numpy(), nan_ok=True)
