"""The checker, rule by rule: each program is one edit away from good.lgm, which is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lgmdsl.errors import ModelError
from lgmdsl.graph.build import model_graph
from lgmdsl.graph.warnings import warnings_of
from lgmdsl.language.check.check import check
from lgmdsl.language.parse.parse import parse
from lgmdsl.language.tree import ast

GOOD = (Path(__file__).parent / "good.lgm").read_text(encoding="utf-8")


def codes(text: str) -> tuple[str, ...]:
    try:
        check(parse(text))
    except ModelError as error:
        return error.codes
    return ()


def test_the_good_model_is_good() -> None:
    model = check(parse(GOOD))
    assert [w.render() for w in warnings_of(model_graph(model)) if w.code != "W101"] == []
    # Only what the edits below need is left unused.
    assert {w.message.split("`")[1] for w in warnings_of(model_graph(model))} == {
        "n",
        "keep",
        "cuts",
        "stick",
    }


EDITS = [
    # names
    ("X @ b +", "X @ bb +", "E103"),
    ("~ poisson(", "~ poison(", "E103"),
    ("bym2(", "bym3(", "E103"),
    ("se(sd", "rbf(sd", "E103"),
    ("half_cauchy(", "half_couchy(", "E103"),
    ("~ laplace(", "~ lasso(", "E103"),
    ("data r[obs] : real", "data r[obs] : reel", "E103"),
    ("hyper m : real", "hyper m : reel", "E103"),
    ("conv2(", "conv3(", "E103"),
    ("latent u[subject] ~ normal", "latent u[subject] ~ poisson", "E103"),
    ("index cut = head(class)", "index cut = head(clas)", "E103"),
    ("data who[obs]", "data who[ob]", "E103"),
    ("observe y ~", "observe yy ~", "E103"),
    ("sum(kc, cut)", "sum(kc, cat)", "E103"),
    # arguments
    ("exposure = time", "offset = time", "E104"),
    ("exposure = time", "exposure = time, exposure = time", "E104"),
    ("kernel = se(sd = s, length = ell) *", "kernel = se(sd = s) *", "E104"),
    ("+ white(sd = 0.1)", "+ white(std = 0.1)", "E104"),
    ("graph = adj, sd = s, mix = mix", "graph = adj, sd = s", "E104"),
    ("softmax = util,", "softmax = util, stick = stick,", "E104"),
    ("softmax = util, ", "", "E104"),
    ("normal(mean = eta,", "normal(", "E104"),
    ("sd = scale, event", "sd = scale, log_var = eta, event", "E104"),
    ('boundary = "circular"', 'boundary = "round"', "E104"),
    ("potential diff(img, row)", "potential diff(img)", "E104"),
    (", sd = 0.1)\npot", ")\npot", "E104"),
    ("white(sd = 0.1)", "matern(sd = 0.1, length = 1, smoothness = 3)", "E104"),
    ("white(sd = 0.1)", "white(0.1)", "E102"),
    ("diff(img, row)", "diff(img, row, 2)", "E102"),
    # twice, early
    ("report gap", "report eta", "E106"),
    ("observe c ~", "observe y ~ poisson(log_rate = b0)\nobserve c ~", "E106"),
    ('"bike", "bus"', '"bike", "walk"', "E106"),
    ("latent b[feat] ~", "latent b[feat, feat] ~", "E106"),
    ("sd = sqrt(v)", "sd = later", "E107"),
    ("let util[obs, class] = k", "let util[obs, class] = k + util", "E107"),
    # types
    ("data y[obs] : count", "data y[obs] : binary", "E108"),
    ("data c[obs] : class", "data c[obs] : real", "E108"),
    ("exposure = time", "exposure = r", "E108"),
    ("exposure = time", 'exposure = "time"', "E108"),
    ("exposure = time", "exposure = true", "E108"),
    ("exposure = time", "exposure = f", "E108"),
    ("exposure = time", "exposure = who", "E108"),
    ("exposure = time", "exposure = adj", "E108"),
    ("exposure = time", "exposure = -1", "E108"),
    ("exposure = time", "exposure = 0", "E108"),
    ("sd = 10", "sd = 1 - 2", "E108"),
    ("sd = 10", "sd = m", "E108"),
    ("ar1(rho = rho)", "ar1(rho = 1.5)", "E108"),
    ("ar1(rho = rho)", "ar1(rho = s)", "E108"),
    ("mix = mix", "mix = 2", "E108"),
    ("cyclic = false", "cyclic = 0", "E108"),
    ("event = died", "event = n", "E108"),
    ("event = died", "event = 1 - died", "E108"),
    ("graph = adj, sd = s, mix", "graph = Q, sd = s, mix", "E108"),
    ("dense(cov = S)", "dense(cov = adj)", "E108"),
    ("dense(cov = S)", "dense(cov = s)", "E108"),
    ("gmrf(precision = Q)", "gmrf(precision = 2)", "E108"),
    ("pacf = pacf", "pacf = rho", "E108"),
    ("sd = s, mix = mix", "sd = ard, mix = mix", "E108"),
    ("length = ell", "length = ard", "E108"),
    ("white(sd = 0.1)", "white(sd = 0.1) - white(sd = 0.2)", "E108"),
    ("white(sd = 0.1)", "2", "E108"),
    ("emission = beta", "emission = 2", "E108"),
    ("emission = beta", "emission = ell", "E108"),
    ("softmax = topic", "softmax = eta", "E108"),
    ("softmax = util", "softmax = eta", "E108"),
    ("softmax = util", "probit = stick", "E108"),
    ("softmax = util, available = avail", "stick = util", "E108"),
    ("softmax = util, available = avail", "stick = eta", "E108"),
    ("available = avail", "available = util", "E108"),
    ("available = avail", "available = died", "E108"),
    ("pc_sd(u = 1, alpha = 0.01)", "pc_mix(graph = adj, u = 0.5, alpha = 0.5)", "E108"),
    ("pc_sd(u = 1, alpha = 0.01)", "pc_sd(u = 1, alpha = 2)", "E108"),
    ("pc_sd(u = 1, alpha = 0.01)", "uniform(lower = 2, upper = 1)", "E108"),
    ("hyper S[feat, feat] :", "hyper S[feat] :", "E108"),
    ("hyper beta[dim, feat]", "hyper beta", "E108"),
    ("hyper v : positive = s ^ 2", "hyper v : positive = -2", "E108"),
    ("hyper v : positive = s ^ 2", "hyper v : positive = time", "E108"),
    ("hyper v : positive = s ^ 2", "hyper v : positive = sum(s, obs)", "E108"),
    ("hyper v : positive = s ^ 2", "hyper v : positive = s / 0", "E108"),
    ("hyper m : real ~", "hyper m : real? ~", "E108"),
    ("data adj[region, region]", "data adj[region, year]", "E108"),
    ("u[who]", "u[time]", "E108"),
    ("u[who]", "u[who, when]", "E108"),
    ("u[who]", "who", "E108"),
    ("u[who]", "obs", "E108"),
    ("u[who]", "adj", "E108"),
    ("u[who]", "S", "E108"),
    ("let eta[obs]", "let eta[time]", "E108"),
    ("observe r ~", "observe f ~", "E108"),
    ("potential fe ~", "potential r ~", "E108"),
    ("group = feat", "group = obs", "E108"),
    ('constrain k["walk"] = 0', 'constrain k["walk"] = b0', "E108"),
    ('constrain k["walk"] = 0', "constrain m = 0", "E108"),
    ("psf, boundary", "X + psf, boundary", "E108"),
    ("let util[obs, class] = k", "report q = b0\nlet util[obs, class] = k + q", "E108"),
    ("let util[obs, class] = k", "let util[obs, class] = k + invlogit(m)", "E108"),
    ("diff(img, row)", 'mask(img, keep = "keep")', "E108"),
    ("diff(img, row)", "wavelet(img, filter = haar)", "E104"),
    ("sum(kc, cut)", "sum(kc, cut, 2)", "E104"),
    ("data died", "index half = head(r)\ndata died", "E108"),
    ("died[obs] : binary", "died[obs] : r", "E108"),
    ("hyper m : real ~ normal(sd = 1)", "hyper m : real = S", "E108"),
    ("hyper m : real ~ normal(sd = 1)", "hyper m : real = ell @ ell", "E108"),
    ("unit ~ pc_mix(graph = adj, u = 0.5, alpha = 2/3)", "unit = s", "E108"),
    ("hyper beta[dim, feat]", "hyper beta[feat, dim]", "E108"),
    ("data n[obs]", "data n0 : count\nlatent z ~ normal(sd = 1)\n"
     "observe n0 ~ multinomial(n = 3, softmax = z)\ndata n[obs]", "E108"),
    ("observe words ~ admixture(softmax = topic, emission = beta)",
     "observe words ~ multinomial(n = words, softmax = eta + b)", "E108"),
    ("observe words ~ admixture(softmax = topic, emission = beta)",
     "observe words ~ multinomial(n = n, softmax = eta)", "E108"),
    ("graph = adj, sd = s, mix", 'graph = adj["a", region], sd = s, mix', "E108"),
    ("observe c ~ categorical(softmax = util, available = avail)",
     "observe c ~ ordinal(logit = eta, cuts = cuts, model = cumulative)", "E108"),
    ("observe c ~ categorical(softmax = util, available = avail)",
     "observe c ~ ordinal(logit = eta, cuts = cuts, model = 3)", "E108"),
    ("exposure = time", 'exposure = S["age", "height"]', "E108"),
    ("ar1(rho = rho)", "ar1(rho = -1)", "E108"),
    ("latent img", "latent g[obs] ~ gp(at = x)\nlatent img", "E104"),
    ("latent img", 'latent g[obs] ~ gp(at = x, kernel = "se")\nlatent img', "E108"),
    # indices
    ("hyper ard[feat] : positive ~ half_cauchy(scale = s)", "hyper ard[feat] : positive = ell",
     "E201"),
    ("softmax = util, available = avail", "stick = stick + b", "E201"),
    ("softmax = util,", "softmax = util + b,", "E201"),
    ("observe words ~ admixture(softmax = topic, emission = beta)",
     "observe words ~ multinomial(n = n, softmax = eta + b + u)", "E201"),
    ("u[who]", "u", "E201"),
    ("X @ b", "X * b", "E201"),
    ("report p[obs]", "report p", "E201"),
    ("log_rate = eta", "log_rate = eta + u", "E201"),
    ("exposure = time", "exposure = ard", "E201"),
    ("sd = ard)", "sd = ell)", "E201"),
    ("laplace(scale = 2)", "laplace(scale = ell)", "E201"),
    ("half_cauchy(scale = s)", "half_cauchy(scale = ell)", "E201"),
    ("sum(kc, cut)", "sum(kc, obs)", "E201"),
    ("observe r ~", "let g[row, col] = diff(img, row)\nobserve r ~", "E201"),
    ("constrain sum(kc, cut) = 0", "constrain kc = ard", "E201"),
    ("available = avail", "available = avail[obs, class] + 0", "E108"),
    ("X @ b", "X @ u", "E202"),
    ("X @ b", "b0 @ b", "E202"),
    ("X @ b", "X @ X", "E202"),
    # linearity
    ("X @ b", "X @ b * b0", "E203"),
    ("X @ b", "X @ b / b0", "E203"),
    ("X @ b", "X @ b ^ 2", "E203"),
    ("X @ b", "exp(b0)", "E203"),
    ("potential b ~", "potential b * b ~", "E203"),
    ("constrain sum(kc, cut) = 0", "constrain sum(kc * kc, cut) = 0", "E203"),
    ("psf, boundary", "img, boundary", "E203"),
    # maps
    ("u[who]", "u[where]", "E204"),
    ("u[who]", "u[obs]", "E204"),
    ("st[where, when]", "st[year, region]", "E204"),
    # structures and axes
    ("latent tr[year] ~ ar(", "latent tr[year] ~ iid * ar(", "E205"),
    ("latent d[subject, feat] ~ iid * dense(cov = S)", "latent d[subject, feat] ~ iid", "E205"),
    ("ar1(rho = rho)", "ar1(sd = s, rho = rho)", "E205"),
    ("iid * dense(cov = S)", "dense(cov = S) * iid", "E205"),
    ("iid * dense(cov = S)", "normal(sd = 1) * dense(cov = S)", "E205"),
    ("iid * dense(cov = S)", "flat * dense(cov = S)", "E205"),
    ("latent b0 ~ normal(sd = 10)", "latent b0 ~ iid", "E205"),
    ("gp(at = x,", "gp(at = t,", "E205"),
    ("at = t)\nlatent ou", "at = r)\nlatent ou", "E205"),
    ("besag(graph = adj, sd = s) * ar1(rho = rho)",
     "ar1(rho = rho) * besag(graph = adj, sd = s)", "E205"),
    # labels
    ('k["walk"]', 'k["wolk"]', "E302"),
    ('k["walk"]', "k[0]", "E302"),
    ("sum(kc, cut) = 0", 'kc["bus"] = 0', "E302"),
    ("sum(kc, cut) = 0", "walk[10] = 0", "E302"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "code"), EDITS, ids=lambda v: v[:30].strip())
def test_one_edit_is_one_error(old: str, new: str, code: str) -> None:
    """The right code, once: what depends on the wrong part says nothing."""
    assert GOOD.count(old) >= 1
    text = GOOD.replace(old, new, 1)
    if "later" in new:
        text += "hyper later : positive = 1\n"
    assert codes(text) == (code,)


RIGHT = [
    ("softmax = util, available = avail", "stick = stick"),
    ("softmax = util, available = avail", "probit = util"),
    ("observe c ~ categorical(softmax = util, available = avail)",
     'observe c ~ ordinal(probit = eta, cuts = cuts, model = "adjacent")'),
    ("observe words ~ admixture(softmax = topic, emission = beta)",
     "observe words ~ multinomial(n = n, softmax = eta + b)"),
    ("sd = scale, event = died", "sd = 1, lower = time, upper = 3"),
    ("observe r ~ normal(mean = eta, sd = scale, event = died)",
     "observe r ~ normal(mean = time, log_var = eta)"),
    ("observe r ~ normal(mean = eta, sd = scale, event = died)",
     "observe r ~ normal(log_var = eta)"),
    ("diff(img, row)", 'diff(img, row, order = 2, boundary = "reflect") + 2 * img'),
    ("diff(img, row)", "mask(img, keep)"),
    ("diff(img, row)", 'wavelet(img, filter = "haar", levels = 3)'),
    ("diff(img, row)", "cumsum(img, row)"),
    ("group = feat", "group = map_of_feat"),
    ("hyper v : positive = s ^ 2", "hyper v : positive = exp(-log(s)) / 2 + sqrt(s)"),
    ("hyper ard[feat] : positive ~ half_cauchy(scale = s)", "hyper ard[feat] : positive = 2 * s"),
    ("flat\n", "iid * iid\n"),
    ("iid * dense(cov = S)", "ar1(rho = 0.5) * iid"),
    ("white(sd = 0.1)", "matern(sd = 0.1, length = 1, smoothness = 1.5) + linear(sd = 1)"),
    ("constrain sum(kc, cut) = 0", "constrain sum(kc, cut) = m"),
    ("exposure = time", 'exposure = S["age", "age"]'),
    ("hyper beta", "hyper T[feat, feat] : covariance = S\nhyper beta"),
    ("hyper beta",
     "hyper copy[cut] : ordered ~ flat\nhyper more[cut] : ordered = copy\nhyper beta"),
    ("hyper m : real ~ normal(sd = 1)", "hyper m : real ~ flat"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), RIGHT, ids=lambda v: v[:30].strip())
def test_one_edit_is_none(old: str, new: str) -> None:
    text = GOOD.replace(old, new, 1).replace(
        "data died", "data map_of_feat[feat] : class\ndata died"
    )
    assert old in GOOD
    assert codes(text) == ()


@pytest.mark.parametrize(
    ("definition", "code"),
    [
        (ast.Size(0), "E108"),
        (ast.Size(10**12), "E108"),
        (ast.Range(5, 1), "E108"),
        (ast.Range(0, 10**12), "E108"),
        (ast.Labels(()), "E108"),
        (ast.Labels(("a", "")), "E108"),
        (ast.Labels(("a", "a")), "E106"),
    ],
)
def test_indices_that_only_the_builder_could_make(definition: Any, code: str) -> None:
    tree = parse(GOOD)
    wrong = ast.Index(ast.Name("wrong"), definition)
    with pytest.raises(ModelError) as caught:
        check(ast.Ast((wrong, *tree.statements)))
    assert caught.value.codes == (code,)
