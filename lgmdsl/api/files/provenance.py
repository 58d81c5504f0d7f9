"""Where a result came from: hashes of the model's tree and of each array, versions, options;
and which interrupted fit a later one goes on from."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.backend import Backend
from lgmdsl.language.builder import Model
from lgmdsl.learning.integration.checkpoint import Checkpoint

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

PACKAGES = ("lgmdsl", "numpy", "scipy")


def provenance(
    model: Model,
    canonical: CanonicalModel,
    backend: Backend[Any],
    seed: int,
    settings: Mapping[str, object],
) -> dict[str, str]:
    """Text entries for the result file. The tree's hash ignores comments and layout; `settings`
    are arguments of the fit; those that are None were left out."""
    arguments = {name: value for name, value in settings.items() if value is not None}
    entries = {
        "model_sha256": tree_hash(model),
        "method": backend.spec.name,
        "options": json.dumps(dataclasses.asdict(backend), default=str, sort_keys=True),  # type: ignore[call-overload]
        "settings": json.dumps(arguments, default=str, sort_keys=True),
        "seed": str(seed),
        "python": platform.python_version(),
        "data_source": canonical.grounded.source,
    }
    entries.update({f"version_{name}": _version(name) for name in PACKAGES})
    entries.update({f"sha256_{name}": digest for name, digest in canonical.grounded.hashes.items()})
    return entries


def tree_hash(model: Model) -> str:
    """sha256 of the syntax tree: equal for texts that differ in comments and layout only."""
    return hashlib.sha256(repr(model.tree.statements).encode()).hexdigest()


@cache
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


# Entries of the provenance that change no fit.
ELSEWHERE = ("python", "data_source", "version_numpy", "version_scipy")


def resumable(earlier: FitRecord, origin: Mapping[str, str]) -> Checkpoint | None:
    """The checkpoint of an earlier fit of the same model, data, method and settings, by the same
    version, as `origin` (the provenance of the new one) says them; None where it has none, or is of
    something else: then it is a start like any other."""
    known = earlier.checkpoint
    if known is None:
        return None
    alike = all(earlier.provenance.get(k) == v for k, v in origin.items() if k not in ELSEWHERE)
    hashed = {k for k in earlier.provenance if k.startswith("sha256_")}
    if not alike or not hashed <= origin.keys():
        return None
    return known if earlier.learning is None else replace(known, steps=earlier.learning.steps)
