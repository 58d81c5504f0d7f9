"""Data as they come: files, dicts and frames read into named raw entries, untyped and unmatched."""

from lgmdsl.dataset.entries import Dataset, Entry, Keys, Loaded
from lgmdsl.dataset.sources import read

__all__ = ["read", "Dataset", "Entry", "Keys", "Loaded"]
