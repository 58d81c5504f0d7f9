"""Errors survive the way through a process pool."""

from __future__ import annotations

import pickle

import pytest

import lgmdsl as lgm
from lgmdsl.errors import MAX_ERRORS, DataError, Diagnostic, LgmError


def test_an_error_of_a_worker_is_the_same_error() -> None:
    with pytest.raises(LgmError) as raised:
        lgm.loads("lgm 1\nindex obs\nlatent u[obs] = normal(sd = 1)\n")
    back = pickle.loads(pickle.dumps(raised.value))
    assert type(back) is type(raised.value) and str(back) == str(raised.value)
    assert back.codes == raised.value.codes == ("E101",)


def test_how_many_are_left_out_is_kept() -> None:
    many = DataError([Diagnostic("E301", f"problem {k}") for k in range(MAX_ERRORS + 3)])
    back = pickle.loads(pickle.dumps(many))
    assert back.left_out == 3 and back.render() == str(many) == str(back)
