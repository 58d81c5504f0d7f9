"""Ranges of a back end's options, for its `__post_init__`: the caller names method and option."""

from __future__ import annotations


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Raises ValueError where value is outside [least, most], or no number."""
    if not least <= value <= most:
        raise ValueError(f"{name} lies in [{least:g}, {most:g}], not {value:g}")


def check_least(name: str, value: int, least: int) -> None:
    """Raises ValueError where value is below `least`."""
    if value < least:
        raise ValueError(f"{name} is at least {least}, not {value}")
