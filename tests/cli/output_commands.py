"""Every command that writes: how it is called, what it reads, and what it writes where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import lgmdsl as lgm
from tests.acquisition.pools import MODELS, small
from tests.cli.conftest import MODEL

READ = {
    "fit": ("m.lgm", "d.npz", "--start-from", "start.nc"),
    "predict": ("start.nc", "new.npz", "--data", "d.npz"),
    "impute": ("gaps.lgm", "gaps.npz"),
    "simulate": ("m.lgm", "d.npz"),
    "graph": ("m.lgm",),
    "compare": ("m.lgm", "d.npz"),
    "calibrate": ("m.lgm", "d.npz"),
    "plot": ("start.nc", "--data", "d.npz"),
    "design": ("pool.lgm", "pool.npz", "--candidates", "cases.npz", "--oracle", "labels.npz",
               "--test", "test.npz"),
}  # fmt: skip
MORE = {
    "fit": ("--set", "s=1"),
    "impute": (),
    "simulate": ("--set", "s=1"),
    "compare": ("--method", "laplace", "--method", "ep", "--set", "s=1"),
    "calibrate": ("--set", "s=1", "--runs", "20", "--jobs", "1", "--method", "laplace"),
    "design": ("--steps", "2", "--block", "1"),
}
OUTPUTS = (
    ("fit", "-o", "out.nc"), ("predict", "-o", "out.csv"), ("predict", "-o", "out.npz"),
    ("predict", "-o", "out.nc"), ("impute", "-o", "out.csv"), ("simulate", "-o", "out.npz"),
    ("graph", "-o", "out.svg"), ("compare", "--plot", "out.png"),
    ("calibrate", "--plot", "out.png"), ("calibrate", "--record", "out.jsonl"),
    ("design", "--plot", "out.png"), ("design", "-o", "out.jsonl"),
    ("plot", "--out", "pictures/latent_w.png"),
)  # fmt: skip
PLOTS = frozenset({"--plot", "--out"})
GAPS = """lgm 1
index obs
data y[obs] : real?
latent a ~ normal(sd = 1)
observe y ~ normal(mean = a, sd = 1)
"""


@dataclass(frozen=True)
class Call:
    """One command and one of its output options."""

    command: str
    option: str
    output: str

    def arguments(self, folder: Path, output: str | None = None) -> list[str]:
        """The command line; `output` is a name in place of the usual one."""
        place = folder / (output or self.output)
        if self.option == "--out":
            place = place.parent
        read = [a if a.startswith("--") else str(folder / a) for a in READ[self.command]]
        rest = MORE.get(self.command, ())
        return [self.command, *read, *rest, self.option, str(place)]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the files that it reads."""
        return tuple(a for a in READ[self.command] if not a.startswith("--"))

    def __str__(self) -> str:
        return f"{self.command} {self.option} {self.output}"


CALLS = tuple(Call(*row) for row in OUTPUTS)


def make_inputs(folder: Path) -> None:
    """All the files that the commands read."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 2))
    y = (rng.random(12) < 0.5).astype(int)
    (folder / "m.lgm").write_text(MODEL)
    (folder / "gaps.lgm").write_text(GAPS)
    np.savez(folder / "d.npz", X=X, y=y)
    np.savez(folder / "new.npz", X=X[:3])
    np.savez(folder / "gaps.npz", y=[1.0, np.nan, 2.0])
    fit = lgm.fit(lgm.loads(MODEL), {"X": X, "y": y}, "laplace", fixed={"s": 1.0})
    fit.save(folder / "start.nc")
    made = small("laplace", candidates=10)
    (folder / "pool.lgm").write_text(MODELS["laplace"])
    for name, arrays in (
        ("pool", made.data),
        ("cases", made.candidates),
        ("labels", made.oracle),
        ("test", made.test),
    ):
        np.savez(folder / f"{name}.npz", **arrays)  # type: ignore[arg-type]
