"""Fits of rows that are spread over shards: whole groups in each, eliminated where they lie."""
