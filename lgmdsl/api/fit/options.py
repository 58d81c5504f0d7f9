"""The options of a fit, as their pages in the manual have them: what each means, its values."""

from __future__ import annotations

from dataclasses import dataclass

from lgmdsl.accuracy.limits import MEAN, QUANTILE, SD
from lgmdsl.api.fit.correction import EFFORTS, MARGINALS, WHEN_CORRECTED
from lgmdsl.api.fit.hyper_ways import DESIGNS, EPOCHS, LARGEST, MOST_STEPS, OPTIONS
from lgmdsl.api.fit.merging import MERGE
from lgmdsl.api.streaming import MANY, ROWS
from lgmdsl.canonical.blocks.alike import LEAST, SHARE
from lgmdsl.canonical.rotated import EACH, MOST
from lgmdsl.contract.row_source import LEAST as LEAST_FOLDED
from lgmdsl.contract.row_source import ROWS_A_PLACE
from lgmdsl.engines.choose import AUTO, VARIANCES
from lgmdsl.inference.options import OtherOptions
from lgmdsl.learning.chosen_errors import MAX_COORDINATES_SOLVED
from lgmdsl.learning.em.em import ACCELERATIONS
from lgmdsl.learning.integration.integrate import LATTICE
from lgmdsl.learning.learn import STANDARD_ERRORS
from lgmdsl.remedies import either, setting
from lgmdsl.vocabulary.notes import Notes
from lgmdsl.vocabulary.signature import Alias, also, called

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
    also_called: tuple[Alias, ...] = ()


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
        "variances",
        "how posterior variances are computed: exactly, from samples, or from Lanczos vectors",
        Notes(
            formula="exact: by a factorisation; samples: mean squares of perturbation samples, "
            "with standard errors; lanczos: diag(B Q T^-1 Q'B') of k Lanczos vectors, from below, "
            "and exact once they span all latents",
            support="every fit; samples and lanczos by the iterative engine; lanczos drives the "
            "outer loop of double-loop at fixed hyperparameters",
            advice=f"{AUTO} is exact unless only the iterative engine fits memory and time; "
            "the page of a lanczos fit says what share of the variances the vectors hold; where it "
            "is less than all, samples are reported, and the fit is not called converged",
            example=FIT + "--method double-loop --option variances=samples",
            see_also=("samples", "vectors", "iterative", "engine", "double-loop"),
        ),
        VARIANCES,
    ),
    FitOption(
        "samples",
        "how many perturbation samples the iterative engine estimates variances from",
        Notes(
            formula="standard errors of sqrt(2 / samples), relative, where nothing else is known "
            "of a row; less where rows are short",
            support="variances=samples, which it stands for where that is left out",
            advice="left out, 20, and up to 80 where the rows of few latents are not precise to 5 "
            "% (root mean square); a number is kept as it is",
            example=FIT + "--option samples=50",
            see_also=("variances", "vectors", "iterative"),
        ),
        type="a whole number, at least 5",
        default="20 to 80",
    ),
    FitOption(
        "vectors",
        "how many Lanczos vectors drive the outer loop of the double loop",
        Notes(
            formula="k vectors hold about k / n of the variances of n latents, and all for k = n",
            support="variances=lanczos, which it stands for where that is left out",
            advice="about as many as there are latents, or take variances=samples: few vectors "
            "hold little of the variances, and time grows with their square",
            example="lgm fit logit.lgm data.npz --method double-loop --option vectors=400",
            see_also=("variances", "samples", "double-loop"),
        ),
        type="a whole number, at least 1",
        default="200",
    ),
    FitOption(
        "merge",
        "whether rows that are alike are fitted as one row, and Gaussian rows as their sums",
        Notes(
            formula="sum_i w_i log t_i(s_i), over distinct rows with the sums of their weights; of "
            "y = B z + e with one sd, over the m + 1 rows of R in Q R = (B, y): the same evidence, "
            "estimates and answers by row",
            support="methods whose answer depends on the sum of log t alone (all but ep and lcl), "
            f"hyperparameters that are fixed, map or integrate, {LEAST:,} rows or more of which at "
            f"most {SHARE:.0%} are distinct, or Gaussian ones with {EACH} for each of at most "
            f"{MOST} latents",
            advice="off for comparisons of time, and to see the search of the unmerged rows; `lgm "
            "explain` says what is merged",
            example=FIT + "--option merge=off",
            see_also=("weight", "engine"),
        ),
        MERGE,
        also_called=also("R", "aggregate", note="for rows that are alike"),
    ),
    FitOption(
        "rows",
        "whether all rows are kept in memory or read by batches",
        Notes(
            formula="streamed: rows are summed up, batch by batch, in sites of the latents that "
            "they share; the same evidence and estimates, no answers by row (LOO, audits)",
            support="methods whose answer depends on the sum of log t and its derivatives alone "
            "(laplace, natural-gradient), log-concave families with one predictor a row, "
            "hyperparameters that are fixed, map or integrate and not in the predictor",
            advice=f"auto streams .parquet files of {MANY:,} rows or more where it can, and sums "
            f"up {LEAST_FOLDED:,} rows in memory or more by the latents that they share where "
            f"these have {ROWS_A_PLACE} rows each or more: answers by row stay; kept does "
            "neither",
            example=FIT + "--option rows=kept",
            see_also=("merge", "nested"),
        ),
        ROWS,
        also_called=also("R", "biglm"),
    ),
    FitOption(
        "integration",
        "the values of the hyperparameters at which a fit is made and averaged",
        Notes(
            formula="grid: a regular grid around the mode; ccd: a central composite design, whose "
            "number of values grows slowly with the number of hyperparameters; gauss-hermite: a "
            "product of quadrature rules",
            support=f"{_for('integration')}; grid up to {LARGEST['grid']} scalars, gauss-hermite "
            f"up to {LARGEST['gauss-hermite']}",
            advice=f"auto is grid up to {LATTICE} hyperparameters, ccd for more; W606 reports an "
            "inaccurate average",
            example=FIT + "--hyper integrate --option integration=ccd",
            see_also=("integrate", "W606"),
        ),
        DESIGNS,
        also_called=also("R-INLA", "int.strategy"),
    ),
    FitOption(
        "acceleration",
        "how EM is accelerated",
        Notes(
            formula="l-bfgs: L-BFGS once EM slows down; squarem: extrapolated EM steps; none: "
            "plain EM",
            support=_for("acceleration"),
            advice="l-bfgs is usually quickest; none for comparison",
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
        "standard_errors",
        "hyperparameters that get standard errors where they are too many for all to",
        Notes(
            formula="a linear solve with the curvature of evidence + log prior for each value, by "
            "conjugate gradients whose products are differences of gradients",
            support=f"{_for('standard_errors')}; up to {STANDARD_ERRORS} hyperparameters all have "
            f"them anyway; up to {MAX_COORDINATES_SOLVED} values, as names or entries",
            advice="each value takes some tens of fits; loadings that may rotate have none",
            example=FIT + "--hyper em --option standard_errors=s",
            see_also=("em", "map"),
        ),
        type="names of hypers or of entries, such as s, c[item 3]",
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
            formula="exact draws replace the Gaussian approximation where its estimated error "
            f"exceeds {MEAN:g} sd of a mean, {SD:.0%} of an sd or {QUANTILE:g} sd of a 5 "
            "or 95 % point",
            support="auto: corrects the method auto only; on: a named method too; off: never",
            advice="off to see what the method itself gives, as in published comparisons",
            example=FIT + "--method laplace --option correction=on",
            see_also=("marginals", "effort", "W609"),
        ),
        WHEN_CORRECTED,
        also_called=also("Stan, PyMC", "nuts mcmc hmc sampling", note="for exact draws"),
    ),
    FitOption(
        "marginals",
        "whether latents are reported corrected, or as the Gaussian has them",
        Notes(
            formula="corrected: those of the exact draws, where there are any; gaussian: those of "
            "the Gaussian approximation",
            support="every fit",
            advice="gaussian saves the time of the draws; hyperparameters are "
            "corrected all the same",
            example=FIT + "--option marginals=gaussian",
            see_also=("correction", "effort"),
        ),
        MARGINALS,
        also_called=also("R-INLA", "strategy"),
    ),
    FitOption(
        "effort",
        "how much computing time the correction of a fit may take",
        Notes(
            formula="normal: about three seconds of one core, or what the fit took; high: 10 times "
            "that, correcting errors half as large; low: no draws",
            support="fits that are corrected (see correction)",
            advice="high where W609 says that exact draws take too long at the default",
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
        also_called=(
            *also("R-INLA", "tolerance"), *also("Stan", "tol_rel_obj"),
            *also("scikit-learn", "rtol"),
        ),
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
        also_called=(*also("brms, Stan", "iter"), *also("R", "maxit maxiter"),
                     *also("scikit-learn", "max_iter")),
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
        also_called=also("scikit-learn, PyMC", "random_state random_seed"),
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
        "reads a name of the model from another key, or from columns; mapping= in Python",
        Notes(
            formula="--map y=counts, mapping={\"y\": \"counts\"}; "
            "--map \"X=age,contrasts(region)\", mapping={\"X\": [\"age\", \"contrasts(region)\"]}",
            support="data, and labels of indices",
            advice="for columns that are called otherwise, and for matrices made of columns: as "
            "they are, by contrasts (kind=sum, helmert, difference, poly, full) against a base "
            "(base=north), polynomials (poly(age, 2)), scale(age), log(age), and products of these "
            "(age:contrasts(region), age*contrasts(region))",
            example="lgm fit model.lgm renamed.npz --map y=outcome",
            see_also=("data", "E305"),
        ),
        type="NAME=KEY, as often as wanted",
        setting=True,
    ),
)  # fmt: skip


def other_options(hyper: str) -> OtherOptions:
    """The options of fits with a treatment of hyperparameters, next to those of methods."""
    names: dict[str, tuple[str, ...]] = {}
    for option in FIT_OPTIONS:
        ways = OPTIONS.get(option.name, ())
        if option.setting or (ways and hyper not in ("auto", *ways)):
            continue
        of = f"--hyper {' or '.join(ways)}" if ways else "every fit"
        names[of] = (*names.get(of, ()), option.name)
    return OtherOptions(names, remedy)


def remedy(name: str) -> str:
    """What to write for a name that is a setting, or other software's name of an option."""
    for option in FIT_OPTIONS:
        alias = alias_of(option, name)
        if alias:
            return f"{alias}: {given_as(option)}"
        if option.setting and name.replace("-", "_") in (
            option.name,
            *WRITTEN.get(option.name, ()),
        ):
            return f"it is a setting: {given_as(option)}"
    return f"it is a setting: {setting(name, 'NAME')}" if name in SETTINGS else ""


def alias_of(option: FitOption, name: str) -> str:
    """``maxit` of R is `max_steps` here`; "" where no other software calls the option so."""
    alias = called(option.also_called, name)
    return alias.means(option.name) if alias else ""


# Settings of fits that have no page as an option: the names that they may be have pages.
SETTINGS = ("method", "hyper", "bound")
# The flag and the argument of a setting that has another name.
WRITTEN = {"set": ("set", "fixed"), "mapping": ("map", "mapping")}


def given_as(option: FitOption) -> str:
    """How an option is given: on the command line, and in Python."""
    if not option.setting:
        return either(f"--option {option.name}=VALUE", f'options={{"{option.name}": VALUE}}')
    flag, named = WRITTEN.get(option.name, (option.name.replace("_", "-"), option.name))
    pair, _, value = option.type.partition(",")[0].partition("=")  # of names and values
    if value:
        return either(f"--{flag} {pair}={value}", f'{named}={{"{pair}": {value}}}')
    return either(f"--{flag} VALUE", f"{named}=VALUE")
