"""What is tolerated of the errors of a fit, quantiles by their cumulants, and up to which sizes its
exact posterior is asked for."""

from __future__ import annotations

# What is tolerated of a mean, in posterior sds; of an sd, relative; of a 5 or 95 % point, in sds.
MEAN, SD, QUANTILE = 0.1, 0.1, 0.15
LEVELS = (0.05, 0.95)  # the quantiles that are looked at
NORMAL = 1.6448536269514722  # the 95 % point of a standard normal
BENT = (NORMAL**2 - 1.0) / 6.0  # of a skewness (Cornish and Fisher 1938, first order)

# Small models, of whose latents all products are formed and whose posterior is weighed or searched
# for modes; predictor rows of which all covariances are formed.
FEW_LATENTS, FEW_ROWS = 24, 600
FREE = 8  # directions in which quasi-random points are even enough
ENTRIES = 1 << 21  # of one dense temporary
