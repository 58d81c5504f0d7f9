"""Hyperpriors, on natural scales; `observed` holds the hyper types each one is for."""

from __future__ import annotations

from lgmdsl.vocabulary.examples import SD, grouped, model, regression, slopes, smooth
from lgmdsl.vocabulary.signature import Alias, Parameter, Signature, also

_ALPHA = Parameter("alpha", "unit", over="none", meaning="the probability beyond `u`")
_U = Parameter("u", "positive", over="none", meaning="a value in the unit of the hyper")
_RATE = Parameter("rate", "positive", meaning="one over the unit of the hyper")
_SHAPE = Parameter("shape", "positive", meaning="no unit")
_MEAN = Parameter("mean", "real", required=False, default=0.0, meaning="mean")
_SD = Parameter("sd", "positive", meaning="standard deviation")
_SCALE = Parameter("scale", "positive", meaning="in the unit of the hyper")
_DF = Parameter("df", "positive", meaning="degrees of freedom: the smaller, the heavier the tail")
_LOCATION = Parameter("location", "real", required=False, default=0.0, meaning="the median")


def _prior(
    name: str,
    types: tuple[str, ...],
    *parameters: Parameter,
    summary: str,
    formula: str,
    scale: str,
    example: str,
    see_also: tuple[str, ...],
    also_called: tuple[Alias, ...] = (),
    support: str = "x > 0",
    source: str = "",
) -> Signature:
    return Signature(
        name,
        "prior",
        parameters,
        observed=types,
        summary=summary,
        formulas=(("", formula),),
        scale=scale,
        support=support,
        example=example,
        see_also=see_also,
        also_called=also_called,
        source=source,
        without=() if source else ("source",),
    )


def _of_sd(prior: str) -> str:
    return grouped(f"hyper s : positive ~ {prior}")


def _of_slope(prior: str) -> str:
    """A real hyper: a coefficient without uncertainty of its own."""
    return model(
        "index obs",
        "data x[obs] : real",
        "data y[obs] : real",
        f"hyper b : real ~ {prior}",
        "latent a ~ normal(sd = 5)",
        "observe y ~ normal(mean = a + b * x, sd = 1)",
    )


_POSITIVE = ("positive",)
_SIMPSON = "Simpson et al. 2017"
_SORBYE = "Sorbye and Rue 2017"
_UNIVARIATE = "Johnson, Kotz and Balakrishnan 1994"

PRIORS: tuple[Signature, ...] = (
    _prior(
        "pc_sd", _POSITIVE, _U, _ALPHA,
        summary="penalised-complexity prior of a standard deviation: shrinks towards 0, with "
                "P(sd > u) = alpha",
        formula="lambda exp(-lambda sd), lambda = -log(alpha) / u",
        scale="u is a large value of the sd, in its unit; the median is u log(2) / -log(alpha), "
              "0.15 u at alpha = 0.01; R-INLA's pc.prec with the same u and alpha",
        example=_of_sd("pc_sd(u = 1, alpha = 0.01)"),
        also_called=also("R-INLA", "pc.prec"),
        see_also=("exponential", "half_normal", "half_cauchy", "lkj_cov"),
        source=f"{_SIMPSON}, section 3.3",
    ),
    _prior(
        "pc_cor0", ("correlation",),
        Parameter("u", "unit", over="none", meaning="an absolute correlation"), _ALPHA,
        summary="penalised-complexity prior of a correlation: shrinks towards 0, with "
                "P(|rho| > u) = alpha",
        formula="lambda / 2 exp(-lambda d) |dd/drho|, d = sqrt(-log(1 - rho^2)), "
                "lambda = -log(alpha) / d(u)",
        scale="u is a large absolute correlation; R-INLA's pc.cor0 with the same u and alpha",
        support="-1 < rho < 1",
        example=smooth("ar1(sd = s, rho = r)", SD,
                       "hyper r : correlation ~ pc_cor0(u = 0.5, alpha = 0.5)"),
        see_also=("pc_cor1", "ar1", "ar", "uniform"), source=f"{_SORBYE}, section 3.1",
    ),
    _prior(
        "pc_cor1", ("correlation",),
        Parameter("u", "correlation", over="none", meaning="a correlation"), _ALPHA,
        summary="penalised-complexity prior of a correlation: shrinks towards 1, with "
                "P(rho > u) = alpha",
        formula="lambda exp(-lambda d) / (1 - exp(-sqrt(2) lambda)) |dd/drho|, d = sqrt(1 - rho), "
                "lambda such that P(rho > u) = alpha",
        scale="exists for alpha > sqrt((1 - u) / 2); R-INLA's pc.cor1 with the same u and alpha",
        support="-1 < rho < 1",
        example=smooth("ar1(sd = s, rho = r)", SD,
                       "hyper r : correlation ~ pc_cor1(u = 0.5, alpha = 0.75)"),
        see_also=("pc_cor0", "ar1", "uniform"), source=f"{_SORBYE}, section 3.2",
    ),
    _prior(
        "pc_mix", ("unit",), Parameter("graph", "graph", meaning="that of the bym2"),
        Parameter("u", "unit", over="none", meaning="a share of besag"), _ALPHA,
        summary="penalised-complexity prior of the mix of a bym2: shrinks towards noise alone, "
                "with P(mix < u) = alpha",
        formula="lambda exp(-lambda d) dd/dmix, d^2 = sum_i (x_i - log(1 + x_i)), "
                "x_i = mix (g_i - 1), g the eigenvalues of the scaled besag covariance, "
                "lambda = -log(1 - alpha) / d(u)",
        scale="u is a share of the variance; R-INLA's prior of bym2's phi with the same u and "
              "alpha (the paper takes u = 0.5, alpha = 2/3)",
        support="0 < mix < 1",
        example=smooth(
            "bym2(graph = edges, sd = s, mix = m)", "data edges[region, region] : graph", SD,
            "hyper m : unit ~ pc_mix(graph = edges, u = 0.5, alpha = 0.67)", axis="region",
        ),
        also_called=also("R-INLA", "pc", note="for the mix of bym2 (phi)"),
        see_also=("bym2", "beta"), source="Riebler et al. 2016, section 3.2",
    ),
    _prior(
        "pc_range", _POSITIVE, _U, _ALPHA,
        summary="penalised-complexity prior of the range of a spatial field in the plane: shrinks "
                "towards long ranges, with P(range < u) = alpha",
        formula="lambda range^-2 exp(-lambda / range), lambda = -log(alpha) u",
        scale="u is a short distance, in the unit of the mesh; R-INLA's prior.range "
              "of inla.spde2.pcmatern with the same u and alpha",
        example=model(
            "index obs", "index node", "data y[obs] : real", "data A[obs, node] : real",
            "data C[node, node] : real", "data G[node, node] : real", SD,
            "hyper r : positive ~ pc_range(u = 2, alpha = 0.05)",
            "latent f[node] ~ spde(mass = C, stiffness = G, sd = s, range = r)",
            "observe y ~ normal(mean = A @ f, sd = 0.5)",
        ),
        also_called=also("R-INLA", "prior.range"),
        see_also=("spde", "matern", "inv_gamma"), source="Fuglstad et al. 2019, theorem 2.6",
    ),
    _prior(
        "pc_df", _POSITIVE, _U, _ALPHA,
        summary="penalised-complexity prior of the degrees of freedom of Student's t: shrinks "
                "towards the normal, with P(df < u) = alpha",
        formula="lambda exp(-lambda d) |dd/ddf|, d = sqrt(2 KLD) of the t of unit variance from "
                "the normal, lambda = -log(alpha) / d(u)",
        scale="u is a small df, above 2; R-INLA's pc.dof with the same u and alpha",
        support="df > 2",
        example=regression("student_t(mean = eta, scale = s, df = d)", SD,
                           "hyper d : positive ~ pc_df(u = 5, alpha = 0.3)"),
        also_called=also("R-INLA", "pc.dof"),
        see_also=("student_t", "gamma"), source=f"{_SIMPSON}, section 3.5",
    ),
    _prior(
        "exponential", _POSITIVE, _RATE,
        summary="exponential with a rate: shrinks a positive hyper towards 0",
        formula="rate exp(-rate x)",
        scale="the mean is 1 / rate, the median 0.69 / rate; pc_sd(u, alpha) is "
              "exponential(rate = -log(alpha) / u)",
        example=_of_sd("exponential(rate = 1)"),
        also_called=also("BUGS, JAGS", "dexp"),
        see_also=("pc_sd", "gamma", "half_normal"), source=f"{_UNIVARIATE}, chapter 19",
    ),
    _prior(
        "half_normal", _POSITIVE, _SD,
        summary="the positive half of a normal about 0: a standard deviation that is hardly ever "
                "above 2 sd",
        formula="sqrt(2 / pi) / sd exp(-x^2 / (2 sd^2))",
        scale="sd is that of the whole normal; the median is 0.67 sd, P(x > 1.96 sd) = 0.05",
        example=_of_sd("half_normal(sd = 1)"),
        also_called=(*also("R-INLA", "logtnormal"), *also("PyMC", "HalfNormal")),
        see_also=("pc_sd", "half_cauchy", "exponential"), source=f"{_UNIVARIATE}, chapter 13",
    ),
    _prior(
        "half_cauchy", _POSITIVE, _SCALE,
        summary="the positive half of a Cauchy about 0: a standard deviation with a heavy tail",
        formula="2 / (pi scale (1 + (x / scale)^2))",
        scale="scale is the median; P(x > 12.7 scale) = 0.05; it has no mean",
        example=_of_sd("half_cauchy(scale = 1)"),
        also_called=(
            *also("PyMC", "HalfCauchy"),
        ),
        see_also=("half_normal", "pc_sd", "half_student_t"),
        source="Gelman 2006; Polson and Scott 2012",
    ),
    _prior(
        "half_student_t", _POSITIVE, _SCALE, _DF,
        summary="the positive half of Student's t about 0: a standard deviation, between "
                "half_cauchy (df = 1) and half_normal (large df)",
        formula="2 Gamma((df + 1) / 2) / (Gamma(df / 2) sqrt(pi df) scale) "
                "(1 + x^2 / (df scale^2))^(-(df + 1) / 2)",
        scale="scale is near the 68 % quantile at large df; at df = 3 the median is 0.76 scale and "
              "P(x > 3.18 scale) = 0.05; brms's default for sds is scale = 2.5, df = 3",
        example=_of_sd("half_student_t(scale = 2.5, df = 3)"),
        also_called=(
            *also("PyMC", "HalfStudentT"), *also("other software", "half_t"),
            *also("glmmTMB", "t", note="of an sd"),
        ),
        see_also=("half_cauchy", "half_normal", "pc_sd", "student_t"), source="Gelman 2006",
    ),
    _prior(
        "normal", ("real", "ordered"), _MEAN, _SD,
        summary="normal: for real hypers, and for ordered ones given that the entries increase",
        formula="exp(-(x - mean)^2 / (2 sd^2)) / (sqrt(2 pi) sd); of ordered entries divided by "
                "the probability that independent ones increase",
        scale="sd is the standard deviation, never a precision",
        support="all numbers; of type ordered x_1 < x_2 < ...",
        example=model(
            "index obs", 'index score = {"poor", "fair", "good"}', "index cut = head(score)",
            "data x[obs] : real", "data y[obs] : score",
            "hyper c[cut] : ordered ~ normal(sd = 3)", "latent b ~ normal(sd = 2)",
            "observe y ~ ordinal(logit = b * x, cuts = c)",
        ),
        also_called=(*also("R-INLA", "gaussian"), *also("BUGS, JAGS", "dnorm")),
        see_also=("flat", "uniform", "lognormal"), source=f"{_UNIVARIATE}, chapter 13",
    ),
    _prior(
        "student_t", ("real",), _LOCATION, _SCALE, _DF,
        summary="Student's t for real hypers: normal in the middle, with a heavier tail",
        formula="Gamma((df + 1) / 2) / (Gamma(df / 2) sqrt(pi df) scale) "
                "(1 + (x - location)^2 / (df scale^2))^(-(df + 1) / 2)",
        scale="the sd is scale sqrt(df / (df - 2)) where df > 2; at df = 3 and location 0, "
              "P(|x| > 3.18 scale) = 0.05",
        support="all numbers",
        example=_of_slope("student_t(scale = 2.5, df = 3)"),
        also_called=(*also("PyMC", "StudentT"), *also("BUGS, JAGS", "dt")),
        see_also=("normal", "cauchy", "half_student_t"),
        source="Gelman, Jakulin, Pittau and Su 2008",
    ),
    _prior(
        "cauchy", ("real",), _LOCATION, _SCALE,
        summary="Cauchy for real hypers: the heaviest tail; it has no mean",
        formula="1 / (pi scale (1 + (x - location)^2 / scale^2))",
        scale="half of the mass lies within scale of the location; P(|x - location| > 12.7 scale) "
              "= 0.05",
        support="all numbers",
        example=_of_slope("cauchy(scale = 2.5)"),
        also_called=also("PyMC", "Cauchy"),
        see_also=("student_t", "normal", "half_cauchy"),
        source="Gelman, Jakulin, Pittau and Su 2008",
    ),
    _prior(
        "logistic", ("real",), _LOCATION, _SCALE,
        summary="logistic for real hypers: at scale 1 and location 0, a probability that is "
                "uniform on the logit scale",
        formula="exp(-z) / (scale (1 + exp(-z))^2), z = (x - location) / scale",
        scale="the sd is pi / sqrt(3) scale, 1.81 scale; of an intercept of bernoulli(logit) with "
              "scale 1 the probability is uniform between 0 and 1",
        support="all numbers",
        example=_of_slope("logistic(scale = 1)"),
        also_called=(*also("BUGS, JAGS", "dlogis"), *also("R", "logis")),
        see_also=("normal", "student_t"),
        source="Johnson, Kotz and Balakrishnan 1995, chapter 23",
    ),
    _prior(
        "lognormal", _POSITIVE, _MEAN, _SD,
        summary="a positive hyper whose logarithm is normal: away from 0, known up to a factor",
        formula="exp(-(log x - mean)^2 / (2 sd^2)) / (sqrt(2 pi) sd x)",
        scale="mean and sd are those of log x; the median is exp(mean)",
        example=_of_sd("lognormal(mean = -1, sd = 1)"),
        also_called=also("BUGS, JAGS", "dlnorm"),
        see_also=("gamma", "inv_gamma"), source=f"{_UNIVARIATE}, chapter 14",
    ),
    _prior(
        "gamma", _POSITIVE, _SHAPE, _RATE,
        summary="gamma with a shape and a rate, for positive hypers",
        formula="rate^shape x^(shape - 1) exp(-rate x) / Gamma(shape)",
        scale="the mean is shape / rate, the sd sqrt(shape) / rate; a published gamma prior of a "
              "precision is inv_gamma(shape, scale = rate) of the variance",
        example=grouped("hyper precision : positive ~ gamma(shape = 2, rate = 0.5)",
                        sd="1 / sqrt(precision)"),
        also_called=also("BUGS, JAGS", "dgamma"),
        see_also=("inv_gamma", "exponential", "lognormal"), source=f"{_UNIVARIATE}, chapter 17",
    ),
    _prior(
        "inv_gamma", _POSITIVE, _SHAPE, _SCALE,
        summary="inverse gamma, for variances (with sd = sqrt(v)) and for length scales",
        formula="scale^shape x^(-shape - 1) exp(-scale / x) / Gamma(shape): 1 / x is "
                "gamma(shape, rate = scale)",
        scale="the mean is scale / (shape - 1) where shape > 1, the mode scale / (shape + 1)",
        example=grouped("hyper v : positive ~ inv_gamma(shape = 2, scale = 1)", sd="sqrt(v)"),
        also_called=(
            *also("R-INLA", "loggamma", note="of the variance v, with sd = sqrt(v)"),
            *also("PyMC", "InverseGamma"),
        ),
        see_also=("gamma", "pc_sd", "inv_wishart"), source="Gelman et al. 2013, appendix A",
    ),
    _prior(
        "beta", ("unit",), Parameter("a", "positive", meaning="weight of 1"),
        Parameter("b", "positive", meaning="weight of 0"),
        summary="beta: for hypers between 0 and 1, such as probabilities and shares",
        formula="x^(a - 1) (1 - x)^(b - 1) / B(a, b)",
        scale="the mean is a / (a + b), the variance mean (1 - mean) / (a + b + 1); uniform at "
              "a = b = 1",
        support="0 < x < 1",
        example=smooth(
            "car(graph = edges, sd = s, alpha = a)", "data edges[region, region] : graph", SD,
            "hyper a : unit ~ beta(a = 4, b = 1)", axis="region",
        ),
        also_called=(*also("R-INLA", "logitbeta"), *also("BUGS, JAGS", "dbeta")),
        see_also=("uniform", "dirichlet", "pc_mix"), source="Gelman et al. 2013, appendix A",
    ),
    _prior(
        "uniform", ("real", "positive", "unit", "correlation"),
        Parameter("lower", "real", meaning="the least value"),
        Parameter("upper", "real", meaning="the largest value"),
        summary="uniform between two bounds, as far as the hyper's type goes",
        formula="1 / (upper - lower) between the bounds",
        scale="bounds in the unit of the hyper, on its natural scale: of an sd, not of its "
              "logarithm",
        support="lower < x < upper, within the type",
        example=_of_sd("uniform(lower = 0, upper = 5)"),
        also_called=(*also("BUGS, JAGS", "dunif"), *also("R", "unif")),
        see_also=("flat", "beta"), source="Johnson, Kotz and Balakrishnan 1995, chapter 26",
    ),
    _prior(
        "lkj_cov", ("covariance",),
        Parameter("eta", "positive", over="none", meaning="1 is flat over correlations"),
        Parameter("u", "positive", meaning="a large sd: one number, or one for each member"),
        _ALPHA,
        summary="covariance matrix by its parts: LKJ for the correlations, and for each standard "
                "deviation a penalised-complexity prior with P(sd > u) = alpha",
        formula="c |R|^(eta - 1) prod_k lambda_k exp(-lambda_k sd_k), "
                "S = diag(sd) R diag(sd), lambda_k = -log(alpha) / u_k",
        scale="a density of the sds and correlations, not of the entries of S; eta above 1 pulls "
              "correlations towards 0; eta is that of Stan's lkj_corr and of brms's lkj",
        support="positive definite matrices",
        example=slopes("lkj_cov(eta = 2, u = 2, alpha = 0.05)"),
        also_called=(
            *also("brms", "lkj"), *also("Stan", "lkj_corr lkj_corr_cholesky"),
            *also("PyMC", "LKJCholeskyCov"),
        ),
        see_also=("inv_wishart", "dense", "pc_sd", "graphical_lasso"),
        source="Lewandowski, Kurowicka and Joe 2009, eq. 16",
    ),
    _prior(
        "inv_wishart", ("covariance",),
        Parameter("df", "positive", over="none", meaning="degrees of freedom"),
        Parameter("scale", "covariance", meaning="its own scale matrix"),
        summary="inverse Wishart: the prior of published models with a Wishart precision",
        formula="|scale|^(df/2) |S|^(-(df + k + 1)/2) exp(-tr(scale S^-1)/2) / "
                "(2^(df k/2) Gamma_k(df/2))",
        scale="df > k - 1; the mean is scale / (df - k - 1) where df > k + 1; the precision S^-1 "
              "is Wishart with df and scale^-1 (BUGS's dwish(R, df) has R = scale)",
        support="positive definite matrices",
        example=slopes("inv_wishart(df = 4, scale = Psi)", "data Psi[term, term] : real"),
        also_called=(
            *also("R-INLA", "wishartkd wishart2d", note="of the covariance"),
            *also("Stan", "wishart", note="of the covariance"),
            *also("BUGS, JAGS", "dwish", note="of the covariance"),
        ),
        see_also=("lkj_cov", "dense", "inv_gamma"), source="Gelman et al. 2013, appendix A",
    ),
    _prior(
        "dirichlet", ("simplex",), Parameter("alpha", "positive", meaning="weight of each entry"),
        summary="Dirichlet: for probabilities that add up to 1 over the last index",
        formula="Gamma(sum_k alpha_k) prod_k p_k^(alpha_k - 1) / Gamma(alpha_k)",
        scale="the mean of p_k is alpha_k / sum alpha; 1 is uniform, below 1 sparse",
        support="p_k > 0, sum_k p_k = 1",
        example=model(
            "index letter", "index word", "index topic = 2", "data n[letter, word] : count",
            "hyper beta[topic, word] : simplex ~ dirichlet(alpha = 1.1)",
            "latent z[letter, topic] ~ normal(sd = 1)",
            "observe n ~ admixture(softmax = z, emission = beta)",
        ),
        also_called=also("BUGS, JAGS", "ddirch"),
        see_also=("beta", "admixture", "simplex"), source="Gelman et al. 2013, appendix A",
    ),
    _prior(
        "graphical_lasso", ("covariance",),
        Parameter("rate", "positive", over="none", meaning="the larger, the more zeros"),
        summary="Laplace on the entries of the precision matrix: partial correlations that are "
                "exactly zero at the maximum (hyper em or map)",
        formula="proportional to exp(-rate/2 sum_ij |P_ij|), P = S^-1 positive definite",
        scale="a density of the precision P, without the Jacobian of the inverse; the graphical "
              "lasso's penalty rho of n observations is rate / n",
        support="positive definite matrices",
        example=slopes("graphical_lasso(rate = 1)"),
        see_also=("lkj_cov", "inv_wishart", "em"), source="Wang 2012, eq. 1",
    ),
    _prior(
        "flat",
        ("real", "positive", "unit", "correlation", "covariance", "simplex", "ordered"),
        summary="density 1 on the natural scale; improper where the range has no end",
        formula="1",
        scale="flat on the scale of the hyper itself (of an sd, not of its logarithm or of the "
              "variance); map and em then maximise the likelihood",
        support="every value of the hyper's type",
        example=_of_sd("flat"),
        also_called=also("brms", "improper"),
        see_also=("uniform", "normal", "map"), source="Gelman et al. 2013, section 2.8",
    ),
)  # fmt: skip
