"""What a fit says of its model: information criteria, cross-validation, replicated responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lgmdsl.api.answering import answering
from lgmdsl.dataset import Keys
from lgmdsl.posterior.fit_record import FitRecord

if TYPE_CHECKING:
    import xarray as xr

    from lgmdsl.api.assess.convergence import Convergence
    from lgmdsl.api.assess.criteria import Dic, Waic
    from lgmdsl.api.assess.loo import Loo
    from lgmdsl.api.assess.pit import Pit
    from lgmdsl.workers.task import Jobs


class Assessable(FitRecord):
    """The methods of `Fit` that look at its observed data. A fit read from a file needs its `data`
    again for each of them (`mapping` renames keys): DataError E305 without, E303 for other data;
    MethodError E501 where nothing is observed, or variances are estimates. Where the posterior is
    made of exact draws (`fit.drawn`), all of them but `convergence` are averages over these draws,
    with their Monte Carlo errors."""

    @answering("computing the DIC")
    def dic(self, data: object = None, mapping: Keys | None = None) -> Dic:
        """Deviance information criterion, with the plug-in deviance at the posterior mean of the
        predictors, as in R-INLA."""
        from lgmdsl.api.assess.criteria import dic

        return dic(self, data, mapping)

    @answering("computing the WAIC")
    def waic(self, data: object = None, mapping: Keys | None = None) -> Waic:
        """Widely applicable information criterion, by quadrature over q's marginals, or over the
        exact draws that are reported."""
        from lgmdsl.api.assess.criteria import waic

        return waic(self, data, mapping)

    @answering("leaving responses out")
    def loo(
        self,
        groups: object = None,
        exact: bool | str = False,
        n: int = 4096,
        seed: int = 0,
        data: object = None,
        mapping: Keys | None = None,
        jobs: Jobs = None,
    ) -> Loo:
        """Leave-one-out predictive densities ``log p(y_i | y_-i)``, from q without the site of y_i.

        Unreliable values are flagged; `exact=True` fits again without each response that is
        flagged, by the same method, `exact="all"` without each. Hyperparameters that were
        integrated have the posterior that they have without the response: the points of the fit are
        reweighted where that moves them little, and new ones are searched for where it does not
        (where even these do not explain the response, its value is the difference of both log
        evidences); after `map` hyperparameters stay at the mode.
        `groups` leaves out all responses of a group together: the name of an index set or of a map
        to one, or an array with a label for each entry. A group's joint density is exact for
        Gaussian families, else by up to `n` quasi-random points, with its Monte Carlo error.

        Where the posterior is made of exact draws (`fit.drawn`), they are reweighted instead, the
        weights smoothed by a generalised Pareto distribution (PSIS: Vehtari, Gelman and Gabry
        2017), and flagged where its shape k-hat passes 0.7 or their Monte Carlo error, times the
        weight of the row, 0.05; `exact` then draws exactly from fits without them: of up to 24
        latents from all modes, else around the one that the method finds.

        `jobs` shares the fits of `exact` (without it none is made): a number of processes, the
        address of a Dask scheduler, a Dask Client, or any executor, as in `lgm.fit`; the bits are
        the same.
        """
        from lgmdsl.api.assess.loo import loo

        return loo(self, groups, exact, n, seed, data, mapping, jobs)

    @answering("computing transforms")
    def pit(self, exact: bool = False, data: object = None, mapping: Keys | None = None) -> Pit:
        """Leave-one-out probability integral transforms ``P(Y_i <= y_i | y_-i)``; of a discrete or
        censored response a range, within which it is spread evenly; `exact` as in `loo`."""
        from lgmdsl.api.assess.pit import pit

        return pit(self, exact, data, mapping)

    @answering("examining convergence")
    def convergence(self, data: object = None, mapping: Keys | None = None) -> Convergence:
        """How fast the fit converged: the rate of its run, and for methods that are a map
        (px-vb) the spectral radius of a round at the limit, with and without the expansion, by
        finite differences on up to 500 sites.

        Raises MethodError E501 for such a method's fit that did not converge.
        """
        from lgmdsl.api.assess.convergence import convergence

        return convergence(self, data, mapping)

    @answering("drawing responses")
    def sample_predictive(
        self,
        size: int,
        seed: int | None = None,
        data: object = None,
        mapping: Keys | None = None,
    ) -> xr.Dataset:
        """Replicated responses: posterior predictive draws of each observed datum, with a leading
        axis `sample`; NaN where an entry is missing. The same seed gives the same digits.

        Raises NumericalError E602 where a family cannot be drawn at such extreme predictors.
        """
        from lgmdsl.api.assess.predictive import sample_predictive

        return sample_predictive(self, size, self._seed(seed), data, mapping)

    @answering("handing the fit to ArviZ")
    def to_arviz(
        self,
        size: int = 1000,
        seed: int | None = None,
        data: object = None,
        mapping: Keys | None = None,
        prior: int = 0,
    ) -> xr.DataTree:
        """The fit as ArviZ reads it: an xarray.DataTree with `size` joint draws in one chain.

        Groups: posterior (latents, lets, reports, hypers), posterior_predictive, log_likelihood
        (each response), observed_data, constant_data; with `prior` draws also prior (of the same
        names) and prior_predictive. ArviZ itself is not needed for it; its `loo`, `compare` and
        plots take it as it is. Raises ModelError E402 for draws of an improper prior, MethodError
        E503 where a hyperparameter's cannot be drawn from.
        """
        from lgmdsl.api.assess.arviz import to_arviz

        return to_arviz(self, size, self._seed(seed), data, mapping, prior)

    def _seed(self, seed: int | None) -> int:
        return self.seed if seed is None else seed
