"""What a design chooses from: a model with its labelled cases, and the candidates' predictor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from lgmdsl.acquisition.rows import grown
from lgmdsl.acquisition.scores import SiteMaker, labelled
from lgmdsl.contract.engine import Engine
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.site import Site
from lgmdsl.engines.choose import Terms, required


@dataclass(frozen=True, eq=False)
class Pool:
    """`linear`, `sites`: the model on the labelled cases; `answers` makes a block's sites answer
    the back end. `response` is the position of the binary observation among the site blocks,
    `candidates` the predictor of the unlabelled cases over the same latents."""

    linear: LinearGaussian
    sites: tuple[Site, ...]
    answers: tuple[Callable[[Site], object], ...]
    response: int
    candidates: Predictor

    @property
    def make(self) -> SiteMaker:
        """Sites of the response from labels."""
        return labelled(type(self.sites[self.response]))

    def with_cases(self, rows: Sequence[int], labels: Sequence[float]) -> Problem:
        """The problem with these candidates as labelled cases, below the first ones.

        Raises MethodError E501 where no engine takes it.
        """
        k, predictors, sites = self.response, list(self.linear.predictors), list(self.sites)
        if rows:
            predictors[k] = grown(predictors[k], self.candidates, rows)
            y = np.r_[cast(Any, sites[k]).y, np.asarray(labels, dtype=np.float64)]
            sites[k] = self.make(y)
        linear = replace(self.linear, predictors=tuple(predictors))
        answers = tuple(answer(s) for answer, s in zip(self.answers, sites, strict=True))
        return Problem(tuple(sites), answers, self._engine(linear))

    def _engine(self, linear: LinearGaussian) -> Engine:
        return required(linear, Terms.of())[0]
