"""The statements of the language, one descriptor each: grammar rule, node, layout, words, example.

The parser's grammar, the tree builder, the formatter, the messages, `lgm info` and the tests'
strategies take their lists from here. What a statement means is checked in `language/check`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal, Protocol

from lgmdsl.language.tree import ast
from lgmdsl.language.tree.print_expr import NEVER, Pieces, Stretch, pieces_of
from lgmdsl.vocabulary.examples import SD, grouped, model, regression, sparse
from lgmdsl.vocabulary.notes import Notes
from lgmdsl.vocabulary.signature import Category

Sign = Literal["~", "=", ":", ""]


class StatementParts(Protocol):
    """The parts read from a statement's text, in the order of its rule."""

    @property
    def name(self) -> ast.Name: ...
    @property
    def dims(self) -> tuple[ast.Name, ...]: ...
    @property
    def type(self) -> ast.Type: ...
    @property
    def definition(self) -> ast.Definition | None: ...
    @property
    def values(self) -> tuple[ast.Expr, ...]: ...
    @property
    def distributions(self) -> tuple[ast.Dist, ...]: ...


@dataclass(frozen=True)
class Row:
    """A statement in columns: `X[obs, feat]` `: real`, then `~` or `=` and the rest."""

    left: Pieces
    kind: str = ""
    sign: Sign = ""
    right: Pieces = field(default_factory=list)

    @property
    def aligned(self) -> bool:
        """Whether it has a sign that can be aligned with those of its neighbours."""
        return bool(self.kind or self.sign)


@dataclass(frozen=True, kw_only=True)
class StatementDescriptor:
    """All that the language says of one statement.

    `rule` is its grammar between the opening word and the description, which every statement may
    have; `build` makes the node of what was read, `row` lays it out. In messages: `declares` is
    what its name is (`a latent`), empty where it declares none; `subject` what follows the
    opening word; `introduces` what its sign introduces, empty where there are two; `distribution`
    what follows `~`, a part of one of the `categories`. `heading` is that of its list in `lgm
    info`, `counted` its noun in the counts of `lgm check`. `group` is the statement that it is
    grouped with in a built model's text, itself where that is empty. `notes` is what else its page
    in the manual says: what it means, where it may stand, advice, a complete model.
    """

    node: type[ast.AnyStatement]
    summary: str
    syntax: str
    example: str
    notes: Notes
    rule: str
    build: Callable[[StatementParts], ast.AnyStatement]
    row: Callable[[Any], Row]
    declares: str = ""
    subject: str = "a name"
    introduces: tuple[str, Sign] | None = None
    distribution: str = ""
    categories: tuple[Category, ...] = ()
    heading: str
    counted: str = ""
    group: str = ""
    in_graph: bool = True

    @cached_property
    def word(self) -> str:
        """The opening word, which is also the rule's name."""
        return self.node.__name__.lower()

    @property
    def terminal(self) -> str:
        """The opening word's name in the grammar."""
        return self.word.upper()

    @property
    def named(self) -> bool:
        """Whether a name follows the opening word, not an expression."""
        return self.rule.startswith("NAME")

    @property
    def indexed(self) -> bool:
        """Whether it declares a name over index sets."""
        return "dims" in {f.name for f in fields(self.node)}


# ---- layout --------------------------------------------------------------------------------


def _text(text: str) -> Pieces:
    return [Stretch(text)]


def _declared(s: ast.Data | ast.Hyper | ast.Latent | ast.Let | ast.Report) -> Pieces:
    dims = ", ".join(d.id for d in s.dims)
    return _text(f"{s.name.id}[{dims}]" if dims else s.name.id)


def _type(kind: ast.Type) -> str:
    return kind.name + ("?" if kind.missing else "")


def _index_row(s: ast.Index) -> Row:
    sign: Sign = "" if s.definition is None else "="
    return Row(_text(s.name.id), sign=sign, right=_definition(s.definition))


def _definition(definition: ast.Definition | None) -> Pieces:
    match definition:
        case ast.Size(size=size):
            return _text(str(size))
        case ast.Range(first=first, last=last):
            return _text(f"{first}..{last}")
        case ast.Labels(labels=labels):
            quoted = [f'"{label}"' for label in labels]
            inner = [Stretch(f"{q}, ", 3 if i else NEVER) for i, q in enumerate(quoted[:-1])]
            final = Stretch(quoted[-1], 3 if inner else NEVER)
            return [Stretch("{"), *inner, final, Stretch("}")]
        case ast.Head(of=of):
            return _text(f"head({of.id})")
    return []


def _data_row(s: ast.Data) -> Row:
    return Row(_declared(s), _type(s.type))


def _hyper_row(s: ast.Hyper) -> Row:
    if s.prior is not None:
        return Row(_declared(s), _type(s.type), "~", pieces_of(s.prior))
    assert s.value is not None
    return Row(_declared(s), _type(s.type), "=", pieces_of(s.value))


def _latent_row(s: ast.Latent) -> Row:
    pieces = pieces_of(s.factors[0])
    for factor in s.factors[1:]:
        pieces += [Stretch(" "), Stretch("* ", 1), *pieces_of(factor, 2)]
    return Row(_declared(s), "", "~", pieces)


def _value_row(s: ast.Let | ast.Report) -> Row:
    return Row(_declared(s), "", "=", pieces_of(s.value))


def _observe_row(s: ast.Observe) -> Row:
    return Row(_text(s.name.id), "", "~", pieces_of(s.family))


def _potential_row(s: ast.Potential) -> Row:
    return Row(pieces_of(s.value), "", "~", pieces_of(s.family))


def _constrain_row(s: ast.Constrain) -> Row:
    return Row(pieces_of(s.left), "", "=", pieces_of(s.right))


def _hyper(read: StatementParts) -> ast.Hyper:
    prior, value = read.distributions, read.values
    return ast.Hyper(
        read.name, read.dims, read.type, prior[0] if prior else None, value[0] if value else None
    )


# ---- the statements ------------------------------------------------------------------------

STATEMENTS: tuple[StatementDescriptor, ...] = (
    StatementDescriptor(
        node=ast.Index,
        summary="Declares an index set, whose labels are listed here or come with the data.",
        syntax='index NAME, or index NAME = 3, 1..12, {"a", "b"} or head(OTHER)',
        example='index mode = {"walk", "bike", "bus"}',
        notes=Notes(
            formula="a finite set of labels; an unlabelled one has the labels 0 to n - 1",
            support="index sets are the only dimensions of data, hypers, latents, lets and reports",
            advice="without a definition size and labels come with the data: labels bound under "
            "its name, else the sorted values of the maps into it; an order that nobody gave is "
            "an error where one is wanted (E307)",
            example=grouped(SD),
            see_also=("indices", "data", "head", "E307"),
        ),
        rule="NAME [EQUAL (size | range | labels | head)]",
        build=lambda read: ast.Index(read.name, read.definition),
        row=_index_row,
        declares="an index",
        introduces=("the definition of an index", "="),
        heading="indices",
        in_graph=False,
    ),
    StatementDescriptor(
        node=ast.Data,
        summary="Declares what is known: an array that binds by its name when the model is fitted.",
        syntax="data NAME[INDEX, ...] : TYPE",
        example='data y[obs] : count?  "seizures in a week"',
        notes=Notes(
            formula="a known array over its index sets; a type that is the name of an index set "
            "makes it a map",
            support="types: real positive nonnegative unit count integer binary graph, or an "
            "index; `?` allows missing entries",
            advice="bind by name, in any order: columns of a csv, arrays of an npz, keys of a "
            "dict; --map X=key renames",
            example=regression(
                "poisson(log_rate = eta, exposure = time)", "data time[obs] : positive", y="count?"
            ),
            see_also=("index", "observe", "real", "count", "E301", "E305"),
        ),
        rule="NAME [dims] COLON type",
        build=lambda read: ast.Data(read.name, read.dims, read.type),
        row=_data_row,
        declares="data",
        introduces=("the type of a datum", ":"),
        heading="data",
    ),
    StatementDescriptor(
        node=ast.Hyper,
        summary="Declares a hyperparameter, with a prior to be learned under or with its value.",
        syntax="hyper NAME : TYPE ~ PRIOR(...), or hyper NAME : TYPE = VALUE",
        example="hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)",
        notes=Notes(
            formula="theta ~ prior, or theta = expression of earlier hypers (+ - * / ^ sqrt log "
            "exp)",
            support="types: real positive unit correlation covariance simplex ordered; free of "
            "latents",
            advice="how those with a prior are treated is the command's choice: --hyper map, "
            "integrate, em or fixed, with --set s=0.5",
            example=grouped(SD, "hyper v : positive = s^2", sd="sqrt(v)"),
            see_also=("hyperparameters", "pc_sd", "latent", "integrate", "map"),
        ),
        rule="NAME [dims] COLON type (TILDE dist | EQUAL _expr)",
        build=_hyper,
        row=_hyper_row,
        declares="a hyper",
        distribution="a hyperprior (e.g. pc_sd)",
        categories=("prior",),
        heading="hyperparameters",
    ),
    StatementDescriptor(
        node=ast.Latent,
        summary="Declares Gaussian unknowns over index sets, with one structure for each axis.",
        syntax="latent NAME[INDEX, ...] ~ STRUCTURE(...)",
        example="latent u[subject] ~ normal(sd = s)",
        notes=Notes(
            formula="z ~ N(mean, K_1 x K_2 x ...): a Kronecker product of one structure for each "
            "axis, in axis order",
            support="arguments are data, hypers and numbers, never latents; one factor at most "
            "carries the scale",
            advice="normal and flat take a block of any shape; loadings that multiply a latent "
            "are hypers",
            example=model(
                "index obs",
                "index region",
                "index year = 2011..2014",
                "data where[obs] : region",
                "data when[obs] : year",
                "data y[obs] : count",
                "data edges[region, region] : graph",
                SD,
                "latent st[region, year] ~ besag(graph = edges, sd = s) * ar1(rho = 0.8)",
                "observe y ~ poisson(log_rate = st[where, when])",
            ),
            see_also=("normal", "rw2", "besag", "gp", "flat", "let", "hyper"),
        ),
        rule="NAME [dims] TILDE dist (STAR dist)*",
        build=lambda read: ast.Latent(read.name, read.dims, read.distributions),
        row=_latent_row,
        declares="latent",
        introduces=("a latent", "~"),
        distribution="a structure (e.g. normal)",
        categories=("structure",),
        heading="latents",
        counted="latent",
    ),
    StatementDescriptor(
        node=ast.Let,
        summary="Names an expression that is affine in the latents.",
        syntax="let NAME[INDEX, ...] = EXPRESSION",
        example="let eta[obs] = X @ b + u[who]",
        notes=Notes(
            formula="an affine map of the latents: s = B z + c",
            support="+ - * / join by index name, @ contracts the one index that two share, v[who] "
            'gathers by a map, d[who, "slope"] picks a label; products of latents are refused '
            "(E203)",
            advice="the left side lists the indices of the result; a term with another index is "
            "an error (E201)",
            example=regression("normal(mean = eta, sd = 1)"),
            see_also=("indices", "report", "sum", "latent", "E201", "E203"),
        ),
        rule="NAME [dims] EQUAL _expr",
        build=lambda read: ast.Let(read.name, read.dims, read.values[0]),
        row=_value_row,
        declares="a let",
        introduces=("the value of a let", "="),
        heading="predictors",
    ),
    StatementDescriptor(
        node=ast.Observe,
        summary="Says how a datum was observed: the family of its distribution.",
        syntax="observe NAME ~ FAMILY(...)",
        example="observe y ~ poisson(log_rate = eta)",
        notes=Notes(
            formula="multiplies the density by prod_i p(y_i | s_i, parameters)",
            support="a datum, and a family for its type; the argument that is affine in the "
            "latents names the link",
            advice="rows whose response is missing (type with `?`) have no part in the fit, and "
            "are predicted by impute",
            example=regression("poisson(log_rate = eta)", y="count?"),
            see_also=("potential", "normal", "poisson", "bernoulli", "choosing-a-method"),
        ),
        rule="NAME TILDE dist",
        build=lambda read: ast.Observe(read.name, read.distributions[0]),
        row=_observe_row,
        subject="the name of a datum",
        introduces=("the family of an observation", "~"),
        distribution="an observation family (e.g. poisson)",
        categories=("family",),
        heading="observations",
        counted="observation",
    ),
    StatementDescriptor(
        node=ast.Potential,
        summary="Multiplies the density by a factor of an affine expression of the latents.",
        syntax="potential EXPRESSION ~ POTENTIAL(...)",
        example="potential diff(b, day) ~ laplace(scale = s)",
        notes=Notes(
            formula="multiplies the density by prod_i t(s_i), s the expression",
            support="any affine expression of the latents; potentials are centred at zero",
            advice="for sparse and robust penalties, and for densities that are no Gaussian; over "
            "a flat block it is the prior",
            example=sparse("laplace(scale = s)", SD),
            see_also=("observe", "laplace", "student_t", "flat", "diff", "mask"),
        ),
        rule="_expr TILDE dist",
        build=lambda read: ast.Potential(read.values[0], read.distributions[0]),
        row=_potential_row,
        introduces=("a potential", "~"),
        distribution="a potential (e.g. laplace)",
        categories=("potential",),
        heading="potentials",
        counted="potential",
        group="observe",
    ),
    StatementDescriptor(
        node=ast.Constrain,
        summary="Conditions the latents on the value of an affine expression.",
        syntax="constrain EXPRESSION = EXPRESSION",
        example="constrain sum(u, subject) = 0",
        notes=Notes(
            formula="p(z | C z = e): conditions exactly, also where the prior is improper",
            support="affine expressions of latents on the left, free of latents on the right; one "
            "constraint for each entry",
            advice="to hold a reference class at 0 or the effects of a factor at sum 0; rw1, rw2 "
            "and besag sum to zero already",
            example=model(
                "index obs",
                'index class = {"bus", "car", "train"}',
                "data x[obs] : real",
                "data y[obs] : class",
                "latent a[class] ~ normal(sd = 3)",
                "latent b[class] ~ normal(sd = 2)",
                "observe y ~ categorical(softmax = a + b * x)",
                'constrain a["bus"] = 0',
                'constrain b["bus"] = 0',
            ),
            see_also=("sum", "latent", "rw1", "categorical"),
        ),
        rule="_expr EQUAL _expr",
        build=lambda read: ast.Constrain(read.values[0], read.values[1]),
        row=_constrain_row,
        introduces=("the value of a constraint", "="),
        heading="constraints",
        group="observe",
    ),
    StatementDescriptor(
        node=ast.Report,
        summary="Names a quantity whose posterior is reported; it may be nonlinear.",
        syntax="report NAME[INDEX, ...] = EXPRESSION",
        example="report risk[region] = exp(eta)",
        notes=Notes(
            formula="the posterior of f(z): Gaussian where f is affine, transformed where it is a "
            "monotone function of one affine expression, else by samples",
            support="any expression of latents, hypers and data; also exp log sqrt invlogit "
            "normal_cdf softmax of latents",
            advice="for probabilities, ratios and contrasts, with their uncertainty; a report "
            "changes nothing of the fit",
            example=regression("bernoulli(logit = eta)", y="binary")
            + "report p[obs] = invlogit(eta)\n",
            see_also=("let", "exp", "invlogit", "softmax"),
        ),
        rule="NAME [dims] EQUAL _expr",
        build=lambda read: ast.Report(read.name, read.dims, read.values[0]),
        row=_value_row,
        declares="a report",
        introduces=("the value of a report", "="),
        heading="reports",
        group="observe",
    ),
)

BY_WORD = {s.word: s for s in STATEMENTS}
_BY_NODE: dict[type[ast.Statement], StatementDescriptor] = {s.node: s for s in STATEMENTS}


def described(statement: ast.AnyStatement) -> StatementDescriptor:
    """The descriptor of a statement."""
    return _BY_NODE[type(statement)]


def declared_name(statement: ast.AnyStatement) -> ast.Name | None:
    """The name that a statement declares, or None for one that declares none."""
    name = getattr(statement, "name", None)
    return name if described(statement).declares and isinstance(name, ast.Name) else None
