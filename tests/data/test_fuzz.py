"""A few of the mutated files of `fuzz_files.py`; run that for thousands."""

from __future__ import annotations

import pytest

from tests.data.fuzz_files import run

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.mark.thorough
def test_mutated_files_end_in_a_model_or_an_error() -> None:
    outcome = run(150, seed=7)
    assert outcome.escaped == []
    assert outcome.read > 5 and len(outcome.codes) >= 4
