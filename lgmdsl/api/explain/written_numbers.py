"""Numbers in the text of a model that a person reads."""

from __future__ import annotations

import math


def centre(value: float, spread: float) -> str:
    """A number near the value, within a tenth of the spread, with as few digits as that takes."""
    places = -math.floor(math.log10(spread / 5.0)) if spread > 0 else 15
    size = math.floor(math.log10(abs(value))) if value else 0
    digits = max(1, size + places + 1)
    rounded = round(value, places)
    return number(rounded, min(digits, 17)) if rounded else "0"


def number(value: float, digits: int = 3) -> str:
    """So many digits, as the language writes numbers: without an exponent from 0.0001 to 10
    million."""
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    power = int(exponent)
    if -4 <= power < 7:
        text = f"{float(f'{mantissa}e{power}'):.{max(0, digits - 1 - power)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{power}"
