"""The model as Python holds it, built statement by statement or read from a text."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, TypeAlias

import lgmdsl.html as html
from lgmdsl.errors import PACKAGES, Diagnostic, ModelError
from lgmdsl.language.checked import CheckedModel
from lgmdsl.language.constructors import HeadOf
from lgmdsl.language.expressions import Distribution, Expression, lift, plain_text
from lgmdsl.language.parse.grammar import RESERVED, is_name
from lgmdsl.language.shapes.scope import Scope
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.ast import MAX_INDEX_SIZE
from lgmdsl.language.tree.print_model import group, print_model, print_statement

IndexDefinition: TypeAlias = "int | range | Sequence[str] | HeadOf | None"


class Model:
    """A model of the language: the statements of a `.lgm` file, in order.

    Each method adds one statement and returns the name it declares as an expression. Two models
    are equal when their syntax trees are. All methods raise ModelError for what the language does
    not have, and for wrong names, arguments, indices and types in the statement, which is not added
    then: the message names the line of the Python file. What needs the whole model is checked
    when `checked` is asked for. `dims` may be left out of what has no index.
    """

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __init__(self) -> None:
        self._statements: list[ast.AnyStatement] = []
        self._read: ast.Ast | None = None
        self._checked: tuple[int, CheckedModel] | None = None
        self._scope: tuple[int, Scope] | None = None

    @classmethod
    def from_tree(cls, tree: ast.Ast, checked: CheckedModel | None = None) -> Model:
        """The model of a syntax tree, with its check where that is done already."""
        model = cls()
        model._statements = list(tree.statements)
        model._read = tree
        if checked is not None:
            model._checked = len(model._statements), checked
        return model

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled and copied as its text, as it was read or as it would be printed."""
        if self._checked is not None and self._checked[0] == len(self._statements):
            source = self._checked[1].source
            return _read, (source.text, source.name, True)
        return _read, (self.to_lgm(), "<model>", False)

    @property
    def tree(self) -> ast.Ast:
        """The syntax tree as it stands now."""
        if self._read is not None and len(self._read.statements) == len(self._statements):
            return self._read
        if self._read is None:
            self._read = ast.Ast(tuple(self._statements))
        else:
            self._read = replace(self._read, statements=tuple(self._statements))
        return self._read

    @property
    def checked(self) -> CheckedModel:
        """The checked model, kept until a statement is added. Raises ModelError.

        A built model is checked as its text, so that messages can point into it.
        """
        if self._checked is None or self._checked[0] != len(self._statements):
            from lgmdsl.language.check.check import check
            from lgmdsl.language.parse.parse import parse_all

            parsed = parse_all(self.to_lgm(), "<model>")
            if parsed.diagnostics:
                raise ModelError(parsed.diagnostics)
            self._checked = len(self._statements), check(parsed.tree, parsed.source)
        return self._checked[1]

    def to_lgm(self) -> str:
        """The model's text in its canonical format."""
        return html.Page(print_model(self.tree))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Model):
            return NotImplemented
        return self.tree == other.tree

    def __repr__(self) -> str:
        return f"<lgmdsl.Model of {len(self._statements)} statements>"

    def _repr_html_(self) -> str:
        """The text with its words marked up, and the graph; why it has no graph, where it is wrong
        or not finished."""
        from lgmdsl.language.highlight import highlighted

        try:
            text, name = self.checked.source.text, self.checked.source.name
        except ModelError as error:
            parts = [highlighted(self.to_lgm()), html.page(str(error))]
            return html.card(repr(self).strip("<>"), "not a whole model", parts, good=False)
        # Drawn two layers above, so looked up when it is asked for.
        build = import_module("lgmdsl.graph.build").model_graph
        svg = import_module("lgmdsl.graph.draw.svg").to_svg(build(self.checked))
        graph = html.folded("graph", html.picture(svg, "graph of the model"))
        shown = "" if name.startswith("<") else name
        return html.card(repr(self).strip("<>"), shown, [highlighted(text.rstrip()), graph])

    # ---- the statements ------------------------------------------------------------------

    def index(
        self, name: str, definition: IndexDefinition = None, *, doc: str | None = None
    ) -> Expression:
        """`index NAME`: a size (3), a range (`range(1, 367)` is 1..366), labels, or `head(other)`;
        without a definition, size and labels come with the data."""
        return self._add(ast.Index(_name(name), _definition(definition), doc=_doc(doc)))

    def data(
        self,
        name: str,
        dims: Any,
        type: str | Expression | None = None,
        *,
        missing: bool = False,
        doc: str | None = None,
    ) -> Expression:
        """`data NAME[dims] : TYPE`. The type is a word ("real", "count", "real?") or an index, for
        a map into it; `missing` is the `?`."""
        dims, type = _without_dims(dims, type)
        kind = _type(type, missing)
        return self._add(ast.Data(_name(name), _dims(dims), kind, doc=_doc(doc)))

    def hyper(
        self, name: str, type: str, value: Any = None, *, dims: Any = (), doc: str | None = None
    ) -> Expression:
        """`hyper NAME[dims] : TYPE`, with a hyperprior (`pc_sd(u=1, alpha=0.01)`) or a value (a
        number or an expression of earlier hypers)."""
        if value is None:
            raise _wrong(
                "E104",
                f"the hyper `{name}` needs a prior or a value",
                f'm.hyper("{name}", "{type}", lgm.pc_sd(u=1, alpha=0.01))',
            )
        prior = _one(value, "a hyper") if isinstance(value, Distribution) else None
        expression = None if prior else lift(value).node
        return self._add(
            ast.Hyper(
                _name(name), _dims(dims), _type(type, False), prior, expression, doc=_doc(doc)
            )
        )

    def latent(
        self,
        name: str,
        dims: Any,
        structure: Distribution | None = None,
        *,
        doc: str | None = None,
    ) -> Expression:
        """`latent NAME[dims] ~ STRUCTURE`, or a product of structures, one for each axis."""
        dims, structure = _without_dims(dims, structure)
        factors = _distribution(structure, "a latent").factors
        return self._add(ast.Latent(_name(name), _dims(dims), factors, doc=_doc(doc)))

    def let(self, name: str, dims: Any, value: Any = None, *, doc: str | None = None) -> Expression:
        """`let NAME[dims] = EXPRESSION`."""
        dims, value = _without_dims(dims, value)
        return self._add(ast.Let(_name(name), _dims(dims), lift(value).node, doc=_doc(doc)))

    def report(
        self, name: str, dims: Any, value: Any = None, *, doc: str | None = None
    ) -> Expression:
        """`report NAME[dims] = EXPRESSION`: a derived quantity."""
        dims, value = _without_dims(dims, value)
        return self._add(ast.Report(_name(name), _dims(dims), lift(value).node, doc=_doc(doc)))

    def observe(
        self, datum: Expression | str, family: Distribution, *, doc: str | None = None
    ) -> None:
        """`observe DATUM ~ FAMILY`."""
        name = ast.Name(datum) if isinstance(datum, str) else getattr(datum, "node", None)
        if not isinstance(name, ast.Name):
            help = 'm.observe(y, ...) or m.observe("y", ...)'
            raise _wrong("E109", "`observe` takes a datum", help)
        dist = _one(_distribution(family, "an observation"), "an observation")
        self._add(ast.Observe(_name(name.id), dist, doc=_doc(doc)))

    def potential(self, value: Any, family: Distribution, *, doc: str | None = None) -> None:
        """`potential EXPRESSION ~ POTENTIAL`."""
        dist = _one(_distribution(family, "a potential"), "a potential")
        self._add(ast.Potential(lift(value).node, dist, doc=_doc(doc)))

    def constrain(self, left: Any, right: Any, *, doc: str | None = None) -> None:
        """`constrain EXPRESSION = EXPRESSION`."""
        self._add(ast.Constrain(lift(left).node, lift(right).node, doc=_doc(doc)))

    def _check(self, statement: ast.AnyStatement) -> None:
        """Raise ModelError for what is wrong with the next statement."""
        from lgmdsl.language.check.check import check_statement

        if self._scope is None or self._scope[0] != len(self._statements):
            scope = Scope()
            for earlier in self._statements:
                check_statement(earlier, scope)
            scope.findings.errors.clear()
        else:
            scope = self._scope[1]
        self._scope = None
        check_statement(statement, scope)
        if not scope.findings.errors:
            self._scope = len(self._statements) + 1, scope
            return
        raise ModelError(self._placed(statement) or scope.findings.errors)

    def _placed(self, statement: ast.AnyStatement) -> list[Diagnostic]:
        """What is wrong with the next statement, as if it were the text of the Python line."""
        from lgmdsl.language.check.check import check_statement
        from lgmdsl.language.parse.parse import parse_all

        file, line = _caller()
        parsed = parse_all("lgm 1" + "\n" * max(line - 1, 1) + print_statement(statement), file)
        scope = Scope()
        for earlier in self._statements:
            check_statement(earlier, scope)
        scope.findings.errors.clear()
        for written in parsed.tree.statements:
            check_statement(written, scope)
        return [*parsed.diagnostics, *scope.findings.errors]

    def _add(self, statement: ast.AnyStatement) -> Expression:
        self._check(statement)
        apart = not self._statements or group(self._statements[-1]) != group(statement)
        self._statements.append(replace(statement, blank_before=apart))
        name = getattr(statement, "name", None)
        return Expression(name if isinstance(name, ast.Name) else ast.Number(0.0))


def _read(text: str, name: str, checked: bool) -> Model:
    """The model of a text that another one had, `checked` or not."""
    from lgmdsl.language.check.check import check
    from lgmdsl.language.parse.parse import parse_all

    parsed = parse_all(text, name)
    if parsed.diagnostics:
        raise ModelError(parsed.diagnostics)
    tree = parsed.tree
    return Model.from_tree(tree, check(tree, parsed.source) if checked else None)


def _name(name: str) -> ast.Name:
    if isinstance(name, str) and is_name(name):
        return ast.Name(name)
    if isinstance(name, str) and name in RESERVED:
        raise _wrong(
            "E105",
            f"`{name}` is a reserved word and cannot be a name",
            f"choose another name, e.g. {name}_1",
        )
    raise _wrong(
        "E109",
        f"{name!r} is not a name",
        "a name has the letters a to z, digits and `_`, and begins with a letter",
    )


def _without_dims(dims: Any, value: Any) -> tuple[Any, Any]:
    """The indices and what comes after them, where the indices may be left out."""
    return ((), dims) if value is None else (dims, value)


def _caller() -> tuple[str, int]:
    """The file and line that called the library."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _of_library(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return os.path.basename(frame.f_code.co_filename), frame.f_lineno


def _of_library(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


def _dims(dims: Any) -> tuple[ast.Name, ...]:
    """A list of indices; one index may stand without a list."""
    indices = list(dims) if isinstance(dims, list | tuple) else [dims]
    return tuple(_index_name(d) for d in indices)


def _index_name(index: Any) -> ast.Name:
    if isinstance(index, str):
        return _name(index)
    if isinstance(index, Expression) and isinstance(index.node, ast.Name):
        return index.node
    raise _wrong("E109", f"{index!r} is not an index", 'obs = m.index("obs"), then [obs]')


def _type(type: str | Expression, missing: bool) -> ast.Type:
    if isinstance(type, str):
        name, mark = type.removesuffix("?"), type.endswith("?")
        return ast.Type(_name(name).id, missing or mark)
    return ast.Type(_index_name(type).id, missing)


def _definition(definition: IndexDefinition) -> ast.Size | ast.Range | ast.Labels | ast.Head | None:
    if definition is None:
        return None
    if callable(listed := getattr(definition, "tolist", None)):  # an array, or a number of one
        definition = listed()
    if isinstance(definition, HeadOf):
        return ast.Head(definition.of)
    if (
        isinstance(definition, int)
        and not isinstance(definition, bool)
        and 1 <= definition <= MAX_INDEX_SIZE
    ):
        return ast.Size(definition)
    if (
        isinstance(definition, range)
        and definition.step == 1
        and definition.start >= 0
        and len(definition)
    ):
        return ast.Range(definition.start, definition.stop - 1)
    if (
        isinstance(definition, list | tuple)
        and definition
        and all(isinstance(t, str) for t in definition)
    ):
        return ast.Labels(tuple(plain_text(t) for t in definition))
    raise _wrong(
        "E109",
        f"{definition!r} does not define an index",
        'a size (3), range(1, 367), labels ["a", "b"], or lgm.head(other)',
    )


def _distribution(value: Any, statement: str) -> Distribution:
    if isinstance(value, Distribution):
        return value
    raise _wrong(
        "E101",
        f"{statement} takes a distribution, not {type(value).__name__}",
        "e.g. lgm.normal(sd=1)",
    )


def _one(value: Distribution, statement: str) -> ast.Dist:
    if len(value.factors) == 1:
        return value.factors[0]
    raise _wrong(
        "E109",
        f"{statement} takes one distribution, not a product",
        "only a latent has a structure for each axis",
    )


def _doc(doc: str | None) -> str | None:
    return None if doc is None else plain_text(doc)


def _wrong(code: str, message: str, help: str) -> ModelError:
    return ModelError.of(code, message, help=help)
