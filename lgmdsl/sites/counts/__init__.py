"""Counts beyond Poisson and binomial, and continuous sums of a Poisson number of terms."""
