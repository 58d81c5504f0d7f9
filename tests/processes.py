"""Fresh interpreters that see the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def environment(*first: Path, **more: str) -> dict[str, str]:
    """That of this process with the checkout on Python's path, after some folders."""
    paths = os.pathsep.join(map(str, (*first, ROOT, ROOT / "backends")))
    return {**os.environ, "PYTHONPATH": paths, **more}


def python(*arguments: str, **how: Any) -> subprocess.CompletedProcess[str]:
    """What an interpreter prints and how it ends; `env` as `environment` makes it."""
    how = {"env": environment(), "timeout": 120, **how}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, **how
    )
