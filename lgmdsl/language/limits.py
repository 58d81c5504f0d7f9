"""Limits that keep every text under a second and every walk of a tree inside Python's stack."""

from __future__ import annotations

MAX_CHARACTERS = 1_000_000
MAX_TOKENS = 20_000  # words, signs and comments in a file
MAX_NESTING = 100  # brackets, signs and powers inside one another
MAX_CHAIN = 250  # operators in a row
MAX_INDICES = 16  # of one name
MAX_INDEX_SIZE = 10**8  # labels that a file may declare by a size or a range

TOO_DEEP = "the expression is nested too deeply"
LIMITS = (
    f"at most {MAX_NESTING} brackets, signs or powers inside one another, and {MAX_CHAIN} "
    "operators in a row"
)
