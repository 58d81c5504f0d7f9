"""The cell magic `%%lgm`: a model in a cell of a notebook.

    %load_ext lgmdsl

    %%lgm counts
    lgm 1
    ...

declares the model and gives it a name; without one it is called `model`.
"""

from __future__ import annotations

from typing import Protocol

from lgmdsl.language.builder import Model
from lgmdsl.language.load import loads

NAME = "model"


class Shell(Protocol):
    """What is used of IPython's shell."""

    user_ns: dict[str, object]

    def register_magic_function(self, function: object, kind: str, name: str) -> None: ...


class LgmMagic:
    """`%%lgm [NAME]` in a shell."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell

    def __call__(self, line: str, cell: str) -> Model:
        """Check the model of a cell, give it its name, and show it. Raises ModelError with every
        error of the text, ValueError for a name that Python could not use."""
        name = line.strip() or NAME
        if not name.isidentifier():
            raise ValueError(f"%%lgm takes one name for the model, not `{name}`: %%lgm {NAME}")
        model = loads(cell, f"<{name}>")
        self.shell.user_ns[name] = model
        return model


def load_ipython_extension(shell: Shell) -> None:
    """What `%load_ext lgmdsl` calls."""
    shell.register_magic_function(LgmMagic(shell), "cell", "lgm")
