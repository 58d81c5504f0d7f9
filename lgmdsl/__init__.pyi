# Made by `python -m lgmdsl.api.help.stubs` from the declarations of the language: do not edit.

from typing import Any, Literal

from lgmdsl import sites as sites
from lgmdsl.api.calibrate.calibrate import Calibration as Calibration
from lgmdsl.api.calibrate.calibrate import calibrate as calibrate
from lgmdsl.api.compare.compare import compare as compare
from lgmdsl.api.compare.comparison import Comparison as Comparison
from lgmdsl.api.compare.models import ModelComparison as ModelComparison
from lgmdsl.api.compare.models import compare_models as compare_models
from lgmdsl.api.design.design import Design as Design
from lgmdsl.api.design.design import design as design
from lgmdsl.api.design.measurements import MeasurementDesign as MeasurementDesign
from lgmdsl.api.design.measurements import design_measurements as design_measurements
from lgmdsl.api.explain.explain import explain as explain
from lgmdsl.api.explain.methods import methods as methods
from lgmdsl.api.fit.fit import Fit as Fit
from lgmdsl.api.fit.fitting import fit as fit
from lgmdsl.api.fit.restore import load_fit as load_fit
from lgmdsl.api.predict.requested import PredictionWarning as PredictionWarning
from lgmdsl.api.register import register as register
from lgmdsl.api.simulate.simulate import simulate as simulate
from lgmdsl.dataset.graphs import contiguity as contiguity
from lgmdsl.errors import DataError as DataError
from lgmdsl.errors import LgmError as LgmError
from lgmdsl.errors import MethodError as MethodError
from lgmdsl.errors import ModelError as ModelError
from lgmdsl.errors import NumericalError as NumericalError
from lgmdsl.errors import WorkerError as WorkerError
from lgmdsl.language.builder import Model as Model
from lgmdsl.language.load import load as load
from lgmdsl.language.load import loads as loads
from lgmdsl.posterior.prior_draws import SimulationWarning as SimulationWarning
from lgmdsl.structures.spatial.mesh import grid_matrices as grid_matrices
from lgmdsl.structures.spatial.mesh import mesh_matrices as mesh_matrices
from lgmdsl.language.constructors import DistributionConstructor
from lgmdsl.language.constructors import const as const
from lgmdsl.language.constructors import head as head
from lgmdsl.language.expressions import Distribution, Expression

__version__: str

def __getattr__(name: str) -> Any: ...  # words of third parties

def admixture(
    *,
    softmax: Expression | float,
    emission: Expression,
    weight: Expression | float = 1.0,
) -> Distribution:
    """family: counts of words from a mixture of topics: topic models, ancestry"""

def ar(*, sd: Expression | float | None = None, pacf: Expression | float) -> Distribution:
    """structure: stationary autoregression of any order, by its partial autocorrelations"""

def ar1(*, sd: Expression | float | None = None, rho: Expression | float) -> Distribution:
    """structure: stationary autoregression of order 1 over equal steps"""

def asymmetric_laplace(
    *,
    quantile: Expression | float | None = None,
    scale: Expression | float,
    level: Expression | float,
    weight: Expression | float | None = None,
) -> Distribution:
    """family: quantile regression: the mode is the quantile of a level
    potential: absolute loss with another slope on either side: the loss of quantile regression
    """

def bernoulli(
    *,
    logit: Expression | float | None = None,
    probit: Expression | float | None = None,
    cloglog: Expression | float | None = None,
    weight: Expression | float = 1.0,
) -> Distribution:
    """family: 0 or 1, with the probability of 1 modelled through one of three links"""

def besag(*, graph: Expression, sd: Expression | float | None = None) -> Distribution:
    """structure: intrinsic autoregression on a graph: neighbours resemble one another"""

def beta(
    *,
    logit_mean: Expression | float | None = None,
    concentration: Expression | float | None = None,
    log_concentration: Expression | float | None = None,
    weight: Expression | float | None = None,
    a: Expression | float | None = None,
    b: Expression | float | None = None,
) -> Distribution:
    """family: proportions strictly between 0 and 1, with a modelled logit of the mean
    prior: beta: for hypers between 0 and 1, such as probabilities and shares
    """

def betabinomial(
    *,
    n: Expression | float,
    logit: Expression | float | None = None,
    probit: Expression | float | None = None,
    cloglog: Expression | float | None = None,
    concentration: Expression | float | None = None,
    log_concentration: Expression | float | None = None,
    weight: Expression | float = 1.0,
    zero_inflation: Expression | float | None = None,
    zero_inflation_logit: Expression | float | None = None,
    hurdle: Expression | float | None = None,
    hurdle_logit: Expression | float | None = None,
    truncated: bool = False,
) -> Distribution:
    """family: successes out of n trials whose probability varies from row to row"""

def binomial(
    *,
    n: Expression | float,
    logit: Expression | float | None = None,
    probit: Expression | float | None = None,
    cloglog: Expression | float | None = None,
    weight: Expression | float = 1.0,
    zero_inflation: Expression | float | None = None,
    zero_inflation_logit: Expression | float | None = None,
    hurdle: Expression | float | None = None,
    hurdle_logit: Expression | float | None = None,
    truncated: bool = False,
) -> Distribution:
    """family: number of successes out of n trials of one probability"""

def bym2(
    *,
    graph: Expression,
    sd: Expression | float | None = None,
    mix: Expression | float,
) -> Distribution:
    """structure: map of a disease: neighbourhood and noise in one block, with the share of each"""

def car(
    *,
    graph: Expression,
    sd: Expression | float | None = None,
    alpha: Expression | float,
) -> Distribution:
    """structure: proper autoregression on a graph, with a dependence below 1"""

def categorical(
    *,
    softmax: Expression | float | None = None,
    stick: Expression | float | None = None,
    probit: Expression | float | None = None,
    available: Expression | float | None = None,
    weight: Expression | float = 1.0,
) -> Distribution:
    """family: one of several classes, by a predictor of each class"""

def cauchy(*, location: Expression | float = 0.0, scale: Expression | float) -> Distribution:
    """prior: Cauchy for real hypers: the heaviest tail; it has no mean"""

def com_poisson(
    *,
    log_mean: Expression | float,
    dispersion: Expression | float,
    exposure: Expression | float = 1.0,
    weight: Expression | float = 1.0,
    zero_inflation: Expression | float | None = None,
    zero_inflation_logit: Expression | float | None = None,
    hurdle: Expression | float | None = None,
    hurdle_logit: Expression | float | None = None,
    truncated: bool = False,
) -> Distribution:
    """family: under- or overdispersed counts: Conway-Maxwell-Poisson by its mean"""

def compound(*, sd: Expression | float | None = None, rho: Expression | float) -> Distribution:
    """structure: compound symmetry: any two members are equally correlated"""

def conv2(
    expr: Expression | float,
    psf: Expression | float,
    *,
    boundary: Literal['circular', 'zero', 'reflect'],
) -> Expression:
    """operator: two-dimensional convolution with a point-spread function, of the same size"""

def cumsum(expr: Expression | float, index: Expression | None = None) -> Expression:
    """operator: running sums along an index"""

def dense(*, cov: Expression) -> Distribution:
    """structure: any covariance matrix over the axis, given or learned"""

def diff(
    expr: Expression | float,
    index: Expression,
    *,
    order: Expression | float = 1.0,
    boundary: Literal['none', 'circular', 'zero', 'reflect'] = 'none',
) -> Expression:
    """operator: differences along an index, as in total variation"""

def dirichlet(
    *,
    softmax: Expression | float | None = None,
    concentration: Expression | float | None = None,
    weight: Expression | float | None = None,
    alpha: Expression | float | None = None,
) -> Distribution:
    """family: shares of classes that add up to 1, by a predictor of each class
    prior: Dirichlet: for probabilities that add up to 1 over the last index
    """

def dirichlet_multinomial(
    *,
    n: Expression | float,
    softmax: Expression | float,
    concentration: Expression | float,
    weight: Expression | float = 1.0,
) -> Distribution:
    """family: overdispersed counts over classes that add up to n"""

def exp(expr: Expression | float) -> Expression:
    """function: exponential, as in a rate exp(eta)"""

def exp_power(
    *,
    scale: Expression | float,
    power: Expression | float,
    group: Expression | None = None,
) -> Distribution:
    """potential: exponential power: between normal (power 2) and laplace (1), and sparser (below)
    """

def exponential(
    *,
    log_rate: Expression | float | None = None,
    event: Expression | float | None = None,
    lower: Expression | float | None = None,
    upper: Expression | float | None = None,
    weight: Expression | float | None = None,
    hurdle: Expression | float | None = None,
    hurdle_logit: Expression | float | None = None,
    entry: Expression | float | None = None,
    rate: Expression | float | None = None,
) -> Distribution:
    """family: lifetimes of a constant hazard, with a modelled log-rate
    prior: exponential with a rate: shrinks a positive hyper towards 0
    """

def fft(expr: Expression | float) -> Expression:
    """operator: discrete Fourier transform of a real array, unitary, as real numbers"""

flat: DistributionConstructor

def gamma(
    *,
    log_mean: Expression | float | None = None,
    shape: Expression | float | None = None,
    log_shape: Expression | float | None = None,
    event: Expression | float | None = None,
    lower: Expression | float | None = None,
    upper: Expression | float | None = None,
    weight: Expression | float | None = None,
    hurdle: Expression | float | None = None,
    hurdle_logit: Expression | float | None = None,
    entry: Expression | float | None = None,
    rate: Expression | float | None = None,
) -> Distribution:
    """family: positive y with a modelled log-mean and a constant coefficient of variation
    prior: gamma with a shape and a rate, for positive hypers
    """

def generalized_gamma(
    *,
    location: Expression | float,
    scale: Expression | float,
    shape: Expression | float,
    event: Expression | float | None = None,
    lower: Expression | float | None = None,
    upper: Expression | float | None = None,
    weight: Expression | float = 1.0,
    hurdle: Expression | float | None = None,
    hurdle_logit: Expression | float | None = None,
    entry: Expression | float | None = None,
) -> Distribution:
    """family: positive y by location, scale and shape of log y: lognormal, Weibull and gamma are among
        it, and the shape says which
    """

def generalized_pareto(
    *,
    log_scale: Expression | float,
    shape: Expression | float,
    event: Expression | float | None = None,
    lower: Expression | float | None = None,
    upper: Expression | float | None = None,
    weight: Expression | float = 1.0,
) -> Distribution:
    """family: excesses over a high threshold, with a modelled log-scale"""

def generalized_poisson(
    *,
    log_mean: Expression | float,
    dispersion: Expression | float,
    exposure: Expression | float = 1.0,
    weight: Expression | float = 1.0,
    zero_inflation: Expression | float | None = None,
    zero_inflation_logit: Expression | float | None = None,
    hurdle: Expression | float | None = None,
    hurdle_logit: Expression | float | None = None,
    truncated: bool = False,
) -> Distribution:
    """family: overdispersed counts with a longer tail than the negative binomial's"""

def gev(
    *,
    location: Expression | float,
    scale: Expression | float,
    shape: Expression | float,
    weight: Expression | float = 1.0,
) -> Distribution:
    """family: maxima of blocks (years), with a modelled location"""

def gmrf(*, precision: Expression, sd: Expression | float = 1.0) -> Distribution:
    """structure: Gaussian Markov random field with a given precision matrix over the axis"""

def gompertz(
    *,
    log_rate: Expression | float,
    shape: Expression | float,
    event: Expression | float | None = None,
    lower: Expression | float | None = None,
    upper: Expression | float | None = None,
    weight: Expression | float = 1.0,
    hurdle: Expression | float | None = None,
    hurdle_logit: Expression | float | None = None,
    entry: Expression | float | None = None,
) -> Distribution:
    """family: lifetimes whose log hazard is linear in time: ageing (shape > 0), or a share that never
        fails (shape < 0)
    """

def gp(*, at: Expression | float, kernel: Expression) -> Distribution:
    """structure: Gaussian process at given inputs, with a covariance made of kernels"""

def graphical_lasso(*, rate: Expression | float) -> Distribution:
    """prior: Laplace on the entries of the precision matrix: partial correlations that are exactly
        zero at the maximum (hyper em or map)
    """

def half_cauchy(*, scale: Expression | float) -> Distribution:
    """prior: the positive half of a Cauchy about 0: a standard deviation with a heavy tail"""

def half_normal(*, sd: Expression | float) -> Distribution:
    """prior: the positive half of a normal about 0: a standard deviation that is hardly ever above 2
        sd
    """

def half_student_t(*, scale: Expression | float, df: Expression | float) -> Distribution:
    """prior: the positive half of Student's t about 0: a standard deviation, between half_cauchy (df =
        1) and half_normal (large df)
    """

iid: DistributionConstructor

def inv_gamma(*, shape: Expression | float, scale: Expression | float) -> Distribution:
    """prior: inverse gamma, for variances (with sd = sqrt(v)) and for length scales"""

def inv_wishart(*, df: Expression | float, scale: Expression) -> Distribution:
    """prior: inverse Wishart: the prior of published models with a Wishart precision"""

def inverse_gaussian(
    *,
    log_mean: Expression | float,
    shape: Expression | float,
    event: Expression | float | None = None,
    lower: Expression | float | None = None,
    upper: Expression | float | None = None,
    weight: Expression | float = 1.0,
    hurdle: Expression | float | None = None,
    hurdle_logit: Expression | float | None = None,
    entry: Expression | float | None = None,
) -> Distribution:
    """family: positive y of a modelled log-mean whose variance grows with the cube of the mean"""

def invlogit(expr: Expression | float) -> Expression:
    """function: inverse logit: the probability of log odds; in reports"""

def known(
    *,
    covariance: Expression | None = None,
    precision: Expression | None = None,
    sd: Expression | float | None = None,
) -> Distribution:
    """structure: known covariance over the axis up to its scale: relationships of animals, species
    """

def laplace(
    *,
    mean: Expression | float | None = None,
    scale: Expression | float,
    event: Expression | float | None = None,
    lower: Expression | float | None = None,
    upper: Expression | float | None = None,
    weight: Expression | float | None = None,
    group: Expression | None = None,
) -> Distribution:
    """family: double exponential about a modelled mean: median regression
    potential: absolute loss: sparse expressions, the lasso and total variation
    """

def linear(*, sd: Expression | float | None = None) -> Expression:
    """kernel: straight lines through the origin: a Bayesian linear regression as a kernel"""

def lkj_cov(
    *,
    eta: Expression | float,
    u: Expression | float,
    alpha: Expression | float,
) -> Distribution:
    """prior: covariance matrix by its parts: LKJ for the correlations, and for each standard deviation
        a penalised-complexity prior with P(sd > u) = alpha
    """

def log(expr: Expression | float) -> Expression:
    """function: natural logarithm, as in an offset log(area)"""

def logistic(
    *,
    mean: Expression | float | None = None,
    scale: Expression | float,
    weight: Expression | float | None = None,
    group: Expression | None = None,
    location: Expression | float | None = None,
) -> Distribution:
    """family: logistic noise about a modelled mean: tails between normal and laplace
    potential: logistic density: smooth at zero with exponential tails
    prior: logistic for real hypers: at scale 1 and location 0, a probability that is uniform on the
        logit scale
    """

def loglogistic(
    *,
    log_scale: Expression | float,
    shape: Expression | float,
    event: Expression | float | None = None,
    lower: Expression | float | None = None,
    upper: Expression | float | None = None,
    weight: Expression | float = 1.0,
    hurdle: Expression | float | None = None,
    hurdle_logit: Expression | float | None = None,
    entry: Expression | float | None = None,
) -> Distribution:
    """family: lifetimes whose log odds of survival fall linearly in log time, with a modelled
        log-median
    """

def lognormal(
    *,
    mean: Expression | float | None = None,
    sd: Expression | float | None = None,
    log_sd: Expression | float | None = None,
    event: Expression | float | None = None,
    lower: Expression | float | None = None,
    upper: Expression | float | None = None,
    weight: Expression | float | None = None,
    hurdle: Expression | float | None = None,
    hurdle_logit: Expression | float | None = None,
    entry: Expression | float | None = None,
) -> Distribution:
    """family: positive y whose logarithm is normal with a modelled mean
    prior: a positive hyper whose logarithm is normal: away from 0, known up to a factor
    """

def mask(expr: Expression | float, keep: Expression | float) -> Expression:
    """operator: the marked entries of an expression, zero for the others"""

def matern(
    *,
    sd: Expression | float | None = None,
    length: Expression | float,
    smoothness: float,
) -> Expression:
    """kernel: Matern covariance, for fields as rough as the smoothness 0.5, 1.5 or 2.5 says"""

def multinomial(
    *,
    n: Expression | float,
    softmax: Expression | float,
    weight: Expression | float = 1.0,
) -> Distribution:
    """family: counts over classes that add up to n, by a predictor of each class"""

def negbinomial(
    *,
    log_mean: Expression | float,
    size: Expression | float | None = None,
    log_size: Expression | float | None = None,
    exposure: Expression | float = 1.0,
    weight: Expression | float = 1.0,
    zero_inflation: Expression | float | None = None,
    zero_inflation_logit: Expression | float | None = None,
    hurdle: Expression | float | None = None,
    hurdle_logit: Expression | float | None = None,
    truncated: bool = False,
) -> Distribution:
    """family: overdispersed counts, variance mean + mean^2/size"""

def negbinomial1(
    *,
    log_mean: Expression | float,
    dispersion: Expression | float | None = None,
    log_dispersion: Expression | float | None = None,
    exposure: Expression | float = 1.0,
    weight: Expression | float = 1.0,
    zero_inflation: Expression | float | None = None,
    zero_inflation_logit: Expression | float | None = None,
    hurdle: Expression | float | None = None,
    hurdle_logit: Expression | float | None = None,
    truncated: bool = False,
) -> Distribution:
    """family: overdispersed counts whose variance is a multiple of the mean"""

def normal(
    *,
    mean: Expression | float | None = None,
    sd: Expression | float | None = None,
    log_sd: Expression | float | None = None,
    residual: Expression | float | None = None,
    event: Expression | float | None = None,
    lower: Expression | float | None = None,
    upper: Expression | float | None = None,
    weight: Expression | float | None = None,
    log_var: Expression | float | None = None,
    group: Expression | None = None,
) -> Distribution:
    """structure: independent normal entries, a block of any shape
    family: normal with a modelled mean, and log sd, or a modelled log-variance
    potential: squared loss: shrinks the expression towards zero in proportion (a ridge)
    prior: normal: for real hypers, and for ordered ones given that the entries increase
    """

def normal_cdf(expr: Expression | float) -> Expression:
    """function: distribution function of the standard normal: the probability of a probit; in reports
    """

def ordinal(
    *,
    logit: Expression | float | None = None,
    probit: Expression | float | None = None,
    cuts: Expression,
    scores: Expression | None = None,
    model: Literal['cumulative', 'continuation', 'stereotype', 'adjacent'] = 'cumulative',
    weight: Expression | float = 1.0,
) -> Distribution:
    """family: one of several ordered classes, by a location and the cuts between classes"""

def ou(
    *,
    sd: Expression | float | None = None,
    rate: Expression | float,
    at: Expression | float | None = None,
) -> Distribution:
    """structure: Ornstein-Uhlenbeck process: the ar1 of continuous time, at unequal positions"""

def pc_cor0(*, u: Expression | float, alpha: Expression | float) -> Distribution:
    """prior: penalised-complexity prior of a correlation: shrinks towards 0, with P(|rho| > u) = alpha
    """

def pc_cor1(*, u: Expression | float, alpha: Expression | float) -> Distribution:
    """prior: penalised-complexity prior of a correlation: shrinks towards 1, with P(rho > u) = alpha
    """

def pc_df(*, u: Expression | float, alpha: Expression | float) -> Distribution:
    """prior: penalised-complexity prior of the degrees of freedom of Student's t: shrinks towards the
        normal, with P(df < u) = alpha
    """

def pc_mix(*, graph: Expression, u: Expression | float, alpha: Expression | float) -> Distribution:
    """prior: penalised-complexity prior of the mix of a bym2: shrinks towards noise alone, with P(mix
        < u) = alpha
    """

def pc_range(*, u: Expression | float, alpha: Expression | float) -> Distribution:
    """prior: penalised-complexity prior of the range of a spatial field in the plane: shrinks towards
        long ranges, with P(range < u) = alpha
    """

def pc_sd(*, u: Expression | float, alpha: Expression | float) -> Distribution:
    """prior: penalised-complexity prior of a standard deviation: shrinks towards 0, with P(sd > u) =
        alpha
    """

def periodic(
    *,
    sd: Expression | float | None = None,
    length: Expression | float,
    period: Expression | float,
) -> Expression:
    """kernel: exactly periodic fields; times se or matern they change from period to period"""

def piecewise_exponential(
    *,
    log_hazard: Expression | float,
    breaks: Expression | float,
    event: Expression | float | None = None,
    entry: Expression | float | None = None,
    weight: Expression | float = 1.0,
) -> Distribution:
    """family: lifetimes whose hazard is constant within pieces of time: Cox regression with frailties,
        smooth hazards, effects that change over time
    """

def poisson(
    *,
    log_rate: Expression | float,
    exposure: Expression | float = 1.0,
    weight: Expression | float = 1.0,
    zero_inflation: Expression | float | None = None,
    zero_inflation_logit: Expression | float | None = None,
    hurdle: Expression | float | None = None,
    hurdle_logit: Expression | float | None = None,
    truncated: bool = False,
) -> Distribution:
    """family: counts of rate exposure * exp(log_rate)"""

def rq(
    *,
    sd: Expression | float | None = None,
    length: Expression | float,
    alpha: Expression | float,
) -> Expression:
    """kernel: rational quadratic: a mixture of squared exponentials of many lengths"""

def rw1(
    *,
    sd: Expression | float | None = None,
    cyclic: bool = False,
    at: Expression | float | None = None,
    sum_to_zero: bool = True,
) -> Distribution:
    """structure: random walk of order 1: neighbours along an ordered axis resemble one another"""

def rw2(
    *,
    sd: Expression | float | None = None,
    cyclic: bool = False,
    at: Expression | float | None = None,
    sum_to_zero: bool = True,
) -> Distribution:
    """structure: random walk of order 2: a smooth curve along an ordered axis"""

def se(*, sd: Expression | float | None = None, length: Expression | float) -> Expression:
    """kernel: squared exponential: very smooth fields, with derivatives of every order"""

def seasonal(*, sd: Expression | float | None = None, period: Expression | float) -> Distribution:
    """structure: a pattern that repeats with a period and may drift: sums over it are near zero"""

def sech2(*, scale: Expression | float, group: Expression | None = None) -> Distribution:
    """potential: smooth at zero with exponential tails: the laplace potential without its kink"""

def skew_normal(
    *,
    mean: Expression | float,
    sd: Expression | float,
    skew: Expression | float,
    weight: Expression | float = 1.0,
) -> Distribution:
    """family: normal noise with a skewness, by its mean, sd and third standardised moment"""

def softmax(expr: Expression | float, index: Expression | None = None) -> Expression:
    """function: probabilities of classes: exp(x) over its sum along an index; in reports"""

def spde(
    *,
    mass: Expression,
    stiffness: Expression,
    sd: Expression | float | None = None,
    range: Expression | float,
) -> Distribution:
    """structure: Matern field of smoothness 1 in the plane, by finite elements over mesh nodes"""

def spline(
    *,
    at: Expression | float,
    sd: Expression | float | None = None,
    basis: Literal['thin-plate', 'cubic', 'cyclic', 'p-spline'] = 'thin-plate',
    size: Expression | float = 10.0,
    shrink: bool = False,
    period: Expression | float | None = None,
) -> Distribution:
    """structure: penalised regression spline: a smooth curve or surface for additive models"""

def sqrt(expr: Expression | float) -> Expression:
    """function: square root, as in the sd sqrt(v) of a variance v"""

def student_t(
    *,
    mean: Expression | float | None = None,
    scale: Expression | float | None = None,
    log_scale: Expression | float | None = None,
    df: Expression | float,
    event: Expression | float | None = None,
    lower: Expression | float | None = None,
    upper: Expression | float | None = None,
    weight: Expression | float | None = None,
    group: Expression | None = None,
    location: Expression | float | None = None,
) -> Distribution:
    """family: Student's t about a modelled mean: a regression that outliers do not pull
    potential: heavy tails: most expressions near zero and a few far off (relevance vectors)
    prior: Student's t for real hypers: normal in the middle, with a heavier tail
    """

def sum(expr: Expression | float, index: Expression) -> Expression:
    """operator: sum over an index, which the result no longer has"""

def tensor_spline(
    *,
    at: Expression | float,
    sd: Expression | float | None = None,
    size: Expression | float = 5.0,
    interaction: bool = False,
) -> Distribution:
    """structure: tensor product of splines: a smooth surface of columns in different units"""

def toeplitz(*, sd: Expression | float | None = None, pacf: Expression | float) -> Distribution:
    """structure: any stationary covariance over equal steps, by its partial autocorrelations"""

def tweedie(
    *,
    log_mean: Expression | float,
    dispersion: Expression | float,
    power: Expression | float,
    weight: Expression | float = 1.0,
) -> Distribution:
    """family: 0 or positive: sums of a Poisson number of gamma terms (rain, claims, catches)"""

def uniform(*, lower: Expression | float, upper: Expression | float) -> Distribution:
    """prior: uniform between two bounds, as far as the hyper's type goes"""

def wavelet(
    expr: Expression | float,
    *,
    filter: Literal['haar', 'db2', 'db3', 'db4', 'db5', 'db6', 'db7', 'db8', 'db9', 'db10', 'sym2', 'sym3', 'sym4', 'sym5', 'sym6', 'sym7', 'sym8', 'sym9', 'sym10', 'coif1', 'coif2', 'coif3'],
    levels: Expression | float | None = None,
) -> Expression:
    """operator: orthogonal wavelet transform along all axes, periodic at the borders"""

def weibull(
    *,
    log_scale: Expression | float,
    shape: Expression | float | None = None,
    log_shape: Expression | float | None = None,
    event: Expression | float | None = None,
    lower: Expression | float | None = None,
    upper: Expression | float | None = None,
    weight: Expression | float = 1.0,
    hurdle: Expression | float | None = None,
    hurdle_logit: Expression | float | None = None,
    entry: Expression | float | None = None,
) -> Distribution:
    """family: lifetimes whose hazard grows or falls with time, with a modelled log-scale"""

def white(*, sd: Expression | float | None = None) -> Expression:
    """kernel: noise of each observation: independent, whatever the inputs are"""
