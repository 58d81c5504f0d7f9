"""Observation families. The first `latent` argument names the link and, with it, the site."""

from lgmdsl.vocabulary.families import classes, continuous, counts, positive

FAMILIES = (
    *continuous.FAMILIES,
    *positive.FAMILIES,
    *counts.FAMILIES,
    *classes.FAMILIES,
)
