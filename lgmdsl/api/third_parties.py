"""Which third parties' parts a fit is made with, for its file, and what to install without them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from lgmdsl.contract.bound import Bound
from lgmdsl.errors import DataError, LgmError, ModelError, listed
from lgmdsl.inference.kinds import signature_of
from lgmdsl.inference.registry import Registered, registered
from lgmdsl.language.tree import ast
from lgmdsl.vocabulary import plugins
from lgmdsl.vocabulary.lookup import CATEGORIES, lookup
from lgmdsl.vocabulary.signature import Category

KEY = "plugins"  # of the provenance, where a fit has any


@dataclass(frozen=True)
class Used:
    """A part of a third party: `word` is the name that models use, empty where none does;
    `distribution` is empty for a module that no distribution has installed."""

    kind: str
    name: str
    word: str
    module: str
    distribution: str
    version: str

    def __str__(self) -> str:
        part = f"the {self.kind} `{self.word or self.name}`"
        if self.distribution:
            return f"{part} of {self.distribution} {self.version}".rstrip()
        return f"{part}, which `{self.module}` registered at run time"


def used_parts(
    tree: ast.Ast, method: str, bounds: Sequence[Bound | None], engine: str
) -> tuple[Used, ...]:
    """The third parties' parts of a model's words, a method, its routes and an engine."""
    words = set(words_in(tree))
    out = []
    for entry in registered():
        word = word_of(entry)
        if word is not None:
            taken = word in words
        elif isinstance(entry.part, Bound):
            taken = any(b is entry.part for b in bounds)
        else:
            taken = entry.name == {"backend": method, "engine": engine}.get(entry.kind.name)
        if taken:
            out.append(_described(entry, word[1] if word else ""))
    return tuple(out)


def record(parts: Sequence[Used]) -> dict[str, str]:
    """The entry of the provenance; nothing where no third party's part is in use."""
    return {KEY: json.dumps([asdict(p) for p in parts])} if parts else {}


def unreadable(error: ModelError, provenance: Mapping[str, str], place: Path) -> LgmError:
    """What to raise where the model of a result file is not understood: the parts that are not
    here and what to install; the error itself where all parts are here as they were."""
    recorded = _recorded(provenance)
    missing = [u for u in recorded if u.word and not _known(u.word)]
    verb = "is not here" if len(missing) == 1 else "are not here"
    if not missing:
        missing = [u for u in recorded if _installed(u.distribution) != u.version]
        verb = "has another version here" if len(missing) == 1 else "have other versions here"
    if not missing:
        return error
    message = f"`{place}` cannot be read"
    return _absent(f"{message}: {listed([str(u) for u in missing])} {verb}", missing)


def engine_missing(engine: str, provenance: Mapping[str, str]) -> LgmError:
    """What to raise where the posterior of a stored fit is wanted and its engine is not here."""
    missing = [u for u in _recorded(provenance) if (u.kind, u.name) == ("engine", engine)]
    name = str(missing[0]) if missing else f"the engine `{engine}`"
    message = "the posterior of this fit cannot be rebuilt: means, sds and evidence are stored"
    return _absent(f"{message}, but {name} is not here", missing)


def _recorded(provenance: Mapping[str, str]) -> list[Used]:
    return [Used(**row) for row in json.loads(provenance.get(KEY, "[]"))]


def _absent(message: str, missing: Sequence[Used]) -> LgmError:
    """E306, why the parts are left out, and what to install or import for them."""
    faults = [f for u in missing if (f := plugins.fault_of(u.word or u.name))]
    packages = dict.fromkeys(f"{u.distribution}=={u.version}" for u in missing if u.distribution)
    modules = dict.fromkeys(u.module for u in missing if not u.distribution)
    remedies = [f"pip install {' '.join(packages)}"] if packages else []
    remedies += [f"import {module}, which registers it" for module in modules]
    return DataError.of(
        "E306",
        message,
        details=tuple(f"the {f.point} is left out: {f.reason}" for f in faults),
        help=", and ".join(remedies),
    )


def _installed(distribution: str) -> str:
    """The version that is installed; empty where none is."""
    try:
        return metadata.version(distribution) if distribution else ""
    except metadata.PackageNotFoundError:
        return ""


def _known(word: str) -> bool:
    return any(lookup(category, word) for category in CATEGORIES)


def word_of(entry: Registered) -> tuple[Category, str] | None:
    """The category and word by which models name a part; None where they do not."""
    signature = signature_of(entry.part)
    return (signature.category, signature.name) if signature else None


def _described(entry: Registered, word: str) -> Used:
    owner = entry.part if isinstance(entry.part, type) else type(entry.part)
    module = str(owner.__module__)
    if entry.point is not None:
        point = entry.point
        return Used(entry.kind.words, entry.name, word, module, point.distribution, point.version)
    return Used(entry.kind.words, entry.name, word, module, *_distribution(module))


def _distribution(module: str) -> tuple[str, str]:
    """The distribution that installed a module, and its version; empty where there is none."""
    names = _distributions(tuple(sys.path)).get(module.partition(".")[0], [])
    return (names[0], metadata.version(names[0])) if names else ("", "")


@cache
def _distributions(paths: tuple[str, ...]) -> Mapping[str, list[str]]:
    """Distributions by the packages that they installed: reads a file of each, so once for each
    state of `sys.path`."""
    return metadata.packages_distributions()


def words_in(tree: ast.Ast) -> Iterator[tuple[Category, str]]:
    """The structures, kernels, families, potentials and hyperpriors that a model names."""
    for statement in tree.statements:
        if isinstance(statement, ast.Latent):
            for factor in statement.factors:
                yield "structure", factor.name.id
                yield from (("kernel", name) for name in _names(factor.arguments))
        elif isinstance(statement, ast.Hyper) and statement.prior is not None:
            yield "prior", statement.prior.name.id
        elif isinstance(statement, ast.Observe):
            yield "family", statement.family.name.id
        elif isinstance(statement, ast.Potential):
            yield "potential", statement.family.name.id


def _names(node: object) -> Iterator[str]:
    """Every name in arguments: a kernel is called, or stands by itself."""
    return (part.id for part in ast.parts(node) if isinstance(part, ast.Name))
