"""Faults of one to five per cent in every back end, bound and engine: `test_mutations` makes them
one by one and asks that these tests see each.

A fault is made where it changes an answer. What only steers a search (a tolerance, a damping, the
curvature of Newton's step) leads to the same answer and is none; where a wrong step makes a search
longer, tests that count steps see it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MARK = re.compile(r"\{([^{|}]*)\|([^{|}]*)\}")


@dataclass(frozen=True)
class Fault:
    """In `path`, a text that stands there once is changed: `marked` has {before|after} in it."""

    path: str
    marked: str

    @property
    def before(self) -> str:
        return MARK.sub(r"\1", self.marked)

    @property
    def after(self) -> str:
        return MARK.sub(r"\2", self.marked)


@dataclass(frozen=True)
class Part:
    """Faults of one part, and which tests are asked first (pytest's -k)."""

    name: str
    first: str
    faults: tuple[Fault, ...]


def part(name: str, first: str, *files: tuple[str, ...]) -> Part:
    """Each file's path, and what is changed in it."""
    faults = (Fault(path, marked) for path, *changes in files for marked in changes)
    return Part(name, first, tuple(faults))


BACK_ENDS = (
    part(
        "laplace",
        "test_modes or test_slopes_in_the_parameters",
        (
            "backends/lgmdsl_backends/laplace.py",
            "weight = tuple(-{|1.02 * }a.curvature",
            "{|1.01 * }value + rows.inner(0.5 * rows.times",
            "0.5{|1} * cast(Pointwise, a).pointwise",
            "c.value + 0.5{|1} * rows.trace(c.curvature, v)",
            "rows.shift_of(best.alpha, q.weight, {|tuple(1.01 * m for m in }best.mean{|)})",
        ),
    ),
    part(
        "natural-gradient",
        "variational_gaussian and natural",
        (
            "lgmdsl/contract/objectives/elbo.py",
            "weight = tuple(-2.0{|4} * a.d_variance",
            "0.5{|1} * float(np.sum(rows.trace(w, v)))",
            "rows.shift_of(tuple({|1.02 * }a.d_mean for",
            "elbo = {|1.01 * }conditioned.centred + gain",
            "gaps = tuple({|1.02 * }a.d_mean - alpha",
        ),
    ),
    part(
        "opper-archambeau",
        "opper",
        (
            "backends/lgmdsl_backends/opper_archambeau.py",
            "{|1.01 * }weight * (reference.mean + change)",
            "spread.squared_times(target - {|1.02 * }weight)",
            "slope = flatten(tuple({|1.02 * }a.d_mean for",
            "{|1.02 * }np.asarray(self.design @ self._half) ** 2",
            "omega = 0.5{|1} * reference.rates(weight)",
        ),
    ),
    part(
        "cholesky",
        "cholesky and (gaussian or search)",
        (
            "backends/lgmdsl_backends/cholesky.py",
            "return Evaluated(-value, -{|0.99 * }gradient,",
            "d_factor = 2.0{|4} * np.asarray",
            "slope.append({|1.02 * }a.d_mean +",
            "divergence = 0.5{|1} * (h @ ph",
            "- rank) - {|1.02 * }np.log(diagonal).sum()",
        ),
    ),
    part(
        "coordinate-ascent",
        "coordinate-ascent or of_softmax_sites",
        (
            "backends/lgmdsl_backends/coordinate_ascent.py",
            "cavity = max(1.0 / old - {|1.05 * }weight, 0.0)",
            "return 1.0{|2} / new - cavity",
            "return -2.0{|4} * expected.d_variance.item()",
            "old = {|1.02 * }float(covariance[k, k])",
            "np.asarray(-2{.0|.1} * alone(centre, variance[None])",
        ),
    ),
    part(
        "lcl",
        "lcl",
        (
            "backends/lgmdsl_backends/lcl/dual.py",
            "0.5 * (slack - {|1.02 * }variance)",
            "slack = 2.0{|4} * sigma0 * self.pairs.sigma",
            "return {|1.02 * }np.asarray(self.covariance @ a)",
            "pairs.value - 0.5{|1} * weight * self.sigma0**2",
        ),
        (
            "backends/lgmdsl_backends/lcl/backend.py",
            "{|1.02 * }best.a + best.weight * best.mean",
        ),
    ),
    part(
        "stochastic",
        "stochastic",
        (
            "backends/lgmdsl_backends/stochastic.py",
            "weight = tuple(-2.0{|4} * a.d_variance",
            "rows.shift_of(tuple({|1.02 * }a.d_mean for",
            "variance.append({|1.02 * }rows.gram(",
            "self.shift[k][few] += {|1.02 * }share",
            "self.weight[k][few] += {|1.02 * }share * change_weight[k]",
        ),
    ),
    part(
        "ep",
        "propagation or tilted_moments or of_two_predictors",
        (
            "backends/lgmdsl_backends/ep/matching.py",
            "np.where(self.known, self.weight, (cavity - {|1.02 * }tilted) / product)",
            "({|1.02 * }self.tilted_mean - self.mean) / spread)",
            "1.0 - {|1.02 * }power * weight * v)",
            "+ 0.5{|1} / power * log_share",
            "0.5{|1} * power * spread * slope**2",
            "centre = m - {|1.02 * }power * times(spread, slope)",
            "share = np.where(values > 0.0, (1.0{|2} - values)",
        ),
        (
            "backends/lgmdsl_backends/ep/parallel.py",
            "target = (cavity - {|1.02 * }matched_variance)",
        ),
        (
            "backends/lgmdsl_backends/ep/double_loop.py",
            "-0.5 * ({|1.02 * }point.variance - v - away**2)",
        ),
    ),
    part(
        "double-loop",
        "super_gaussian_bounds or jaakkolas_bound",
        (
            "backends/lgmdsl_backends/double_loop.py",
            "return at_moments(problem, best.mean, {|tuple(1.02 * t for t in }tangent{|)})",
            "problem.engine, penalties, {|tuple(1.02 * t for t in }tangent{|)}, q.mean",
            "point = self._inner(problem, q, {|tuple(1.02 * v for v in }q.variance{|)})",
            "return rows.isotropic({|1.02 * }np.exp(flat) / size, mean)",
        ),
        (
            "lgmdsl/contract/objectives/super_gaussian.py",
            "weight = tuple({|1.05 * }a.weight for a in answers)",
        ),
    ),
    part(
        "coordinate-descent",
        "super_gaussian_bounds or jaakkolas_bound",
        (
            "backends/lgmdsl_backends/coordinate_descent.py",
            "weight = -2.0{|4} * first",
            "square = {|1.02 * }spread + (spread * t) ** 2",
            "rest, t = max(1.0 / v - w, 0.0), {|1.02 * }m / v",
            "covariance, mean = {|1.02 * }q.solve(np.eye(linear.size))",
            "operator, covariance, mean = None, {|1.02 * }row_covariance(q, linear)",
        ),
    ),
    part(
        "super-gaussian objective",
        "super_gaussian_bounds or jaakkolas_bound or in_the_parameters",
        (
            "lgmdsl/contract/objectives/super_gaussian.py",
            "bound = q.log_normaliser - 0.5{|1} * sum(",
            "shift = tuple({|1.02 * }a.shift for a in answers)",
            "ExpectedAnswer(-a.penalty, -{|1.02 * }a.slope,",
            "at_widths(problem, [site.bounded(m, {|1.02 * }v) for",
            "site.width_slopes(m, {|1.02 * }v) for",
        ),
    ),
    part(
        "px-vb",
        "test_data_augmentation or in_the_parameters",
        (
            "backends/lgmdsl_backends/px_vb/bound.py",
            "(b - a.shift) * m + {|1.01 * }a.correction",
            "problem, {|tuple(1.02 * p for p in }point.precision{|)}, point.shift)",
            "site.weight_slopes(m, {|1.02 * }v) for",
        ),
        (
            "backends/lgmdsl_backends/px_vb/bound.py",
            "2.0{|4} * math.sqrt(count * size)",
            "best(count, {|1.02 * }start - slope, square",
        ),
    ),
    part(
        "mean-field",
        "test_independent_blocks",
        (
            "backends/lgmdsl_backends/mean_field/engine.py",
            "return rows.shift_of(alpha, together.weight, {|tuple(1.02 * x for x in }own{|)})",
            "return {|1.01 * }sum(q.centred for q in self.parts)",
            "({|tuple(1.02 * v for v in }q.variance{|)} for q in self.parts)",
            "self._joined([{|1.02 * }q.latent_variance for",
            "[{|1.02 * }q.solve(rhs[p]) for q, p",
        ),
        (
            "backends/lgmdsl_backends/mean_field/backend.py",
            "weight = tuple(-2.0{|4} * a.d_variance for a in answers)\n        slope",
        ),
    ),
    part(
        "inducing",
        "test_few_directions",
        (
            "backends/lgmdsl_backends/inducing.py",
            "self.lacking = 0.5{|1} * rows.total",
            "rows.semidefinite(v + {|1.02 * }d)",
            "+ {|1.02 * }part.left.diagonal()",
            "out[where] += {|1.02 * }part.left @ rhs[where]",
            "Dense({|1.02 * }columns[name].matvec(part.root))",
        ),
        (
            "backends/lgmdsl_backends/inducing.py",
            "rest = {|1.02 * }self.covariance - self.root",
        ),
    ),
    part(
        "map",
        "test_modes or kinks_hold or (is_exact and map)",
        (
            "backends/lgmdsl_backends/mode.py",
            "Local(p.value, p.slope, -{|1.02 * }p.curvature,",
            "Local(p.value, {|1.02 * }p.slope, -p",
            "Local(-bound.penalty, -{|1.02 * }bound.slope, np.where(weight",
            "evidence = {|1.01 * }q.centred + rows.total",
            "(*({|1.01 * }a.value for a in answers)",
        ),
    ),
)
BOUNDS = (
    part(
        "jaakkola",
        "of_logistic_sites",
        (
            "lgmdsl/bounds/logistic.py",
            "value=half + {|1.01 * }rest",
            "half = 0.5{|1} * variance",
            "d_mean=0.5 - 2.0{|4} * mean",
            "d_variance=-{|1.02 * }first",
            "square = mean * mean + {|1.02 * }variance",
        ),
    ),
    part(
        "bohning",
        "of_logistic_sites",
        (
            "lgmdsl/bounds/logistic.py",
            "+ bent + 0{.125|.127} * variance",
            "+ {|1.01 * }bent + 0.125",
            "d_mean={|1.01 * }up,",
            "np.full_like(up, 0{.125|.127})",
            "d_mean2={|1.05 * }up * down",
        ),
    ),
    part(
        "piecewise",
        "of_logistic_sites",
        (
            "lgmdsl/bounds/piecewise.py",
            "{|1.02 * }sd * (sd * a)",
            "first + mean * rim + {|1.05 * }second]",
            "total += b + 2.0{|4} * (mean * a)",
            "total += 2.0{|4} * a",
            "d[0], d[1], 0.5{|1} * d[2],",
        ),
    ),
    part(
        "logistic sites' form",
        "of_logistic_sites or in_the_parameters",
        (
            "lgmdsl/bounds/logistic.py",
            "m, v = mean / width, {|1.02 * }variance / width**2",
            "- straight - {|1.01 * }n * u.value",
            "{|1.01 * }n * u.d_mean - failures, y - n * u.d_mean)",
            "d_variance=-{|1.02 * }n * u.d_variance / width**2",
            "- 2.0{|4} * variance * f.d_variance",
        ),
    ),
    part(
        "log",
        "softmax_sites or compiled_tilt",
        (
            "lgmdsl/bounds/softmax.py",
            "mean + 0.5{|1} * np.einsum",
            "value={|1.01 * }log_sum_exp(raised",
            "d_mean={|1.01 * }softmax.p,\n            d_variance=0.5 * softmax",
            "d_variance=0.5{|1} * softmax",
            "np.eye(mean.shape[1]),\n            d_mean2={|1.05 * }covariances",
        ),
    ),
    part(
        "delta",
        "softmax_sites or compiled_tilt",
        (
            "lgmdsl/bounds/softmax.py",
            'offered) + 0.5{|1} * np.einsum("nij,nij->n", h,',
            'value={|1.01 * }log_sum_exp(mean, offered) + 0.5 * np.einsum("nij,nij->n", h,',
            "d_mean=p + 0.5{|1} * p * off",
            "d_variance=0.5{|1} * h",
            "variance) - 2.0{|4} * vp",
        ),
    ),
    part(
        "tilted",
        "softmax_sites or compiled_tilt",
        (
            "lgmdsl/bounds/tilted.py",
            "half = 0.5{|1} * np.einsum",
            "level = raised - {|1.02 * }pulled",
            "d_mean={|1.01 * }softmax.p",
            "d_variance=0.5{|1} * bend,\n            d_mean2",
            "d_variance=0.5{|1} * bend,\n        d_mean2",
        ),
    ),
    part(
        "product-of-sigmoids",
        "softmax_sites or compiled_tilt",
        (
            "lgmdsl/bounds/softmax.py",
            "alpha + {|1.01 * }(weight * u.value)",
            "one, {|1.01 * }weight * u.d_mean)",
            "d_variance={|1.02 * }(weight * u.d_variance)",
            "(one[rows] * u.d_mean).sum(axis=1) - 1.0{|2}",
            "d_mean2={|1.05 * }bend[:, :, None] * diagonal",
        ),
    ),
    part(
        "bohning of softmax sites",
        "softmax_sites or compiled_tilt",
        (
            "lgmdsl/bounds/softmax.py",
            "curve = 0.5{|1} * (",
            'offered) + 0.5{|1} * np.einsum("nij,nij->n", curve,',
            "d_mean={|1.01 * }softmax.p,\n            d_variance=0.5 * curve",
            "d_variance=0.5{|1} * curve",
            "d_variance=0.5 * curve,\n            d_mean2={|1.05 * }covariances",
        ),
    ),
    part(
        "softmax sites' form",
        "softmax_sites or compiled_tilt",
        (
            "lgmdsl/bounds/softmax.py",
            "(counts * m).sum(axis=1) - {|1.01 * }n * u.value",
            "d_mean=(counts - {|1.01 * }n[:, None] * u.d_mean)",
            "d_variance=-{|1.02 * }n[:, None, None] * u.d_variance[",
            "return m, {|1.02 * }spread * (offered",
            "bend = None if u.d_mean2 is None else -{|1.05 * }n[",
        ),
    ),
    part(
        "quadrature of softmax sites",
        "softmax_sites or compiled_tilt",
        (
            "lgmdsl/bounds/softmax.py",
            "ExpectedAnswer({|1.01 * }answer.value,",
            "answer.value, {|1.01 * }answer.d_mean,",
            "answer.d_mean, {|1.02 * }answer.d_variance,",
            "expected_log_sum_exp(mean, {|1.02 * }variance,",
            "expected_log_sum_exp({|1.01 * }mean,",
        ),
    ),
    part(
        "shifted",
        "sums_of_shifted",
        (
            "lgmdsl/bounds/logistic.py",
            "np.minimum(away, 0.0) - {|1.01 * }u.value",
            "np.where(right, {|1.01 * }u.d_mean, 1.0 - u.d_mean)",
            '"d_variance": -{|1.02 * }u.d_variance',
            "{|1.02 * }variance[index[0]], second)",
            "slopes = {|1.02 * }self.site.constant_slopes -",
        ),
    ),
    part(
        "weighted",
        "sites_with_weights",
        (
            "lgmdsl/bounds/weighted.py",
            "return weighted_expected({|1.02 * }self.weight,",
            "self.inner.expected(mean, {|1.02 * }variance,",
            "self.inner.expected({|1.02 * }mean,",
            "times({|1.02 * }self.weight, slope)",
            "made(inner, {|1.02 * }site.weight)",
        ),
    ),
    part(
        "quadrature",
        "(gaussian and natural) or propagation or in_the_parameters",
        (
            "lgmdsl/bounds/quadrature.py",
            "expected_by_quadrature(self.site, mean, {|1.02 * }variance,",
            "expected_by_quadrature(self.site, {|1.02 * }mean,",
            "tilted_by_quadrature(self.site, mean, {|1.02 * }variance,",
            "slopes_by_quadrature(self.site, mean, {|1.02 * }variance, 0.0)",
            "slopes_by_quadrature(self.site, mean, {|1.02 * }variance, power)",
        ),
    ),
    part(
        "several predictors",
        "two_predictors",
        (
            "lgmdsl/bounds/several_predictors.py",
            "ExpectedAnswer({|1.01 * }found[0],",
            "{|1.02 * }found[1 : 1 + k].T.copy()",
            "d_variance[:, *upper] = 0.5{|1}",
            "return dict(zip(names, {|1.02 * }found, strict=True))",
            "out[:, i, j, m] = {|1.05 * }values",
        ),
    ),
    part(
        "quadrature of other vector sites",
        "other_vector_sites",
        (
            "lgmdsl/bounds/vector_quadrature.py",
            "= {|1.01 * }w @ height,",
            'np.einsum("p,pnk->nk", {|1.02 * }w, slope)',
            "root = {|1.02 * }np.sqrt(np.maximum(squares",
            "g = 0.5{|1} * (g +",
            "s = {|1.02 * }mean[few] + move",
        ),
    ),
    part(
        "tilted moments of vector sites",
        "tilted_moments or two_predictors",
        (
            "lgmdsl/bounds/vector_tilted.py",
            "tilted_by_lattice(self.site, mean, {|1.02 * }variance,",
            "tilted_by_lattice(self.site, {|1.02 * }mean,",
            "tilted_by_lattice(self.site, mean, variance, {|1.02 * }power)",
            "slopes_by_lattice(self.site, mean, {|1.02 * }variance,",
            "slopes_by_lattice(self.site, {|1.02 * }mean,",
        ),
    ),
)
ENGINES = (
    part(
        "covariance",
        "test_engines and covariance",
        (
            "lgmdsl/engines/dense/covariance.py",
            "@ weighted) - {|1.01 * }factor.half_log_det",
            "- 0.5{|1} * float(self.start @ weighted)",
            "alpha = {|1.01 * }factor.residual(tilt)",
        ),
        (
            "lgmdsl/engines/dense/covariance_conditioned.py",
            "u = {|1.02 * }self.factor.inverse(t)",
            "out *= 0.5{|1}",
            "form -= {|1.02 * }self.factor.quadratic(t)",
            "radius += {|1.02 * }block.moving @ inner**2",
        ),
    ),
    part(
        "precision",
        "test_engines and precision",
        (
            "lgmdsl/engines/dense/precision.py",
            "base = 0.5{|1} * (self.log_det",
            "- 0.5{|1} * prior",
            "self._z = engine.mu + {|1.01 * }factor.solve(h)",
            "return np.asarray(0.5{|1} * out)",
            "z = self.free_mean + {|1.02 * }self.factor.backward",
            "return {|1.02 * }self.factor.solve(np.asfortranarray(rhs))",
            "return {|[1.02 * v for v in }self.engine.gram.variance(self.factor){|]}",
        ),
    ),
    part(
        "sparse",
        "test_engines and sparse",
        (
            "lgmdsl/engines/sparse/factor.py",
            "return {|1.02 * }self.restriction.solve(np.asc",
            "return np.asarray({|1.02 * }self.covariance[self.table.pattern.find",
            "return np.asarray({|1.02 * }self.covariance[self.table.pattern.on_d",
            "np.bincount(self.pairs.line, {|1.02 * }self.pairs.value * entries",
            "return np.asarray({|1.02 * }self.weight[k][line]",
            "return {|1.01 * }self.restriction.half_log_det",
            "return {|1.02 * }self.restriction.draws(rng",
        ),
    ),
    part(
        "engines that factor a precision",
        "test_engines and (sparse or nested)",
        (
            "lgmdsl/engines/shared/by_precision.py",
            "exponent -= 0.5{|1} * float(away",
            "exponent - {|1.01 * }self.half_log_det",
            "z = engine.mu + {|1.01 * }away\n",
            "values {|*= 1.02\n            values }+= away[rows]",
            "return filled(q, 0.5{|1} * values)",
            "pull = {|1.02 * }engine.prior_times(q",
        ),
        (
            "lgmdsl/engines/shared/factored.py",
            "return {|1.01 * }self.factored.mu + self.away",
            "return mean, {|1.02 * }self.factored.functional(x)",
            "square = {|1.02 * }times(x, self.factored.solve",
            "product.entries(line + first, columns + where.start) - {|1.02 * }crossed",
            "return self.latent_mean + {|1.02 * }self.factored.draws(rng, size)[0]",
        ),
    ),
    part(
        "batched",
        "test_engines and batched",
        (
            "lgmdsl/engines/grouped/batched.py",
            "a[:, index, index] += 1.0{|2}",
            "half_log_det = {|1.01 * }float(np.log",
        ),
        (
            "lgmdsl/engines/grouped/batched_factor.py",
            "square = {|1.02 * }self.own_factor",
            "centred = -0.5{|1} * float((x**2).sum())",
            "return filled(q, 0.5{|1} * values",
            "return 0.5{|1} * inner",
            "return np.asarray({|1.02 * }weighted[line",
        ),
    ),
    part(
        "wide",
        "test_engines and wide",
        (
            "lgmdsl/engines/grouped/wide.py",
            "half_log_det = {|1.01 * }float(np.log",
        ),
        (
            "lgmdsl/engines/grouped/wide_factor.py",
            "centred = -0.5{|1}",
            'out[some] -= {|1.02 * }np.einsum("gmd',
            "0.5{|1} * self.rows.summed(inner)",
            "return np.asarray(wide - {|1.02 * }self._spread_rows",
            "out = s - {|1.02 * }s @ self.c @ s",
            'form -= {|1.02 * }np.einsum("pi,pij',
        ),
    ),
    part(
        "nested",
        "test_engines and nested",
        (
            "lgmdsl/engines/nested/factor.py",
            "return {|1.01 * }self.half + self.restriction.half_log_det",
            "inner = {|1.02 * }rng.standard_normal((len(self.nest.inner), size))",
            "np.asarray({|1.02 * }self._on_border[self.border",
            "np.asarray({|1.02 * }self.covariances[0].square[",
        ),
        (
            "lgmdsl/engines/nested/kernels.py",
            "lower[s0 + a * r + b] += {|1.02 * }x",
            "cross[t0 + b * k + a - r] += {|1.02 * }x",
            "values[first + b] -= {|1.02 * }v * cross",
            "v += {|1.02 * }w * z * x",
            "border[i, c] -= {|1.02 * }v * inner",
            "inner[a0 + j, c] -= {|1.02 * }v * border",
            "v += spread[p, a] * {|1.02 * }half[q",
        ),
    ),
    part(
        "iterative",
        "iterative or lanczos",
        (
            "lgmdsl/engines/iterative/conditioned.py",
            "- 0.5{|1} * self.own_weight * m) @ m)",
            "exponent -= 0.5{|1} * float(self.delta",
            "return exponent + 0.5{|1} * normalising",
            "free = {|1.01 * }half[:, None] * root_of_inverse",
            "z[at : at + count] = self.latent_mean + {|1.02 * }samples.u.T",
            "return self.engine.prior.mu + {|1.01 * }self.delta",
        ),
        (
            "lgmdsl/engines/iterative/variance.py",
            '{|1.02 * }np.einsum("ms,ms->m", b, gain) + rest',
        ),
        (
            "lgmdsl/engines/iterative/adjoints.py",
            "return filled(precision, 0.5{|1} * values)",
        ),
    ),
)
PARTS = (*BACK_ENDS, *BOUNDS, *ENGINES)
