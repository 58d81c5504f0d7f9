"""What parts from outside are made of: the one module that their authors import from.

    from lgmdsl.extend import Elementwise, Parameter, Signature

Everything here keeps its name and meaning from one version to the next; no other path of lgmdsl is
promised. Each base class shows a complete part in its docstring (`help(lgmdsl.extend.Prior)`).

| kind | a part is | entry-point group |
|---|---|---|
| site | a subclass of `Site` and of the questions that it answers | `lgmdsl.sites` |
| bound | an object of a subclass of `Bound` | `lgmdsl.bounds` |
| structure | a subclass of `Structure` | `lgmdsl.structures` |
| hyperprior | a subclass of `Elementwise` (entries are independent) or `Prior` | `lgmdsl.priors` |
| kernel | a subclass of `Kernel` | `lgmdsl.kernels` |
| engine | a subclass of `Engine` | `lgmdsl.engines` |
| back end | a subclass of `Backend` | `lgmdsl.backends` |

`lgm.register(part)` makes a part known to one process; an entry point of an installed distribution
makes it known everywhere:

    [project.entry-points."lgmdsl.priors"]
    triangular = "acme_lgm:Triangular"

A part that models name (site, structure, hyperprior, kernel) carries its `Signature`: name,
arguments with types and defaults, a summary. Parser, messages and builder learn it from there.
`lgmdsl.testing` holds a conformance check for each kind.
"""

from __future__ import annotations

from lgmdsl.arrays import AnyArray, Array, BoolArray, IntArray, Matrix, SparseMatrix
from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend, BackendSpec, State
from lgmdsl.contract.bound import Bound, BoundSpec
from lgmdsl.contract.engine import (
    Adjoints,
    Conditioned,
    Draws,
    Engine,
    Errors,
    Estimate,
    Failed,
    Leftover,
)
from lgmdsl.contract.linear import Constraints, LinearGaussian, Predictor, PriorBlock
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import (
    Augmented,
    AugmentedAnswer,
    ConjugateAnswer,
    Decoupled,
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    ParameterCurve,
    Pointwise,
    PointwiseAnswer,
    Sloped,
    Stretch,
    SuperGaussian,
    Tilted,
    TiltedAnswer,
    TiltedSlopes,
    Widths,
    WidthsAnswer,
)
from lgmdsl.contract.rows import Rows
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.operators.base import Operator
from lgmdsl.priors.prior import Bounds, Elementwise, Prior, Terms, natural_bounds
from lgmdsl.priors.refusals import Unsuitable
from lgmdsl.structures.kernels import Kernel
from lgmdsl.structures.refusals import Refused
from lgmdsl.vocabulary.signature import Parameter, Signature

__all__ = [
    # what a part that models name declares
    "Signature", "Parameter",
    # sites: the base class, the questions and their answers
    "Site", "SiteSpec", "Property", "ParameterCurve",
    "Pointwise", "PointwiseAnswer", "Sloped",
    "Expected", "ExpectedAnswer", "ExpectedSlopes",
    "Tilted", "TiltedAnswer", "TiltedSlopes",
    "Widths", "WidthsAnswer", "SuperGaussian",
    "Augmented", "AugmentedAnswer", "Stretch",
    "Decoupled", "ConjugateAnswer",
    # bounds
    "Bound", "BoundSpec", "Guarantee",
    # structures and kernels, and what they refuse
    "Structure", "Shape", "Kernel", "Refused",
    # hyperpriors, and what they refuse
    "Prior", "Elementwise", "Terms", "Bounds", "natural_bounds", "Unsuitable",
    # engines, and the model that they condition
    "Engine", "Estimate", "Conditioned", "Failed", "Adjoints", "Draws", "Errors", "Leftover",
    "LinearGaussian", "PriorBlock", "Predictor", "Constraints", "Operator",
    # back ends
    "Backend", "BackendSpec", "State", "Problem", "GaussianPosterior", "Status", "Rows", "rows",
    # types of arrays
    "Array", "AnyArray", "BoolArray", "IntArray", "Matrix", "SparseMatrix",
]  # fmt: skip
