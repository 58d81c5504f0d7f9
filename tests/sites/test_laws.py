"""Log masses of intervals and their derivatives against 50 digits, narrow, wide and far out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from lgmdsl.sites.laws import GumbelLaw, LaplaceLaw, Law, NormalLaw, StudentLaw
from lgmdsl.sites.positive.gamma_tails import LogGammaLaw

Real = Any
INF = np.inf


def _student(x: Real) -> Real:
    """P(X <= x) for 4 degrees of freedom."""
    tail = mp.betainc(2, mp.mpf("0.5"), 0, 4 / (4 + x * x), regularized=True) / 2
    return tail if x < 0 else 1 - tail


def _laplace(x: Real) -> Real:
    """P(X <= x)."""
    return mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2


def _gamma(x: Real) -> tuple[Real, Real]:
    k = mp.mpf("3.3")
    t = k * mp.exp(x)
    return (
        mp.gammainc(k, 0, t, regularized=True),
        mp.gammainc(k, t, regularized=True),
    )


LAWS: dict[str, tuple[Callable[[int], Law], Callable[[Real], tuple[Real, Real]]]] = {
    "normal": (
        lambda n: NormalLaw(),
        lambda x: (mp.erfc(-x / mp.sqrt(2)) / 2, mp.erfc(x / mp.sqrt(2)) / 2),
    ),
    "gumbel": (lambda n: GumbelLaw(), lambda x: (-mp.expm1(-mp.exp(x)), mp.exp(-mp.exp(x)))),
    "student": (lambda n: StudentLaw(np.full(n, 4.0)), lambda x: (_student(x), _student(-x))),
    "laplace": (lambda n: LaplaceLaw(), lambda x: (_laplace(x), _laplace(-x))),
    "log_gamma": (lambda n: LogGammaLaw(np.full(n, 3.3)), _gamma),
}
ENDS = [(-INF, x) for x in (-6.0, -0.3, 2.0)] + [(x, INF) for x in (-6.0, 0.4, 3.0)]
ENDS += [(x, x + w) for x in (-6.0, -0.3, 1.1, 3.0) for w in (1e-6, 0.3, 8.0)]


@pytest.mark.parametrize("name", LAWS)
def test_log_masses_to_eleven_digits(name: str) -> None:
    make, tails = LAWS[name]
    a, b = (np.array(part) for part in zip(*ENDS, strict=True))
    mass = make(len(a)).between(a, b, b - a)
    grown = make(len(a)).growth(a)
    with mp.workdps(50):
        for i, (low, width) in enumerate(zip(a.tolist(), (b - a).tolist(), strict=True)):

            def log_mass(t: Real, low: float = low, width: float = width, i: int = i) -> Real:
                start = mp.mpf(low) + t if np.isfinite(low) else None
                end = mp.mpf(low) + width if np.isfinite(low) else mp.mpf(float(b[i]))
                below, above = (0, 1) if start is None else tails(start)
                upto, beyond = (1, 0) if np.isinf(b[i]) else tails(end + t)
                return mp.log(upto - below if below < above else above - beyond)

            # The second derivative of the Laplace law's jumps where an end is 0.
            orders = 2 if name == "laplace" and 0.0 in ENDS[i] else 4
            for k, part in enumerate(mass.rest.parts[:orders]):
                known = float(
                    mp.diff(log_mass, 0, k, h=mp.mpf(10) ** -11) if k else log_mass(mp.mpf(0))
                )
                found = part[i] - (grown[i] if np.isfinite(low) else 0.0)
                assert found == pytest.approx(known, rel=1e-11, abs=1e-10), (ENDS[i], k)
