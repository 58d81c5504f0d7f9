"""Draws of a variational Gaussian, bent to the skewness and the width of the posterior."""
