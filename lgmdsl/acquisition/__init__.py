"""Bayesian active learning: which cases to label next (Nickisch and Seeger 2009, section 3)."""
