"""Hyperparameters, near their posteriors, at which data are fitted without learning any."""

from __future__ import annotations

import numpy as np

SALAMANDER: dict[str, object] = {"v_f": 1.7, "v_m": 0.6}
SCOTLAND: dict[str, object] = {"s": 0.6, "mix": 0.8}
PINNED: dict[str, dict[str, object]] = {
    "epil_51": {"v1": 0.32},
    "epil_52": {"v0": 0.16, "v1": 0.25},
    "epil_53": {"S": np.array([[0.3, 0.01], [0.01, 0.5]])},
    "seeds_01": {"v": 0.1},
    "seeds_02": {"v": 0.07},
    "salamander_1": SALAMANDER,
    "salamander_2": SALAMANDER,
    "salamander_3": SALAMANDER,
    "tokyo": {"s": 0.7},
    "scotland": SCOTLAND,
    "scotland_connected": SCOTLAND,
    "scotland_demodata": SCOTLAND,
    "germany": {"s": 0.3, "mix": 0.8},
    "pound_dollar": {"s": 0.8, "phi": 0.97},
    "coal": {"s": 0.7},
    "coal_gp": {"s": 0.8, "length": 25.0},
    "leukaemia_weibull": {"shape": 0.6, "s": 0.3},
    "leukaemia_exponential": {"s": 0.3},
    "rats": {"noise": 6.0, "S": np.array([[200.0, 5.0], [5.0, 12.0]])},
    "toenail": {"s": 4.0},
    "drivers": {"s_level": 0.2, "s_season": 0.1, "noise": 0.07},
}
