"""The options of a fit, as their pages in the manual have them: what each means, its values."""

from __future__ import annotations

from dataclasses import dataclass

from lgmdsl.accuracy.limits import MEAN, QUANTILE, SD
from lgmdsl.api.fit.correction import EFFORTS, MARGINALS, WHEN_CORRECTED
from lgmdsl.api.fit.hyper_ways import DESIGNS, EPOCHS, LARGEST, MOST_STEPS, OPTIONS
from lgmdsl.engines.choose import AUTO
from lgmdsl.learning.em.em import ACCELERATIONS
from lgmdsl.vocabulary.notes import Notes

FIT = "lgm fit model.lgm data.npz "


@dataclass(frozen=True)
class FitOption:
    """`values` are the words that it may be, the first the default; else `type` says what it is.
    `setting`: an argument of `lgm.fit` and an option `--name`, not `--option name=value`."""

    name: str
    summary: str
    notes: Notes
    values: tuple[str, ...] = ()
    type: str = "a word"
    default: str = ""
    setting: bool = False


def _for(name: str) -> str:
    """The treatments of hyperparameters that an option about learning is for."""
    return f"--hyper {' and '.join(OPTIONS[name])}"


FIT_OPTIONS: tuple[FitOption, ...] = (
    FitOption(
        "engine",
        "the linear algebra: the cheapest engine that fits the memory, or one by its name",
        Notes(
            formula=f"{AUTO}, or the name of an engine",
            support="every fit",
            advice="`lgm explain model.lgm data.npz` has the cost of each, or why it cannot; the "
            "memory budget is LGM_MEMORY, or half of the machine's",
            example=FIT + "--option engine=precision",
            see_also=("covariance", "precision", "sparse", "iterative"),
        ),
        type="the name of an engine",
        default=AUTO,
    ),
    FitOption(
        "integration",
        "the nodes at which hyperparameters are integrated over",
        Notes(
            formula="grid: a lattice about the mode; ccd: a central composite design; "
            "gauss-hermite: a product rule",
            support=f"{_for('integration')}; grid up to {LARGEST['grid']} scalars, gauss-hermite "
            f"up to {LARGEST['gauss-hermite']}",
            advice="auto is grid for one or two, then ccd, which has fewer nodes",
            example=FIT + "--hyper integrate --option integration=ccd",
            see_also=("integrate", "W606"),
        ),
        DESIGNS,
    ),
    FitOption(
        "acceleration",
        "how EM is accelerated",
        Notes(
            formula="l-bfgs: L-BFGS after EM slows down; squarem: extrapolated steps; none: plain",
            support=_for("acceleration"),
            advice="l-bfgs is exact and the quickest; none for comparison",
            example=FIT + "--hyper em --option acceleration=none",
            see_also=("em", "batch"),
        ),
        ACCELERATIONS,
    ),
    FitOption(
        "batch",
        "rows of a mini-batch of EM, for models of very many rows",
        Notes(
            formula="each step sees `batch` rows; `epochs` passes over all of them",
            support=f"{_for('batch')}; models that factorise over an index",
            advice="leave it out below some 100,000 rows",
            example="lgm fit factors.lgm factors.npz --hyper em --option batch=4",
            see_also=("em", "epochs"),
        ),
        type="a whole number above 0",
    ),
    FitOption(
        "epochs",
        "passes of EM over all rows in mini-batches",
        Notes(
            formula="see batch",
            support=f"{_for('epochs')}, together with batch",
            advice="more where the log evidence of the page still rises",
            example="lgm fit factors.lgm factors.npz --hyper em --option batch=4 "
            "--option epochs=2",
            see_also=("em", "batch"),
        ),
        type="a whole number above 0",
        default=str(EPOCHS),
    ),
    FitOption(
        "learning_steps",
        "the most steps that the search for hyperparameters takes",
        Notes(
            formula="the search ends with status iteration_limit after so many",
            support="every treatment of hyperparameters but fixed",
            advice="raise it where W601 says that the search stopped at the limit",
            example=FIT + "--option learning_steps=100",
            see_also=("map", "em", "iteration_limit"),
        ),
        type="a whole number above 0",
        default=str(MOST_STEPS),
    ),
    FitOption(
        "correction",
        "whether what is reported may be corrected where the Gaussian posterior is off",
        Notes(
            formula="exact draws take the place of q where the estimated error passes "
            f"{MEAN:g} sd of a mean, {SD:.0%} of an sd or {QUANTILE:g} sd of a 5 or 95 % point",
            support="auto: of the method auto; on: of a named method too; off: never",
            advice="off for the bare method, as in published comparisons",
            example=FIT + "--method laplace --option correction=on",
            see_also=("marginals", "effort", "W609"),
        ),
        WHEN_CORRECTED,
    ),
    FitOption(
        "marginals",
        "whether latents are reported corrected, or as the Gaussian has them",
        Notes(
            formula="corrected: of exact draws where they were taken; gaussian: of q",
            support="every fit",
            advice="gaussian keeps hyperparameters corrected and saves the draws",
            example=FIT + "--option marginals=gaussian",
            see_also=("correction", "effort"),
        ),
        MARGINALS,
    ),
    FitOption(
        "effort",
        "how much may be computed to correct a fit",
        Notes(
            formula="normal: about three seconds of one core, or what the fit took; high: 10 times "
            "that, and half the errors are tolerated; low: no draws",
            support="fits that may be corrected",
            advice="high where W609 says that exact draws were not affordable",
            example=FIT + "--option effort=high",
            see_also=("correction", "marginals", "W609"),
        ),
        EFFORTS,
    ),
    FitOption(
        "tol",
        "the tolerance of a fit: relative, of the log evidence",
        Notes(
            formula="converged where the log evidence changes by less than tol (1e-7), and means "
            "are within 1e-4 sd of the fixed point",
            support="every fit; a looser one holds for the search over hyperparameters too",
            advice="1e-5 for a quick look",
            example=FIT + "--tol 1e-5",
            see_also=("converged", "max_steps"),
        ),
        type="a number not below 0",
        default="1e-7",
        setting=True,
    ),
    FitOption(
        "max_steps",
        "the most steps of each run of a method",
        Notes(
            formula="the run ends with status iteration_limit after so many",
            support="every fit; each method has a default of its own",
            advice="raise it where W601 says so",
            example=FIT + "--max-steps 500",
            see_also=("iteration_limit", "tol", "W601"),
        ),
        type="a whole number not below 0",
        default="that of the method",
        setting=True,
    ),
    FitOption(
        "seed",
        "the seed of everything random: draws, probes, quasi-random points",
        Notes(
            formula="the same seed, data and memory budget give the same digits",
            support="every fit",
            advice="change it to see the scatter of what is estimated",
            example=FIT + "--seed 1",
            see_also=("iterative", "correction"),
        ),
        type="a whole number not below 0",
        default="0",
        setting=True,
    ),
    FitOption(
        "set",
        "pins hyperparameters at values; fixed= in Python",
        Notes(
            formula="--set s=0.5, fixed={\"s\": 0.5}; a number fills an array",
            support="hyperparameters with a prior or a value",
            advice="for sensitivity, and for scales that are known",
            example=FIT + "--set s=0.5",
            see_also=("fixed", "start", "hyper"),
        ),
        type="NAME=VALUE, as often as wanted",
        setting=True,
    ),
    FitOption(
        "start",
        "values that the search for hyperparameters begins at",
        Notes(
            formula="--start s=0.5, start={\"s\": 0.5}",
            support="hyperparameters that are learned",
            advice="where W607 reports other maxima; otherwise starts are chosen from data and "
            "priors",
            example=FIT + "--hyper map --start s=0.5",
            see_also=("set", "start_from", "map", "W607"),
        ),
        type="NAME=VALUE, as often as wanted",
        setting=True,
    ),
    FitOption(
        "start_from",
        "an earlier fit to begin with, of a model with the same sites",
        Notes(
            formula="--start-from fit.nc, start_from=fit",
            support="every fit; hyperparameters begin at its values too",
            advice="to go on after an interrupt or a limit, and for slightly changed data",
            example=FIT + "--start-from fit.nc",
            see_also=("start", "interrupted", "iteration_limit"),
        ),
        type="a result file",
        setting=True,
    ),
    FitOption(
        "mapping",
        "reads a name of the model from another key of the data; mapping= in Python",
        Notes(
            formula="--map y=counts, mapping={\"y\": \"counts\"}",
            support="data, and labels of indices",
            advice="for columns that are called otherwise",
            example="lgm fit model.lgm renamed.npz --map y=outcome",
            see_also=("data", "E305"),
        ),
        type="NAME=KEY, as often as wanted",
        setting=True,
    ),
)  # fmt: skip
