"""Data as they come: files, dicts and frames read into named raw entries, untyped and unmatched."""

from lgmdsl.dataset.dataset import Batch, Dataset, Keys
from lgmdsl.dataset.entries import Entry, Loaded
from lgmdsl.dataset.sources import read

__all__ = ["read", "Batch", "Dataset", "Entry", "Keys", "Loaded"]
