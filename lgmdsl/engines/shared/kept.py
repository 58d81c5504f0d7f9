"""What follows from a model's operators alone, kept for the next theta, where they are the same
objects (the canonical form keeps those that no hyper stands in)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, TypeVar
from weakref import ReferenceType, ref

from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.operators.base import Operator

KEPT = 4
T = TypeVar("T")


class _Of(NamedTuple):
    operators: tuple[ReferenceType[Operator], ...]
    shape: tuple[object, ...]


def shape_of(linear: LinearGaussian) -> tuple[object, ...]:
    """The sizes of the operators, and which block and site block each belongs to."""
    blocks = tuple((b.name, b.size) for b in linear.blocks)
    return (blocks, tuple((tuple(p.columns), p.rows, p.event) for p in linear.predictors))


def by_operators(
    make: Callable[[LinearGaussian], T],
    also: Callable[[LinearGaussian], tuple[object, ...]] = lambda _: (),
) -> Callable[[LinearGaussian], T]:
    """`make`, asked once for the same operators; it must look at nothing else of a model but its
    sizes, and what `also` says."""
    known: deque[tuple[_Of, T]] = deque(maxlen=KEPT)
    lock = threading.Lock()

    @wraps(make)
    def kept(linear: LinearGaussian) -> T:
        operators, shape = _operators(linear), (*shape_of(linear), *also(linear))
        with lock:
            for key, result in known:
                same = key.shape == shape
                if same and all(r() is o for r, o in zip(key.operators, operators, strict=True)):
                    return result
        result = make(linear)
        with lock:
            alive = [k for k in known if all(r() is not None for r in k[0].operators)]
            known.clear()
            known.extend([*alive, (_Of(tuple(map(ref, operators)), shape), result)])
        return result

    return kept


def _operators(linear: LinearGaussian) -> tuple[Operator, ...]:
    return tuple(o for p in linear.predictors for o in p.columns.values())
