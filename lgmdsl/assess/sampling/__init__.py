"""Exact draws of p(z | y, theta), by Markov chains that know the fitted Gaussian."""
