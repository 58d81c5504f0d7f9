"""Fits of models whose rows that are alike are merged, translated to the user's rows and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lgmdsl.api.settings import one_of
from lgmdsl.api.solve.recondition import Recondition
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.merged import MergedModel, merged
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.engines.shared.other_rows import OtherRows
from lgmdsl.posterior.hyper_points import HyperPoint

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

MERGE = ("on", "off")
NOTED = "merged"  # the entry of the provenance


def merge_option(options: Mapping[str, object]) -> tuple[bool, dict[str, object]]:
    """The option `merge`, and those left. Raises MethodError E104 for a value that it cannot be."""
    rest = dict(options)
    return one_of(rest, "merge", MERGE) == "on", rest


@dataclass(frozen=True, eq=False)
class Expanded:
    """What `condition` gives, of a merged model, at the user's rows, whose sites are these."""

    model: MergedModel
    condition: Callable[[], Conditioned]
    weight: Rows
    shift: Rows

    def __call__(self) -> Conditioned:
        m = self.model
        return OtherRows(self.condition(), self.weight, self.shift, m.spread, m.summed)


def noted(model: MergedModel) -> str:
    """What was merged, for the provenance: `y: 5,000 rows, 40 distinct`."""
    pairs = zip(model.whole.blocks, model.kinds, strict=True)
    sizes = ((b.name, len(k.place), len(k.kept)) for b, k in pairs if k is not None)
    return "; ".join(f"{name}: {n:,} rows, {kept:,} distinct" for name, n, kept in sizes)


def expanded(fit: FitRecord, model: MergedModel) -> FitRecord:
    """A fit of the merged model as one of the user's rows."""
    weight, shift = model.shared_out(fit.weight), model.shared_out(fit.shift)
    return replace(
        fit,
        canonical=model.whole,
        weight=weight,
        shift=shift,
        condition=Expanded(model, fit.condition, weight, shift),
        mixed=tuple(_point(point, model) for point in fit.mixed),
    )


def _point(point: HyperPoint, model: MergedModel) -> HyperPoint:
    weight, shift = model.shared_out(point.weight), model.shared_out(point.shift)
    condition = Expanded(model, point.condition, weight, shift)
    return replace(point, weight=weight, shift=shift, condition=condition)


def contracted(earlier: GaussianPosterior, model: MergedModel) -> GaussianPosterior:
    """A posterior of the user's rows, to start from, as one of the merged rows; as it is where it
    has other rows than the model, which is refused elsewhere."""
    blocks = zip(earlier.shift, model.whole.blocks, strict=False)
    alike = len(earlier.shift) == len(model.kinds)
    if not alike or any(b.shape != block.predictor_shape for b, block in blocks):
        return earlier
    weight, shift = model.summed(earlier.weight), model.summed(earlier.shift)
    q = OtherRows(earlier.conditioned, weight, shift, model.first, model.shared_out)
    return replace(earlier, weight=weight, shift=shift, conditioned=q)


def reconditioning(
    canonical: CanonicalModel,
    theta: Theta,
    weight: Rows,
    shift: Rows,
    seed: int,
    provenance: Mapping[str, str],
    model: MergedModel | None = None,
) -> Callable[[], Conditioned]:
    """How the posterior of stored sites is conditioned again when it is asked for: at merged rows
    where the fit had such, as its engine may not take all of them."""
    if NOTED in provenance and model is None:
        model = merged(canonical, predictors_only=True)
    if model is None:
        return Recondition(canonical, theta, weight, shift, seed, provenance)
    sums = model.summed(weight), model.summed(shift)
    again = Recondition(model, theta, *sums, seed, provenance)
    return Expanded(model, again, weight, shift)
