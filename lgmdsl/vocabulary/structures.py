"""Prior structures of latents: one for each axis, or `normal` and `flat` for a whole block; and the
kernels of Gaussian processes."""

from __future__ import annotations

from dataclasses import replace

from lgmdsl.vocabulary.examples import SD, grouped, model, process, slopes, smooth, sparse
from lgmdsl.vocabulary.signature import (
    Alias,
    Basis,
    Mixed,
    Parameter,
    Signature,
    Spacing,
    Trait,
    also,
)

_SD = Parameter(
    "sd", "positive", over="none", meaning="scale, in the unit of the latent (see scale)"
)
_SDS = replace(
    _SD,
    over="member",
    meaning="scale, in the unit of the latent (see scale): one, or one for each member",
)
_GRAPH = Parameter("graph", "graph", over="axis", meaning="pairs of neighbours among the members")
_AT = Parameter(
    "at",
    "real",
    required=False,
    over="axis",
    meaning="the position of each member, in place of its label",
)
_WALK = (
    _SD,
    Parameter(
        "cyclic",
        "bool",
        required=False,
        default=False,
        meaning="whether the last member is followed by the first",
    ),
    _AT,
    Parameter(
        "sum_to_zero",
        "bool",
        required=False,
        default=True,
        meaning="whether the level is fixed by a sum of zero",
    ),
)
_ON_A_LINE = Spacing("positions", at="at", circle="cyclic")
_IN_STEPS = Spacing("steps")
_TYPICAL = (
    "sd is the typical marginal size: the geometric mean of the marginal standard deviations{rest}"
)
_MARGINAL = "sd is the stationary marginal standard deviation"


def _steps(rest: str, size: str, closed: str = "") -> str:
    """The convention of a scaled random walk, and the sd of its steps."""
    about = f"sd of a step = sd / sqrt(c), of n equal steps c is about {size}"
    circle = f" ({closed} where cyclic)" if closed else ""
    return (
        f"{_TYPICAL.format(rest=rest)}; {about}{circle}; R-INLA with scale.model = TRUE has "
        "precision 1 / sd^2, without it c / sd^2"
    )


def _structure(
    name: str,
    *parameters: Parameter,
    summary: str,
    formula: str,
    scale: str,
    example: str,
    see_also: tuple[str, ...],
    also_called: tuple[Alias, ...] = (),
    support: str = "all numbers",
    source: str = "",
    spacing: Spacing | None = None,
    whole: bool = False,
    carries: tuple[str, ...] = ("sd",),
    traits: Trait = Trait.NONE,
    mixed: Mixed | None = None,
    basis: Basis | None = None,
) -> Signature:
    return Signature(
        name,
        "structure",
        parameters,
        ordered_axis=spacing is not None,
        whole=whole,
        summary=summary,
        spacing=spacing or Spacing(),
        traits=traits,
        mixed=mixed,
        basis=basis,
        carries_scale=tuple(s for s in carries if any(p.name == s for p in parameters)),
        formulas=(("", formula),),
        scale=scale,
        support=support,
        example=example,
        see_also=see_also,
        also_called=also_called,
        source=source,
        without=() if source else ("source",),
    )


STRUCTURES: tuple[Signature, ...] = (
    _structure(
        "normal",
        Parameter("mean", "real", required=False, default=0.0, meaning="mean of each entry"),
        Parameter("sd", "positive", meaning="standard deviation of each entry"),
        whole=True, traits=Trait.INDEPENDENT,
        summary="independent normal entries, a block of any shape",
        formula="z_i ~ N(mean, sd^2), independent: K = diag(sd^2)",
        scale="sd is the standard deviation of each entry, a number or one for each; the precision "
              "of R-INLA's iid is 1 / sd^2",
        example=grouped(SD),
        also_called=(
            *also("R-INLA", "iid linear clinear"),
            *also("R-INLA", "z", note="with the term Z @ u of the predictor"),
            *also("mgcv", "re"), *also("glmmTMB", "diag homdiag"), *also("R", "gaussian"),
        ),
        see_also=("iid", "flat", "dense", "pc_sd"),
    ),
    _structure(
        "iid", traits=Trait.IDENTITY | Trait.INDEPENDENT,
        summary="the identity factor of a product: independent along its axis, with unit scale",
        formula="K = I",
        scale="unit variance: another factor of the product carries the scale, or the entries are "
              "standard normal",
        example=slopes("lkj_cov(eta = 2, u = 2, alpha = 0.05)"),
        see_also=("normal", "dense", "flat"),
    ),
    _structure(
        "flat", whole=True, traits=Trait.IMPROPER | Trait.INDEPENDENT,
        summary="improper block of density 1, of any shape, for what the data determine alone",
        formula="p(z) = 1: Q = 0",
        scale="no scale; the log evidence depends on the unit of the latent, as its density is 1",
        example=sparse("laplace(scale = s)", SD),
        also_called=(*also("brms", "improper"), *also("BUGS, JAGS", "dflat")),
        see_also=("normal", "potential"),
    ),
    _structure(
        "compound", _SDS,
        Parameter("rho", "correlation", over="none", meaning="correlation of any two members"),
        summary="compound symmetry: any two members are equally correlated",
        formula="K_ii = sd^2, K_ij = sd^2 rho, -1 / (n - 1) < rho < 1 of n members",
        scale="sd is the marginal standard deviation, a number or one for each member; with "
              "rho >= 0 it is a shared effect of sd sqrt(rho) and noise of sd sqrt(1 - rho)",
        example=model(
            "index person", 'index item = {"a", "b", "c"}', "data y[person, item] : count", SD,
            "hyper r : correlation ~ uniform(lower = -0.5, upper = 1)",
            "latent level ~ normal(sd = 5)",
            "latent f[person, item] ~ iid * compound(sd = s, rho = r)",
            "observe y ~ poisson(log_rate = level + f)",
        ),
        also_called=(
            *also("glmmTMB", "homcs"), *also("glmmTMB", "cs", note="with `sd` over the axis"),
            *also("nlme", "corCompSymm", note="of a latent that is the residual"),
        ),
        see_also=("dense", "ar1", "toeplitz", "normal"),
        source="Pinheiro and Bates 2000, section 5.3.1",
    ),
    _structure(
        "dense",
        Parameter("cov", "covariance", over="axis", meaning="covariance over the axis"),
        carries=("cov",), traits=Trait.COVARIANCE,
        summary="any covariance matrix over the axis, given or learned",
        formula="z ~ N(0, cov)",
        scale="the covariance as it is: sds are the square roots of its diagonal",
        example=slopes("lkj_cov(eta = 2, u = 2, alpha = 0.05)"),
        also_called=(
            *also("R-INLA", "iidkd iid2d", "iid * dense(cov = S)"),
            *also("glmmTMB", "us", "iid * dense(cov = S)"),
            *also("nlme", "corSymm", "iid * dense(cov = S)", note="with variances in S"),
            *also("Stan", "multi_normal multi_normal_cholesky"),
            *also("PyMC", "MvNormal multivariate_normal"), *also("BUGS, JAGS", "dmnorm"),
        ),
        see_also=("lkj_cov", "inv_wishart", "iid", "gmrf"),
    ),
    _structure(
        "known",
        Parameter("covariance", "matrix", one_of="matrix", over="axis",
                  meaning="symmetric, positive semi-definite, up to the scale"),
        Parameter("precision", "matrix", one_of="matrix", over="axis",
                  meaning="its inverse in place of it, which may be sparse"),
        _SD,
        summary="known covariance over the axis up to its scale: relationships of animals, species",
        formula="K = sd^2 covariance, or Q = precision / sd^2",
        scale="sd multiplies the matrix's own scale: with a diagonal of 1 it is the marginal "
              "standard deviation; sd^2 is the factor of glmmTMB's propto",
        example=model(
            "index obs", "index animal", "data who[obs] : animal", "data y[obs] : count",
            "data kin[animal, animal] : real", SD, "latent level ~ normal(sd = 5)",
            "latent u[animal] ~ known(covariance = kin, sd = s)",
            "observe y ~ poisson(log_rate = level + u[who])",
        ),
        also_called=also("glmmTMB", "propto"),
        see_also=("gmrf", "dense", "car"),
        source="Henderson 1976",
    ),
    _structure(
        "gmrf",
        Parameter("precision", "matrix", over="axis", meaning="symmetric, positive semi-definite"),
        Parameter("sd", "positive", required=False, default=1.0, over="none",
                  meaning="the precision is divided by its square"),
        summary="Gaussian Markov random field with a given precision matrix over the axis",
        formula="Q = precision / sd^2; its null space has density 1",
        scale="sd multiplies the matrix's own scale, which is not normalised; the precision of "
              "R-INLA's generic0 is 1 / sd^2",
        example=smooth("gmrf(precision = Q, sd = s)", "data Q[day, day] : real", SD),
        also_called=also("R-INLA", "generic0"),
        see_also=("dense", "besag", "car"), source="Rue and Held 2005, section 2.2",
    ),
    _structure(
        "rw1", *_WALK, spacing=_ON_A_LINE, traits=Trait.SMOOTH,
        summary="random walk of order 1: neighbours along an ordered axis resemble one another",
        formula="z[i+1] - z[i] ~ N(0, step^2 (t[i+1] - t[i])), gaps in units of their mean",
        scale=_steps(", with their sum at zero", "0.151 n", "n / 12"),
        support="all numbers, summing to zero unless sum_to_zero = false",
        example=smooth("rw1(sd = s)", SD),
        also_called=also("PyMC", "GaussianRandomWalk random_walk"),
        see_also=("rw2", "ar1", "ou", "pc_sd"),
        source="Rue and Held 2005, section 3.3.1; Sorbye and Rue 2014 (scaling)",
    ),
    _structure(
        "rw2", *_WALK, spacing=_ON_A_LINE, traits=Trait.SMOOTH,
        summary="random walk of order 2: a smooth curve along an ordered axis",
        formula="z[i-1] - 2 z[i] + z[i+1] ~ N(0, step^2); at unequal positions by finite elements; "
                "a straight line has density 1 unless cyclic",
        scale=_steps(" about the straight line", "0.00171 n^3", "n^3 / 720"),
        support="all numbers, summing to zero unless sum_to_zero = false",
        example=smooth("rw2(sd = s)", SD),
        also_called=also("R-INLA", "crw2"),
        see_also=("spline", "rw1", "gp", "seasonal", "pc_sd"),
        source="Rue and Held 2005, section 3.4.1; Lindgren and Rue 2008, section 3; Sorbye and Rue "
               "2014 (scaling)",
    ),
    _structure(
        "seasonal", _SD,
        Parameter("period", "count", over="none", meaning="members of one period"),
        spacing=_IN_STEPS,
        summary="a pattern that repeats with a period and may drift: sums over it are near zero",
        formula="z[t] + z[t+1] + ... + z[t+period-1] ~ N(0, step^2); strictly periodic patterns of "
                "sum zero have density 1",
        scale=_steps(" about the periodic patterns", "0.30 n / period (ten periods or more)"),
        example=smooth(
            "seasonal(sd = s, period = 4)", "hyper s : positive ~ pc_sd(u = 0.5, alpha = 0.01)",
            axis="quarter",
        ),
        see_also=("rw1", "rw2", "periodic"), source="Rue and Held 2005, section 3.4.3",
    ),
    _structure(
        "ar1", _SDS,
        Parameter("rho", "correlation", over="none", meaning="correlation of neighbours"),
        spacing=_IN_STEPS,
        summary="stationary autoregression of order 1 over equal steps",
        formula="z[t+1] = rho z[t] + e, e ~ N(0, sd^2 (1 - rho^2)): K_ij = sd^2 rho^|i - j|",
        scale=_MARGINAL + "; sd of a step = sd sqrt(1 - rho^2); the (marginal) precision of "
              "R-INLA's ar1 is 1 / sd^2",
        example=smooth(
            "ar1(sd = s, rho = r)", SD, "hyper r : correlation ~ pc_cor1(u = 0.5, alpha = 0.75)"
        ),
        also_called=(
            *also("glmmTMB", "hetar1", note="with `sd` over the axis"),
            *also("nlme", "corAR1", note="of a latent that is the residual"),
        ),
        see_also=("ar", "ou", "rw1", "pc_cor1", "pc_cor0"),
        source="Rue and Held 2005, section 1.1.1",
    ),
    _structure(
        "ar", _SDS,
        Parameter("pacf", "correlation", over="one", meaning="partial autocorrelation at each lag"),
        spacing=_IN_STEPS,
        summary="stationary autoregression of any order, by its partial autocorrelations",
        formula="z[t] = sum_k phi_k z[t-k] + e, phi from pacf by Durbin and Levinson's recursion",
        scale=_MARGINAL + "; sd of a step = sd sqrt(prod_k (1 - pacf_k^2)); the (marginal) "
              "precision of R-INLA's ar is 1 / sd^2",
        example=smooth(
            "ar(sd = s, pacf = p)", "index lag = 2", SD,
            "hyper p[lag] : correlation ~ pc_cor0(u = 0.5, alpha = 0.5)",
        ),
        also_called=(
            *also("other software", "ar2", note="over an index lag = 2"),
            *also("nlme", "corARMA", note="without moving averages"),
        ),
        see_also=("ar1", "toeplitz", "ou", "pc_cor0"), source="Monahan 1984",
    ),
    _structure(
        "ou", _SDS,
        Parameter("rate", "positive", over="none", meaning="of decay, one over the unit of `at`"),
        _AT, spacing=Spacing("positions", at="at"),
        summary="Ornstein-Uhlenbeck process: the ar1 of continuous time, at unequal positions",
        formula="K_ij = sd^2 exp(-rate |t_i - t_j|)",
        scale=_MARGINAL + "; in dz = -rate z dt + sigma dW, sigma = sd sqrt(2 rate); an ar1 of "
              "unit steps has rho = exp(-rate); the marginal precision is 1 / sd^2",
        example=smooth(
            "ou(sd = s, rate = r, at = time)", "data time[day] : real", SD,
            "hyper r : positive ~ exponential(rate = 2)",
        ),
        also_called=(
            *also("glmmTMB", "exp"),
            *also("nlme", "corCAR1 corExp", note="of a latent that is the residual"),
        ),
        see_also=("ar1", "rw1", "matern"), source="Uhlenbeck and Ornstein 1930",
    ),
    _structure(
        "toeplitz", _SDS,
        Parameter("pacf", "correlation", over="lags",
                  meaning="partial autocorrelation at lag 1, or at each lag; 0 beyond"),
        spacing=_IN_STEPS,
        summary="any stationary covariance over equal steps, by its partial autocorrelations",
        formula="K_ij = sd^2 r_|i - j|, r from pacf by Durbin and Levinson's recursion: every "
                "correlation of this form, one to one, if there is a lag for each member but one",
        scale=_MARGINAL + "; with as many lags as members but one it is the homtoep of glmmTMB",
        example=smooth(
            "toeplitz(sd = s, pacf = p)", "index lag = 3", SD,
            "hyper p[lag] : correlation ~ uniform(lower = -1, upper = 1)",
        ),
        also_called=(
            *also("glmmTMB", "homtoep"),
            *also("glmmTMB", "toep", note="with `sd` over the axis"),
        ),
        see_also=("ar", "ar1", "dense", "uniform"), source="Monahan 1984",
    ),
    _structure(
        "besag", _GRAPH, _SD, traits=Trait.COMPONENTS,
        summary="intrinsic autoregression on a graph: neighbours resemble one another",
        formula="density proportional to exp(-c / (2 sd^2) sum of (z_i - z_j)^2 over all pairs of "
                "neighbours): Q = c (D - W) / sd^2, D the numbers of neighbours, W the graph",
        scale=_TYPICAL.format(rest=", in each connected component")
              + "; sd of a member with k neighbours given all of them = sd / sqrt(c k), c the "
                "geometric mean of the diagonal of (D - W)^+; R-INLA with scale.model = TRUE has "
                "precision 1 / sd^2, without it c / sd^2",
        support="all numbers, summing to zero in each connected component",
        example=smooth(
            "besag(graph = edges, sd = s)", "data edges[region, region] : graph", SD, axis="region"
        ),
        also_called=(
            *also("brms, PyMC", "icar"), *also("mgcv", "mrf"), *also("BUGS, JAGS", "car.normal"),
        ),
        see_also=("bym2", "car", "graph", "pc_sd"),
        source="Besag, York and Mollie 1991; Freni-Sterrantino, Ventrucci and Rue 2018",
    ),
    _structure(
        "car", _GRAPH, _SD,
        Parameter("alpha", "unit", over="none", meaning="spatial dependence, below 1"),
        summary="proper autoregression on a graph, with a dependence below 1",
        formula="z_i | rest ~ N(alpha mean of its k neighbours, sd^2 / k): "
                "Q = (D - alpha W) / sd^2",
        scale="sd is conditional, of a member with one neighbour; marginal sds grow with alpha and "
              "are not scaled; the precision of BUGS's car.proper is 1 / sd^2",
        example=smooth(
            "car(graph = edges, sd = s, alpha = a)", "data edges[region, region] : graph", SD,
            "hyper a : unit ~ beta(a = 4, b = 1)", axis="region",
        ),
        also_called=(
            *also("R-INLA", "besagproper"), *also("BUGS, JAGS", "car.proper"),
            *also("PyMC", "CAR"),
        ),
        see_also=("besag", "bym2", "graph"),
        source="Banerjee, Carlin and Gelfand 2015, eq. 4.16",
    ),
    _structure(
        "bym2", _GRAPH, _SD,
        Parameter("mix", "unit", over="none", meaning="the share of besag in the variance"),
        traits=Trait.COMPONENTS,
        mixed=Mixed("mix", (("iid", ()), ("besag", ("graph",)))),
        summary="map of a disease: neighbourhood and noise in one block, with the share of each",
        formula="z = sd (sqrt(1 - mix) v + sqrt(mix) u), v iid standard normal, u scaled besag",
        scale="sd is the typical marginal size of the sum, whatever mix is; besag's part has "
              "typical size sd sqrt(mix), the noise sd sqrt(1 - mix); the precision of R-INLA's "
              "bym2 is 1 / sd^2, its phi is mix",
        example=smooth(
            "bym2(graph = edges, sd = s, mix = m)", "data edges[region, region] : graph", SD,
            "hyper m : unit ~ pc_mix(graph = edges, u = 0.5, alpha = 0.67)", axis="region",
        ),
        also_called=also("R-INLA, CARBayes", "bym"),
        see_also=("besag", "pc_mix", "pc_sd", "graph"), source="Riebler et al. 2016, eq. 6",
    ),
    _structure(
        "gp",
        Parameter("at", "real", over="input", meaning="the input of each member, or several"),
        Parameter("kernel", "kernel", meaning="its covariance, from kernels, `+` and `*`"),
        carries=("kernel",),
        summary="Gaussian process at given inputs, with a covariance made of kernels",
        formula="K_ij = kernel(at_i, at_j)",
        scale="the kernel's sd is the marginal standard deviation; of kernels that are added each "
              "has one, of those that are multiplied one",
        example=process("matern(sd = s, length = 1, smoothness = 1.5)"),
        also_called=(
            *also("glmmTMB", "mat"), *also("R-INLA", "dmatern matern2d"),
            *also("scikit-learn", "GaussianProcessRegressor GaussianProcessClassifier"),
        ),
        see_also=("se", "matern", "spde", "rw2"), source="Rasmussen and Williams 2006, section 2.2",
    ),
    _structure(
        "spline",
        Parameter("at", "real", over="input", known=True,
                  meaning="the position of each member, in one to three columns"),
        Parameter("sd", "positive", over="others",
                  meaning="scale, in the unit of the latent (see scale); next to iid one for all "
                          "curves, or one for each"),
        Parameter("basis", "string", required=False, default="thin-plate",
                  choices=("thin-plate", "cubic", "cyclic", "p-spline"), over="none",
                  meaning="thin plates in up to three columns, natural cubic splines with knots at "
                          "quantiles, the same joined at its ends, B-splines with differences"),
        Parameter("size", "count", required=False, default=10.0, over="none", known=True,
                  meaning="coefficients of the basis, the constant among them"),
        Parameter("shrink", "bool", required=False, default=False,
                  meaning="whether the line or plane that is free is shrunk to zero too, so that "
                          "nothing is left of the smooth where sd is 0"),
        Parameter("period", "positive", required=False, over="none", known=True,
                  meaning="where a cyclic basis joins its ends, else at the ends of the "
                          "positions: 12 for months from 1 to 12, where 13 is 1 again"),
        basis=Basis("at", "size", "basis", shrink="shrink", period="period"),
        summary="penalised regression spline: a smooth curve or surface for additive models",
        formula="f = N a + Z b, a of density 1, b_j ~ N(0, sd^2): N spans the polynomials that the "
                "penalty leaves free, Z Z' is its generalised inverse, the constant taken out",
        scale=_TYPICAL.format(rest=" of the curve about what is free, over the members")
              + "; mgcv's lambda is noise^2 / sd^2 times a constant of the basis; where `shrink`, "
                "what is free has ten times the variance of the largest penalised direction",
        support="all numbers, summing to zero over the members, each as often as it occurs",
        example=model(
            "index obs", "data x[obs] : real", "data y[obs] : count", SD,
            "latent level ~ normal(sd = 5)",
            "latent f[obs] ~ spline(at = x, sd = s, size = 4)",
            "observe y ~ poisson(log_rate = level + f)",
        ),
        also_called=(
            *also("mgcv", "s", "spline(at = x, sd = s)"),
            *also("mgcv", "tp", 'spline(at = x, sd = s, basis = "thin-plate")'),
            *also("mgcv", "fs sz", "iid * spline(at = x, sd = s)",
                  "over [group, obs], and f[who, obs] in the predictor"),
            *also("mgcv", "cr", 'spline(at = x, sd = s, basis = "cubic")'),
            *also("mgcv", "cc", 'spline(at = x, sd = s, basis = "cyclic")',
                  "knots = list(x = c(1, 13)) is period = 12"),
            *also("mgcv", "ts", "spline(at = x, sd = s, shrink = true)"),
            *also("mgcv", "cs", 'spline(at = x, sd = s, basis = "cubic", shrink = true)'),
            *also("mgcv", "ps", 'spline(at = x, sd = s, basis = "p-spline")'),
            *also("mgcv", "gam bs"), *also("R", "smooth.spline"), *also("brms", "smooth"),
        ),
        see_also=("tensor_spline", "rw2", "gp", "spde", "pc_sd"),
        source="Wood 2017, sections 5.3 to 5.8; Wood 2003 (thin plates); Eilers and Marx 1996 "
               "(p-splines)",
    ),
    _structure(
        "tensor_spline",
        Parameter("at", "real", over="input", known=True,
                  meaning="the position of each member, in two columns or more"),
        Parameter("sd", "positive", over="input",
                  meaning="scale along the columns, in the unit of the latent: one for all, or one "
                          "for each (see scale)"),
        Parameter("size", "count", required=False, default=5.0, over="input", known=True,
                  meaning="coefficients along each column, the constant among them: one number for "
                          "all, or one for each"),
        Parameter("interaction", "bool", required=False, default=False,
                  meaning="whether functions of some of the columns alone are left out"),
        basis=Basis("at", "size", centred="interaction"),
        summary="tensor product of splines: a smooth surface of columns in different units",
        formula="f = N a + Z b, a of density 1, b_i ~ N(0, 1 / sum_j (p_ij / sd_j^2)): products of "
                "natural cubic splines along the columns, p_ij their penalties; N spans products "
                "of lines, the constant taken out",
        scale="sd_j is the typical size of the curve about a straight line along column j, where "
              "that column's penalty alone acts: the sd of spline(at = column j, basis = "
              '"cubic"); mgcv\'s lambda_j is noise^2 / sd_j^2 times a constant of the column',
        support="all numbers, summing to zero over the members, each as often as it occurs",
        example=model(
            "index obs", "index d = 2", "data x[obs, d] : real", "data y[obs] : count",
            "hyper s[d] : positive ~ pc_sd(u = 1, alpha = 0.01)",
            "latent level ~ normal(sd = 5)",
            "latent f[obs] ~ tensor_spline(at = x, sd = s, size = 3)",
            "observe y ~ poisson(log_rate = level + f)",
        ),
        also_called=(
            *also("mgcv", "te", "tensor_spline(at = x, sd = s)"),
            *also("mgcv", "ti t2", "tensor_spline(at = x, sd = s, interaction = true)"),
            *also("mgcv", "tensor.prod"),
        ),
        see_also=("spline", "gp", "spde", "pc_sd"),
        source="Wood 2006; Wood 2017, section 5.6",
    ),
    _structure(
        "spde",
        Parameter("mass", "matrix", over="axis", meaning="mass matrix of the mesh"),
        Parameter("stiffness", "matrix", over="axis", meaning="stiffness matrix of the mesh"),
        _SD,
        Parameter("range", "positive", over="none",
                  meaning="where the correlation is about 0.14, in the unit of the mesh"),
        summary="Matern field of smoothness 1 in the plane, by finite elements over mesh nodes",
        formula="Q = tau^2 (kappa^2 C + G) C^-1 (kappa^2 C + G), kappa = sqrt(8) / range, "
                "tau^2 = 1 / (4 pi kappa^2 sd^2), C mass (lumped) and G stiffness",
        scale=_MARGINAL + " inside the mesh (at its border sqrt(2) times that, in a corner twice); "
              "the marginal precision is 1 / sd^2; sd and range are those of R-INLA's "
              "inla.spde2.pcmatern",
        example=model(
            "index obs", "index node", "data y[obs] : real", "data A[obs, node] : real",
            "data C[node, node] : real", "data G[node, node] : real", SD,
            "hyper r : positive ~ pc_range(u = 2, alpha = 0.05)",
            "latent f[node] ~ spde(mass = C, stiffness = G, sd = s, range = r)",
            "observe y ~ normal(mean = A @ f, sd = 0.5)",
        ),
        also_called=also("R-INLA", "spde2 inla.spde2.pcmatern"),
        see_also=("gp", "matern", "pc_range"),
        source="Lindgren, Rue and Lindstrom 2011, section 2.3",
    ),
)  # fmt: skip


# ---- kernels -----------------------------------------------------------------------------------
# Kernels of Gaussian processes, closed under `+` and `*`.


_KERNEL_SD = Parameter("sd", "positive", over="none", meaning="marginal standard deviation")
_LENGTH = Parameter(
    "length",
    "positive",
    over="input",
    meaning="length scale, in the unit of the inputs, for all of them or for each",
)
_DISTANCE = "r^2 = sum_d ((x_d - x'_d) / length_d)^2"
_VARIANCE = "sd is the marginal standard deviation: k(x, x) = sd^2"
_INPUTS = "inputs of any number of dimensions"
_BOOK = "Rasmussen and Williams 2006"


def _kernel(
    name: str,
    *parameters: Parameter,
    summary: str,
    formula: str,
    example: str,
    see_also: tuple[str, ...],
    also_called: tuple[Alias, ...] = (),
    source: str,
    scale: str = _VARIANCE,
    support: str = _INPUTS,
) -> Signature:
    return Signature(
        name,
        "kernel",
        parameters,
        carries_scale=("sd",),
        summary=summary,
        formulas=(("", formula),),
        scale=scale,
        support=support,
        example=example,
        see_also=("gp", *see_also),
        also_called=also_called,
        source=source,
    )


KERNELS: tuple[Signature, ...] = (
    _kernel(
        "se", _KERNEL_SD, _LENGTH,
        summary="squared exponential: very smooth fields, with derivatives of every order",
        formula=f"sd^2 exp(-r^2 / 2), {_DISTANCE}",
        scale=_VARIANCE + "; the correlation at one length is 0.61",
        example=process(
            "se(sd = s, length = l)", "hyper l : positive ~ inv_gamma(shape = 3, scale = 3)"
        ),
        also_called=(
            *also("PyMC", "ExpQuad"), *also("GPflow", "SquaredExponential"),
            *also("scikit-learn", "RBF"), *also("Stan", "gp_exp_quad_cov"),
            *also("glmmTMB", "gau", note="with length = range / sqrt(2)"),
            *also("nlme", "corGaus", note="with length = range / sqrt(2)"),
            *also("GPflow", "sqexp"),
        ),
        see_also=("matern", "rq"), source=f"{_BOOK}, eq. 4.9",
    ),
    _kernel(
        "matern", _KERNEL_SD, _LENGTH,
        Parameter("smoothness", "real", choices=(0.5, 1.5, 2.5), over="none",
                  meaning="1/2, 3/2 or 5/2: fields with 0, 1 or 2 derivatives"),
        summary="Matern covariance, for fields as rough as the smoothness 0.5, 1.5 or 2.5 says",
        formula="with a = sqrt(2 smoothness) r: sd^2 times e^-a, (1 + a) e^-a or "
                f"(1 + a + a^2 / 3) e^-a; {_DISTANCE}",
        scale=_VARIANCE + "; the correlation at one length is 0.37, 0.48 or 0.52",
        example=process(
            "matern(sd = s, length = l, smoothness = 1.5)",
            "hyper l : positive ~ inv_gamma(shape = 3, scale = 3)",
        ),
        also_called=(
            *also("PyMC, GPflow", "Matern52", "matern(smoothness = 2.5)"),
            *also("PyMC, GPflow", "Matern32", "matern(smoothness = 1.5)"),
            *also("PyMC, GPflow", "Matern12 Exponential", "matern(smoothness = 0.5)"),
        ),
        see_also=("se", "ou", "spde"), source=f"{_BOOK}, eq. 4.14 to 4.17",
    ),
    _kernel(
        "rq", _KERNEL_SD, _LENGTH,
        Parameter("alpha", "positive", over="none", meaning="the smaller, the more lengths mix"),
        summary="rational quadratic: a mixture of squared exponentials of many lengths",
        formula=f"sd^2 (1 + r^2 / (2 alpha))^-alpha, {_DISTANCE}",
        scale=_VARIANCE + "; towards se as alpha grows",
        example=process("rq(sd = s, length = 1, alpha = 2)"),
        also_called=(*also("PyMC", "RatQuad"), *also("GPflow", "RationalQuadratic")),
        see_also=("se", "matern"), source=f"{_BOOK}, eq. 4.19",
    ),
    _kernel(
        "periodic", _KERNEL_SD, _LENGTH,
        Parameter("period", "positive", over="none", meaning="in the unit of the inputs"),
        summary="exactly periodic fields; times se or matern they change from period to period",
        formula="sd^2 exp(-2 sum_d sin^2(pi (x_d - x'_d) / period) / length_d^2)",
        scale=_VARIANCE + "; length has no unit: about 1 is one wave a period, less is rougher",
        example=process("periodic(sd = s, length = 1, period = 1) * se(length = 4)"),
        also_called=also("scikit-learn", "ExpSineSquared"),
        see_also=("seasonal", "se"), source=f"{_BOOK}, eq. 4.31",
    ),
    _kernel(
        "linear", _KERNEL_SD,
        summary="straight lines through the origin: a Bayesian linear regression as a kernel",
        formula="sd^2 sum_d x_d x'_d",
        scale="sd is the standard deviation of each slope, for a step of one unit: "
              "k(x, x) = sd^2 sum_d x_d^2",
        example=process("linear(sd = s) + se(sd = 0.5, length = 1)"),
        also_called=also("scikit-learn", "DotProduct"),
        see_also=("se", "normal"), source=f"{_BOOK}, section 4.2.2",
    ),
    _kernel(
        "white", _KERNEL_SD,
        summary="noise of each observation: independent, whatever the inputs are",
        formula="sd^2 for an observation with itself, 0 for two, also at equal inputs",
        scale="sd is the standard deviation of the noise",
        example=process("se(sd = s, length = 1) + white(sd = 0.1)"),
        also_called=(*also("scikit-learn", "WhiteKernel"), *also("PyMC", "WhiteNoise")),
        see_also=("normal", "se"), source=f"{_BOOK}, eq. 2.20",
        support="any inputs, which it does not look at",
    ),
)  # fmt: skip
