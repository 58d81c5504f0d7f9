"""What one fit of 300 rows goes through, as a report: `python -m tests.architecture.one_fit`.

A Poisson regression with groups: modules of the library that are imported, those of them whose
functions are called, functions, how deep calls go, and the rooms with most modules that are
imported for nothing.
"""

from __future__ import annotations

import sys
from collections import Counter
from types import CodeType, FrameType
from typing import Any

import numpy as np

import lgmdsl as lgm

OPTIMIZED = 0x1  # a flag of code: a function, and no body of a module or a class
SHOWN = 12  # rooms
MODEL = """lgm 1
index obs
index g
data y[obs] : count
data x[obs] : real
data who[obs] : g
hyper s : positive ~ half_normal(sd = 1)
latent a ~ normal(sd = 3)
latent b ~ normal(sd = 3)
latent u[g] ~ normal(sd = s)
observe y ~ poisson(log_rate = a + b * x + u[who])
"""


def data() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    columns = {"y": rng.poisson(2, 300), "x": rng.standard_normal(300)}
    return columns | {"who": rng.integers(0, 20, 300)}


def main() -> None:
    called: set[CodeType] = set()
    deepest = depth = 0

    def follow(frame: FrameType, event: str, _: Any) -> None:
        nonlocal deepest, depth
        code = frame.f_code
        if "lgmdsl" not in code.co_filename or not code.co_flags & OPTIMIZED:
            return
        if event == "call":
            called.add(code)
            depth += 1
            deepest = max(deepest, depth)
        elif event == "return":
            depth -= 1

    sys.setprofile(follow)
    fit = lgm.fit(lgm.loads(MODEL), data())
    sys.setprofile(None)
    files = {code.co_filename for code in called}
    loaded = {n: m for n, m in sys.modules.items() if n.split(".")[0].startswith("lgmdsl")}
    idle = [n for n, m in loaded.items() if getattr(m, "__file__", None) not in files]
    rooms = Counter(".".join(n.split(".")[:2]) for n in idle)
    print(f"{fit.status}: {len(loaded)} modules imported, {len(files)} of them with functions that")
    print(f"are called, {len(called):,} functions, {deepest} deep (of the library's own calls)")
    print("imported for nothing: ", ", ".join(f"{r} {k}" for r, k in rooms.most_common(SHOWN)))


if __name__ == "__main__":
    main()
