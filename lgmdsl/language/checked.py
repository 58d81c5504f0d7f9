"""What the checker hands on: the tree, with every name resolved to a symbol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lgmdsl.errors import Source
from lgmdsl.language.tree import ast

Kind = Literal["index", "data", "hyper", "latent", "let", "report"]

# What an expression may depend on, in rising order: data and numbers only; hypers too;
# affine in the latents; anything (only in a report).
Degree = Literal["constant", "hyper", "affine", "nonlinear"]


@dataclass(frozen=True)
class Symbol:
    """A declared name. `dims` are index names in the declared order; `type` is the type's name
    (for data and hypers); `target` is the index set that an index-typed datum maps to."""

    name: str
    kind: Kind
    statement: ast.AnyStatement
    dims: tuple[str, ...] = ()
    type: str = ""
    target: str | None = None
    degree: Degree = "constant"

    @property
    def optional(self) -> bool:
        """Whether entries of a datum may be missing: its type has a `?`."""
        return isinstance(self.statement, ast.Data) and self.statement.type.missing


@dataclass(frozen=True)
class CheckedModel:
    """A model all of whose names, indices and types are right. Equality is that of the trees."""

    tree: ast.Ast
    symbols: Mapping[str, Symbol] = field(compare=False, repr=False)
    source: Source = field(compare=False, repr=False)

    def of_kind(self, kind: Kind) -> tuple[Symbol, ...]:
        """The symbols of one kind, in the order of their declaration."""
        return tuple(s for s in self.symbols.values() if s.kind == kind)
