"""Examples of pages run: models are checked and fitted, commands are executed."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.help.pages import every_page
from lgmdsl.cli.main import main
from lgmdsl.compile import compile_model
from lgmdsl.dataset import read
from lgmdsl.sites.catalogue import find_site
from lgmdsl.vocabulary.examples import OF_ARGUMENTS, SD, grouped, model, process, regression
from lgmdsl.vocabulary.page import Page
from tests.vocabulary.synthetic import data_for

PAGES = every_page()
MODELS = tuple(dict.fromkeys(p.example for p in PAGES if p.example.startswith("lgm 1\n")))
COMMANDS = tuple(
    dict.fromkeys(
        line
        for p in PAGES
        if not p.example.startswith("lgm 1\n")
        for line in p.example.splitlines()
    )
)


def test_every_page_has_an_example_that_is_a_model_or_commands() -> None:
    assert all(p.example for p in PAGES)
    assert len(MODELS) >= 70 and len(COMMANDS) >= 60
    assert all(command.startswith("lgm fit ") for command in COMMANDS)


NO_WORDS = ("topic", "concept", "argument")  # arguments of operators are given by place
WORDS = tuple(p for p in PAGES if p.example.startswith("lgm 1\n") and p.kind not in NO_WORDS)


@pytest.mark.parametrize("page", WORDS, ids=lambda p: f"{p.kind} {p.name}".replace(" ", "-"))
def test_an_example_uses_its_word(page: Page) -> None:
    if page.name == "iid":
        assert "~ iid *" in page.example
    assert page.name in page.example


@pytest.mark.parametrize("name", OF_ARGUMENTS)
def test_an_example_of_an_argument_uses_it(name: str) -> None:
    (page,) = (p for p in PAGES if p.kind == "argument" and p.name == name)
    assert f"{name} = " in page.example


@pytest.mark.few(10)
@pytest.mark.parametrize("text", MODELS)
def test_a_model_is_fitted(text: str) -> None:
    """With the hyperparameters at typical values, by the first method that can."""
    loaded = lgm.loads(text)
    data = data_for(loaded)
    canonical = compile_model(loaded.checked, read(data, None), find_site)
    able = [v.method for v in lgm.methods(loaded) if v.runs]
    fit = lgm.fit(
        loaded,
        data,
        method=able[0],
        fixed=dict(canonical.hypers.start({})),
        options={"correction": "off"},
    )
    assert fit.converged
    assert all(np.isfinite(np.asarray(fit.mean(name))).all() for name in canonical.layout.starts)


# What the commands are run on: small models that have what they are about. `model.lgm` is the first
# of the general ones that the command's method can run.
GENERAL = (
    grouped(SD).replace("count", "binary").replace("poisson(log_rate", "bernoulli(probit"),
    grouped(SD).replace("count", "binary").replace("poisson(log_rate", "bernoulli(logit"),
)
FILES = {
    "pinned": grouped("hyper s : positive = 0.5"),
    "gaussian": regression("normal(mean = eta, sd = 0.5)"),
    "logit": regression("bernoulli(logit = eta)", y="binary"),
    "classes": model(
        "index obs",
        'index class = {"a", "b", "c"}',
        "data x[obs] : real",
        "data y[obs] : class",
        "latent b[class] ~ normal(sd = 2)",
        "observe y ~ categorical(softmax = b * x)",
    ),
    "gp": process("se(sd = s, length = 1)"),
    "scale": regression("normal(mean = eta, sd = s)", "hyper s : positive ~ half_normal(sd = 1)"),
    "groups": model(
        "index group",
        "index time = 3",
        "data y[group, time] : real",
        "latent z[group, time] ~ iid * ar1(sd = 1, rho = 0.5)",
        "observe y ~ normal(mean = z, sd = 0.5)",
    ),
    "persons": model(
        "index person",
        "index item = 3",
        "data difficulty[item] : real",
        "data y[person, item] : binary",
        "latent z[person] ~ normal(sd = 1)",
        "observe y ~ bernoulli(logit = z - difficulty)",
    ),
    "factors": model(
        "index obs",
        "index item = 3",
        "index factor = 1",
        "data y[obs, item] : real",
        "hyper L[item, factor] : real ~ normal(sd = 1)",
        "latent z[obs, factor] ~ normal(sd = 1)",
        "observe y ~ normal(mean = L @ z, sd = 0.5)",
    ),
}


def general(words: list[str]) -> str:
    if "engine=iterative" in words or words[-1].startswith("samples="):
        return FILES["pinned"]  # to learn by estimates takes ten seconds; tests of engines do that
    method = words[words.index("--method") + 1] if "--method" in words else "laplace"
    return next(t for t in GENERAL if lgm.methods(lgm.loads(t))[method].runs)


@pytest.mark.few(10)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command)[1:]
    place, data = Path(words[1]), Path(words[2])
    text = FILES.get(place.stem) or general(words)
    place.write_text(text)
    arrays = data_for(lgm.loads(text))
    if data.stem == "renamed":
        arrays["outcome"] = arrays.pop("y")
    np.savez(data, **arrays)
    if "fit.nc" in words:
        assert main(["fit", place.name, data.name, "-o", "fit.nc"]) == 0
    status = main(words)
    assert status == 0, capfd.readouterr().err
