"""Active learning: which cases of a pool to label next (Nickisch and Seeger 2009, 3).

From the fit of the labelled cases, candidates join one by one, each by the score of its label; the
marginals of all cases are kept valid by rank-one updates, and every block ends with a re-fit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from lgmdsl.acquisition.scores import SCORES
from lgmdsl.acquisition.sequence import BlockEnd, Query, Settings, sequence
from lgmdsl.api.design import page as design_page
from lgmdsl.api.design.cases import METHOD, answers_of, cases_of, response_of, tester
from lgmdsl.api.design.record import CoursePoint, DesignRecord, DesignTask
from lgmdsl.api.design.steps import check_counts, check_score, check_steps
from lgmdsl.api.fit.compiled import fit_compiled
from lgmdsl.api.jobs import workers_for
from lgmdsl.api.settings import check_numbers
from lgmdsl.arrays import AnyArray
from lgmdsl.compile import compile_model
from lgmdsl.dataset import Keys, read
from lgmdsl.html import Page, Paged
from lgmdsl.inference.registry import load_entry_points
from lgmdsl.inference.settings import FitSettings
from lgmdsl.language.load import AnyModel, as_model
from lgmdsl.sites import catalogue as sites
from lgmdsl.state import made_by
from lgmdsl.workers.opened import check_jobs
from lgmdsl.workers.task import Jobs


@made_by("lgm.design")
@dataclass(frozen=True)
class Design(Paged):
    """The queries in their order, and the course of the posterior.

    `labelled`: cases with labels at the start. `index`, `labels`: the candidates' index and their
    labels in it; `response` the datum that is asked for. `queries`: `row` is the position among
    the candidates. `course`: a point at the start and after each block. `wanted` queries were
    asked for (more than there are where it was interrupted). `interrupted`: whether it was cut off
    before all of them were made or the last block was re-fitted.
    """

    task: DesignTask
    labelled: int
    index: str
    labels: AnyArray
    response: str
    queries: tuple[Query, ...]
    course: tuple[CoursePoint, ...]
    wanted: int
    interrupted: bool

    def __str__(self) -> str:
        return self.table

    def __repr__(self) -> str:
        made = f"{len(self.queries):,} of {self.wanted:,} queries"
        return f"Design({self.response!r}: {made}, {self.labelled:,} labelled before)"

    @property
    def rows(self) -> tuple[int, ...]:
        """The chosen candidates, in order."""
        return tuple(q.row for q in self.queries)

    @property
    def table(self) -> str:
        """A page of 80 columns."""
        return Page(design_page.table(self))

    def as_json(self) -> dict[str, object]:
        """A JSON object: the queries, and the course of the posterior."""
        return design_page.as_json(self)

    def picture(self, format: str = "png") -> bytes:
        """Test error against labels, as a png, svg or pdf.

        Raises MethodError E501 without matplotlib, or where there is no test error.
        """
        return design_page.picture(self, format)


def design(
    model: AnyModel,
    data: object,
    candidates: object,
    score: str = "uncertainty",
    steps: int = 1,
    block: int = 20,
    oracle: object = None,
    test: object = None,
    fixed: Mapping[str, object] | None = None,
    seed: int = 0,
    *,
    outer: int = 1,
    mapping: Keys | None = None,
    record: str | os.PathLike[str] | None = None,
    on_query: Callable[[int, int], None] | None = None,
    jobs: Jobs = None,
) -> Design:
    """Choose `steps` of the candidates by a score: uncertainty, information or random.

    The model has one `bernoulli(logit = ...)` observation with a label a case, any priors and any
    super-Gaussian potentials; it is fitted to `data` with the double loop. `candidates` holds the
    covariates of unlabelled cases, as for `predict`. `oracle` holds their labels, matched by the
    labels of the index (by position where neither has any), which join one by one; after every
    `block` all sites are re-fitted by `outer` outer iterations. `test` holds covariates and labels
    of cases on which the error is taken after each block.

    Without an oracle the queries are ranked for later labelling: each chosen case joins with its
    expected weight, which narrows the variances of similar cases and leaves the means.

    `record` is a file written as queries are made, and read again: a design that was cut off goes
    on with the same digits. `on_query` is called with the number of queries there are and of those
    wanted. An interrupt (Ctrl-C) ends it with the queries there are. `seed` is for random. `jobs`
    shares the marginals and scores of the candidates, where there are more than 4,096: a number of
    processes, the address of a Dask scheduler, a Dask Client, or any executor, as in `fit`; the
    digits are the same.

    Raises what `fit` and `predict` raise; MethodError E501 for another model, or one where cases
    bring more than their observation, E103 for an unknown score, E108 for invalid numbers or
    more steps than candidates; DataError E301 to E305 for candidates and labels that do not fit,
    E306 for a record of another design.
    """
    model = as_model(model, "design")
    load_entry_points()
    check_jobs(jobs)
    check_score(score, SCORES)
    check_counts({"steps": steps, "block": block, "outer": outer})
    check_numbers(seed)
    task = DesignTask(
        model.to_lgm(),
        model.checked.source.name,
        data,
        candidates,
        oracle,
        test,
        mapping,
        fixed,
        score,
        steps,
        block,
        outer,
        seed,
    )
    canonical = compile_model(model.checked, read(data, mapping), sites.find_site)
    response = response_of(canonical)
    settings = FitSettings(METHOD, "fixed", fixed or {}, seed=seed)
    fit = fit_compiled(model, canonical, settings)
    pool_data = read(candidates, mapping)
    cases = cases_of(fit, response, pool_data)
    check_steps(steps, cases.members.size, "candidate")
    ask = None
    if oracle is not None:
        known = answers_of(fit, response, pool_data, cases.members, read(oracle, mapping))
        ask = known.__getitem__
    error = None
    if test is not None:
        error = tester(fit, response, read(test, mapping), cases.extended)
    log = DesignRecord(record, task)

    def point(included: int, evidence: float, z: np.ndarray) -> CoursePoint:
        return CoursePoint(included, evidence, None if error is None else error(z))

    try:
        z = fit.posterior.conditioned.latent_mean
        log.point(point(0, fit.log_evidence, z))
        weight = fit.weight if log.weight is None else log.weight
        course_of = Settings(score, steps, block, seed, outer)
        done = log.queries[:]
        with workers_for(jobs, model.tree) as workers:
            made = sequence(cases.pool, weight, course_of, ask, done, log.settled, workers)
            for event in made:
                if isinstance(event, BlockEnd):
                    log.point(point(event.included, event.log_evidence, event.latent_mean), event)
                    continue
                log.query(event)
                if on_query is not None:
                    on_query(len(log.queries), steps)
    except KeyboardInterrupt:
        if not log.queries:
            raise
    points = [log.points[k] for k in sorted(log.points)]
    course = [p for p in points if p.included == steps or p.included % block == 0]
    # A record that went further ended these queries too, if without a re-fit after each.
    ended = len(log.queries) >= steps and (ask is None or max(log.points, default=0) >= steps)
    return Design(
        task,
        len(canonical.blocks[response].rows),
        cases.members.name,
        cases.members.labels,
        canonical.blocks[response].name,
        tuple(log.queries[:steps]),
        tuple(p for p in course if p.included <= steps),
        steps,
        not ended,
    )
