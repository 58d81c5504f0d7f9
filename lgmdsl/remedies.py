"""Remedies in the words of the surface that shows them: flags on the command line, arguments in
Python.

A message is written once, with both wordings where they differ; `errors.Diagnostic` keeps the two
and each surface renders its own.
"""

from __future__ import annotations

import math
import re

_OPEN, _OR, _CLOSE = "\x02", "\x1f", "\x03"
_BOTH = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_OR}([^{_OPEN}{_CLOSE}]*){_CLOSE}")


def either(command_line: str, python: str) -> str:
    """Words for the command line and words for Python, as part of a message."""
    return f"{_OPEN}{command_line}{_OR}{python}{_CLOSE}"


def in_python(text: str) -> str:
    """A message in Python's words."""
    return _BOTH.sub(lambda match: match[2], text)


def on_command_line(text: str) -> str:
    """A message in the command line's words."""
    return _BOTH.sub(lambda match: match[1], text)


def pin(name: str, value: str = "VALUE") -> str:
    """Holding a hyperparameter at a value: `--set s=0.5`, `fixed={"s": 0.5}`."""
    return either(f"--set {name}={value}", f'fixed={{"{name}": {value}}}')


def narrow_prior(value: float, rows: float) -> str:
    """A prior of a positive hyper about a value, which holds it there against a density that rises
    by a nat for each of so many rows and unit of its log."""
    sd = float(f"{min(0.5, 1.0 / math.sqrt(max(rows, 1.0))):.1g}")
    return f"lognormal(mean = {math.log(value):.3g}, sd = {sd:g})"


def start(name: str, value: str = "VALUE") -> str:
    """Where the search for a hyperparameter starts: `--start s=1`, `start={"s": 1}`."""
    return either(f"--start {name}={value}", f'start={{"{name}": {value}}}')


def setting(name: str, value: str) -> str:
    """A choice by name: `--method laplace`, `method="laplace"`."""
    return either(f"--{name} {value}", f'{name}="{value}"')


def number(name: str, value: object) -> str:
    """A number: `--max-steps 200`, `max_steps=200`."""
    return either(f"--{name} {value}", f"{name.replace('-', '_')}={value}")


def option(name: str, value: object) -> str:
    """A back end's own field: `--option samples=100`, `options={"samples": 100}`."""
    python = f'"{value}"' if isinstance(value, str) else value
    return either(f"--option {name}={value}", f'options={{"{name}": {python}}}')


def key(name: str, source: str) -> str:
    """Another name in the data: `--map time=tme`, `mapping={"time": "tme"}`."""
    return either(f"--map {name}={source}", f'mapping={{"{name}": "{source}"}}')


def argument(name: str, flag: str = "") -> str:
    """The setting itself: `--set`, `fixed=`."""
    return either(f"--{flag or name}", f"{name}=")


def table(name: str) -> str:
    """A table over an index, next to the first: `--data site=FILE`, `[data, {"site": frame}]`."""
    return either(f"--data {name}=FILE", f'[data, {{"{name}": frame}}]')
