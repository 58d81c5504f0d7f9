"""Check `latent` statements: one structure for each axis, or one for the whole block."""

from __future__ import annotations

from lgmdsl.language.check.binding import BoundDistribution, Place, bind, find
from lgmdsl.language.check.declarations import check_dims, check_name
from lgmdsl.language.check.kernels import carries_scale
from lgmdsl.language.check.values import check_values
from lgmdsl.language.checked import Symbol
from lgmdsl.language.shapes.scope import Scope
from lgmdsl.language.shapes.shape import Context
from lgmdsl.language.shapes.shapes import Inference
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.ast import names_in
from lgmdsl.language.tree.wording import bracketed, quoted, text_of, with_dims
from lgmdsl.vocabulary.lookup import lookup
from lgmdsl.vocabulary.signature import Signature, Trait


def check_latent(statement: ast.Latent, scope: Scope) -> None:
    """Check a latent's structures against its axes, and declare it."""
    name = statement.name
    new = check_name(name, scope)
    dims = check_dims(statement.dims, scope)
    axes = tuple(d.id for d in statement.dims)
    signatures = [find(f, "structure", scope) for f in statement.factors]
    product = len(statement.factors) > 1
    known = [s for s in signatures if s is not None]
    fits = dims is not None and len(known) == len(signatures)
    if fits:
        fits = _factors_fit(statement, known, axes, scope)
    scaled: list[ast.Dist] = []
    for place, (dist, signature) in enumerate(zip(statement.factors, signatures, strict=True)):
        if signature is None:
            continue
        optional = signature.scales if product else ()
        bound = bind(dist, signature, scope, optional=optional)
        if _has_scale(bound):
            scaled.append(dist)
        if dims is not None:
            axis = axes[place] if fits and not signature.whole else None
            _arguments(statement, bound, axes, axis, product, fits, scope)
    if fits and product and len(scaled) > 1:
        _two_scales(statement, scaled, scope)
    if new:
        # A latent with a wrong structure still has its axes, so its uses can be judged; with a
        # hyperprior it was meant to be no latent.
        symbol = Symbol(name.id, "latent", statement, axes, degree="affine")
        scope.declare(symbol, broken=dims is None or _hyperprior(statement))


def _hyperprior(statement: ast.Latent) -> bool:
    names = [f.name.id for f in statement.factors]
    return any(lookup("prior", n) and not lookup("structure", n) for n in names)


def _arguments(
    statement: ast.Latent,
    bound: BoundDistribution,
    dims: tuple[str, ...],
    axis: str | None,
    product: bool,
    fits: bool,
    scope: Scope,
) -> None:
    if not fits and any(p.over in ("axis", "member", "input") for p, _ in bound.matched.values()):
        # Without a known axis these arguments cannot be judged.
        for _, argument in bound.matched.values():
            _touch(argument.value, scope)
        return
    shown = with_dims(statement.name.id, dims)
    along = any(p.over == "input" for p in bound.signature.parameters)
    along |= bound.signature.parameter("kernel") is not None
    inputs = _inputs(bound, axis, scope) if along else ()
    place = Place(bound.signature.name, dims, shown, axis=axis, inputs=inputs, product=product)
    check_values(bound, place, scope)


def _inputs(bound: BoundDistribution, axis: str | None, scope: Scope) -> tuple[str, ...] | None:
    """The dimension of the inputs of a structure, or None where its inputs are wrong."""
    inputs = bound.value("at")
    if inputs is None or isinstance(inputs, ast.String | ast.Bool):
        return None
    # Its errors are reported when the argument itself is checked.
    shape = Inference(scope.silent(), Context("")).infer(inputs)
    if shape is None or shape.indices[:1] != (axis,) or len(shape.indices) > 2:
        return None
    return shape.indices[1:]


def _touch(value: ast.Value, scope: Scope) -> None:
    """Complain of the unknown names of a value."""
    for name in names_in(value):
        scope.resolve(name)


def _has_scale(bound: BoundDistribution) -> bool:
    for name in bound.signature.carries_scale:
        if name == "kernel":
            if carries_scale(bound.value("kernel")):
                return True
        elif name in bound.matched:
            return True
    return False


def _factors_fit(
    statement: ast.Latent, signatures: list[Signature], dims: tuple[str, ...], scope: Scope
) -> bool:
    """Whether there is one factor for each axis, or one for the block; complains E205."""
    shown = with_dims(statement.name.id, dims)
    factors = statement.factors
    if len(factors) > 1:
        wrong = [(f, s) for f, s in zip(factors, signatures, strict=True) if s.whole]
        for factor, signature in wrong:
            name = factor.name.id
            scope.findings.error(
                "E205",
                f"`{name}` is a block of any shape, and cannot be a factor",
                factor.span,
                f"a factor of `{shown}`",
                help="write iid for an axis without structure, and give `sd` to one other factor"
                if signature.carries_scale
                else f"write {statement.name.id} ~ {name}, or a structure for each axis",
            )
        if wrong:
            return False
    elif signatures and signatures[0].whole:
        return True
    if len(factors) == len(dims):
        return True
    axes = f"{len(dims)} {'axis' if len(dims) == 1 else 'axes'}"
    count = f"{len(factors)} structure{'' if len(factors) == 1 else 's'}"
    span = factors[0].span.to(factors[-1].span) if factors else statement.name.span
    scope.findings.error(
        "E205",
        f"`{shown}` has {axes if dims else 'no axis'}, but {count}",
        span,
        f"axes {bracketed(dims)}" if dims else "a single number",
        help=_fit_help(statement, dims),
    )
    return False


def _fit_help(statement: ast.Latent, dims: tuple[str, ...]) -> str:
    names = [text_of_dist(f) for f in statement.factors]
    if not dims:
        return f"latent {statement.name.id} ~ normal(sd = 1), or give it an index"
    if len(names) > len(dims):
        named = [text_of_dist(f) for f in statement.factors if not _identity(f)]
        factors = named if len(named) == len(dims) else names[: len(dims)]
        return f"one structure for each axis, in axis order: {' * '.join(factors)}"
    filled = ["iid"] * (len(dims) - len(names)) + names
    return "one structure for each axis, in axis order, iid where there is none: " + " * ".join(
        filled
    )


def _identity(factor: ast.Dist) -> bool:
    known = lookup("structure", factor.name.id)
    return known is not None and Trait.IDENTITY in known.traits


def text_of_dist(dist: ast.Dist) -> str:
    """A distribution as the user wrote it."""
    inside = ", ".join(f"{a.name} = {text_of(a.value)}" for a in dist.arguments)
    return f"{dist.name.id}({inside})" if inside else dist.name.id


def _two_scales(statement: ast.Latent, scaled: list[ast.Dist], scope: Scope) -> None:
    second = scaled[1]
    argument = next((a for a in second.arguments if a.name == "sd"), None)
    names = [d.name.id for d in scaled]
    plain = [text_of_dist(_without_sd(d) if d is second else d) for d in statement.factors]
    scope.findings.error(
        "E205",
        f"at most one factor of `{statement.name.id}` carries the scale",
        second.span,
        f"{quoted(names)} all do" if len(names) > 2 else f"both {quoted(names)} do",
        help="leave out `sd` in all but one: " + " * ".join(plain)
        if argument
        else "keep `sd`, `cov` or a kernel with `sd` in one factor only",
    )


def _without_sd(dist: ast.Dist) -> ast.Dist:
    return ast.Dist(dist.name, tuple(a for a in dist.arguments if a.name != "sd"))
