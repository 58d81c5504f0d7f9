"""Where hyperparameters stand."""

from __future__ import annotations

from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.loadings import uses_of_predictors, uses_of_priors


def uses(canonical: CanonicalModel) -> list[str]:
    """Every hyper once for each place that it stands in: terms and offsets of predictors,
    arguments of priors, of sites, and of other hypers."""
    places = [*uses_of_predictors(canonical), *uses_of_priors(canonical)]
    places += [p.depends for b in canonical.blocks for p in b.parameters.values()]
    return [name for depends in places for name in depends]
