"""A fit as frames: the methods of `Fit` that return tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from lgmdsl.api.answering import answering
from lgmdsl.api.columns import LEVELS, FrameLibrary
from lgmdsl.dataset import Keys
from lgmdsl.posterior.fit_record import FitRecord

if TYPE_CHECKING:
    import pandas as pd


DegreesOfFreedom = Literal["satterthwaite", "kenward-roger"]


class Framed(FitRecord):
    """The methods of `Fit` that return frames: of pandas, or of polars (`backend="polars"`). Each
    raises MethodError: E104 for another backend, E501 where its library is not installed."""

    @answering("making a table of the fit")
    def tidy(
        self,
        names: Sequence[str] | None = None,
        quantiles: Sequence[float] | None = LEVELS,
        backend: FrameLibrary = "pandas",
        df: DegreesOfFreedom | None = None,
        data: object = None,
        mapping: Keys | None = None,
    ) -> pd.DataFrame:
        """One row for each number that was estimated, hyperparameters first.

        Columns: `term` (`u[m1]`), `name` (`u`), `kind` (hyper, latent, let or report), one for each
        index (`g`; `feat_2` for a repeated one, `term_2` for one of the name of another column)
        with the label, None where the row has no such index; `mean`, `sd`, and quantiles `q5`,
        `q50`, `q95` (other `quantiles`: `q2.5`; `()`: none).

        `names`: those that are wanted; else all hypers and latents, and the reports that do not run
        over the rows of the data (those are columns of `augment`). Raises ModelError: E103 for an
        unknown name, E108 for probabilities out of range.

        `df`, "satterthwaite" or "kenward-roger": t-tests of coefficients, as `summary(fit, ddf)` of
        R's lmerTest. Coefficients are latents with a `flat` prior in a model of Gaussian responses
        whose hyperparameters were maximised (`hyper="map"`), which is restricted likelihood (REML).
        Rows are those latents, and the reports (lets, if they are named) that are affine in them
        alone, but for entries that constraints fix; `mean` and `sd` (the standard error, by Kenward
        and Roger the adjusted one) are followed by `df`, `statistic` = mean / sd, the two-sided
        `p_value`, and quantiles are those of t. Degrees of freedom are infinite where no estimated
        hyperparameter enters the standard error. A fit read from a file needs its `data` for them
        (`mapping` renames keys): DataError E305 without, E303 for other data. Raises MethodError:
        E501 where these conditions do not hold, for a named latent that is no coefficient, and for
        Kenward-Roger where the covariance of the responses is no sum of variance components; E505
        where its matrices, of rows by rows, do not fit into memory. Giesbrecht and Burns (1985);
        Kenward and Roger (1997).
        """
        from lgmdsl.api.frames.tidy import tidy

        return tidy(self, names, quantiles, backend, df, data, mapping)

    @answering("profiling the likelihood")
    def profile(
        self,
        names: Sequence[str] | None = None,
        level: float = 0.95,
        data: object = None,
        mapping: Keys | None = None,
        backend: FrameLibrary = "pandas",
    ) -> pd.DataFrame:
        """Profile-likelihood intervals of hyperparameters that were maximised (`hyper="map"` or
        `"em"`), as `confint(fit, method="profile")` of R's lme4: one row for each number.

        An interval holds the values v for which the maximum over all other hyperparameters, with
        this one at v, is at most half the chi-square quantile of one degree of freedom below the
        overall maximum (1.92 nats for a level of 0.95). What is maximised is evidence + log prior,
        which under flat priors is the log likelihood; of coefficients declared `hyper b : real ~
        flat` these are the intervals of maximum likelihood.

        Columns: `term` (`s`, `b[north]`; of a covariance S `sd(S[a])` and `correlation(S[a, b])`),
        `name`, `estimate`, `lower`, `upper` and `note`, empty where both ends were found. An end
        at the end of the range (an sd of 0 that the data do not exclude) is that number, and the
        note says so. An end that was not found is NaN, and the note says why; so do both ends of
        what has no profile: entries of simplices and of ordered hyperparameters, and what has a
        prior with corners or with other hyperparameters in it.

        `names`: hyperparameters, by default all that were learned. A fit read from a file needs its
        `data` (`mapping` renames keys): DataError E305 without, E303 for other data. Raises
        ModelError E103 for an unknown name, E108 for a level out of range; MethodError E501 where
        hyperparameters were not maximised, or were given.

        Bates, Maechler, Bolker and Walker (2015), section 5.1.
        """
        from lgmdsl.api.frames.profile import profile

        return profile(self, names, level, data, mapping, backend)

    @answering("looking at the smooths")
    def smooths(
        self,
        test: bool = False,
        check: bool = False,
        concurvity: bool = False,
        data: object = None,
        mapping: Keys | None = None,
        seed: int = 0,
        backend: FrameLibrary = "pandas",
    ) -> pd.DataFrame:
        """One row for each smooth: a `spline` or `tensor_spline`, a latent of `rw1` or `rw2`, and
        each of the curves of a product with `iid`.

        Columns: `name` (`f`), `labels` of the member that has this curve ("" where there is one),
        `edf`, the effective degrees of freedom: tr F over its coefficients, F = Cov(z) B'WB, 1 for
        a straight line, at most `size - 1`; and `sd`, the posterior mean of its typical size. Where
        hyperparameters were integrated, `edf` is the average over them. The edf of all latents
        together is the p_D of a Gaussian model.

        `test`: columns `statistic`, `ref_df` and `p_value` of the hypothesis that the smooth is
        zero, as in `summary(gam)` of R's mgcv, given the hyperparameters at their mode. Divided by
        `ref_df` the statistic is mgcv's F, where the sd of Gaussian responses was learned; else it
        is its Chi.sq. The p value is approximate: it takes the smoothing for known. Raises
        MethodError E505 where the matrices of a test do not fit into memory. Wood (2013, Biometrika
        100, 221-228 and 1005-1010); Wood (2017), section 6.12.

        `check`: columns `k`, how many coefficients there are, `k_index` and `k_p_value`, as in
        `k.check` of mgcv. The index is the mean square of the differences of residuals that are
        next to one another along the smooth, halved, over their mean square: about 1, and below it
        where they follow one another. The p value is the share of 1,000 permutations (`seed`) with
        a smaller one. A small one with an edf near k calls for a larger `size`. Residuals are (y -
        mean) / sd given the hyperparameters at their mode; of more than 5,000 rows so many are
        chosen. NaN where no response with residuals has the smooth in its predictor, or rows do
        not say which member they have. A fit read from a file needs its `data` (`mapping` renames
        keys): DataError E305 without, E303 for other data.

        `concurvity`: how much of the smooth all else in the predictors could stand in for, from 0
        to 1: `concurvity_worst`, of the curve of its basis for which that is most, and
        `concurvity_observed`, of its posterior mean, as in `concurvity` of mgcv; and
        `concurvity_average`, over its basis (mgcv's `estimate` is such an average that depends on
        the coordinates of the basis). A random effect with a member for each row can stand in for
        anything. Raises MethodError E505 where its matrices do not fit into memory.
        """
        from lgmdsl.api.columns import frame_library, frame_of
        from lgmdsl.api.summary.smooths import smooth_columns

        frame_library(backend)
        columns = smooth_columns(self, test)
        if check or concurvity:
            from lgmdsl.api.frames.smooth_checks import check_columns, concurvity_columns

            columns |= check_columns(self, data, mapping, seed) if check else {}
            columns |= concurvity_columns(self, data, mapping) if concurvity else {}
        return frame_of(columns, backend)

    @answering("computing the curve of a smooth")
    def curve(
        self,
        name: str,
        at: object = None,
        derivative: int = 0,
        contrast: object = None,
        level: float = 0.95,
        n: int = 10_000,
        seed: int = 0,
        backend: FrameLibrary = "pandas",
    ) -> pd.DataFrame:
        """A `spline` of one covariate along it, or its slope, with pointwise intervals and a
        simultaneous band; of a product with `iid` each of its curves, or their differences.

        `at`: positions, in units of the covariate, (G,), by default 100 in equal steps over the
        range of the fitted ones. `derivative`: 0, or 1 or 2 for df/dx and d2f/dx2, exactly.

        Columns: a label for each other index of the latent (`g`), `at`, `estimate` (posterior
        mean), `sd`, `lower` and `upper`, the ends of the interval with probability `level` at each
        position by itself, and `band_lower`, `band_upper`: with that probability the whole curve
        lies between them, at all positions of `at` together. The band is estimate +- c sd, c the
        quantile of the largest distance in sds over `n` joint draws (`seed`; 0: no band).

        `contrast`, of a latent of several curves: ("a", "b") is f_b - f_a, "reference" each less
        the first, "pairwise", "sequential"; the column `contrast` ("b - a") takes the place of
        labels. Curves sum to zero over the members of their axis, so that differences leave out
        what the levels differ by on average.

        Moments are exact (curves are linear in their coefficients), averaged over hyperparameters
        where these were integrated, and the same as those of `fit.predict`. Of a fit whose
        posterior is made of draws everything is of these draws.

        Raises ModelError: E103 for an unknown name, E302 for an unknown label, E108 for other
        positions, derivatives, contrasts and levels; MethodError E501 for what is no spline of one
        covariate, E505 where draws do not fit into memory. Ruppert, Wand and Carroll (2003),
        section 6.5; as `derivatives`, `smooth_estimates` and `difference_smooths` of R's gratia.
        """
        from lgmdsl.api.columns import frame_library, frame_of
        from lgmdsl.api.frames.curve import CurveSettings, curve_columns

        frame_library(backend)
        asked = CurveSettings(at, derivative, contrast, level, n, seed)
        return frame_of(curve_columns(self, name, asked), backend)

    @answering("making a table of the data")
    def augment(
        self,
        data: object = None,
        mapping: Keys | None = None,
        response: str | None = None,
        loo: bool = True,
        backend: FrameLibrary = "pandas",
    ) -> pd.DataFrame:
        """One row for each row of the data.

        Columns: the labels of the row; the columns of `data` where they are given, else the data of
        the model over these rows; for lets and reports NAME_mean and NAME_sd; for the response y
        y_mean and y_sd (the predictive distribution of another y at the same row), y_residual = y -
        y_mean (NaN where y is censored, which y_censored then says), and with `loo` y_loo = ``log
        p(y_i | y_-i)`` and y_loo_flag, why that is unreliable (neither where residuals are
        correlated). Of classes y_probability is P(the class that was observed), without a residual.
        Missing responses have NaN.

        `response`: which one, where several are observed; else the one of most rows. A fit read
        from a file needs its `data` (`mapping` renames keys): DataError E305 without, E303 for
        other data. Raises ModelError E103 for an unknown response, and what `fit.loo` raises.
        """
        from lgmdsl.api.frames.augment import augment

        return augment(self, data, mapping, response, loo, backend)

    @answering("making a table of the fit")
    def glance(
        self,
        data: object = None,
        mapping: Keys | None = None,
        criteria: bool = True,
        backend: FrameLibrary = "pandas",
    ) -> pd.DataFrame:
        """One row: `method`, `hyper`, `status`, `converged`, `observations`, `latents`,
        `log_evidence`, `log_evidence_corrected`, `guarantee`; with `criteria` `dic`, `p_d`, `waic`,
        `p_waic`, `elpd_loo`, `elpd_loo_se`, `p_loo`, `loo_flagged`; `accuracy_mean`, `_sd`,
        `_evidence`, `_worst`, `_basis` (`fit.accuracy`); `points`, `fits`, `steps`, `seconds`.

        Criteria are NaN where they are not defined, and of a fit read from a file without its
        `data` (`mapping` renames keys).
        """
        from lgmdsl.api.frames.glance import glance

        return glance(self, data, mapping, criteria, backend)

    @answering("computing survival curves")
    def survival(
        self,
        times: object,
        newdata: object = None,
        mapping: Keys | None = None,
        response: str | None = None,
        quantiles: Sequence[float] | None = LEVELS,
        n: int = 4000,
        seed: int = 0,
        backend: FrameLibrary = "pandas",
    ) -> pd.DataFrame:
        """Survival curves and hazards of a positive response: P(Y > t) and f(t) / P(Y > t) at some
        times, one row for each row of `newdata` (of the data of the fit without) and each time.

        Columns: the labels of the row (`obs`), the columns of `newdata`, `time`; `survival_mean`,
        `survival_sd` and quantiles `survival_q5`, `survival_q50`, `survival_q95` (others by
        `quantiles`, `()`: none) over the posterior of latents and hyperparameters, by `n` joint
        draws; `hazard_mean`, ... likewise, per unit of time. `survival_mean` is the predictive
        P(Y > t). Events, censoring and entries of the rows play no part: curves begin at time 0.

        `times`: numbers from 0 in the unit of the response; `response`: which one, where several
        positive ones are observed. Raises ModelError E108 for other times, MethodError E501 where
        no positive response is observed, and what `fit.predict` raises for the new data.
        """
        from lgmdsl.api.frames.survival import survival

        return survival(self, times, newdata, mapping, response, quantiles, n, seed, backend)

    @answering("computing effects")
    def effects(
        self,
        name: str,
        by: str | None = None,
        kind: str = "average",
        contrast: object = None,
        compare: str = "difference",
        scale: str = "response",
        response: str | None = None,
        data: object = None,
        mapping: Keys | None = None,
        without: Sequence[str] = (),
        quantiles: Sequence[float] | None = LEVELS,
        n: int | None = None,
        seed: int = 0,
        backend: FrameLibrary = "pandas",
        df: DegreesOfFreedom | None = None,
    ) -> pd.DataFrame:
        """What a covariate does to the expected response: slopes, comparisons and contrasts, with
        their posterior.

        `name`: a covariate; a matrix, or a column of one (`X[age]`, or `age` where one matrix was
        made of that column). Columns by contrasts (`X=contrasts(region)`) are compared by their
        levels, as maps are: `region`, `X[region]`; `X[region[south]]` is that level alone, less the
        base, or of sum contrasts less the mean of the levels (`eff` of R's emmeans). A column of
        the table changes in all terms that it is in (`X=age*contrasts(region)`, `poly(age, 2)`).

        Columns: `term` (`x`; `X[age]` of the columns of a matrix), `contrast` in words, the label
        of `by`, the class where the response is one, `estimate` (posterior mean), `sd` and
        quantiles (`quantiles=()`: none).

        With m(x) = E[y | x, latents, hyperparameters] of a row (a probability for binary data; one
        for each class), the covariate set to x in that row and all else as it is:

        - `contrast=None`: the slope dm/dx of numbers (a central difference over 1e-4 of the range
          of x; over 1/50 where x are positions of a latent, as of a Gaussian process), m(1) - m(0)
          of 0/1 data, each label less the first of maps;
        - a number d: m(x + d) - m(x); (a, b): m(b) - m(a); "sd": m(x + sd/2) - m(x - sd/2); "iqr",
          "minmax": between the quartiles, or the ends, of the data; of maps "reference" (None),
          "pairwise", "sequential" or ("a", "b"); "levels": m itself at each value, not compared;
        - `compare="ratio"`: the ratio of averages instead of the difference; of slopes the relative
          slope d log m / dx;
        - `scale="link"`: the same of the linear predictor.

        `kind` says of which rows:

        - "average": the average over the rows of the data (or of `data`), as in `avg_slopes`,
          `avg_comparisons` and, for "levels", `avg_predictions(variables=)` of R's marginaleffects;
        - "conditional": one row, at the means of numbers (whole numbers rounded) and the most
          frequent value of 0/1 data, maps and columns by contrasts, as its
          `comparisons(newdata = "mean")`;
        - "balanced": the average with equal weights over all combinations of the values of these,
          numbers at their means: the reference grid of R's emmeans, whose marginal means are
          contrast="levels" (with scale="link" what it reports by default).

        `by`: a map, a datum or an index of the rows; averages over the rows of each group, or a
        reference row for each. Members of groups keep their fitted effects, except those of
        latents in `without`, which are 0 (`re.form = NA` in R). Data computed from x (x^2 in
        another column) do not follow it: write that in the model.

        Identity links and `scale="link"` have exact moments and quantiles (a mixture of normals),
        log links exact moments (sums of lognormals, of up to 3,000 rows of both levels together)
        and, where the covariate changes all rows alike, exact ratios. All else is from `n` joint
        draws (by default 4,000, or all of which the posterior is made; fewer of very many rows, at
        least 400), whose Monte Carlo error is sd / sqrt(n); a `lgm.PredictionWarning` (W611) says
        where they are too few for an sd, by 4 % as a standard error, and where an sd in closed form
        rests on a predictor whose posterior is not Gaussian. Raises ModelError
        E103 for an unknown name, E108 for a contrast that the covariate cannot have; MethodError
        E501 where the prior of a latent is built on it and the rows do not name its members.

        `df`, "satterthwaite" or "kenward-roger": t-tests of effects that are affine in coefficients
        alone, with the columns `df`, `statistic` and `p_value` after `sd`, and t-quantiles, as in
        `tidy`, with its conditions; averages that other latents enter leave these out by `without`.
        Of a fit read from a file `data` are those of the fit, which it needs. Raises MethodError
        E501 for other effects, DataError E305 and E303 for a file's fit without its data.
        """
        from lgmdsl.api.columns import frame_library, frame_of
        from lgmdsl.api.effects.effects import EffectSettings, effect_columns

        frame_library(backend)  # before anything is computed
        asked = EffectSettings(
            by, kind, contrast, compare, scale, response, without, quantiles, n, seed, df
        )
        columns = effect_columns(self, name, asked, data, mapping)
        return frame_of(columns, backend)
