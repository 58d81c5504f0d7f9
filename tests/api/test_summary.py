"""The page of a fit: the numbers are the fit's, the layout holds in 80 columns."""

from __future__ import annotations

import re

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.columns import LEVELS
from lgmdsl.api.summary.table import HEADER, cells
from lgmdsl.cli.commands.predict import command as predict_command

TEXT = (
    "lgm 1\nindex obs\nindex g\ndata y[obs] : real\ndata who[obs] : g\n"
    "latent tiny ~ normal(sd = 0.00002)\nlatent huge ~ normal(sd = 300000)\n"
    "latent u[g] ~ normal(sd = 1)\nlet e[obs] = tiny + huge + u[who]\n"
    "observe y ~ normal(mean = e, sd = 1)\nreport up = exp(tiny)\n"
)


@pytest.fixture(scope="module")
def fitted() -> lgm.Fit:
    rng = np.random.default_rng(0)
    data = {"y": 5e5 + rng.normal(size=60), "who": [f"label number {k % 20}" for k in range(60)]}
    return lgm.fit(lgm.loads(TEXT), data)


def test_width_and_rows(fitted: lgm.Fit) -> None:
    page = fitted.summary()
    assert all(len(line) <= 80 and line == line.rstrip() for line in page.splitlines())
    assert "12 more (--full)" in page
    full = fitted.summary(full=True)
    assert "more (--full)" not in full
    assert sum(line.lstrip().startswith("label number") for line in full.splitlines()) == 20


def test_numbers_are_the_fits(fitted: lgm.Fit) -> None:
    page = fitted.summary(full=True)
    row = next(line for line in page.splitlines() if "label number 7 " in line)
    numbers = [float(v) for v in re.findall(r"-?\d+\.\d+", row)]
    mean, sd = float(fitted.mean("u").sel(g="label number 7")), float(fitted.sd("u")[0])
    quantiles = fitted.quantile("u", [0.05, 0.5, 0.95]).sel(g="label number 7").values
    assert numbers == pytest.approx([mean, sd, *quantiles], abs=2e-3)
    assert f"{fitted.log_evidence:.4f}" in page


def test_digits_follow_the_scale(fitted: lgm.Fit) -> None:
    page = fitted.summary()
    tiny = next(line for line in page.splitlines() if line.split()[:1] == ["tiny"])
    assert "e-05" in tiny and "e-05" not in page.replace(tiny, "")
    assert "1.0000000  0.0000200" in page
    huge = next(line for line in page.splitlines() if line.split()[:1] == ["huge"])
    assert float(huge.split()[1]) == pytest.approx(5e5, rel=1e-3)
    assert "-0.000" not in page


def test_early_stop_is_said() -> None:
    model = lgm.loads(
        "lgm 1\nindex a\ndata y[a] : count\nlatent u[a] ~ normal(sd = 3)\n"
        "observe y ~ poisson(log_rate = u)\n"
    )
    fit = lgm.fit(model, {"y": [40, 0, 7]}, max_steps=1)
    assert "step limit" in fit.summary() and "W601" in fit.summary()


def test_each_row_has_digits_of_its_own() -> None:
    text = (
        "lgm 1\nindex obs\ndata y[obs] : real\ndata x[obs] : real\n"
        "latent fine ~ normal(sd = 10)\nlatent coarse ~ normal(sd = 1000)\n"
        "let e[obs] = coarse + fine * x\nobserve y ~ normal(mean = e, sd = 20)\n"
    )
    rng = np.random.default_rng(0)
    x = rng.normal(size=40) * 1000.0
    fit = lgm.fit(lgm.loads(text), {"x": x, "y": 100.0 + 0.5 * x + 20.0 * rng.normal(size=40)})
    page = fit.summary()
    for name in ("fine", "coarse"):
        line = next(line for line in page.splitlines() if line.split()[:1] == [name])
        sd = line.split()[2].replace(".", "").lstrip("0")
        assert 2 <= len(sd) <= 3 and float(line.split()[2]) == pytest.approx(
            float(fit.sd(name)), rel=0.01
        )
    points = [
        line.index(".") for line in page.splitlines() if line.startswith(("  fine", "  coar"))
    ]
    assert points[0] == points[1]


def test_groups_in_natural_order_and_cuts_between_classes() -> None:
    text = """lgm 1
index obs
index g
index k = {"low", "mid", "high", "top"}
index cut = head(k)
data y[obs] : k
data who[obs] : g
hyper c[cut] : ordered ~ normal(mean = 0, sd = 3)
latent u[g] ~ normal(sd = 1)
let eta[obs] = u[who]
observe y ~ ordinal(logit = eta, cuts = c)
"""
    rng = np.random.default_rng(0)
    who = np.array([f"m{j}" for j in rng.integers(1, 13, 150)])
    y = np.array(["low", "mid", "high", "top"])[rng.integers(0, 4, 150)]
    fit = lgm.fit(lgm.loads(text), {"y": y, "who": who}, hyper="map")
    lines = [line.split()[0] for line in fit.summary(full=True).splitlines() if line]
    groups = [name for name in lines if re.fullmatch(r"m\d+", name)]
    assert groups == [f"m{j}" for j in range(1, 13)]
    assert [n for n in lines if "|" in n] == ["low|mid", "mid|high", "high|top"]
    terms = fit.tidy()
    assert list(terms[terms["name"] == "u"]["g"]) == groups
    assert list(terms[terms["name"] == "c"]["term"]) == ["c[low|mid]", "c[mid|high]", "c[high|top]"]
    means = fit.mean("u").sel(g=terms[terms["name"] == "u"]["g"].to_numpy())
    np.testing.assert_array_equal(terms[terms["name"] == "u"]["mean"], means)


def test_what_was_spent(fitted: lgm.Fit) -> None:
    text = TEXT.replace("latent u[g] ~ normal(sd = 1)", "latent u[g] ~ normal(sd = s)").replace(
        "latent tiny", "hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)\nlatent tiny"
    )
    rng = np.random.default_rng(0)
    data = {"y": 5e5 + rng.normal(size=60), "who": [f"label number {k % 20}" for k in range(60)]}
    fit = lgm.fit(lgm.loads(text), data)
    spent = next(line for line in fit.summary().splitlines() if line.startswith("hypers"))
    assert fit.learning is not None
    points, fits = fit.learning.points, fit.learning.fits
    assert re.search(rf"over {points} points \(\w+\), {fits} fits, [\d.]+ m?s", spent)
    assert re.search(r"^method .*steps?, [\d.]+ m?s$", fitted.summary(), re.M)


@pytest.mark.parametrize("columns", [48, 60, 80, 200])
def test_no_table_is_wider_than_the_terminal(
    fitted: lgm.Fit, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = fitted.summary().splitlines()
    assert max(len(line) for line in lines) <= columns
    header = next(line for line in lines if re.match("latents +mean", line)).split()
    assert header[1:3] == ["mean", "sd"] and (header[1:] == [*HEADER]) == (columns >= 80)


def test_pages_notebooks_frames_and_commands_show_the_same_quantiles(fitted: lgm.Fit) -> None:
    names = [f"{100 * level:g}%" for level in LEVELS]
    assert [*HEADER[2:]] == names
    card = re.findall(r"<th[^>]*>([^<]*)</th>", fitted._repr_html_())
    assert card[: 1 + len(HEADER)] == ["", *HEADER]
    assert [c for c in map(str, fitted.tidy()) if c.startswith("q")] == [
        f"q{n[:-1]}" for n in names
    ]
    (option,) = (p for p in predict_command.params if p.name == "quantiles")
    assert str(option.default) == ",".join(map(str, LEVELS))


@pytest.mark.parametrize("digits", [2, 3])
@pytest.mark.parametrize("scale", [1.0, 1e9, 1e-9, 1e-30, 3.7e8])
def test_powers_of_ten_have_the_digits_of_fixed_notation(scale: float, digits: int) -> None:
    """Each number to the place of the last digit of its sd: 123456789 +- 5522 was 1.235e+08."""
    rng = np.random.default_rng(3)
    for spread in (1e-4, 0.03, 1.0, 40.0):
        mean, sd = scale * rng.normal(2.0, 1.0), scale * spread * rng.uniform(1.0, 9.0)
        numbers = [mean, sd, mean - 1.6 * sd, mean, mean + 1.6 * sd]
        written = cells(mean, sd, numbers[2:], digits)
        place = 10.0 ** (np.floor(np.log10(sd)) - digits + 1)
        for text, value in zip(written, numbers, strict=True):
            assert abs(float(text) - value) <= 0.51 * max(place, 0.0 if "e" in text else 1.0)
            mantissa, _, power = text.partition("e")
            last = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
            if power and abs(value) > place:
                assert last == pytest.approx(place, rel=1e-6)


def test_a_report_far_from_zero_keeps_its_digits() -> None:
    text = """lgm 1
index obs
data y[obs] : real
latent a ~ normal(sd = 1000)
observe y ~ normal(mean = a, sd = 100)
report big = 123456789 + a
"""
    fit = lgm.fit(lgm.loads(text), {"y": np.linspace(-100.0, 250.0, 25)})
    (row,) = [line.split() for line in fit.summary().splitlines() if line.startswith("  big")]
    assert float(row[1]) == pytest.approx(float(fit.mean("big")), abs=0.06)
    assert row[1] != row[3]
