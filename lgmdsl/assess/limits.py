"""What draws must be worth."""

from __future__ import annotations

# Chains that are not to be trusted: Vehtari et al. 2021 ask for 400 draws' worth and 1.01 of far
# longer ones.
ESS, R_HAT = 400.0, 1.05
# Draws that are worth less of their number are made by another estimator too, if one applies.
WORTH = 0.25
