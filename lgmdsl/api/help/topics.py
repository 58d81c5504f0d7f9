"""Topics: what no single word says. The lists in them are computed from the declarations."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import replace

from lgmdsl.api.fit.hyper_ways import HYPER_WAYS
from lgmdsl.inference.plan import AUTO
from lgmdsl.inference.registry import backends
from lgmdsl.language.tree.statements import STATEMENTS
from lgmdsl.vocabulary.examples import SD, grouped, model, regression, slopes
from lgmdsl.vocabulary.lookup import IN_WORDS, names
from lgmdsl.vocabulary.page import WIDTH, Page
from lgmdsl.vocabulary.types import DATA_TYPES, HYPER_TYPES


def topics() -> Iterator[Page]:
    """All topics."""
    for page in (_language(), _indices(), _data(), _tables(), _hyperparameters(), _choosing()):
        yield replace(page, text=_filled(page.text))


def _filled(text: str) -> str:
    """Paragraphs of the width of pages; lines that are indented or numbered stay."""
    blocks = text.split("\n\n")
    return "\n\n".join(
        block if block.startswith((" ", "1.")) else textwrap.fill(" ".join(block.split()), WIDTH)
        for block in blocks
    )


def _listed(rows: Iterator[tuple[str, str]]) -> str:
    pairs = list(rows)
    width = max(len(name) for name, _ in pairs)
    return "\n".join(_row(f"{name:<{width}}  {text}", width + 2) for name, text in pairs)


def _row(text: str, deeper: int) -> str:
    """An indented line, and the lines that it goes on in."""
    first, rest = " " * 4, " " * (4 + deeper)
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
    )


def _language() -> Page:
    statements = _listed((s.word, s.syntax.partition(", or ")[0]) for s in STATEMENTS)
    words = "\n".join(
        _row(f"{_plural(kind)}: {' '.join(names(category))}", 2)
        for category, kind in IN_WORDS.items()
    )
    return Page(
        "topic",
        "language",
        "a model file says what the model is; data bind by name, and commands choose the inference",
        text=f"""\
A file is a sequence of statements, each opened by its word; newlines and indentation mean
nothing, # opens a comment, and a string after a declaration is its description:

{statements}

Names are declared before they are used. There are no loops, no conditions and no index
arithmetic: lags live in structures (ar1, rw2), and index sets are the only dimensions.

The model: latents z are Gaussian given hyperparameters; lets are affine in them, s = Bz + c;
what is observed has a density in s. The arguments of a distribution are named, and the name
of the affine one says the link: poisson(log_rate = eta), bernoulli(logit = eta).

Scales are standard deviations, never precisions. The sd of a structure is the typical
marginal size of what it describes: `lgm help rw2` says how to get the sd of a step.

What stands after `~`, and in expressions:

{words}

lgm check model.lgm shows all errors of a file, lgm fmt writes it in its canonical format,
lgm explain model.lgm data.npz what the compiler makes of it.
""",
        example=grouped(SD) + "report rate[group] = exp(level + u)\n",
        see_also=("indices", "data", "hyperparameters", "choosing-a-method"),
    )


def _plural(kind: str) -> str:
    return kind[:-1] + "ies" if kind.endswith("y") else kind + "s"


def _indices() -> Page:
    return Page(
        "topic",
        "indices",
        "algebra is by the names of indices, never by position",
        text="""\
A value has a set of indices: data X[obs, feat], latent u[subject], a scalar none.

    + - * /     join by name: x[obs] * b[feat] has both indices, a scalar stretches
    a @ b       contracts the one index that both have: X @ b is sum(X * b, feat)
    sum(a, i)   removes index i
    u[who]      gathers by a map: data who[obs] : subject gives u[who] the index obs
    d[who, j]   a slot for each axis: an index name keeps the axis, a map gathers
    b["wet"]    a label picks one entry

The left side lists the indices of a result: let eta[obs] = X @ b + u[who]. A term with an
index that is not listed is an error that proposes the map (E201).

An index comes with the data (index obs), or has a size (index factor = 3), a range
(index day = 1..366), labels (index mode = {"walk", "bike"}), or all labels but the last of
another one (index cut = head(class)). Where an order is needed (rw1, ar1, ordinal, head) it
comes from the labels in the model, those bound under the index's name, dates or numbers;
alphabetical order is not assumed (E307).

A repeated index, as in S[term, term], is `term` and `term_2` in results.
""",
        example=slopes("lkj_cov(eta = 2, u = 2, alpha = 0.05)"),
        see_also=("index", "let", "sum", "head", "E201", "E202", "E204"),
    )


def _data() -> Page:
    return Page(
        "topic",
        "data",
        "data bind by name: a file or a table, whose keys are the names of the model",
        text=f"""\
    .npz              an array for each datum; a sparse X as X.data, X.indices, X.indptr, X.shape
    .csv, .parquet    one table: a column for each datum over the same index; more of them by
                      --data NAME=FILE, each over the index that its key column names
    .nc               by dimension names
    in Python         a dict of arrays, lists, sparse matrices, frames or paths; a frame (pandas,
                      polars, Arrow, DuckDB ...); an xarray Dataset; a list of these

A key with the name of an index gives its labels. Without them the labels are the sorted
values of the maps into the index, else 0 to n - 1. Keys of another name: --map y=counts. A
matrix of columns: --map "X=age,contrasts(region)".

Types: {" ".join(DATA_TYPES)}, and the name of an index, whose labels the entries then are.
A `?` after the type allows missing entries (NaN, NA, masked, an empty string, -1 in a map);
without it they are an error (E304). Rows whose response is missing are predicted by
`lgm impute`. A graph is an adjacency matrix or an (E, 2) array of pairs of labels.

lgm check model.lgm data.npz says what does not fit, with the remedy; lgm simulate draws data
of a model.
""",
        example=model(
            "index obs",
            "index subject",
            "data y[obs] : count?",
            "data x[obs] : real",
            "data who[obs] : subject",
            SD,
            "latent b ~ normal(sd = 2)",
            "latent u[subject] ~ normal(sd = s)",
            "observe y ~ poisson(log_rate = b * x + u[who])",
        ),
        see_also=("tables", "index", "observe", "graph", "mapping", "E301", "E303", "E305"),
    )


def _tables() -> Page:
    return Page(
        "topic",
        "tables",
        "a table for each index, matrices of columns and their contrasts, graphs from files",
        text="""\
    --data who=people.csv         a table over an index: named by it, by a map into it, or by
                                  its key column, whose labels say which row is whose
    --data adj=edges.csv          a graph: two columns, the ends of each edge; also .graph
                                  files of R-INLA, and scipy's .npz
    --map "X=age,income"          X[obs, feat] of these columns, with these labels
    --map "X=contrasts(region)"   one column for each level but the first, which is the base
    --map "X=contrasts(region, base=south)"
    --map "X=contrasts(region, kind=sum)"   also helmert, difference, poly (ordered levels), full
    --map "X=age*contrasts(region)"   an interaction: a*b is a, b and a:b
    --map "X=poly(age, 2)"        orthogonal polynomials; also scale, center, log, sqrt, exp ...

In Python: lgm.fit(model, [rows, {"who": people, "adj": edges}], mapping={"X": ["age",
"contrasts(region)"]}), of frames, paths and graphs (networkx, libpysal, lgm.contiguity).

Rows go by labels, never by position: a label that the table lacks, a key twice and rows that
nothing names are E302, a column in two tables E306. The fit keeps mapping and levels, so that
predictions read new tables alike. lgm check model.lgm data.csv shows what each datum was read
as; lgm new data.csv writes a model for a table.
""",
        example=model(
            "index obs",
            "index subject",
            "index feat",
            "data y[obs] : count",
            "data X[obs, feat] : real",
            "data who[obs] : subject",
            "data age[subject] : real",
            "latent b[feat] ~ normal(sd = 2)",
            "latent c ~ normal(sd = 1)",
            "observe y ~ poisson(log_rate = X @ b + c * age[who])",
        ),
        see_also=("data", "graph", "mapping", "E302", "E305", "W309"),
    )


def _hyperparameters() -> Page:
    treatments = _listed((w.name, w.summary) for w in HYPER_WAYS)
    return Page(
        "topic",
        "hyperparameters",
        "each has a type and a prior or a value; the command says how they are treated",
        text=f"""\
    hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)     learned, with a prior
    hyper s : positive = 0.5                            a value
    hyper v : positive = s^2                            computed from earlier ones

Types: {" ".join(HYPER_TYPES)}. A prior is written out,
flat too. On standard deviations pc_sd(u, alpha) says that the sd is above u with probability
alpha: u = 1, alpha = 0.01 on a log or logit scale is a vague choice, since an effect of 1 is
a factor of 2.7. A published gamma prior of a precision is inv_gamma of the variance:
hyper v : positive ~ inv_gamma(shape = a, scale = b), then sd = sqrt(v).

How they are treated (--hyper NAME, hyper="NAME"):

{treatments}

--set s=0.5 (fixed={{"s": 0.5}}) pins one. Loadings of factors are hyperparameters too, so that
predictors stay affine in the latents.
""",
        example=grouped(SD),
        see_also=("hyper", "pc_sd", "integrate", "map", "em", "lkj_cov"),
    )


def _choosing() -> Page:
    methods = _listed((b.spec.name, b.spec.summary) for b in backends().values())
    return Page(
        "topic",
        "choosing-a-method",
        "leave it to auto; look at the status and the accuracy; name a method to compare",
        text=f"""\
`auto` takes the first of {", ".join(AUTO)} that runs the model, which is nearly always the
first of them, estimates how far its means, sds and 5 or 95 % points are off
(fit.accuracy), and reports exact draws where that is too far and they are affordable. What it
cannot correct it says (W609).

{methods}

1. lgm methods model.lgm shows which run the model, and why the others cannot.
2. `converged` says that the iteration ended, not that a Gaussian is good: look at fit.accuracy,
   and run lgm summary fit.nc --audit --data data.npz.
3. lgm compare model.lgm data.npz --method laplace --method ep --method natural-gradient shows
   how far methods differ on your data; lgm calibrate does on data drawn from the model.
4. laplace is the quickest, and biased where each latent has few events; ep is the most accurate
   of the Gaussians where it settles; natural-gradient, double-loop and the others with the
   guarantee `lower` report a lower bound of the evidence, which ranks their fits.
5. Kinked sites (laplace, exp_power) exclude the method laplace; vector sites (softmax, or a
   predictor of the dispersion) leave laplace, map, the variational Gaussians that take whole
   covariances, and ep up to three predictors or four classes.
6. The engine is chosen by cost within the memory budget; lgm explain shows the table.
""",
        example=regression("bernoulli(logit = eta)", y="binary"),
        see_also=("laplace", "ep", "natural-gradient", "converged", "lower", "engine"),
    )
