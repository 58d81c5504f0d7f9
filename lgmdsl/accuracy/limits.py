"""What is tolerated of the errors of a fit, and quantiles by their cumulants."""

from __future__ import annotations

# What is tolerated of a mean, in posterior sds; of an sd, relative; of a 5 or 95 % point, in sds.
MEAN, SD, QUANTILE = 0.1, 0.1, 0.15
LEVELS = (0.05, 0.95)  # the quantiles that are looked at
NORMAL = 1.6448536269514722  # the 95 % point of a standard normal
BENT = (NORMAL**2 - 1.0) / 6.0  # of a skewness (Cornish and Fisher 1938, first order)
