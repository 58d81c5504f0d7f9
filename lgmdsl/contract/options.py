"""A back end's options: what each means, and ranges for its `__post_init__` (the caller names
method and option)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, TypeVar

T = TypeVar("T")
MEANING, CHOICES = "meaning", "choices"


def option(default: T, meaning: str, choices: Iterable[str] = ()) -> T:
    """A field of a back end that is an option: its default, what it means (with unit and range) for
    the manual, and its values where it is a word."""
    metadata: Mapping[str, Any] = {MEANING: meaning, CHOICES: tuple(choices)}
    return field(default=default, metadata=metadata)


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Raises ValueError where value is outside [least, most], or no number."""
    if not least <= value <= most:
        raise ValueError(f"{name} lies in [{least:g}, {most:g}], not {value:g}")


def check_least(name: str, value: int, least: int) -> None:
    """Raises ValueError where value is below `least`."""
    if value < least:
        raise ValueError(f"{name} is at least {least}, not {value}")
