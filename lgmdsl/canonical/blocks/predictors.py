"""Arguments of a family that are predictors of its parameters: `log_sd = zeta` in place of `sd`.

One that has latents makes a vector site, whose predictors stand next to one another along a
synthetic index; one without is the number exp(zeta), and the family is the plain one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lgmdsl.canonical.expressions import affine as af
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.canonical.expressions.coefficient import Coefficient
from lgmdsl.canonical.lowering.lower import Lowering
from lgmdsl.contract.site import Site
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.language.tree import ast
from lgmdsl.sites.combined.predictors import Second, with_predictors
from lgmdsl.sites.formula import Formula
from lgmdsl.vocabulary.lookup import lookup

EVENT = "predictor~"  # the index of a site's predictors; no user's index can have this name


@dataclass(frozen=True, eq=False)
class Predictors:
    """`plain` is the family with the parameters themselves in place of their predictors; `values`
    are those parameters that are numbers after all; `forms` the predictors of the others."""

    plain: ast.Dist
    values: Mapping[str, Coefficient]
    seconds: tuple[Second, ...]
    forms: tuple[Affine, ...]

    def site(self, base: type[Site]) -> type[Site]:
        """The family with these predictors, of the one that `plain` names. Raises MethodError E501
        for one that gives no formula."""
        if not self.seconds:
            return base
        if not issubclass(base, Formula):
            raise MethodError(
                Diagnostic(
                    "E501",
                    f"`{base.spec.family}` as it is observed here takes no predictor for its "
                    f"{self.seconds[0].parameter}",
                    self.plain.span,
                    f"{base.spec.name} gives no formula",
                    help=f"give `{self.seconds[0].parameter}` as a number or a hyper",
                )
            )
        return with_predictors(base, self.seconds)

    def form(self, first: Affine) -> Affine:
        """All predictors in one form, the first one's given."""
        return af.stack((first, *self.forms), EVENT) if self.seconds else first

    @property
    def event(self) -> str:
        """The index of the predictors; empty where there is one alone."""
        return EVENT if self.seconds else ""


def predictors_of(family: ast.Dist, lowering: Lowering) -> Predictors:
    """Lower the arguments of a family that are predictors of parameters."""
    signature = lookup("family", family.name.id)
    arguments: list[ast.Argument] = []
    values: dict[str, Coefficient] = {}
    seconds: list[Second] = []
    forms: list[Affine] = []
    for argument in family.arguments:
        parameter = None if signature is None else signature.parameter(argument.name)
        if parameter is None or not parameter.of:
            arguments.append(argument)
            continue
        arguments.append(replace(argument, name=parameter.of))
        form = lowering.affine(argument.value)
        if form.terms:
            seconds.append(Second(parameter.name, parameter.of, parameter.link))
            forms.append(form)
        else:
            values[parameter.of] = _inverse(parameter.link, form.offset)
    plain = replace(family, arguments=tuple(arguments)) if seconds or values else family
    return Predictors(plain, values, tuple(seconds), tuple(forms))


def _inverse(link: str, node: Coefficient) -> Coefficient:
    """The parameter at its predictor: exp, or 1 / (1 + exp(-x))."""
    if link == "log":
        return co.Elementwise(node.dims, "exp", node)
    odds = co.Elementwise(node.dims, "exp", co.multiply(co.number(-1.0), node))
    return co.Power(node.dims, co.add(co.number(1.0), odds), co.number(-1.0))
