"""Images of 64 x 64 to 512 x 512 with half of their pixels: the double loop beside the mode, and
its growth. `pytest tests/benchmarks/test_images.py --benchmark-only -s`, one BLAS thread.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Failed
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.iterative.engine import IterativeEngine
from lgmdsl.engines.sparse.engine import SparseEngine
from tests.benchmarks.image_models import (
    Measured,
    blurred,
    course,
    halved,
    masked,
    mode,
    picture,
)

SIZES = (64, 128, 256)


def sized(shared: Path, size: int) -> Array:
    """The camera at another size: means of pixels, or each pixel four times."""
    image = picture(shared, "camera")
    while image.shape[0] > size:
        image = halved(image)
    while image.shape[0] < size:
        image = np.repeat(np.repeat(image, 2, axis=0), 2, axis=1)
    return image


def megabytes() -> float:
    """Largest resident set so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def test_beside_the_mode(benchmark: Any, shared: Path) -> None:
    """256 x 256, 130,560 Laplace sites: the whole fit beside L-BFGS's mode, |.| smoothed at 1e-3,
    until an iteration's relative gain is below ftol, 5,000 of them at most."""
    case = masked(picture(shared, "camera"))
    lgm.fit(lgm.loads(case.text), masked(sized(shared, 64)).data, "double-loop")

    def fitted() -> lgm.Fit:
        return lgm.fit(lgm.loads(case.text), case.data, "double-loop")

    began = time.process_time()
    fit = fitted()
    own = time.process_time() - began
    mean = np.asarray(fit.mean("u"))
    print(
        f"\ndouble-loop: {own:.2f} s, {fit.status}, {fit.steps} steps, {case.psnr(mean):.2f} dB, "
        f"{megabytes():.0f} MB"
    )
    rises = np.diff([e.objective for e in fit.trace])
    print(f"smallest change of the bound {rises.min():.3g}")
    for tolerance in (1e-6, 1e-8, 1e-10, 1e-12):
        began = time.process_time()
        found = mode(case, relative=tolerance)
        peer = time.process_time() - began
        print(
            f"L-BFGS, ftol {tolerance:g}: {peer:.2f} s, {found.iterations} iterations, "
            f"objective {found.objective:.4f}, {case.psnr(found.image):.2f} dB; "
            f"ratio {own / peer:.2f}"
        )
    benchmark.pedantic(fitted, rounds=1)


def test_deblurring_beside_the_mode(benchmark: Any, shared: Path) -> None:
    """256 x 256 behind a 9 x 9 blur of sd 2, through the iterative engine, beside the same mode;
    and at 64 x 64 its variances beside those of dense algebra at the same widths."""
    small = blurred(sized(shared, 64), half=4, sd=2.0).problem(IterativeEngine)
    q = course(small).point.conditioned
    exact = PrecisionEngine(small.engine.linear).condition(q.weight, q.shift)
    assert not isinstance(exact, Failed)
    pairs = list(zip(q.variance, exact.variance, strict=True))[1:]
    off = [np.mean((a / b - 1.0) ** 2) for a, b in pairs]
    moved = (q.latent_mean - exact.latent_mean) / np.sqrt(exact.latent_variance)
    print(
        f"\n64 x 64: variances of Laplace sites {100 * np.sqrt(np.mean(off)):.2f} % RMS off, "
        f"means {np.abs(moved).max():.2g} sd at the most"
    )
    case = blurred(picture(shared, "camera"), half=4, sd=2.0)

    def fitted() -> lgm.Fit:
        return lgm.fit(lgm.loads(case.text), case.data, "double-loop")

    began = time.process_time()
    fit = fitted()
    own = time.process_time() - began
    rises = np.diff([e.objective for e in fit.trace])
    print(
        f"double-loop: {own:.2f} s, {fit.status}, {fit.steps} steps, "
        f"{case.psnr(np.asarray(fit.mean('u'))):.2f} dB, {megabytes():.0f} MB, "
        f"smallest change of the bound {rises.min():.3g}; {fit.provenance['notes']}"
    )
    for tolerance in (1e-6, 1e-8, 1e-10):
        began = time.process_time()
        found = mode(case, relative=tolerance)
        peer = time.process_time() - began
        print(
            f"L-BFGS, ftol {tolerance:g}: {peer:.2f} s, {found.iterations} iterations, "
            f"objective {found.objective:.4f}, {case.psnr(found.image):.2f} dB; "
            f"ratio {own / peer:.2f}"
        )
    benchmark.pedantic(lambda: None, rounds=1)


@pytest.mark.parametrize("engine", [SparseEngine, IterativeEngine])
def test_growth(benchmark: Any, shared: Path, engine: type[SparseEngine]) -> None:
    """CPU seconds of an outer step after the first, and the exponent in pixels."""
    seconds = []
    for size in SIZES:
        problem = masked(sized(shared, size)).problem(engine)
        course(problem, 1.0)  # the first call compiles
        began = time.process_time()
        found = course(problem)
        steps = len(found.bounds)
        seconds.append((time.process_time() - began) / steps)
        print(
            f"\n{engine.name}, {size} x {size}: {seconds[-1]:.4f} s a step, {steps} steps, "
            f"{megabytes():.0f} MB",
            end="",
        )
    slope = np.polyfit(np.log(np.square(SIZES)), np.log(seconds), 1)[0]
    print(f"\n{engine.name}: exponent {slope:.2f} in pixels")
    benchmark.pedantic(course, (problem, 1.0), rounds=1)


def test_large(benchmark: Any, shared: Path) -> None:
    """512 x 512 once."""
    case: Measured = masked(sized(shared, 512))

    def fitted() -> lgm.Fit:
        return lgm.fit(lgm.loads(case.text), case.data, "double-loop")

    began, before = time.process_time(), megabytes()
    fit = benchmark.pedantic(fitted, rounds=1)
    print(
        f"\n512 x 512: {time.process_time() - began:.1f} s, {fit.status}, {fit.steps} steps, "
        f"{megabytes():.0f} MB ({before:.0f} before), "
        f"{case.psnr(np.asarray(fit.mean('u'))):.2f} dB"
    )
