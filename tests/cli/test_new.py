"""`lgm new`: the skeleton parses, and fits as it stands, by the command that it names."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lgmdsl as lgm
from lgmdsl.api.explain.skeleton import skeleton
from lgmdsl.errors import DataError
from tests.cli.conftest import Run


def command_of(text: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith("#   lgm fit"))
    return shlex.split(line[1:])[1:]


def fits(text: str, frame: pd.DataFrame, **how: Any) -> lgm.Fit:
    words = command_of(text)
    maps = [words[k + 1].partition("=") for k, word in enumerate(words) if word == "--map"]
    model = lgm.loads(text)
    fit = lgm.fit(model, frame, mapping={name: key for name, _, key in maps}, **how)
    assert fit.converged
    return fit


def rows(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    group = rng.choice(["north", "south", "west"], n)
    age = rng.normal(40.0, 10.0, n)
    return pd.DataFrame(
        {
            "region": group,
            "age": age.round(1),
            "smoker": rng.integers(0, 2, n),
            "day": pd.date_range("2024-01-01", periods=n, freq="D").strftime("%Y-%m-%d"),
            "y": rng.poisson(np.exp(0.5 + 0.02 * (age - 40.0))),
        }
    )


def test_a_skeleton_of_counts_fits() -> None:
    frame = rows()
    text = skeleton(frame)
    assert "observe y ~ poisson(log_rate = eta)" in text
    assert ": region_level" in text and "day_time" in text
    fit = fits(text, frame)
    assert set(fit.mean("u_region").coords["region_level"].values) == {"north", "south", "west"}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("response", "family"), [("age", "normal(mean"), ("smoker", "bernoulli(logit")]
)
def test_the_response_is_named(response: str, family: str) -> None:
    frame = rows()
    text = skeleton(frame, response)
    assert f"observe {response} ~ {family} = eta" in text
    fits(text, frame)


@pytest.mark.thorough
def test_on_the_command_line_by_its_own_command(run: Run, tmp_path: Path) -> None:
    frame = rows().rename(columns={"age": "age (years)", "region": "index"})
    data = tmp_path / "d.csv"
    frame.to_csv(data, index=False)
    model = tmp_path / "model.lgm"
    assert run("new", data, "-o", model).status == 0
    assert model.read_text() == run("new", data).out.replace("fit model.lgm", f"fit {model}")
    assert command_of(run("new", data).out)[1:3] == ["model.lgm", str(data)]
    model.write_text("# mine\n" + model.read_text())
    refused = run("new", data, "-o", model)
    assert refused.status == 1 and "E306" in refused.err and "--force" in refused.err
    assert model.read_text().startswith("# mine")
    assert run("new", data, "-o", model, "--force").status == 0
    words = command_of(model.read_text())
    assert words[1:3] == [str(model), str(data)]
    assert run("fmt", "--check", model).status in (0, 1)
    assert run("check", *words[1:]).status == 0
    done = run(*words)
    assert done.status == 0, done.err


def test_what_is_left_out_is_named_with_the_reason() -> None:
    frame = rows().assign(
        gap=np.where(np.arange(60) < 3, np.nan, 1.0 + np.arange(60)),
        same=7,
        name=[f"n{k}" for k in range(60)],
        empty=np.nan,
    )
    text = skeleton(frame)
    flat = " ".join(text.replace("\n#", "").split())
    for part in (
        "`gap`: 3 entries missing",
        "`same`: all its entries are 7",
        "`name`: all its entries differ",
        "`empty`: it has no entries",
    ):
        assert part in flat
    fits(text, frame)


def test_a_missing_response_is_predicted() -> None:
    frame = rows()
    frame["y"] = frame["y"].astype(float)
    frame.loc[3, "y"] = np.nan
    text = skeleton(frame)
    assert ": count?" in text
    fits(text, frame)


def test_a_wide_table_says_how_columns_make_a_matrix() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 60)), columns=[f"g{k}" for k in range(60)])
    text = skeleton(frame.assign(y=rng.normal(size=40)))
    assert "b_g19" in text and "b_g20" not in text
    assert '--map "X=a,b,c"' in " ".join(text.replace("\n#", "").split())
    fits(text, frame.assign(y=rng.normal(size=40)))


@pytest.mark.parametrize(
    ("frame", "response", "message"),
    [
        (rows(), "yy", r"E305.*has no column `yy`"),
        (rows(), "region", r"E305.*`region` cannot be the response of a skeleton: it holds labels"),
        (rows()[["region", "day"]], "", r"E305.*has no column that may be a response"),
        (rows().iloc[:0], "", r"E306.*it has no rows"),
        ({"y": [1, 2]}, "", r"E306.*a skeleton is made for a table"),
    ],
)
def test_tables_that_have_no_skeleton(frame: object, response: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        skeleton(frame, response)


def sites(n: int = 12) -> list[str]:
    return [f"S{k}" for k in range(n)]


def visits() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "site": rng.choice(sites(), 120),
            "year": rng.integers(2005, 2026, 120),
            "effort": rng.uniform(1, 5, 120).round(2),
            "count": rng.poisson(3, 120),
        }
    )


def by_command(text: str, main: pd.DataFrame, tables: dict[str, pd.DataFrame]) -> lgm.Fit:
    """The fit by the command of a skeleton: its names of tables, its mapping."""
    words = command_of(text)
    named = [words[k + 1].partition("=") for k, w in enumerate(words) if w == "--data"]
    maps = [words[k + 1].partition("=") for k, w in enumerate(words) if w == "--map"]
    data = [main, {name: tables[Path(file).stem] for name, _, file in named}]
    fit = lgm.fit(lgm.loads(text), data, mapping={n: k for n, _, k in maps})
    assert fit.converged
    return fit


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["site", "places"])
def test_a_table_of_groups_and_a_graph(name: str) -> None:
    rng = np.random.default_rng(2)
    places = pd.DataFrame(
        {
            "site": sites(),
            "elevation": rng.normal(800, 200, 12).round(),
            "habitat": ["wood", "moor", "bog"] * 4,
            "effort": rng.uniform(size=12).round(2),
        }
    )[::-1]
    edges = pd.DataFrame({"a": sites(), "b": [*sites()[1:], "S0"]})
    tables = {name: places, "nb": edges}
    text = skeleton([visits(), tables])
    for part in (
        "data elevation[site_level]",
        "data effort[obs] ",
        "elevation[site] -",
        "bym2(graph = nb",
        "exposure = effort)",
        "--map effort_=site.effort",
    ):
        assert part in text
    assert "refused" not in text
    fit = by_command(text, visits(), tables)
    assert fit.mean("u_site").sizes == {"site_level": 12}


def test_a_key_column_of_another_name() -> None:
    places = pd.DataFrame({"code": sites(), "elevation": np.arange(12.0)})
    text = skeleton([visits(), {"site": places}])
    assert "--map site_level=code" in text
    by_command(text, visits(), {"site": places})


@pytest.mark.thorough
def test_a_map_of_rows_that_are_regions() -> None:
    rng = np.random.default_rng(1)
    main = pd.DataFrame(
        {"region": sites(), "cases": rng.poisson(4, 12), "E": rng.uniform(2, 6, 12)}
    )
    assert "left out: `region`" in skeleton(main)
    edges = pd.DataFrame({"a": sites(), "b": [*sites()[1:], "S0"]})
    text = skeleton([main, {"nb": edges}])
    assert "u_region[region]" in text and "exposure = E" in text
    by_command(text, main, {"nb": edges})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"code": sites(11)}, "has 11 of the 12 labels of `site`, not S11"),
        ({"place": ["x", "y"]}, "no column of other holds the labels of `site`"),
    ],
)
def test_tables_that_describe_nothing(table: dict[str, list[str]], message: str) -> None:
    frame = pd.DataFrame(table)
    with pytest.raises(DataError, match=message):
        skeleton([visits(), {"other": frame.assign(z=range(len(frame)))}])


def test_what_check_refuses_is_in_the_skeleton() -> None:
    twice = pd.DataFrame({"site": [*sites(), "S0"], "z": range(13)})
    text = skeleton([visits(), {"site": twice}])
    assert "the labels of index `site_level` repeat" in " ".join(text.replace("\n#", "").split())


def test_centres_are_readable() -> None:
    text = skeleton(visits())
    assert "(year - 2015) / 6" in text.replace("5.9", "6").replace("6.1", "6")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"y": rng.normal(size=40)})
    for centre, spread in ((1e9, 1.0), (-3.2e-7, 1e-9), (0.0, 5.0), (25_000.0, 9e3)):
        x = centre + spread * rng.normal(size=40)
        expression = skeleton(frame.assign(x=x)).split("b_x * ")[1].splitlines()[0]
        at = eval(expression, {"x": x.mean()})
        assert abs(at) < 0.15, expression
        assert np.std(eval(expression, {"x": x})) == pytest.approx(1.0, rel=0.06)


def test_columns_that_belong_to_the_response() -> None:
    rng = np.random.default_rng(4)
    n = rng.integers(5, 20, 40)
    trials = pd.DataFrame({"r": rng.binomial(n, 0.4), "n": n, "x": rng.normal(size=40)})
    assert "observe r ~ binomial(n = n, logit = eta)" in skeleton(trials)
    fits(skeleton(trials), trials)
    below = trials.assign(n=trials["r"].to_numpy() // 2)
    assert "observe r ~ poisson" in skeleton(below)
    times = pd.DataFrame(
        {"age": rng.normal(60, 9, 40), "time": rng.exponential(size=40), "died": [0, 1] * 20}
    )
    assert "weibull(log_scale = eta, shape = shape, event = died)" in skeleton(times)
    fits(skeleton(times), times)
    counts = pd.DataFrame({"y": rng.poisson(3, 40), "offset": rng.normal(size=40)})
    assert "+ offset" in skeleton(counts)
    fits(skeleton(counts), counts)
    zero = pd.DataFrame({"y": rng.poisson(3, 40), "effort": rng.integers(0, 4, 40)})
    assert "left out: `effort`: an exposure is above 0" in skeleton(zero)


def test_a_guess_is_called_one() -> None:
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"y": rng.choice(["yes", "no", "perhaps"], 20), "x": rng.normal(size=20)})
    flat = " ".join(skeleton(frame).replace("\n#", "").split())
    assert "`x`, which is a guess. `y` cannot be the response: it holds words" in flat
    codes = pd.DataFrame({"recipe": [1, 2, 3, 1] * 5, "width": rng.normal(size=20)})
    assert "observe width" in skeleton(codes)


NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8
)
WORDS = st.sampled_from(["obs", "index", "data", "eta", "level", "noise", "log", "b_x", "x", "xs"])


@pytest.mark.thorough
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(NAMES | WORDS, min_size=1, max_size=6, unique=True), st.integers(0, 99))
def test_any_names_of_columns_parse_and_bind(names: list[str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds: list[Callable[[], Any]] = [
        lambda: rng.normal(size=12).round(2),
        lambda: rng.choice(["a", "b", "c"], 12),
        lambda: rng.integers(0, 2, 12),
        lambda: rng.poisson(3, 12),
    ]
    frame = pd.DataFrame({name: kinds[rng.integers(4)]() for name in names})
    frame["response"] = rng.normal(size=12)
    text = skeleton(frame)
    from lgmdsl.api.explain.outline import outline_of

    words = command_of(text)
    maps = [words[k + 1].partition("=") for k, word in enumerate(words) if word == "--map"]
    outline = outline_of(lgm.loads(text), frame, {name: key for name, _, key in maps})
    assert not outline.refused


def test_text_that_should_be_numbers_is_no_group() -> None:
    x = np.arange(20) / 7
    columns = {
        "dash": ["-" if k == 3 else f"{v:.2f}" for k, v in enumerate(x)],
        "share": [f"{v:.1f}%" for v in x],
        "comma": [f"{v:.2f}".replace(".", ",") for v in x],
        "day": pd.date_range("2024-01-01", periods=20).strftime("%d/%m/%Y"),
    }
    frame = pd.DataFrame({"y": np.random.default_rng(0).normal(size=20), **columns})
    flat = " ".join(skeleton(frame).replace("\n#", "").split())
    for part in (
        '`dash`: it holds text among numbers: "-"',
        "`share`: its numbers are written with percent signs",
        "`comma`: its numbers are written with decimal commas",
        "`day`: its dates are not written as 2024-01-31",
    ):
        assert part in flat


def columns(*, seed: int = 0, n: int = 90, **more: Any) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"age": rng.normal(40, 5, n), **more})


N = 90
R = np.random.default_rng(7)
X = R.normal(size=N)
QUICK: dict[str, Any] = {"method": "laplace", "hyper": "map"}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "low", ["l u", "lower upper", "left right", "L R", "t_lower t_upper", "lo hi"]
)
def test_pairs_of_ends_are_an_interval(low: str) -> None:
    a, b = low.split()
    ends = {
        a: np.where(X > 1, np.nan, np.exp(0.5 * X)),
        b: np.where(X < -1, np.nan, 2 * np.exp(0.5 * X)),
    }
    frame = columns().assign(**ends)
    text = skeleton(frame)
    assert f"lower = {a}, upper = {b})" in text and "data y[obs]" in text and "weibull" in text
    fits(text, frame, **QUICK)
    real = columns().assign(**{a: X - 1, b: X + 1.5})
    assert f"sd = noise, lower = {a}, upper = {b})" in skeleton(real)
    fits(skeleton(real), real, **QUICK)


def test_a_response_between_its_ends_and_one_that_is_not() -> None:
    frame = columns(y=X, lower=X - 1, upper=np.where(X > 0, np.nan, X + 1))
    frame.loc[::2, "y"] = np.nan
    text = skeleton(frame)
    assert "data y[obs]     : real?" in text and "lower = lower, upper = upper" in text
    fits(text, frame, **QUICK)
    other = columns(y=X + 3, temp_lower=X - 1, temp_upper=X + 1)
    assert "b_temp_lower" in skeleton(other)
    assert "b_lower" in skeleton(frame.rename(columns={"y": "weight"}), "age")


def test_spells_have_an_entry() -> None:
    frame = columns(start=R.uniform(0, 1, N), stop=R.uniform(1.1, 5, N), died=R.integers(0, 2, N))
    text = skeleton(frame)
    assert (
        "observe stop ~ weibull(log_scale = eta, shape = shape, event = died, entry = start)"
        in text
    )
    fits(text, frame, **QUICK)
    spans = columns(start=R.uniform(0, 1, N), end=R.uniform(1.1, 5, N))
    assert "lower" not in skeleton(spans)


@pytest.mark.thorough
def test_ratings_are_ordered_and_counts_are_counts() -> None:
    rng = np.random.default_rng(3)
    frame = columns(rating=rng.integers(1, 6, N))
    text = skeleton(frame)
    assert "observe rating ~ ordinal(logit = eta, cuts = cuts)" in text and "level ~" not in text
    fits(text, frame)
    ratings = np.arange(N) % 4 + 1  # of counts with this mean 7.4 would be 0
    assert "ordinal" in skeleton(columns(y=ratings))
    assert "ordinal" not in skeleton(columns(y=1 + rng.poisson(6, N)))
    assert "ordinal" not in skeleton(columns(count=ratings))
    alone = pd.DataFrame({"rating": rng.integers(1, 4, N)})
    fits(skeleton(alone), alone)


def test_zeros_of_skewed_amounts() -> None:
    frame = columns(rain=np.where(R.random(N) < 0.3, 0, R.gamma(1, 2, N)).round(3))
    text = skeleton(frame)
    assert "gamma(log_mean = eta, shape = shape, hurdle = zero)" in text and "tweedie" in text
    fits(text, frame)
    assert "normal(mean" in skeleton(columns(rain=R.normal(size=N)))


def test_an_id_is_never_a_slope() -> None:
    frame = columns(
        y=X, patient_id=R.permutation(N) * 7 + 1001, visitID=R.permutation(N) + 1,
        id=R.integers(500, 520, N), nr=np.arange(N) + 77, acid=R.integers(1, 88, N),
    )  # fmt: skip
    text = skeleton(frame)
    for name in ("patient_id", "visitID", "id", "nr"):
        assert f"b_{name}" not in text, name
    assert "b_acid" in text and "u_id[id]" in text
    fits(text, frame)


def test_codes_are_groups_and_the_other_way_is_shown() -> None:
    frame = columns(y=X, brand=R.integers(1, 16, N), dose=R.integers(1, 5, N))
    text = skeleton(frame)
    flat = " ".join(text.replace("\n#", "").split())
    assert "u_brand[brand]" in text and "`brand` holds 1 to 15, taken as codes of groups" in flat
    assert "b_dose * (dose" in text and "`dose` has 4 whole values, taken as amounts" in flat
    fits(text, frame)
    # What the comments say, done.
    kept = [line for line in text.splitlines() if not line.startswith("#")]
    turned = "\n".join(kept)
    turned = turned.replace("brand : brand_level", "").replace(
        "+ u_brand[brand]", "+ b_brand * brand"
    )
    for old, new in (
        (r"data brand\[obs\] .*", "data brand[obs] : real"),
        (r"latent u_brand.*", "latent b_brand ~ normal(sd = 2.5)"),
        (r"hyper sd_brand.*", ""),
        (r"index brand_level.*", "index dose_level"),
        (r"data dose\[obs\] .*", "data dose[obs] : dose_level"),
        (r"latent b_dose .*", "latent u_dose[dose_level] ~ normal(sd = 1)"),
        (r"b_dose \* \(dose - [\d.]+\) / [\d.]+", "u_dose[dose]"),
    ):
        turned, times = re.subn(old, new, turned)
        assert times == 1, old
    assert lgm.fit(lgm.loads(turned), frame).converged


def test_few_values_are_no_codes_where_they_do_not_repeat() -> None:
    frame = columns(n=6, y=X[:6], k=[1, 2, 3, 4, 5, 6])
    assert "b_k" in skeleton(frame.assign(k=[1, 3, 2, 4, 2, 5]))


R2 = np.random.default_rng(11)
DAYS = R2.integers(5, 400, N)
HAPPENED = R2.random(N) < 0.6


@pytest.mark.parametrize(
    ("times", "event", "mapped"),
    [
        ({"time": DAYS}, {"status": np.where(HAPPENED, 2, 1)}, "status=contrasts(status, base=1)"),
        ({"days": DAYS}, {"status": np.where(HAPPENED, "event", "censored")}, "base=censored)"),
        ({"followup_months": DAYS / 30}, {"cens": np.where(HAPPENED, "event", "right")}, "=right)"),
        ({"days": DAYS}, {"vital_status": np.where(HAPPENED, "dead", "alive")}, "base=alive)"),
        ({"time_to_event": DAYS}, {"observed": np.where(HAPPENED, "TRUE", "FALSE")}, ""),
        ({"futime": DAYS}, {"fustat": HAPPENED.astype(int)}, ""),
        ({"weeks": DAYS}, {"censored": 1 - HAPPENED}, "censored=contrasts(censored, base=1)"),
        ({"tstart": DAYS - 4, "tstop": DAYS}, {"event": HAPPENED.astype(int)}, ""),
    ],
)
def test_times_and_their_events(
    times: dict[str, Any], event: dict[str, Any], mapped: str, tmp_path: Path
) -> None:
    """The proposed model fits as the same one of an event of 0 and 1 does, whatever it is written
    as: by the counts of events, against the maximum of the likelihood of a Weibull."""
    frame = pd.DataFrame({"age": R2.normal(60, 8, N).round(1), **times, **event})
    frame.to_csv(tmp_path / "d.csv", index=False)
    text = skeleton(str(tmp_path / "d.csv"))
    (name,) = event
    entry = ", entry = tstart" if "tstart" in times else ""
    time = [*times][-1]
    assert (
        f"observe {time} ~ weibull(log_scale = eta, shape = shape, event = {name}{entry})" in text
    )
    assert mapped in " ".join(command_of(text)), command_of(text)
    assert f"u_{name}" not in text
    assert f"b_{name}" not in text
    words = command_of(text)
    maps = [words[k + 1].partition("=") for k, word in enumerate(words) if word == "--map"]
    model = lgm.loads(text)
    fit = lgm.fit(model, str(tmp_path / "d.csv"), mapping={n: k for n, _, k in maps}, **QUICK)
    plain = {**frame, name: HAPPENED.astype(int)}
    same = lgm.fit(model, pd.DataFrame(plain), **QUICK)
    assert fit.log_evidence == pytest.approx(same.log_evidence, abs=1e-6)


def test_times_of_zero_and_events_of_more_labels() -> None:
    zero = columns(days=np.where(X > 1, 0, DAYS), dead=HAPPENED.astype(int))
    text = skeleton(zero)
    assert "generalized_pareto(log_scale = eta, shape = shape, event = dead)" in text
    fits(text, zero, **QUICK)
    risks = columns(time=DAYS, status=R2.choice(["alive", "relapse", "death"], N))
    text = skeleton(risks)
    assert "observe time ~ weibull(log_scale = eta, shape = shape)" in text
    assert "All times are taken as those of an event, as `status` has 3 labels" in " ".join(
        text.replace("\n#", "").split()
    )
    fits(text, risks, **QUICK)


def test_other_outcomes_are_no_covariates() -> None:
    both = columns(
        ptime=DAYS, pstat=HAPPENED.astype(int), futime=DAYS + 3, death=(X > 0).astype(int)
    )
    text = skeleton(both)
    assert "observe futime ~ weibull(log_scale = eta, shape = shape, event = death)" in text
    assert "ptime" not in text.split("let eta")[1]
    assert "pstat" not in text.split("let eta")[1]


def test_a_response_of_two_labels() -> None:
    for key, low, high in (
        ("presence", "absent", "present"),
        ("y", "no", "yes"),
        ("y", -1, 1),
        ("ill", "healthy", "case"),
    ):
        words: dict[str, Any] = {key: np.where(HAPPENED, high, low)}
        frame = columns(**words)
        text = skeleton(frame)
        assert f"{key}=contrasts({key}, base={low})" in text, text
        assert f"observe {key} ~ bernoulli(logit = eta)" in text
        fits(text, frame, **QUICK)


def test_ids_are_no_response_and_no_slope() -> None:
    """As in lme4's InstEval: factors s and d by their codes, thousands of them."""
    rng = np.random.default_rng(1)
    n = 4000
    s, d = rng.integers(1, 1001, n), rng.integers(1, 401, n) * 2 - 1
    frame = pd.DataFrame({"s": s, "d": d, "studage": rng.choice([2, 4, 6, 8], n)})
    assert "observe studage" in skeleton(frame)
    text = skeleton(frame.assign(y=rng.integers(1, 6, n)))
    assert "u_s[s]" in text
    assert "observe y ~ ordinal" in text
    for name in ("student", "lecturer", "department", "county_idx", "idnum"):
        only = pd.DataFrame({name: rng.integers(5, 400, 500), "gain": rng.normal(size=500)})
        assert f"u_{name}[{name}]" in skeleton(only), name


@pytest.mark.parametrize(
    ("response", "family"),
    [
        ({"weight": R2.integers(40, 90, N)}, "normal"),
        ({"Yield": 10 * R2.integers(140, 170, N)}, "normal"),
        ({"gain": R2.integers(150, 320, N)}, "normal"),
        ({"seizures": R2.poisson(60, N)}, "poisson"),
        ({"cases": R2.poisson(40, N) + 20}, "poisson"),
        ({"died": R2.integers(0, 2, N)}, "bernoulli"),
    ],
)
def test_whole_amounts_and_counts(response: dict[str, Any], family: str) -> None:
    frame = columns(sex=R2.choice(["f", "m"], N), **response)
    assert f"observe {next(iter(response))} ~ {family}(" in skeleton(frame)


def test_a_constant_number_of_trials_and_few_levels() -> None:
    frame = columns(
        dead=R2.binomial(20, 0.3, N), total=20, Exposure=R2.integers(1, 5, N), arm=["a", "b"] * 45
    )
    text = skeleton(frame)
    assert "observe dead ~ binomial(n = total, logit = eta)" in text
    assert "latent u_arm[arm_level]" in text
    assert "sd_arm" not in text
    fits(text, frame, **QUICK)


def flat(text: str) -> str:
    """The text without the line ends of its comments."""
    return " ".join(text.replace("\n#", "").split())


def survival(**more: Any) -> pd.DataFrame:
    frame = columns(start=DAYS - 4.0, stop=DAYS + 0.5, status=HAPPENED.astype(float))
    return frame.assign(**more)


SPELLS = "observe stop ~ weibull(log_scale = eta, shape = shape, event = status, entry = start)"


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("start", 999.0, "`start` is not before `stop` in 1 of 90 rows, first in row 7"),
        ("start", np.nan, "`start` is not before `stop` in 1 of 90 rows, first in row 7"),
        ("status", np.nan, "`status` is missing in 1 of 90 rows, first in row 7"),
        ("stop", -3.0, "`stop` is below 0 in 1 of 90 rows, first in row 7 (counted from 0: `stop`"),
    ],
)
def test_one_mistake_leaves_lifetimes_what_they_are(column: str, value: float, said: str) -> None:
    """One such row made a start a covariate, and a survival model one of 0 and 1."""
    frame = survival()
    frame.loc[7, column] = value
    text = skeleton(frame)
    assert SPELLS in text
    assert said in flat(text)
    assert "The model refuses the tables as they are" in flat(text)
    corrected = frame.drop(index=7)
    assert SPELLS in skeleton(corrected)
    assert "refuses" not in skeleton(corrected)
    fits(text, corrected, **QUICK)


def test_what_is_no_lifetime_in_many_rows_is_said() -> None:
    late = survival(start=np.where(np.arange(N) % 2, DAYS + 9.0, DAYS - 4.0))
    text = skeleton(late)
    assert "entry =" not in text
    assert "b_start" in text
    assert "is not taken as one: it is not before `stop` in 45 of 90 rows, first in row 1" in flat(
        text
    )
    gone = columns(time=DAYS, status=np.where(np.arange(N) % 2, np.nan, HAPPENED))
    said = flat(skeleton(gone))
    assert "observe status ~ bernoulli" in said
    assert "`time` and `status` are called like a time and its event" in said
    assert "`status` is missing in 45 of 90 rows, first in row 1" in said
    above = columns(total=20, dead=np.where(np.arange(N) == 3, 21, R2.binomial(20, 0.4, N)))
    said = flat(skeleton(above))
    assert "binomial(n = total" in said
    assert "`dead` is above `total` in 1 of 90 rows, first in row 3" in said


@pytest.mark.parametrize(
    ("values", "family", "said"),
    [
        (np.where(np.arange(N) == 5, -9, R2.poisson(3, N)), "normal", "is a count but in 1 of 90"),
        (np.where(np.arange(N) == 5, 2.5, R2.poisson(3, N)), "gamma", "is a count but in 1 of 90"),
        (np.where(np.arange(N) == 5, 9, HAPPENED), "poisson", "is 0 or 1 but in 1 of 90 rows"),
        (R2.normal(size=N).round(1), "normal", ""),
        (R2.poisson(3, N), "poisson", ""),
        (R2.integers(40, 90, N) + 0.5 * (np.arange(N) % 2), "normal", ""),
    ],
)
def test_a_response_that_is_nearly_of_another_kind(values: Any, family: str, said: str) -> None:
    text = flat(skeleton(columns(y=values)))
    assert f"observe y ~ {family}" in text
    assert (said in text) if said else ("but in" not in text)


@pytest.mark.parametrize(
    ("one", "zero"),
    [
        ("Progression", "Censored"),
        ("Progressed", "Progression-free"),
        ("dead", "alive"),
        ("DECEASED", "LIVING"),
        ("died", "survived"),
        ("1:DECEASED", "0:LIVING"),
        ("1:Recurred/Progressed", "0:DiseaseFree"),
        ("1:PROGRESSION", "0:CENSORED"),
        ("1: event", "0: other"),
    ],
)
@pytest.mark.parametrize("called", ["OS_STATUS", "status", "event"])
def test_words_of_events(one: str, zero: str, called: str) -> None:
    frame = columns(OS_MONTHS=DAYS / 30).assign(**{called: np.where(HAPPENED, one, zero)})
    text = skeleton(frame)
    assert f"event = {called})" in text
    assert f"{called}=contrasts({called}, base={zero})" in command_of(text)
    words = command_of(text)
    mapping = dict(words[k + 1].split("=", 1) for k, word in enumerate(words) if word == "--map")
    plain = {**frame, called: HAPPENED.astype(int)}
    fit = lgm.fit(lgm.loads(text), frame, mapping=mapping, **QUICK)
    same = lgm.fit(lgm.loads(text), pd.DataFrame(plain), **QUICK)
    assert fit.log_evidence == pytest.approx(same.log_evidence, abs=1e-6)


@pytest.mark.parametrize("low", ["lower upper", "left right"])
def test_infinite_ends_are_open(low: str) -> None:
    a, b = low.split()
    frame = columns().assign(**{a: np.exp(X), b: np.where(X > 0.5, np.inf, 2.0 * np.exp(X))})
    text = skeleton(frame)
    assert f"lower = {a}, upper = {b})" in text
    fit = fits(text, frame, **QUICK)
    missing = frame.replace(np.inf, np.nan)
    same = lgm.fit(lgm.loads(skeleton(missing)), missing, **QUICK)
    assert fit.log_evidence == pytest.approx(same.log_evidence, abs=1e-9)


@pytest.mark.parametrize("pair", [(1.5, 2.5), (10, 20), (0.0, 0.3)])
def test_two_readings_are_no_labels(pair: tuple[float, float]) -> None:
    frame = columns(y=np.where(HAPPENED, *pair))
    text = skeleton(frame)
    assert "observe y ~ normal(mean" in text
    assert "contrasts" not in text
    assert "observe y ~ normal" in skeleton(frame, "y")


def test_priors_in_comments_are_on_the_scale_of_the_response() -> None:
    said = flat(skeleton(columns(y=1e5 * X, brand=R.integers(1, 16, N), dose=R.integers(1, 5, N))))
    assert re.search(
        r"latent b_brand ~ normal\(sd = 2[0-9]{5}\), and write b_brand \* \(brand -", said
    )
    assert re.search(r"latent u_dose\[dose_level\] ~ normal\(sd = 2[0-9]{5}\)", said)


def test_a_table_of_a_header_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("time,status,age\n")
    done = run("new", tmp_path / "d.csv")
    assert done.status == 1
    assert "it has no rows below the names of its columns" in done.err
    assert "`time`, `status`, `age`" in done.err


POLICIES = 300
R3 = np.random.default_rng(8)
CLAIMS = R3.poisson(0.25, POLICIES)
AMOUNTS = np.where(CLAIMS > 0, R3.gamma(2.0, 900.0, POLICIES), 0.0).round(2)


def policies(**more: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "policy_id": [f"P{100_000 + 7 * k}" for k in range(POLICIES)],
            "driver_age": R3.integers(18, 85, POLICIES),
            "vehicle": R3.choice(["hatchback", "SUV", "sedan", "van"], POLICIES),
            "exposure": R3.uniform(0.1, 1.0, POLICIES).round(2),
            "bonus_malus": R3.integers(50, 150, POLICIES),
            **more,
        }
    )


def test_claims_are_the_response_of_policies() -> None:
    """Before, bonus_malus was, and numbers of claims had a slope."""
    text = skeleton(policies(claim_nb=CLAIMS, claim_amount=AMOUNTS))
    assert "observe claim_nb ~ poisson(log_rate = eta, exposure = exposure)" in text
    assert "`claim_amount` is called like a response as well" in flat(text)
    assert "0 or 1 but" not in flat(text)
    amounts = skeleton(policies(claim_amount=AMOUNTS))
    assert "observe claim_amount ~ gamma(log_mean = eta, shape = shape, hurdle = zero)" in amounts
    wrong = policies(claim_nb=np.where(np.arange(POLICIES) == 8, -1, CLAIMS))
    wrong.loc[3, "exposure"] = 0.0
    said = flat(skeleton(wrong))
    assert "observe claim_nb ~ poisson(log_rate = eta, exposure = exposure)" in said
    assert "`claim_nb` is no count in 1 of 300 rows, first in row 8" in said
    assert "`exposure` (exposure) is not above 0 in 1 of 300 rows, first in row 3" in said


@pytest.mark.parametrize(
    ("form", "sign", "plain"),
    [
        ("${:,.2f}", "currency signs and commas", "1234.50"),
        ("€{:.2f}", "currency signs", "1234.50"),
        ("USD {:,.0f}", "currency signs and commas", "1234"),
        ("{:,.1f}", "commas", "1234.5"),
        ("german", "points between thousands and decimal commas", "1234.5"),
        ("brackets", "brackets and commas", "-1234"),
    ],
)
def test_amounts_of_money_are_no_groups(form: str, sign: str, plain: str) -> None:
    """They had an effect for each amount."""
    known: dict[str, Callable[[float], str]] = {
        "german": lambda v: f"{v:,.1f}".translate(str.maketrans(",.", ".,")),
        "brackets": lambda v: f"({v:,.0f})" if v else "0",
    }
    written = known.get(form, form.format)
    paid = [written(v) for v in [1234.5, *AMOUNTS[1:]]]
    frame = policies(claim_nb=CLAIMS, amount=paid)
    text = skeleton(frame)
    assert "amount_level" not in text
    assert f"`amount`: its numbers are written with {sign}: write" in flat(text)
    with pytest.raises(DataError, match=r"E305.*`amount` cannot be the response") as raised:
        skeleton(frame, "amount")
    assert "change it in the table" in raised.value.diagnostics[0].help
    model = "lgm 1\nindex obs\ndata amount[obs] : real\nlatent a ~ normal(sd = 1)\n"
    model += "observe amount ~ normal(mean = a, sd = 1)\n"
    alone = [written(1234.5)] * 2
    with pytest.raises(DataError, match=f"E303(.|\\n)*write numbers without {sign}: ") as raised:
        lgm.fit(lgm.loads(model), {"amount": alone})
    assert f"{plain} for" in raised.value.diagnostics[0].help


def test_postcodes_are_groups() -> None:
    frame = policies(claim_nb=CLAIMS, postcode=R3.integers(10_000, 10_040, POLICIES))
    assert "u_postcode[postcode]" in skeleton(frame)
