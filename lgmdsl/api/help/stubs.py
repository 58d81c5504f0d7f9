"""The types of `import lgmdsl as lgm` for checkers and editors: `lgmdsl/__init__.pyi`.

    python -m lgmdsl.api.help.stubs

writes it from the declarations; a test fails where it is out of date. Words of third parties are
not in it: they are `Any`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import lgmdsl
from lgmdsl import files
from lgmdsl.vocabulary.lookup import CALLED, CATEGORIES, categories, shipped
from lgmdsl.vocabulary.python_call import PythonArgument, python_call
from lgmdsl.vocabulary.signature import Signature

PLACE = Path(lgmdsl.__file__).with_suffix(".pyi")
WIDTH = 100

_HEAD = """\
# Made by `python -m lgmdsl.api.help.stubs` from the declarations of the language: do not edit.

from typing import Any, Literal

from lgmdsl import sites as sites
"""


def stubs() -> str:
    """The text of the file."""
    homes = sorted((home, name) for name, home in lgmdsl._HOMES.items())
    lines = [_HEAD.rstrip("\n")]
    lines += [f"from {home} import {name} as {name}" for home, name in homes]
    lines += [
        "from lgmdsl.language.constructors import DistributionConstructor",
        "from lgmdsl.language.constructors import const as const",
        "from lgmdsl.language.constructors import head as head",
        "from lgmdsl.language.expressions import Distribution, Expression",
        "",
        "__version__: str",
        "",
        "def __getattr__(name: str) -> Any: ...  # words of third parties",
        "",
    ]
    names = dict.fromkeys(s.name for c in CATEGORIES for s in shipped(c))
    lines += [line for name in sorted(names) for line in (*_word(name), "")]
    return "\n".join(lines).rstrip("\n") + "\n"


def _word(name: str) -> Iterator[str]:
    signatures = [s for c in categories(name) for s in shipped(c) if s.name == name]
    if any(not s.parameters for s in signatures):  # a distribution as it stands: flat, iid
        yield f"{name}: DistributionConstructor"
        return
    returned = "Expression" if signatures[0].category in CALLED else "Distribution"
    arguments = python_call(signatures)
    parts = [_argument(a) for a in arguments]
    first_named = next((i for i, a in enumerate(arguments) if not a.positional), None)
    if first_named is not None:
        parts.insert(first_named, "*")
    line = f"def {name}({', '.join(parts)}) -> {returned}:"
    if len(line) <= WIDTH:
        yield line
    else:
        yield from (f"def {name}(", *(f"    {part}," for part in parts), f") -> {returned}:")
    yield from _docstring(signatures)


def _argument(argument: PythonArgument) -> str:
    text = f"{argument.name}: {argument.annotation}"
    return text if argument.required else f"{text} = {argument.default!r}"


def _docstring(signatures: list[Signature]) -> Iterator[str]:
    rows = [f"{s.category}: {s.summary}" for s in signatures]
    filled = [
        line
        for row in rows
        for line in textwrap.wrap(row, WIDTH - 4, subsequent_indent="    ", break_on_hyphens=False)
    ]
    if len(filled) == 1 and len(filled[0]) < WIDTH - 10:
        yield f'    """{filled[0]}"""'
        return
    yield from ('    """' + filled[0], *(f"    {line}" for line in filled[1:]), '    """')


def write() -> None:
    """Write the file."""
    files.write(PLACE, stubs().encode())


if __name__ == "__main__":
    write()
