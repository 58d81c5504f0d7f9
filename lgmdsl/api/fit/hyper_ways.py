"""How hyperparameters are treated: fixed, map, em, integrate, vb; the choice of `auto`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lgmdsl.api.settings import check_word, one_of, several
from lgmdsl.canonical.lowering.hypers import HyperBlock
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.loadings import linear_hypers
from lgmdsl.contract.backend import BackendSpec
from lgmdsl.errors import Diagnostic, MethodError, listed, suggestion
from lgmdsl.inference.settings import FitSettings
from lgmdsl.learning.coordinates.vector import Coordinates, sparse
from lgmdsl.learning.em.closed_steps import closed_steps, probabilities
from lgmdsl.learning.em.em import ACCELERATIONS
from lgmdsl.learning.integration.integrate import FEW, MOST
from lgmdsl.learning.search.learning_record import LearningOptions
from lgmdsl.remedies import pin, setting
from lgmdsl.vocabulary.notes import Notes
from lgmdsl.vocabulary.signature import also


@dataclass(frozen=True)
class Way:
    """A treatment of hyperparameters, as its page in the manual has it."""

    name: str
    summary: str
    source: str
    notes: Notes


_LEARNED = "hyperparameters that have a prior and are not pinned"
HYPER_WAYS: tuple[Way, ...] = (
    Way(
        "auto",
        "the treatment that suits the model: em, integrate or map",
        "",
        Notes(
            formula="em where loadings multiply a latent or words are drawn from topics; else "
            f"integrate up to {FEW} scalars, map over more",
            support=_LEARNED,
            advice="the default; the printed page of the fit says what was taken",
            example="lgm fit model.lgm data.npz --hyper auto",
            see_also=("integrate", "map", "em", "hyperparameters"),
            without=("source",),
        ),
    ),
    Way(
        "fixed",
        "no learning: all hyperparameters are pinned",
        "",
        Notes(
            formula="p(z | y, theta) at the given theta; log_evidence is log p(y | theta)",
            support="models whose hyperparameters all have values, by `=`, --set or fixed=",
            advice="for known scales and for comparing methods; one without a value is E503",
            example="lgm fit model.lgm data.npz --hyper fixed --set s=0.5",
            see_also=("map", "integrate", "hyper", "E503"),
            without=("source",),
        ),
    ),
    Way(
        "map",
        "maximises the evidence times the prior, on the natural scale of each hyperparameter",
        "MacKay 1992; Rasmussen and Williams 2006, section 5.4.1",
        Notes(
            formula="theta* = argmax log p(y | theta) + log p(theta); latents are those of "
            "p(z | y, theta*)",
            support=_LEARNED + ", of any number and type",
            advice="quick; intervals ignore the uncertainty of hyperparameters, and are too narrow "
            "where groups are few; the maximum of an sd may be 0",
            example="lgm fit model.lgm data.npz --hyper map",
            see_also=("integrate", "em", "fixed", "hyperparameters"),
            also_called=(
                *also("R", "ml mle reml", note="under flat priors"),
                *also("R-INLA", "eb"),
            ),
        ),
    ),
    Way(
        "integrate",
        "averages fits at several values of the hyperparameters, weighted by their posterior",
        "Rue, Martino and Chopin 2009",
        Notes(
            formula="p(z | y) ~ sum_k w_k q(z | theta_k), w_k proportional to p(theta_k | y), q "
            "the Gaussian fit at theta_k; log_evidence is log p(y)",
            support=f"{_LEARNED}, at most {MOST} scalars",
            advice="what auto takes for few hyperparameters: intervals include the uncertainty of "
            "scales; it costs a fit at each value",
            example="lgm fit model.lgm data.npz --hyper integrate --option integration=grid",
            see_also=("map", "integration", "hyperparameters", "W606"),
        ),
    ),
    Way(
        "em",
        "the same maximum as map, by EM steps where they have a closed form",
        "Dempster, Laird and Rubin 1977; Khan 2012, chapter 2",
        Notes(
            formula="theta <- argmax E_q[log p(y, z | theta)] + log p(theta), then L-BFGS",
            support="loadings, offsets, noise sds, covariances and probabilities of topics; map "
            "where there is no such step",
            advice="what auto takes for factor and topic models, where map is slow; rotations of "
            "loadings have no standard errors",
            example="lgm fit model.lgm data.npz --hyper em --option acceleration=squarem",
            see_also=("map", "acceleration", "batch", "standard_errors", "graphical_lasso"),
        ),
    ),
    Way(
        "vb",
        "variational Bayes: a factor over each hyperparameter that is a scale of Gaussians",
        "Qi and Jaakkola 2007; Girolami and Rogers 2006",
        Notes(
            formula="maximise the bound of log p(y) over q(z) prod_h q(h)",
            support="scales of Gaussians: sd = c h^k; methods with a lower bound",
            advice="for comparison with published variational Bayes; integrate is more accurate",
            example="lgm fit scale.lgm data.npz --hyper vb --method px-vb",
            see_also=("px-vb", "integrate", "gamma"),
        ),
    ),
)
WAYS = tuple(way.name for way in HYPER_WAYS)
DESIGNS: tuple[str, ...] = ("auto", "grid", "ccd", "gauss-hermite")
EPOCHS = 3
MOST_STEPS = 200
# A full product of nodes grows as their number to the power of the hyperparameters.
LARGEST: dict[str, int] = {"grid": 3, "gauss-hermite": 4}


def way_called(name: str) -> tuple[str, ...]:
    """What a name of other software means among the ways, as a sentence for each."""
    aliases = ((w, w.notes.alias(name)) for w in HYPER_WAYS)
    return tuple(a.means(w.name) for w, a in aliases if a is not None)


def check_hyper(hyper: str) -> None:
    """Raise MethodError E103 for a way that does not exist, E108 for no word."""
    check_word(hyper, "hyper", "map")
    if hyper not in WAYS:
        elsewhere = "".join(f"{sentence}; " for sentence in way_called(hyper))
        known = f"there are: {', '.join(WAYS)}"
        raise MethodError.of(
            "E103",
            f"unknown treatment of hyperparameters `{hyper}`",
            help=f"{elsewhere}{known}" if elsewhere else suggestion(hyper, WAYS, known),
        )


def chosen_way(
    canonical: CanonicalModel, settings: FitSettings, backend: BackendSpec, design: str
) -> str:
    """fixed, map, em, integrate or vb. `auto` takes em where loadings multiply a latent and where
    words are drawn from topics; it integrates up to FEW scalars and maximises over more. em is map
    where it has no step in closed form.

    Raises MethodError E501 where there are too many to integrate, or where the method has no
    evidence to learn by; E104 where they are too many for the design.
    """
    hyper, pinned, space = settings.hyper, settings.fixed, canonical.hypers
    if hyper == "fixed" or not set(space.free) - pinned.keys():
        return "fixed"
    if not backend.evidence:
        raise MethodError.of(
            "E501",
            f"method `{backend.name}` has no evidence to learn hyperparameters by",
            help=f"pin them: {pin('NAME')}, or take another method: {setting('method', 'laplace')}",
        )
    size = Coordinates(space, pinned).size
    kinked = next((b for b in space.unpinned(pinned) if sparse(b)), None)
    if hyper == "integrate" and kinked is not None:
        raise MethodError(_corners(kinked))
    if hyper == "integrate" and size > MOST:
        names = listed([f"`{n}`" for n in space.free if n not in pinned])
        raise MethodError.of(
            "E501",
            f"{size} hyperparameters are too many to integrate over: {names}",
            details=(f"at most {MOST}",),
            help=f"maximise over them ({setting('hyper', 'map')}), or pin some: {pin('NAME')}",
        )
    way = hyper
    if hyper in ("auto", "em") and not canonical.rows.kept:  # EM's steps are sums over rows
        way = "integrate" if hyper == "auto" and size <= FEW else "map"
    elif hyper in ("auto", "em"):
        theta = space.start(pinned)
        linear = linear_hypers(canonical, theta, pinned)
        if hyper == "auto":
            words = probabilities(canonical, Coordinates(space, pinned))
            em = linear.loadings or kinked is not None or bool(words)
            way = "em" if em else "integrate" if size <= FEW else "map"
        elif not linear.names and not closed_steps(canonical, Coordinates(space, pinned), theta):
            way = "map"
    if way == "integrate" and size > LARGEST.get(design, size):
        raise MethodError.of(
            "E104",
            f"`integration = {design}` is for up to {LARGEST[design]} hyperparameters",
            details=(f"there are {size}",),
            help="use integration=ccd",
        )
    return way


# Fits for each learned coordinate: of a scale and a level of counts 14 and 24, of three scales of
# normal observations 39 and 115.
FITS = {"map": 13, "em": 13, "vb": 13, "integrate": 30}


def expected_fits(canonical: CanonicalModel, fixed: Mapping[str, object] | None, way: str) -> float:
    """About how many fits a way takes."""
    if way == "fixed":
        return 1.0
    return float(max(1, FITS[way] * Coordinates(canonical.hypers, dict(fixed or {})).size))


# Options about learning, and the ways with hyperparameters that they are for.
OPTIONS = {
    "integration": ("integrate",), "acceleration": ("em", "map"), "batch": ("em", "map"),
    "epochs": ("em", "map"), "standard_errors": ("map", "em"),
}  # fmt: skip


def check_learning(settings: FitSettings, way: str) -> None:
    """Raise MethodError E104 for an option about learning that this way does not have. (What
    em cannot do in closed form is map, with its options.)"""
    options, hyper = settings.options, settings.hyper
    for name, ways in OPTIONS.items():
        # As requested, not the way that em was replaced by.
        other = hyper == "map" and ways[0] == "em"
        if name in options and (other or way not in (*ways, "fixed")):
            used = f"`hyper = {way}`" + (", which auto chose" if hyper == "auto" else "")
            message = f"`{name}` is an option of `hyper = {ways[0]}`, not of {used}"
            help = f"leave it out, or take {setting('hyper', ways[0])}"
            raise MethodError.of("E104", message, help=help)


def _corners(block: HyperBlock) -> Diagnostic:
    return Diagnostic(
        "E501",
        f"hyper `{block.name}` cannot be integrated over",
        block.span,
        "a graphical lasso has corners, and no known constant",
        help=f"maximise ({setting('hyper', 'em')}), or pin it: {pin(block.name)}",
    )


def learning_options(
    options: Mapping[str, object],
) -> tuple[LearningOptions, dict[str, object]]:
    """The options `integration`, `acceleration`, `batch`, `epochs`, `learning_steps` and
    `standard_errors`, and those left for the method.

    Raises MethodError E104 for a value that does not exist.
    """
    rest = dict(options)
    design = one_of(rest, "integration", DESIGNS)
    acceleration = one_of(rest, "acceleration", ACCELERATIONS)
    rows = _count(rest, "batch", 1000) if "batch" in rest else 0
    epochs = _count(rest, "epochs", EPOCHS)
    steps = _count(rest, "learning_steps", MOST_STEPS) if "learning_steps" in rest else None
    errors = several(rest.pop("standard_errors", ()))
    batch = (rows, epochs) if rows else None
    return LearningOptions(design, acceleration, batch, steps, errors), rest


def _count(options: dict[str, object], name: str, default: int) -> int:
    """The value of an option that is a number of things, taken out."""
    entered = options.pop(name, default)
    try:
        value = int(str(entered))
    except ValueError:
        value = -1
    if value <= 0:
        raise MethodError.of(
            "E104",
            f"option `{name}` cannot be `{entered}`",
            help=f"it is a whole number above 0, as in {name}={default}",
        )
    return value
