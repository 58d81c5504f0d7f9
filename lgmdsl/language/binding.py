"""Match the arguments of a distribution with its signature: E103 and E104."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lgmdsl.errors import Span
from lgmdsl.language import ast
from lgmdsl.language.scope import Scope
from lgmdsl.language.wording import quoted, text_of
from lgmdsl.vocabulary.lookup import IN_WORDS, elsewhere, kin, lookup, names, observing, suited
from lgmdsl.vocabulary.signature import Category, Parameter, Signature, literal

# What people call the same thing elsewhere, and what it is called here.
OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "rate": ("log_rate",), "lambda": ("log_rate",), "mu": ("mean", "log_mean", "log_rate"),
    "mean": ("log_mean", "log_rate", "logit_mean"), "p": ("logit", "probit", "softmax"),
    "prob": ("logit", "probit", "softmax"), "probability": ("logit", "probit", "softmax"),
    "theta": ("logit", "probit"), "eta": ("logit", "log_rate", "mean", "log_mean"),
    "logits": ("logit", "softmax"), "var": ("sd",), "variance": ("sd",), "sigma": ("sd", "scale"),
    "std": ("sd",), "sigma2": ("sd",), "precision": ("sd",), "prec": ("sd",), "tau": ("sd",),
    "phi": ("rho", "size", "concentration"), "correlation": ("rho",), "nu": ("df",),
    "adjacency": ("graph",), "adj": ("graph",), "w": ("graph",), "loc": ("mean",),
    "lengthscale": ("length",), "ell": ("length",), "variance_scale": ("sd",), "size": ("n",),
    "trials": ("n",), "offset": ("exposure",), "covariance": ("cov",), "sigma_cov": ("cov",),
    "x": ("at",), "locations": ("at",), "inputs": ("at",), "thresholds": ("cuts",),
    "cutpoints": ("cuts",), "dispersion": ("size", "shape"), "b": ("scale",),
    "nu_": ("smoothness",),
}  # fmt: skip
# Names of the same distributions elsewhere.
FOREIGN = {
    "rbf": "se", "sqexp": "se", "squared_exponential": "se", "expquad": "se", "matern52": "matern",
    "matern32": "matern", "gaussian": "normal", "gauss": "normal", "norm": "normal",
    "icar": "besag", "random_walk": "rw1", "rw": "rw1", "ar2": "ar", "bym": "bym2",
    "student": "student_t", "t": "student_t", "neg_binomial": "negbinomial",
    "negative_binomial": "negbinomial", "nbinom": "negbinomial", "bernoulli_logit": "bernoulli",
    "logistic": "bernoulli", "poisson_log": "poisson", "softmax": "categorical",
    "halfnormal": "half_normal", "halfcauchy": "half_cauchy", "half_t": "half_cauchy",
    "inverse_gamma": "inv_gamma", "invgamma": "inv_gamma", "lkj": "lkj_cov",
    "wishart": "inv_wishart", "double_exponential": "laplace", "mvnormal": "dense",
    "multi_normal": "dense", "multivariate_normal": "dense", "iidnormal": "normal",
    "improper": "flat", "log_normal": "lognormal", "unif": "uniform",
}  # fmt: skip
SCALES = {"log": "log", "logit": "logit", "probit": "probit", "cloglog": "cloglog"}
SQUARED = {"var": "sqrt({})", "variance": "sqrt({})", "sigma2": "sqrt({})",
           "precision": "1/sqrt({})", "prec": "1/sqrt({})", "tau": "1/sqrt({})"}  # fmt: skip


@dataclass(frozen=True)
class Bound:
    """A distribution with its arguments matched, those of unknown names left out. `complete` is
    False after a complaint about them."""

    dist: ast.Dist
    signature: Signature
    given: dict[str, tuple[Parameter, ast.Argument]]
    complete: bool

    def value(self, name: str) -> ast.Value | None:
        found = self.given.get(name)
        return found[1].value if found else None


def find(dist: ast.Dist, category: Category, scope: Scope, data_type: str = "") -> Signature | None:
    """The signature that a distribution's name stands for; complains E103."""
    name = dist.name.id
    signature = lookup(category, name)
    if signature is not None:
        return signature.form(frozenset(a.name for a in dist.arguments))
    word = IN_WORDS[category]
    known = names(category)
    close = FOREIGN.get(name.lower())
    if close not in known:
        close = scope.closest(name, known)
    other = elsewhere(category, name)
    group = kin(category, close or "")
    if category == "family" and observing(data_type):
        kind = "categorical" if data_type == "index" else data_type
        group = f"Families for {kind} data: {' '.join(observing(data_type))}"
    if category == "prior" and suited(data_type):
        group = f"Hyperpriors for `{data_type}`: {' '.join(suited(data_type))}"
    if category == "structure" and lookup("potential", name):
        group = (
            "a prior that is not normal is a potential on a flat block: latent w[feat] ~ flat, "
            f"then potential w ~ {name}(...)"
        )
    if other:
        article = "an" if IN_WORDS[other][0] in "aeiou" else "a"
        message = f"`{name}` is {article} {IN_WORDS[other]}, and {_wanted(category)} is wanted"
        help = group
    else:
        message = f"unknown {word} `{name}`"
        help = f"did you mean `{close}`? {group}" if close else group
    scope.findings.error("E103", message, dist.name.span, help=help)
    return None


def _wanted(category: Category) -> str:
    word = IN_WORDS[category]
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def bind(
    dist: ast.Dist, signature: Signature, scope: Scope, *, optional: Sequence[str] = ()
) -> Bound:
    """Match arguments by name; complains E104 of unknown, repeated, missing and conflicting ones.

    `optional` are required arguments that may be left out here (`sd` of a factor in a product).
    """
    given: dict[str, tuple[Parameter, ast.Argument]] = {}
    fine = True
    renamed: set[str] = set()
    for argument in dist.arguments:
        parameter = signature.parameter(argument.name)
        if parameter is None:
            renamed |= _unknown(dist, signature, argument, scope)
            fine = False
        elif argument.name in given:
            scope.findings.error(
                "E104", f"`{argument.name}` is given twice", _place(argument),
                note=signature.show(), help=f"keep one `{argument.name}`",
            )  # fmt: skip
            fine = False
        else:
            given[argument.name] = (parameter, argument)
    for parameter in signature.parameters:
        if parameter.one_of or parameter.name in given or parameter.name in optional:
            continue
        if parameter.required and parameter.name not in renamed:
            _missing(dist, signature, (parameter,), scope)
            fine = False
    for group in dict.fromkeys(p.one_of for p in signature.parameters if p.one_of):
        members = [p for p in signature.parameters if p.one_of == group]
        present = [given[p.name][1] for p in members if p.name in given]
        if not present and not renamed & {p.name for p in members}:
            _missing(dist, signature, members, scope)
            fine = False
        elif len(present) > 1:
            chosen = quoted([a.name for a in present])
            scope.findings.error(
                "E104", f"`{dist.name.id}` takes one of {chosen}", _place(present[1]),
                "a second one", note=signature.show(), help=f"leave out `{present[1].name}`",
            )  # fmt: skip
            fine = False
    return Bound(dist, signature, given, fine)


def _place(argument: ast.Argument) -> Span:
    return argument.name_span if argument.name_span.known else argument.span


def _unknown(
    dist: ast.Dist, signature: Signature, argument: ast.Argument, scope: Scope
) -> set[str]:
    """Complain of an unknown argument; returns the names that were probably meant."""
    name, value = dist.name.id, text_of(argument.value)
    links = [p for p in signature.parameters if p.type == "latent"]
    meant: set[str] = set()
    if argument.name == "link" and links:
        linked = [f"{name}({p.name} = {_affine(dist, value)})" for p in links]
        help = f"the argument's name says the link: {' or '.join(linked)}"
        meant = {p.name for p in links}
    else:
        found = _meant(dist, signature, argument.name, scope)
        help = _rename_help(name, argument, value, found) if found else ""
        meant = {found.name} if found else set()
        if found and found.one_of:
            meant = {p.name for p in signature.parameters if p.one_of == found.one_of}
    if not help:
        takes = [p.name for p in signature.parameters]
        help = f"it takes {quoted(takes)}" if takes else f"write {name}, without arguments"
    scope.findings.error(
        "E104",
        f"`{name}` has no argument `{argument.name}`",
        _place(argument),
        note=signature.show(),
        help=help,
    )
    return meant


def _affine(dist: ast.Dist, value: str) -> str:
    """What the user probably meant as the predictor: the first argument that is an expression."""
    for argument in dist.arguments:
        if not isinstance(argument.value, ast.String | ast.Bool):
            return text_of(argument.value)
    return "eta"


def _meant(
    dist: ast.Dist, signature: Signature, word: str, scope: Scope
) -> Parameter | None:  # fmt: skip
    given = {a.name for a in dist.arguments} if not scope.findings.full else set()
    free = [p for p in signature.parameters if p.name not in given]
    for p in free:
        if p.type == "latent" and p.name.endswith(f"_{word}"):
            return p
    for other in OTHER_NAMES.get(word.lower(), ()):
        for p in free:
            if p.name == other:
                return p
    close = scope.closest(word, [p.name for p in free])
    return next((p for p in free if p.name == close), None)


def _rename_help(name: str, argument: ast.Argument, value: str, found: Parameter) -> str:
    link = SCALES.get(found.name.partition("_")[0])
    if found.type == "latent" and link:
        return f"`{value}` is on the {link} scale here: {name}({found.name} = {value})"
    squared = SQUARED.get(argument.name.lower())
    if found.name == "sd" and squared:
        return f"every scale is a standard deviation: sd = {squared.format(value)}"
    return f"did you mean `{found.name}`? {name}({found.name} = {value})"


def _missing(
    dist: ast.Dist, signature: Signature, wanted: Sequence[Parameter], scope: Scope
) -> None:  # fmt: skip
    named = " or ".join(f"`{p.name}`" for p in wanted)
    first = wanted[0]
    known = [a for a in dist.arguments if signature.parameter(a.name)]
    given = [f"{a.name} = {text_of(a.value)}" for a in known]
    example = ", ".join([*given, f"{first.name} = {example_of(first)}"])
    scope.findings.error(
        "E104",
        f"`{dist.name.id}` wants {named}",
        dist.span,
        f"no {named} is given",
        note=signature.show(),
        help=f"write {dist.name.id}({example})",
    )


def example_of(parameter: Parameter) -> str:
    """What could stand as an argument, for a help line."""
    if parameter.choices:
        return literal(parameter.choices[0])
    return {
        "latent": "eta", "positive": "1", "unit": "0.5", "correlation": "rho", "count": "n",
        "graph": "adj", "covariance": "S", "kernel": "se(sd = s, length = ell)", "matrix": "Q",
        "ordered": "cuts", "simplex": "beta", "real": "x",
    }.get(parameter.type, "...")  # fmt: skip
