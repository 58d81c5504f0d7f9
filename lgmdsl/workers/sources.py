"""A compiled model as a bundle: with its arrays, or as a text and the path of its data."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import compile_model
from lgmdsl.dataset import Keys, read
from lgmdsl.errors import DataError
from lgmdsl.inference.plan import Plan
from lgmdsl.inference.registry import backends
from lgmdsl.language.load import loads
from lgmdsl.sites import catalogue as sites
from lgmdsl.workers.refusals import without_data


class Source(Protocol):
    """What a worker makes a compiled model of."""

    @property
    def canonical(self) -> CanonicalModel:
        """The model, compiled once in each worker."""
        ...


@dataclass(frozen=True, eq=False)
class DataFile:
    """A path, and the sha256 of what the caller found there."""

    path: str
    digest: str

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> DataFile:
        """The file at a path."""
        whole = os.path.abspath(os.fsdecode(path))
        return cls(whole, _digest(whole))

    def checked(self) -> str:
        """The path, where the same content is. Raises WorkerError E703."""
        try:
            digest = _digest(self.path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise without_data(self.path, reason) from None
        if digest != self.digest:
            raise without_data(self.path, "the file there has another content")
        return self.path


@dataclass(frozen=True, eq=False)
class FromFile:
    """A model's text and its data file; `fold`: what makes fewer sites of its rows, if any."""

    text: str
    name: str
    file: DataFile
    mapping: Keys | None
    fold: Callable[[CanonicalModel], CanonicalModel | None] | None

    @cached_property
    def canonical(self) -> CanonicalModel:
        """Raises WorkerError E703 where the file is not the caller's."""
        backends()  # entry points may bring families
        path = self.file.checked()
        try:
            data = read(path, self.mapping)
        except DataError as error:
            raise without_data(path, error.diagnostics[0].message) from error
        model = compile_model(loads(self.text, self.name).checked, data, sites.find_site)
        return model if self.fold is None else (self.fold(model) or model)


@dataclass(frozen=True, eq=False)
class WithArrays:
    """A compiled model; it crosses as its text and its arrays."""

    canonical: CanonicalModel


def source_of(canonical: CanonicalModel, data: Any, mapping: Keys | None) -> Source:
    """The source of a model that was compiled with `data`, as the caller gave them."""
    if isinstance(data, str | os.PathLike) and Path(data).is_file():
        source = canonical.grounded.model.source
        folding = canonical.rows.folding
        fold = None if folding is None else folding.again
        return FromFile(source.text, source.name, DataFile.of(data), mapping, fold)
    return WithArrays(canonical)


@dataclass(frozen=True, eq=False)
class PlanParts:
    """What a plan is besides its model."""

    backend: Any
    routes: tuple[Any, ...]
    terms: Any
    _made: dict[int, tuple[Source, Plan]] = field(default_factory=dict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @classmethod
    def of(cls, planned: Plan) -> PlanParts:
        """The parts of a plan."""
        return cls(planned.backend, planned.routes, planned.terms)

    def __getstate__(self) -> dict[str, Any]:
        return {"backend": self.backend, "routes": self.routes, "terms": self.terms}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _made={}, _lock=Lock())

    def plan(self, source: Source) -> Plan:
        """The plan for a source's model, made once."""
        with self._lock:
            known = self._made.get(id(source))
            if known is None:
                plan = Plan(source.canonical, self.backend, self.routes, self.terms)
                known = self._made[id(source)] = source, plan
            return known[1]


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
