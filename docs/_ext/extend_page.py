"""The page of `lgmdsl.extend`: every name that plug-ins import, as its code declares it.

Names stand under the comments of `__all__`; texts are docstrings, those of members `#:` comments.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import inspect
import io
import textwrap
import tokenize
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from sphinx.pycode import ModuleAnalyzer

import lgmdsl.extend


def extend() -> Iterator[str]:
    """The whole page."""
    yield "# Parts from outside\n"
    yield from prose(lgmdsl.extend.__doc__ or "")
    for title, names in groups().items():
        yield f"## {title[:1].upper()}{title[1:]}\n"
        for name in names:
            yield from described(name, getattr(lgmdsl.extend, name))


def groups() -> dict[str, tuple[str, ...]]:
    """The names of `__all__` under the comments above them."""
    source = inspect.getsource(lgmdsl.extend).partition("\n__all__ = [")[2]
    found: dict[str, list[str]] = {}
    title: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO("[" + source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("# fmt"):
            title = [token.string.removeprefix("#").strip()]
            found[title[0]] = []
        elif token.type == tokenize.STRING:
            found[title[0]].append(token.string.strip("\"'"))
    return {title: tuple(names) for title, names in found.items()}


def described(name: str, value: Any) -> Iterator[str]:
    """One name: how it is called, its text, its members."""
    yield f"(extend-{name.lower()}{'-module' if isinstance(value, ModuleType) else ''})=\n"
    yield f"### `{name}`\n"
    if isinstance(value, ModuleType):
        yield from prose(value.__doc__ or "")
        yield from members(vars(value), value.__name__)
        return
    if not getattr(value, "__module__", "").startswith("lgmdsl"):  # a type of another library
        yield f"{comments(modules()[name], '')[name]}\n"
        return
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        yield from prose(own_text(value))
        yield from choices(value)
        return
    yield f"```none\n{called(name, value)}\n```\n"
    yield from prose(own_text(value))
    if inspect.isclass(value):
        yield from fields(value)
        yield from methods(value)


def called(name: str, value: Any) -> str:
    """`function(argument, ...)`, `class Name(Base)`: what makes an object are its fields."""
    bases = [b.__name__ for b in getattr(value, "__bases__", ()) if b.__name__ in names_here()]
    if inspect.isclass(value):
        return f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    return f"{name}{signed(value)}"


@functools.cache
def names_here() -> frozenset[str]:
    """Everything that the page has."""
    return frozenset(lgmdsl.extend.__all__)


def signed(value: Any) -> str:
    """The arguments, without types: these stand at fields, and in the source."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    plain = [
        p.replace(annotation=inspect.Parameter.empty, default=short(p.default))
        for p in signature.parameters.values()
        if p.name not in ("self", "cls")
    ]
    empty = inspect.Signature.empty
    return str(signature.replace(parameters=plain, return_annotation=empty))


class Made:
    """A default that is made anew for each object, or is no short literal."""

    def __repr__(self) -> str:
        return "..."


def short(default: Any) -> Any:
    """A default as it is shown."""
    if default is inspect.Parameter.empty:
        return default
    plain = isinstance(default, (bool, int, float, str, tuple, type(None))) and not isinstance(
        default, enum.Enum
    )
    return default if plain and len(repr(default)) < 30 else Made()


def own_text(value: Any) -> str:
    """Its docstring, none that it inherits or that a dataclass writes."""
    text = value.__doc__ or ""
    made = inspect.isclass(value) and text.startswith(f"{value.__name__}(")
    return "" if made else inspect.cleandoc(text)


def choices(value: type[enum.Enum]) -> Iterator[str]:
    """A row for each member: what its comment says, else its value."""
    texts = comments(value.__module__, value.__qualname__)
    yield "| member | means |\n|---|---|"
    for name, member in value.__members__.items():
        said = texts.get(name) or (str(member.value) if isinstance(member.value, str) else "none")
        yield f"| `{name}` | {cell(said)} |"
    yield ""
    yield from methods(value)


def comments(module: str, of: str) -> dict[str, str]:
    """The `#:` comments of a class, by member; with "" those of the module's own names."""
    found = ModuleAnalyzer.for_module(module).find_attr_docs()
    return {name: " ".join(text).strip() for (owner, name), text in found.items() if owner == of}


@functools.cache
def modules() -> dict[str, str]:
    """Where `lgmdsl.extend` takes each name from."""
    tree = ast.parse(inspect.getsource(lgmdsl.extend))
    taken = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    return {alias.name: node.module or "" for node in taken for alias in node.names}


def fields(value: type) -> Iterator[str]:
    """The fields of a dataclass, with what their comments say, and what a class declares."""
    texts = comments(value.__module__, value.__qualname__)
    rows = []
    defaults = getattr(value, "_field_defaults", {})  # of a named tuple
    for name in getattr(value, "_fields", ()):
        kind = inspect.get_annotations(value)[name]
        default = f"`{short(defaults[name])!r}`" if name in defaults else "required"
        rows.append((name, getattr(kind, "__forward_arg__", str(kind)), default, ""))
    if dataclasses.is_dataclass(value):
        for f in dataclasses.fields(value):
            needed = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
            default = "required" if needed else f"`{short(f.default)!r}`"
            default = "`...`" if f.default is dataclasses.MISSING and not needed else default
            rows.append((f.name, str(f.type), default, texts.get(f.name, "")))
    known = {row[0] for row in rows}
    for name, kind in inspect.get_annotations(value).items():
        if name not in known and not name.startswith("_"):
            default = f"`{short(vars(value)[name])!r}`" if name in vars(value) else "required"
            rows.append((name, str(kind), default, texts.get(name, "")))
    if rows:
        yield "| field | type | default | means |\n|---|---|---|---|"
        for name, kind, default, said in rows:
            yield f"| `{name}` | {cell(f'`{kind}`')} | {cell(default)} | {cell(said)} |"
        yield ""


def methods(value: type) -> Iterator[str]:
    """What a class defines itself, but for what a base class on this page says already."""
    bases = [b for b in value.__mro__[1:] if b.__name__ in names_here()]
    said = {name for base in bases for name, made in vars(base).items() if made.__doc__}
    own = {n: made for n, made in vars(value).items() if n not in said or made.__doc__}
    yield from members(own, value.__module__)


def members(table: Mapping[str, Any], module: str) -> Iterator[str]:
    """Functions and properties of a namespace, in its order; private ones are left out."""
    for name, made in table.items():
        attribute = isinstance(made, (property, functools.cached_property))
        bare = getattr(made, "fget", None) or getattr(made, "func", None) or made
        bare = getattr(bare, "__func__", bare)
        if name.startswith("_") or not inspect.isfunction(bare) or bare.__module__ != module:
            continue
        notes = {
            "abstract": getattr(bare, "__isabstractmethod__", False),
            "property": attribute,
            "class method": isinstance(made, classmethod),
        }
        note = ", ".join(word for word, holds in notes.items() if holds)
        yield f"`{name}{'' if attribute else signed(bare)}`{note and f' ({note})'}"
        text = inspect.cleandoc(bare.__doc__ or "")
        yield f": {textwrap.indent(prose_text(text), '  ').strip()}\n" if text else ""


def prose(text: str) -> Iterator[str]:
    """A docstring as Markdown."""
    yield prose_text(inspect.cleandoc(text))


def prose_text(text: str) -> str:
    """Paragraphs, escaped; examples and tables as they are."""
    out = []
    for block in text.rstrip().split("\n\n"):
        lines = block.splitlines()
        if block.startswith(">>>"):
            out.append(f"```python\n{block}\n```")
        elif block.startswith("    "):
            out.append(f"```none\n{textwrap.dedent(block)}\n```")
        elif len(lines) > 1 and lines[1].startswith("|--"):
            out.append(block)
        else:
            out.append(escaped(block))
    return "\n\n".join(out) + "\n"


def escaped(text: str) -> str:
    """Outside of backticks, characters that Markdown reads get a backslash."""
    parts = text.split("`")
    marks = str.maketrans({c: f"\\{c}" for c in "*_<>$[]~|#"})
    return "`".join(p if k % 2 else p.translate(marks) for k, p in enumerate(parts))


def cell(text: str) -> str:
    """Text in a table."""
    parts = text.replace("\n", " ").split("`")
    return "`".join(p.replace("|", "\\|") if k % 2 else escaped(p) for k, p in enumerate(parts))
