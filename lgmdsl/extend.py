"""What parts from outside are made of: the one module that their authors import from.

    from lgmdsl.extend import Elementwise, Parameter, Signature

Everything here keeps its name and meaning from one version to the next; no other path of lgmdsl is
promised. Each base class shows a complete part in its docstring (`help(lgmdsl.extend.Kernel)`);
the engine stands below.

| kind | a part is | entry-point group |
|---|---|---|
| site | a subclass of `Site` and of the questions that it answers | `lgmdsl.sites` |
| potential | `SuperGaussianSite(name, g, dg, d2g)`, by its g alone | `lgmdsl.sites` |
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
arguments with types, defaults and meaning, a summary, and for its page in the manual a formula, the
convention of its scale, a complete model, related words and its source. Parser, messages, builder
(`lgm.NAME`, with its signature and page) and `lgm help NAME` learn it from there, and so does the
part: a structure, hyperprior or kernel its name and what is left out, a site (`SiteSpec(signature=,
takes=)`) its parameters, their defaults and what it observes. Nothing depends on names: what the
parts of lgmdsl declare about themselves (`Trait`, fields of `SiteSpec`, attributes of `Prior`, the
questions below) works for others too.
`lgmdsl.testing` holds a conformance check for each kind.

An engine: dense algebra with Cov(z) = K - KB'C BK, C = W (I + BKB'W)^-1, for scalar sites:

>>> import numpy as np
>>> import scipy.linalg as sla
>>> import lgmdsl as lgm
>>> from lgmdsl.extend import (Adjoints, Conditioned, Draws, Engine, Estimate, Failed, Failure,
...     Shape)
>>> def matrix(linear, predictor):
...     out = np.zeros((predictor.rows, linear.size))
...     for name, operator in predictor.columns.items():
...         out[:, linear.slices[name]] = operator.dense()
...     return out
>>> def on(operator, slope):  # sparse where the operator is
...     thin = operator.is_sparse
...     return operator.sparse().astype(bool).multiply(slope).tocsr() if thin else slope
>>> @lgm.register
... class Plain(Engine):
...     name = "plain"
...     def __init__(self, linear):
...         self.linear, one = linear, np.ones((1, 1))
...         def prior(block):
...             k = one
...             for factor in block.factors:
...                 k = np.kron(k, factor.covariance())
...             return k
...         self.K = sla.block_diag(*map(prior, linear.blocks))
...         none = np.zeros((0, linear.size))  # draws from the prior are asked without rows
...         self.B = np.vstack([none, *(matrix(linear, p) for p in linear.predictors)])
...         self.mu = np.concatenate([b.mean for b in linear.blocks])
...         self.c = np.concatenate([none[:, 0], *(p.offset for p in linear.predictors)])
...     @classmethod
...     def refuses(cls, linear):
...         plain = linear.constraints is None and not any(p.event for p in linear.predictors)
...         proper = all(Shape.COVARIANCE in b.shape for b in linear.blocks)
...         return "" if plain and proper else "it takes covariances and scalar sites alone"
...     @classmethod
...     def cost(cls, linear):
...         n, p = linear.size, linear.rows
...         return Estimate(flops=float((n + p) ** 3), doubles=float(4 * (n + p) ** 2))
...     def split(self, s):
...         ends = np.cumsum([0, *(p.rows for p in self.linear.predictors)])
...         return tuple(s[a:b] for a, b in zip(ends, ends[1:]))
...     @property
...     def prior_mean(self):
...         return self.split(self.B @ self.mu + self.c)
...     def condition(self, weight, shift):
...         w, S = np.concatenate([[], *weight]), self.B @ self.K @ self.B.T
...         sign, log_det = np.linalg.slogdet(np.eye(len(w)) + S * w)
...         spread = self.K - self.K @ self.B.T @ (w[:, None] * np.linalg.solve(
...             np.eye(len(w)) + S * w, self.B @ self.K))
...         if sign <= 0 or np.linalg.eigvalsh(spread)[0] < -1e-9 * np.abs(spread).max():
...             return Failed(kind=Failure.INDEFINITE)
...         return PlainConditioned(self, weight, shift, w, spread, log_det)
>>> class PlainConditioned(Conditioned):
...     def __init__(self, engine, weight, shift, w, spread, log_det):
...         self.engine, self.weight, self.shift, self.w, self.C = (
...             engine, weight, shift, w, spread)
...         b, s0 = np.concatenate([[], *shift]), engine.B @ engine.mu + engine.c
...         h = engine.B.T @ (b - w * s0)
...         self.z = engine.mu + spread @ h
...         self.alpha = b - w * (engine.B @ self.z + engine.c)
...         self.log_normaliser = float(
...             b @ s0 - s0 @ (w * s0) / 2 + h @ spread @ h / 2 - log_det / 2)
...     def with_shift(self, shift):
...         return self.engine.condition(self.weight, shift)
...     mean = property(lambda q: q.engine.split(q.engine.B @ q.z + q.engine.c))
...     variance = property(lambda q: q.engine.split(
...         np.einsum("pi,ij,pj->p", q.engine.B, q.C, q.engine.B)))
...     latent_mean = property(lambda q: q.z)
...     latent_variance = property(lambda q: q.C.diagonal())
...     def project(self, predictor, full=False):
...         b = matrix(self.engine.linear, predictor)
...         spread = b @ self.C @ b.T
...         return b @ self.z + predictor.offset, spread if full else spread.diagonal()
...     def solve(self, rhs):
...         return self.C @ rhs
...     def sample(self, rng, size):
...         return self.draw(rng, size).z
...     def draw(self, rng, size):
...         values, vectors = np.linalg.eigh(self.C)
...         positive = values > 1e-12 * values[-1]
...         e = rng.standard_normal((size, int(positive.sum())))
...         z = self.z + (e * np.sqrt(values[positive])) @ vectors[:, positive].T
...         return Draws(z, (e**2).sum(axis=1), e.shape[1])
...     def adjoints(self, tilt=None):
...         B, w, slices = self.engine.B, self.w, self.engine.linear.slices
...         t = np.zeros(len(w)) if tilt is None else np.concatenate(tilt)
...         dz = self.C @ (B.T @ t)  # how E[z], and alpha, move with a tilt
...         da = t - w * (B @ dz)
...         rows = np.outer(self.alpha + da, self.z) + np.outer(self.alpha, dz)
...         rows -= w[:, None] * (B @ self.C)
...         g, dg, G = B.T @ self.alpha, B.T @ da, B.T @ (w[:, None] * B)
...         k = np.outer(g, g) + np.outer(dg, g) + np.outer(g, dg) - G + G @ self.C @ G
...         return Adjoints(
...             self.engine.split(self.alpha + da),
...             tuple({n: on(op, r[:, slices[n]]) for n, op in p.columns.items()}
...                   for p, r in zip(self.engine.linear.predictors, self.engine.split(rows))),
...             {n: (g + dg)[slices[n]] for n in slices},
...             covariance={n: k[slices[n], slices[n]] / 2 for n in slices})
>>> m = lgm.Model()
>>> obs = m.index("obs")
>>> y = m.data("y", obs, "count")
>>> a = m.latent("a", [], lgm.normal(sd=1))
>>> m.observe(y, lgm.poisson(log_rate=m.let("eta", obs, a)))
>>> print(lgm.fit(m, {"y": [1, 3, 0, 2]}, method="laplace").status)
converged
"""

from __future__ import annotations

from lgmdsl.arrays import AnyArray, Array, BoolArray, IntArray, Matrix, SparseMatrix
from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend, BackendSpec, State, option
from lgmdsl.contract.bound import Bound, BoundSpec
from lgmdsl.contract.classes import Classes, ClassMoments, OneClass, Separable, Split
from lgmdsl.contract.engine import (
    Adjoints,
    Conditioned,
    Confinement,
    Direction,
    Draws,
    Engine,
    Errors,
    Estimate,
    Failed,
    Failure,
    Leftover,
    MakeEngine,
    Term,
)
from lgmdsl.contract.linear import Constraints, LinearGaussian, Predictor, PriorBlock
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import (
    Augmented,
    AugmentedAnswer,
    ConjugateAnswer,
    Decoupled,
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    Normed,
    ParameterCurve,
    Pointwise,
    PointwiseAnswer,
    Radial,
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
from lgmdsl.contract.structure import Extension, Members, Shape, Structure
from lgmdsl.operators.base import Operator
from lgmdsl.priors.prior import (
    Bounds,
    Elementwise,
    GammaPower,
    InLogits,
    Prior,
    Scatter,
    Terms,
    Unsuitable,
    natural_bounds,
)
from lgmdsl.sites.scalar.logistic import LogisticSite
from lgmdsl.sites.scalar.super_gaussian import SuperGaussianSite
from lgmdsl.sites.tails import Tail, Tails
from lgmdsl.sites.vector.admixture import TopicSite
from lgmdsl.sites.vector.softmax import SoftmaxSite
from lgmdsl.structures.kernels import Kernel
from lgmdsl.structures.shared.refusals import Refused
from lgmdsl.vocabulary.notes import Notes
from lgmdsl.vocabulary.signature import Alias, Parameter, Signature, Spacing, Trait, also

__all__ = [
    # what a part that models name declares
    "Signature", "Parameter", "Spacing", "Trait", "Alias", "also",
    # what the page of any other part says, and an option of a back end
    "Notes", "option",
    # sites: the base class, the questions and their answers
    "Site", "SiteSpec", "Property", "ParameterCurve",
    "Pointwise", "PointwiseAnswer", "Sloped",
    "Expected", "ExpectedAnswer", "ExpectedSlopes",
    "Tilted", "TiltedAnswer", "TiltedSlopes",
    "Widths", "WidthsAnswer", "SuperGaussian", "SuperGaussianSite", "Radial", "Normed",
    "Augmented", "AugmentedAnswer", "Stretch",
    "Decoupled", "ConjugateAnswer",
    "Tails", "Tail",
    "Classes", "OneClass", "ClassMoments", "Split", "Separable",
    # sites that bounds of log(1 + exp(s)) and log(sum of exp(s)) take
    "LogisticSite", "SoftmaxSite", "TopicSite",
    # bounds
    "Bound", "BoundSpec", "Guarantee",
    # structures and kernels, and what they refuse
    "Structure", "Shape", "Members", "Extension", "Kernel", "Refused",
    # hyperpriors, and what they refuse
    "Prior", "Elementwise", "InLogits", "Terms", "Bounds", "Scatter", "GammaPower",
    "natural_bounds", "Unsuitable",
    # engines, and the model that they condition
    "Engine", "Estimate", "Conditioned", "Adjoints", "Draws", "Errors", "Leftover",
    "Confinement", "MakeEngine",
    "Failed", "Failure", "Direction", "Term",
    "LinearGaussian", "PriorBlock", "Predictor", "Constraints", "Operator",
    # back ends
    "Backend", "BackendSpec", "State", "Problem", "GaussianPosterior", "Status", "Rows", "rows",
    # types of arrays
    "Array", "AnyArray", "BoolArray", "IntArray", "Matrix", "SparseMatrix",
]  # fmt: skip
