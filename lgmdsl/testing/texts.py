"""Hypothesis strategies for texts that are almost models: soups of tokens and mutated models.

Each must end in a model or in an LgmError with a position, within a second.
"""

from __future__ import annotations

from hypothesis import strategies as st

from lgmdsl.language.tree.statements import BY_WORD

MODEL = """\
lgm 1
# A mixed model with everything in it.
index obs
index subject = {"a", "b"}
index day = 1..7
index cut = head(subject)

data y[obs]         : count?
data X[obs, day]    : real  "covariates"
data who[obs]       : subject
data adj[day, day]  : graph

hyper s   : positive ~ pc_sd(u = 1, alpha = 0.01)
hyper rho : correlation = 2/3 - 0.5^2

latent b[day]          ~ normal(sd = 2.5)
latent u[subject, day] ~ iid * ar1(sd = s, rho = rho)  # a product

let eta[obs] = X @ b + sum(X * u[who, day], day) - u["a", 1] * -2

observe y ~ poisson(log_rate = eta)
potential diff(b, day, boundary = "circular") ~ laplace(scale = s)
constrain sum(b, day) = 0
report p[obs] = exp(eta) / (1 + exp(eta))
"""

TOKENS = (
    "lgm", "1", "\n", " ", *BY_WORD, "head", "true", "false", "obs", "y", "x", "real", "positive",
    "normal", "flat", "iid", "sd", "sum", "gp", "kernel", "se", "rw2", "graph", "0.5", "366",
    "1e308", "..", "~", "=", ":", "?", ",", "(", ")", "[", "]", "{", "}", "+", "-", "*", "/", "@",
    "^", '"', '"a"', "#", "# note\n", ";", "==", "**", ":=", "<-", "'", "'b'", ".", "_", "\\",
    "%*%", "//", "/*", "\u03c3", "\u2212", "\u201c", "\u201d", "\u00d7", "\u200b", "\x00", "\t",
    "\r\n", "\ufeff", "for", "if",
)  # fmt: skip

soups = st.lists(st.sampled_from(TOKENS), max_size=60).map(" ".join)
tight_soups = st.lists(st.sampled_from(TOKENS), max_size=60).map("".join)


def mutated(text: str) -> st.SearchStrategy[str]:
    """A text with some of its characters or words deleted, doubled, moved or replaced."""
    place = st.integers(0, len(text))
    cut = st.tuples(place, st.integers(0, 12), st.sampled_from(["", *TOKENS]) | st.text(max_size=3))
    return st.lists(cut, min_size=1, max_size=4).map(lambda cuts: _edited(text, cuts))


def _edited(text: str, cuts: list[tuple[int, int, str]]) -> str:
    for start, length, new in cuts:
        text = text[:start] + new + text[start + length :]
    return text


def shuffled(text: str) -> st.SearchStrategy[str]:
    """A text with its lines in another order, some of them gone or doubled."""
    lines = text.splitlines()
    return st.lists(st.sampled_from(lines), max_size=len(lines)).map(
        lambda chosen: "\n".join(["lgm 1", *chosen])
    )


almost_models = st.one_of(
    st.text(max_size=200),
    soups,
    tight_soups,
    soups.map(lambda soup: "lgm 1\n" + soup),
    mutated(MODEL),
    shuffled(MODEL),
)
