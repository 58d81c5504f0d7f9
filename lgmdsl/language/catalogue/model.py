"""Codes that a model's text alone can raise. Each example is a test: with `CONTEXT` before it,
`wrong` raises its code and `corrected` is a model."""

from __future__ import annotations

from dataclasses import dataclass

# ---- entry -------------------------------------------------------------------------------------
# One entry of the message catalogue.


@dataclass(frozen=True)
class CodeEntry:
    """A code's meaning; `wrong` and `corrected` are statements (or commands) that show it."""

    code: str
    title: str
    meaning: str
    wrong: str
    corrected: str


# ---- model -------------------------------------------------------------------------------------

CONTEXT = """\
lgm 1
index obs
index subject
index feat
data y[obs]       : count
data X[obs, feat] : real
data who[obs]     : subject
latent b[feat] ~ normal(sd = 2.5)
"""

MODEL: tuple[CodeEntry, ...] = (
    CodeEntry(
        "E101",
        "wrong opener",
        "`~` introduces a distribution (latent, observe, potential, and the prior of a "
        "hyper), `=` a value (index, let, report, constrain, and the value of a hyper), `:` "
        "the type of data and hypers.",
        "latent u[subject] = normal(sd = 1)",
        "latent u[subject] ~ normal(sd = 1)",
    ),
    CodeEntry(
        "E102",
        "unnamed argument",
        "The arguments of a distribution are always named, and the name is the link: there "
        "is no order to remember, and `sd` can never be read as a variance or a precision.",
        "latent u[subject] ~ normal(1)",
        "latent u[subject] ~ normal(sd = 1)",
    ),
    CodeEntry(
        "E103",
        "unknown name",
        "No statement above declares this name, or the language has no such structure, "
        "family, potential, hyperprior, operator or type. The help line names the nearest "
        "one.",
        "latent u[subject] ~ nromal(sd = 1)",
        "latent u[subject] ~ normal(sd = 1)",
    ),
    CodeEntry(
        "E104",
        "unknown or missing argument",
        "A distribution, kernel or operator was given an argument it does not have, or not "
        "one that it needs. The note shows all of its arguments with their types and "
        "defaults.",
        "let eta[obs] = X @ b\nobserve y ~ poisson(rate = eta)",
        "let eta[obs] = X @ b\nobserve y ~ poisson(log_rate = eta)",
    ),
    CodeEntry(
        "E105",
        "reserved word",
        "The words that open statements, and lgm, head, true and false, cannot be names: this "
        "is what lets an error in one statement leave the next one readable.",
        "latent report[subject] ~ normal(sd = 1)",
        "latent reporting[subject] ~ normal(sd = 1)",
    ),
    CodeEntry(
        "E106",
        "declared twice",
        "Each name is declared once in a file; the labels of an index set differ from one another.",
        "latent b ~ normal(sd = 10)",
        "latent b0 ~ normal(sd = 10)",
    ),
    CodeEntry(
        "E107",
        "used before its declaration",
        "A name is declared above the statements that use it, so a model reads from top to "
        "bottom and has no cycles.",
        "let eta[obs] = b0 + X @ b\nlatent b0 ~ normal(sd = 10)",
        "latent b0 ~ normal(sd = 10)\nlet eta[obs] = b0 + X @ b",
    ),
    CodeEntry(
        "E108",
        "wrong type",
        "A value has another type than its place wants: a text where a number is wanted, a "
        "real where only positive values make sense, a datum that is no graph, a family that "
        "cannot observe data of this type.",
        'latent u[subject] ~ normal(sd = "one")',
        "latent u[subject] ~ normal(sd = 1)",
    ),
    CodeEntry(
        "E109",
        "other syntax",
        "The text is not a row of statements of the language here. The label says what fits "
        "at this place, the help line how the statement reads.",
        "latent u[subject] ~ normal(sd = 1);",
        "latent u[subject] ~ normal(sd = 1)",
    ),
    CodeEntry(
        "E201",
        "index not on the left",
        "A term has an index that the left side does not list. Algebra goes by index names, "
        "so nothing is repeated or cut in silence: gather the term with a map, sum the index "
        "away, or list it on the left.",
        "latent u[subject] ~ normal(sd = 1)\nlet eta[obs] = X @ b + u",
        "latent u[subject] ~ normal(sd = 1)\nlet eta[obs] = X @ b + u[who]",
    ),
    CodeEntry(
        "E202",
        "`@` shares none or several indices",
        "`a @ b` sums over the one index that a and b share. Where they share none there is "
        "nothing to sum over; where they share several, name the one to contract: sum(a * "
        "b, index).",
        "latent u[subject] ~ normal(sd = 1)\nlet eta[obs] = X @ u",
        "let eta[obs] = X @ b",
    ),
    CodeEntry(
        "E203",
        "not affine in the latents",
        "Predictors are sums of latents with known coefficients, so their distribution under "
        "a Gaussian is Gaussian. A product of two latents, or a function of one, is not; "
        "declare one of them as a hyper. A report may be any expression.",
        "latent c[feat] ~ normal(sd = 1)\nlet eta[obs] = sum(X * b * c, feat)",
        "hyper c[feat] : real ~ normal(sd = 1)\nlet eta[obs] = sum(X * b * c, feat)",
    ),
    CodeEntry(
        "E204",
        "map goes to another index",
        "In `v[map]` the map's type is the index set that it goes to, and v has to have that "
        "index at this slot.",
        "let eta[obs] = b[who]",
        "latent u[subject] ~ normal(sd = 1)\nlet eta[obs] = u[who]",
    ),
    CodeEntry(
        "E205",
        "structures do not match the axes",
        "A latent has one structure for each axis, joined by `*` in the order of its indices, "
        "or one structure for the whole block; at most one of them carries the scale. An axis has "
        "points enough for its structure: two for rw1, three for rw2, a whole period for seasonal.",
        "latent u[subject] ~ iid * ar1(sd = 1, rho = 0.5)",
        "latent u[subject] ~ ar1(sd = 1, rho = 0.5)",
    ),
    CodeEntry(
        "W101",
        "never used",
        "A declared name that nothing depends on: the fit goes on without it.",
        "data time[obs] : positive\nlet eta[obs] = X @ b\nobserve y ~ poisson(log_rate = eta)",
        "data time[obs] : positive\n"
        "let eta[obs] = X @ b\n"
        "observe y ~ poisson(log_rate = eta, exposure = time)",
    ),
    CodeEntry(
        "W102",
        "latent that no observation reaches",
        "The posterior of this latent is its prior, because no predictor with data holds it.",
        "latent u[subject] ~ normal(sd = 1)\n"
        "let mu[obs] = X @ b + u[who]\n"
        "let eta[obs] = X @ b\n"
        "observe y ~ poisson(log_rate = eta)",
        "latent u[subject] ~ normal(sd = 1)\n"
        "let eta[obs] = X @ b + u[who]\n"
        "observe y ~ poisson(log_rate = eta)",
    ),
    CodeEntry(
        "W103",
        "nothing observed",
        "The model has neither an observation nor a potential, or all weights of an observation "
        "are 0, so a fit returns the prior.",
        "let eta[obs] = X @ b",
        "let eta[obs] = X @ b\nobserve y ~ poisson(log_rate = eta)",
    ),
    CodeEntry(
        "W104",
        "no latent reaches this site",
        "This observation depends on data and hypers only, so it adds a constant to the "
        "evidence and teaches nothing about the latents.",
        "let eta[obs] = sum(X, feat)\nobserve y ~ poisson(log_rate = eta)",
        "let eta[obs] = X @ b\nobserve y ~ poisson(log_rate = eta)",
    ),
    CodeEntry(
        "W105",
        "a covariate may be missing",
        "A `?` says that entries may be missing. Missing responses are left out of the "
        "likelihood; a missing covariate has no such reading, and is an error when the data "
        "come.",
        "data x[obs] : real?\n"
        "latent c ~ normal(sd = 1)\n"
        "let eta[obs] = c * x\n"
        "observe y ~ poisson(log_rate = eta)",
        "data x[obs] : real\n"
        "latent c ~ normal(sd = 1)\n"
        "let eta[obs] = c * x\n"
        "observe y ~ poisson(log_rate = eta)",
    ),
)
