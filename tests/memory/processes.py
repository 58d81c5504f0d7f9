"""Scripts run in processes of their own, under a limit of memory or with other threads."""

from __future__ import annotations

import os
import subprocess
import sys

LIMITED = """
import resource, sys
import numpy as np
import lgmdsl as lgm
from lgmdsl.errors import LgmError

def fit(text, data, **settings):
    lgm.loads("lgm 1\\nlatent b ~ normal(sd = 1)\\npotential b ~ laplace(scale = 1)\\n")
    soft = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (soft + int({room}),) * 2)
    try:
        print(lgm.fit(lgm.loads(text), data, **settings).status.name)
    except LgmError as error:
        print(error)
"""


def told(script: str, room: float = 0.0, **variables: str) -> str:
    """What a script prints that may take `room` bytes beyond what Python and lgmdsl have."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **variables}
    if room:
        script = LIMITED.replace("{room}", f"{room:.0f}") + script
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
