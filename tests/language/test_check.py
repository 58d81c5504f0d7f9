"""The checker, rule by rule: each program is one edit away from a model that is right."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lgmdsl.errors import LgmError, ModelError
from lgmdsl.language import ast
from lgmdsl.language.check import check
from lgmdsl.language.checked import CheckedModel
from lgmdsl.language.parse import parse
from lgmdsl.testing.trees import trees

GOOD = """lgm 1
index obs
index subject
index region
index year
index feat
index dim
index lag
index class = {"walk", "bike", "bus"}
index cut = head(class)
index day = 1..9
index row
index col
data y[obs] : count
data c[obs] : class
data r[obs] : real
data X[obs, feat] : real
data x[obs, dim] : real
data t[day] : real
data who[obs] : subject
data where[obs] : region
data when[obs] : year
data time[obs] : positive
data n[obs] : count
data words[obs, feat] : count
data died[obs] : binary
data adj[region, region] : graph
data Q[region, region] : real
data image[row, col] : real
data psf[feat, dim] : positive
data keep[row, col] : binary
data avail[obs, class] : binary
hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)
hyper v : positive = s ^ 2
hyper rho : correlation ~ pc_cor1(u = 0.7, alpha = 0.7)
hyper mix : unit ~ pc_mix(graph = adj, u = 0.5, alpha = 2/3)
hyper pacf[lag] : correlation ~ pc_cor0(u = 0.5, alpha = 0.5)
hyper ell[dim] : positive ~ inv_gamma(shape = 5, scale = 5)
hyper S[feat, feat] : covariance ~ lkj_cov(eta = 2, u = 1, alpha = 0.05)
hyper beta[dim, feat] : simplex ~ dirichlet(alpha = 1)
hyper cuts[cut] : ordered ~ normal(sd = 3)
hyper m : real ~ normal(sd = 1)
hyper ard[feat] : positive ~ half_cauchy(scale = s)
latent b0 ~ normal(sd = 10)
latent b[feat] ~ normal(mean = m, sd = ard)
latent u[subject] ~ normal(sd = sqrt(v))
latent st[region, year] ~ besag(graph = adj, sd = s) * ar1(rho = rho)
latent tr[year] ~ ar(sd = s, pacf = pacf)
latent walk[day] ~ rw2(sd = s, cyclic = false, at = t)
latent ou[day] ~ ou(sd = s, rate = 2, at = t)
latent gm[region] ~ gmrf(precision = Q)
latent by[region] ~ bym2(graph = adj, sd = s, mix = mix)
latent fe[spde_node] ~ spde(mass = M, stiffness = G, sd = s, range = 2)
latent f[obs] ~ gp(at = x, kernel = se(sd = s, length = ell) * periodic(length = 1, period = 2)
                                   + white(sd = 0.1))
latent d[subject, feat] ~ iid * dense(cov = S)
latent k[class] ~ normal(sd = 1)
latent kc[cut] ~ normal(sd = 1)
latent topic[obs, dim] ~ normal(sd = 1)
latent img[row, col] ~ flat
let eta[obs] = b0 + X @ b + u[who] + st[where, when] + f + sum(X * d[who, feat], feat) + tr[when]
let util[obs, class] = k
let stick[obs, cut] = kc
let scale[obs] = sqrt(time) * s
observe y ~ poisson(log_rate = eta + by[where] + gm[where], exposure = time)
observe c ~ categorical(softmax = util, available = avail)
observe r ~ normal(mean = eta, sd = scale, event = died)
observe words ~ admixture(softmax = topic, emission = beta)
observe image ~ normal(mean = conv2(img, psf, boundary = "circular"), sd = 0.1)
potential diff(img, row) ~ laplace(scale = 2)
potential walk + ou ~ exp_power(scale = 1, power = 0.5)
potential b ~ student_t(scale = 1, df = 3, group = feat)
potential fe ~ normal(sd = 1)
constrain k["walk"] = 0
constrain sum(kc, cut) = 0
report p[obs] = exp(eta) / (1 + exp(eta))
report gap = d["anna", "age"] - S["age", "age"]
""".replace("index row\n", "index row\nindex spde_node\n").replace(
    "data image",
    "data M[spde_node, spde_node] : real\ndata G[spde_node, spde_node] : real\ndata image",
)


def warned(model: CheckedModel) -> list[str]:
    return [w.code for w in model.warnings]


def codes(text: str) -> tuple[str, ...]:
    try:
        check(parse(text))
    except ModelError as error:
        return error.codes
    return ()


def test_the_good_model_is_good() -> None:
    model = check(parse(GOOD))
    assert [w.render() for w in model.warnings if w.code != "W101"] == []
    # Only what the edits below need is left unused.
    assert {w.message.split("`")[1] for w in model.warnings} == {
        "n", "keep", "cuts", "stick",
    }  # fmt: skip


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
    ("softmax = util", "softmax = stick", "E108"),
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
    # indices
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
    ("hyper m : real ~ normal(sd = 1)", "hyper m : real ~ flat"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), RIGHT, ids=lambda v: v[:30].strip())
def test_one_edit_is_none(old: str, new: str) -> None:
    text = GOOD.replace(old, new, 1).replace(
        "data died", "data map_of_feat[feat] : class\ndata died"
    )
    assert old in GOOD
    assert codes(text) == ()


# ---- the samples of LANGUAGE.md ------------------------------------------------------------

SAMPLES = {
    "E103": """error[E103]: unknown structure `rw3`
11 | latent f[day] ~ rw3(sd = s)
   |                 ^^^
   = help: did you mean `rw2`? Structures over one ordered axis: rw1 rw2 seasonal ar1 ar ou""",
    "E104": """error[E104]: `poisson` has no argument `rate`
   = note: poisson(log_rate: latent, exposure: positive = 1)
   = help: `eta` is on the log scale here: poisson(log_rate = eta)""",
    "E201": """error[E201]: index `subject` does not belong to `eta[obs]`
16 | let eta[obs] = b0 + X @ b + u
   |                             ^ has index [subject]
   = help: `who` maps obs to subject: write u[who]""",
    "E203": """error[E203]: `eta` is not linear in the latents
13 | let eta[person, item] = c + L @ z
   |                             ^^^^^ both `L` (line 10) and `z` (line 11) are latent
   = help: declare one of them as `hyper`, e.g. hyper L[item, factor] : real ~ normal(sd = 1)""",
}
GLMM = """lgm 1
index obs
index subject
index feat
data y[obs]       : count
data X[obs, feat] : real
data who[obs]     : subject
data time[obs]    : positive

hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)

latent b0         ~ normal(sd = 10)
latent b[feat]    ~ normal(sd = 2.5)
latent u[subject] ~ normal(sd = s)

let eta[obs] = b0 + X @ b + u[who]

observe y ~ poisson(log_rate = eta, exposure = time)
"""
WRONG = {
    "E104": GLMM.replace("log_rate", "rate"),
    "E201": GLMM.replace("u[who]", "u"),
}


@pytest.mark.parametrize("code", SAMPLES)
def test_samples_of_the_language(code: str, root: Path) -> None:
    golden = root / "tests" / "language" / "golden"
    kept = {"E103": "tokyo.lgm", "E203": "fa.lgm"}.get(code)
    text = (golden / kept).read_text(encoding="utf-8") if kept else WRONG[code]
    with pytest.raises(ModelError) as caught:
        check(parse(text, "m.lgm"))
    # The margin is set by errors.py; the text of each line is what the sample says.
    said = [line.strip() for line in str(caught.value).splitlines()]
    for line in SAMPLES[code].splitlines():
        assert line.strip() in said
    place = {"E103": "11:17", "E201": "16:29", "E203": "13:29"}.get(code, "18:21")
    assert f"--> m.lgm:{place}" in said


# ---- whole models ----------------------------------------------------------------------------


def test_examples_check_without_a_word(shared: Path) -> None:
    files = sorted((shared / "examples").glob("*.lgm"))
    assert len(files) == 15
    for file in files:
        model = check(parse(file.read_text(encoding="utf-8"), file.name))
        assert model.warnings == (), file.name


def test_symbols_say_what_later_stages_need() -> None:
    symbols = check(parse(GOOD)).symbols
    assert symbols["who"].target == "subject" and symbols["who"].dims == ("obs",)
    assert symbols["c"].target == "class"
    assert symbols["st"].dims == ("region", "year") and symbols["st"].degree == "affine"
    assert symbols["eta"].degree == "affine" and symbols["scale"].degree == "hyper"
    assert symbols["p"].degree == "nonlinear" and symbols["p"].kind == "report"
    assert symbols["S"].type == "covariance" and symbols["v"].degree == "hyper"
    assert symbols["X"].degree == "constant"
    assert list(symbols)[:3] == ["obs", "subject", "region"]


def test_a_wrong_statement_is_the_only_one_that_complains() -> None:
    text = """lgm 1
index obs
data y[obs] : real
data who[obs] : nobody
hyper s : positive ~ pc_sd(u = 1)
latent u[nobody] ~ normal(sd = s)
let eta[obs] = u[who] + s
let zeta[obs] = eta + nobody
observe y ~ normal(mean = zeta, sd = s)
"""
    assert codes(text) == ("E103", "E104")


def test_every_error_of_a_file_is_counted() -> None:
    text = "lgm 1\nindex obs\n" + "".join(f"let e{k}[obs] = x{k}\n" for k in range(40))
    with pytest.raises(ModelError) as caught:
        check(parse(text))
    assert len(caught.value.diagnostics) == 20 and caught.value.left_out == 20


@pytest.mark.parametrize(
    ("text", "code", "name"),
    [
        ("index obs\nindex k\ndata y[obs] : real\nlatent f[obs] ~ iid\n"
         "observe y ~ normal(mean = f, sd = 1)", "W101", "k"),
        ("index obs\ndata y[obs] : real\ndata x[obs] : real\nlatent f[obs] ~ iid\n"
         "observe y ~ normal(mean = f, sd = 1)", "W101", "x"),
        ("index obs\ndata y[obs] : real\nlatent f[obs] ~ iid\nlatent g ~ normal(sd = 1)\n"
         "report q = g\nobserve y ~ normal(mean = f, sd = 1)", "W102", "g"),
        ("index obs\nlatent f[obs] ~ iid\nreport q[obs] = f", "W103", ""),
        ("index obs\ndata y[obs] : real\nlatent f[obs] ~ iid\npotential f ~ laplace(scale = 1)\n"
         "observe y ~ normal(mean = 1, sd = 1)", "W104", ""),
        ("index obs\ndata y[obs] : real\ndata x[obs] : real?\nlatent f[obs] ~ iid\n"
         "observe y ~ normal(mean = f + x, sd = 1)", "W105", "x"),
    ],
)  # fmt: skip
def test_warnings(text: str, code: str, name: str) -> None:
    model = check(parse(f"lgm 1\n{text}\n"))
    assert warned(model) == [code]
    assert name in model.warnings[0].message and model.warnings[0].severity == "warning"


def test_a_model_without_latents_is_refused() -> None:
    assert codes("lgm 1\nindex obs\n") == ("E109",)
    with pytest.raises(ModelError):
        check(ast.Ast(()))


# ---- properties --------------------------------------------------------------------------------


@st.composite
def models(draw: st.DrawFn) -> tuple[list[str], list[str], str]:
    """Declarations, terms of a predictor, and the rest: a model that is right."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    head = ["index obs", "data y[obs] : count", "hyper s : positive ~ exponential(rate = 1)"]
    terms = ["b0"]
    tail = ["latent b0 ~ normal(sd = s)"]
    for k, size in enumerate(sizes):
        structure = draw(
            st.sampled_from(
                ["normal(sd = s)", "iid", "rw1(sd = s)", "ar1(sd = s, rho = 0.5)",
                 "seasonal(sd = s, period = 4)", "flat"]
            )
        )  # fmt: skip
        head.append(f"index g{k} = {size}")
        kind = draw(st.sampled_from(["map", "design", "pick", "sum"]))
        tail.append(f"latent u{k}[g{k}] ~ {structure}")
        if kind == "map":
            head.append(f"data m{k}[obs] : g{k}")
            terms.append(f"u{k}[m{k}]")
        elif kind == "design":
            head.append(f"data X{k}[obs, g{k}] : real")
            terms.append(draw(st.sampled_from([f"X{k} @ u{k}", f"sum(X{k} * u{k}, g{k})"])))
        elif kind == "pick":
            terms.append(f"{draw(st.integers(1, 9))} * u{k}[{draw(st.integers(0, size - 1))}]")
        else:
            terms.append(f"sum(u{k}, g{k})")
    return head + tail, terms, "observe y ~ poisson(log_rate = eta)"


def program(declarations: list[str], terms: list[str], rest: str) -> str:
    return "\n".join(["lgm 1", *declarations, f"let eta[obs] = {' + '.join(terms)}", rest, ""])


@given(models(), st.randoms())
def test_right_models_are_right_in_any_order_of_terms(model, random) -> None:
    declarations, terms, rest = model
    one = check(parse(program(declarations, terms, rest)))
    assert one.warnings == ()
    random.shuffle(terms)
    two = check(parse(program(declarations, terms, rest)))
    assert two.symbols["eta"].degree == one.symbols["eta"].degree == "affine"


@given(models(), st.data())
def test_renaming_keeps_the_verdict(model, data) -> None:
    declarations, terms, rest = model
    text = program(declarations, terms, rest)
    broken = data.draw(st.sampled_from(["", "u0", "eta", "obs]"]))
    if broken:
        text = text.replace(broken, "obs, obs]" if broken == "obs]" else "qq", 1)
    verdict = codes(text)
    assert codes(text.replace("u0", "zebra").replace("g0", "herd").replace("m0", "of")) == verdict


@given(models(), st.data())
def test_a_declaration_below_its_use_is_found(model, data) -> None:
    declarations, terms, rest = model
    used = [d for d in declarations if d.startswith("latent")]
    moved = data.draw(st.sampled_from(used))
    kept = [d for d in declarations if d != moved]
    assert codes(program(kept, terms, f"{moved}\n{rest}")) == ("E107",)
    assert codes(program(kept, terms, rest)) == ("E103",)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(trees)
def test_no_tree_raises_anything_but_a_model_error(tree: ast.Ast) -> None:
    try:
        check(tree)
    except LgmError as error:
        assert str(error)
        assert all(d.help or d.label for d in error.diagnostics)


@given(st.data())
def test_no_edit_of_a_right_model_raises_anything_but_a_model_error(data: st.DataObject) -> None:
    lines = GOOD.splitlines()
    words = sorted(set(GOOD.replace("[", " ").replace("]", " ").replace(",", " ").split()))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(1, len(lines) - 1))
        parts = lines[place].split(" ")
        parts[data.draw(st.integers(0, len(parts) - 1))] = data.draw(st.sampled_from(words))
        lines[place] = " ".join(parts)
    codes_or_syntax("\n".join(lines))


def codes_or_syntax(text: str) -> None:
    try:
        check(parse(text))
    except LgmError as error:
        assert str(error)


def test_ten_thousand_statements_take_no_longer_than_they_are_many() -> None:
    def seconds(count: int) -> float:
        name, index = ast.Name, ast.Name("obs")
        one = ast.Number(1.0)
        body: list[ast.AnyStatement] = [ast.Index(index)]
        for k in range(count):
            body.append(ast.Latent(name(f"u{k}"), (index,), (ast.Dist(name("iid")),)))
            body.append(ast.Let(name(f"e{k}"), (index,), ast.Binary("+", name(f"u{k}"), one)))
            body.append(ast.Let(name(f"w{k}"), (index,), name(f"missing{k}")))
        start = time.process_time()
        with pytest.raises(ModelError):
            check(ast.Ast(tuple(body)))
        return time.process_time() - start

    # Three times the statements in far less than nine times the time.
    seconds(300)
    assert seconds(3000) < 25 * max(seconds(1000) / 3, 0.005)
