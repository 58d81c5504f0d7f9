"""Options of back ends: values and texts of each type, and how a wrong one is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lgmdsl.errors import MethodError
from lgmdsl.inference.options import configured
from lgmdsl.inference.registry import backends


@pytest.mark.parametrize(
    ("method", "name", "given", "kept"),
    [
        ("ep", "power", "0.5", 0.5),
        ("ep", "power", 1, 1.0),
        ("ep", "mode", "sequential", "sequential"),
        ("laplace", "correct_mean", "TRUE", True),
        ("laplace", "correct_mean", np.bool_(False), False),
        ("natural-gradient", "memory", "4", 4),
        ("natural-gradient", "memory", np.int64(4), 4),
    ],
)
def test_options_are_read(method: str, name: str, given: object, kept: object) -> None:
    found = getattr(configured(backends()[method], {name: given}), name)
    assert found == kept and type(found) is type(kept)


@pytest.mark.parametrize(
    ("method", "name", "given", "said"),
    [
        ("ep", "power", "abc", "option `power` of method `ep` is a number, not `abc`"),
        ("ep", "power", None, "is a number, not `None`"),
        ("ep", "power", True, "is a number, not `True`"),
        ("ep", "mode", 3, "option `mode` of method `ep` is a word, not `3`"),
        ("laplace", "correct_mean", "maybe", "`laplace` is true or false, not `maybe`"),
        ("laplace", "correct_mean", 1, "is true or false, not `1`"),
        ("natural-gradient", "memory", "2.5", "is a whole number, not `2.5`"),
        ("natural-gradient", "memory", 2.5, "is a whole number, not `2.5`"),
        ("natural-gradient", "memory", "1_0", "is a whole number, not `1_0`"),
        ("natural-gradient", "memory", "0", "refuses memory=0: memory is at least 1, not 0"),
        ("coordinate-ascent", "accuracy", "1e999", "accuracy lies in [1e-14, 0.1], not inf"),
        ("ep", "pwer", 1.0, "has no option `pwer`"),
    ],
)
def test_wrong_options_name_option_value_and_what_is_wanted(
    method: str, name: str, given: object, said: str
) -> None:
    with pytest.raises(MethodError, match=re.escape(said)) as caught:
        configured(backends()[method], {name: given})
    assert caught.value.codes == ("E104",)


def test_every_option_of_every_method_refuses_nonsense() -> None:
    for backend in backends().values():
        for name in backend.__dataclass_fields__:  # type: ignore[attr-defined]
            with pytest.raises(MethodError, match=f"`?{name}"):
                configured(backend, {name: "no such value"})
