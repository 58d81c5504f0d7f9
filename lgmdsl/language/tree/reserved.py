"""The reserved words that open no statement."""

from __future__ import annotations

from typing import NamedTuple

from lgmdsl.vocabulary.examples import SD, model, regression, smooth
from lgmdsl.vocabulary.notes import Notes


class ReservedWord(NamedTuple):
    """A word that cannot be a name (E105), and what it says."""

    name: str
    summary: str
    notes: Notes


RESERVED_WORDS: tuple[ReservedWord, ...] = (
    ReservedWord(
        "lgm",
        "opens a file, with the version of the language",
        Notes(
            formula="lgm 1",
            support="the first line of a file, or nowhere",
            advice="version 1 is the only one",
            example=regression("normal(mean = eta, sd = 1)"),
            see_also=("language", "index"),
        ),
    ),
    ReservedWord(
        "head",
        "all labels of an index but the last, as an index of its own",
        Notes(
            formula="index cut = head(class): K - 1 of K labels",
            support="the definition of an index",
            advice="for cuts between ordered classes, and for predictors of all classes but the "
            "reference; the order of the labels must be known (E307)",
            example=model(
                "index obs",
                'index score = {"poor", "fair", "good"}',
                "index cut = head(score)",
                "data x[obs] : real",
                "data y[obs] : score",
                "hyper c[cut] : ordered ~ normal(sd = 3)",
                "latent b ~ normal(sd = 2)",
                "observe y ~ ordinal(logit = b * x, cuts = c)",
            ),
            see_also=("index", "ordinal", "categorical", "E307"),
        ),
    ),
    ReservedWord(
        "true",
        "the truth value that switches an argument on",
        Notes(
            formula="rw2(sd = s, cyclic = true)",
            support="arguments of type bool",
            advice="data of type binary are 0 and 1",
            example=smooth("rw2(sd = s, cyclic = true)", SD),
            see_also=("false", "rw2", "binary"),
        ),
    ),
    ReservedWord(
        "false",
        "the truth value that switches an argument off",
        Notes(
            formula="rw1(sd = s, sum_to_zero = false)",
            support="arguments of type bool",
            advice="data of type binary are 0 and 1",
            example=model(
                "index day",
                "data y[day] : count",
                SD,
                "latent f[day] ~ rw1(sd = s, sum_to_zero = false)",
                "observe y ~ poisson(log_rate = f)",
            ),
            see_also=("true", "rw1", "binary"),
        ),
    ),
)
