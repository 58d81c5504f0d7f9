"""Concepts of statistics that are no word of the language, and where to find them here: what a user
of other software looks for. The one table of topics by other names."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from lgmdsl.vocabulary.examples import NOISE, SD, grouped, model, regression, slopes, smooth, sparse
from lgmdsl.vocabulary.page import WIDTH, Page
from lgmdsl.vocabulary.signature import spelling


@dataclass(frozen=True)
class Concept:
    """`name` and the other names under which it is found, between semicolons; `text` says how it is
    written here; `example` is a complete model or a command; `see_also` are words."""

    name: str
    also: str
    summary: str
    text: str
    example: str
    see_also: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All names."""
        return (self.name, *(n.strip() for n in self.also.split(";") if n.strip()))


_FIT = "lgm fit model.lgm data.npz"
_COUNTS = regression("poisson(log_rate = eta)", y="count")
_TIMES = "data died[obs] : binary"
_MAP = smooth(
    "bym2(graph = edges, sd = s, mix = m)", "data edges[region, region] : graph", SD,
    "hyper m : unit ~ pc_mix(graph = edges, u = 0.5, alpha = 0.67)", axis="region",
)  # fmt: skip

CONCEPTS: tuple[Concept, ...] = (
    Concept(
        "formula", "R formula; model formula; glm; lm; gam; glmer; lmer; inla; brm",
        "models are written as statements, without formulas",
        "y ~ x + offset(log(time)) + (1 | who) of R is: data declared by name, a latent for each "
        "coefficient (a for the intercept, b for x, u[group] for the groups), let eta[obs] = a + "
        "b * x + log(time) + u[who], and observe y ~ poisson(log_rate = eta). Nothing is added "
        "that is not written, the intercept included.",
        grouped(SD), ("let", "observe", "latent", "language", "random-effect"),
    ),
    Concept(
        "intercept", "constant; level; bias",
        "a latent without an index, which each model writes for itself",
        "latent a ~ normal(sd = 5), or flat where the data determine it, and a as a term of the "
        "predictor.",
        _COUNTS, ("latent", "normal", "flat"),
    ),
    Concept(
        "fixed-effect", "coefficient; slope; regression coefficient; covariate; design matrix; "
        "fixef",
        "a latent that multiplies a covariate",
        "latent b ~ normal(sd = 2) and b * x; of many covariates latent b[feat] ~ normal(sd = 2) "
        "and X @ b, with data X[obs, feat] : real.",
        sparse("laplace(scale = s)", SD), ("latent", "normal", "sum", "indices"),
    ),
    Concept(
        "random-effect",
        "random intercept; random effects; mixed model; mixed; mixed effects; lmm; multilevel; "
        "hierarchical; crossed; nested; varying intercept; group effect; ranef; BLUP; "
        "conditional modes",
        "a latent over an index, gathered by a map of the rows",
        "data who[obs] : group maps rows to groups, latent u[group] ~ normal(sd = s) has an entry "
        "for each group, u[who] one for each row; s is learned. Crossed and nested effects are "
        "further latents with maps of their own; the labels of nested groups must differ.",
        grouped(SD), ("latent", "normal", "indices", "pc_sd", "random-slope", "GLMM"),
    ),
    Concept(
        "random-slope", "random slopes; varying slope; correlated random effects; random "
        "coefficient; unstructured covariance",
        "an intercept and a slope for each group, with a covariance between them",
        "An index with a label for each term, latent d[group, term] ~ iid * dense(cov = S), and a "
        "prior of the covariance S; d[who, \"slope\"] picks the slope of a row's group.",
        slopes("lkj_cov(eta = 2, u = 2, alpha = 0.05)"), ("dense", "lkj_cov", "iid"),
    ),
    Concept(
        "variance-component",
        "VarCorr; variance components; ICC; intraclass correlation; isSingular; singular; "
        "singular fit; boundary fit; zero variance",
        "an sd or a covariance of groups; where --hyper map ends at 0 its fit is singular",
        'fit.mean("s") and fit.quantile("s", [0.05, 0.95]); shares of the variance by report '
        "icc = s^2 / (s^2 + noise^2). An sd that is best at 0 ends a maximisation next to 0 "
        "without a standard error, which is no failure; fit.profile() has its upper end, and the "
        "default, which integrates, its posterior.",
        slopes("lkj_cov(eta = 2, u = 2, alpha = 0.05)"),
        ("random-effect", "random-slope", "report", "profile-likelihood"),
    ),
    Concept(
        "frailty", "shared frailty; frailty model",
        "a latent of a group or a person in the predictor of lifetimes",
        "The group's log frailty is u[group] ~ normal(sd = s), added to the log rate or log scale; "
        "exp(u) is lognormal. Gamma frailties are not available.",
        model(
            "index obs", "index group", "data who[obs] : group", "data y[obs] : positive", _TIMES,
            SD, "latent level ~ normal(sd = 5)", "latent u[group] ~ normal(sd = s)",
            "observe y ~ exponential(log_rate = level + u[who], event = died)",
        ),
        ("exponential", "weibull", "random-effect", "censoring"),
    ),
    Concept(
        "survival", "hazard; time to event; lifetime; Cox; AFT; accelerated failure time",
        "lifetimes with censoring, delayed entry and survival curves",
        "All families of positive numbers: exponential, weibull, gompertz, loglogistic, lognormal, "
        "gamma, inverse_gaussian, generalized_gamma, and piecewise_exponential, Cox's model with a "
        "piecewise constant hazard. event = died says which lifetimes were "
        "observed (1) and which are right-censored (0). "
        "Predictors are of the log rate (proportional hazards) or of the log scale (accelerated "
        "failure time). entry = joined is the time from which a row was at risk. "
        "fit.survival(times, newdata) gives survival curves and hazards with their uncertainty, "
        "as a frame.",
        regression("exponential(log_rate = eta, event = died)", _TIMES, y="positive"),
        ("exponential", "weibull", "gompertz", "loglogistic", "piecewise_exponential",
         "censoring", "entry", "frailty"),
    ),
    Concept(
        "censoring",
        "censored; right-censored; left-censored; interval-censored; limit of detection; "
        "detection limit; truncation; left truncation; delayed entry; Surv; tobit",
        "responses known only to lie in an interval: event, lower and upper",
        "event is 1 where y was observed and 0 where the true value is above it. lower and upper "
        "are the ends of an interval; an end that is missing or infinite is open, and where there "
        "is one y may be missing, or absent from the data altogether: below a limit of detection "
        "upper is the limit. A row without either end is observed. "
        "Families of positive numbers also take entry, the time from which a row was at risk "
        "(delayed entry, left truncation): the density given y > entry, where a missing entry is "
        "0. Counts without zeros have truncated = true.",
        regression("normal(mean = eta, sd = noise, event = seen)", NOISE,
                   "data seen[obs] : binary"),
        ("normal", "weibull", "survival"),
    ),
    Concept(
        "offset", "offsets; rate; person-years; E",
        "a term of the predictor without a coefficient; of counts the argument exposure",
        "let eta[obs] = a + b * x + log(time) has the offset log(time). poisson(log_rate = eta, "
        "exposure = time) is the same for counts, and keeps eta a log rate.",
        regression("poisson(log_rate = eta, exposure = time)", "data time[obs] : positive",
                   y="count"),
        ("poisson", "let", "exposure"),
    ),
    Concept(
        "weights", "weight; prior weights; survey weights; case weights; frequency weights; wt; "
        "sampling weights; power likelihood; tempering",
        "weight of an observe statement multiplies the log density of each row",
        "Every observation family takes weight = w, data or a number from 0: 2 counts a row twice, "
        "0 leaves it out, 0.5 has its density to the power 1/2. So identical rows are one row with "
        "their number, survey weights are scaled to a mean of 1, and a constant below 1 tempers "
        "all data. Draws, predictions and leave-one-out densities are of a row of weight 1; "
        "dic, waic and loo multiply each row's contribution by its weight. Variances in "
        "proportion to 1/w (the weights of R's lm) are sd = noise / sqrt(w), and numbers of "
        "trials behind a proportion (of R's binomial) binomial(n = n). ep approximates t^w as one "
        "site, not as w of them; every other method answers as with w rows.",
        regression("poisson(log_rate = eta, weight = w)", "data w[obs] : nonnegative", y="count"),
        ("zero-inflation", "censoring", "normal", "binomial"),
    ),
    Concept(
        "overdispersion", "extra variation; quasipoisson; quasibinomial; OLRE; dispersion",
        "more variance than poisson or binomial have: negbinomial, or a latent of each row",
        "negbinomial(log_mean = eta, size = k) has variance mean + mean^2 / size. A latent "
        "e[obs] ~ normal(sd = s) in the predictor works for every family, binomial too.",
        model(
            "index obs", "data n[obs] : count", "data y[obs] : count", SD,
            "latent level ~ normal(sd = 5)", "latent e[obs] ~ normal(sd = s)",
            "observe y ~ binomial(n = n, logit = level + e)",
        ),
        ("negbinomial", "poisson", "binomial"),
    ),
    Concept(
        "zero-inflation", "zero-inflated; zip; zinb; ziformula; hurdle; zero-truncated; modifiers; "
        "excess zeros; ZIP; ZINB; ziGamma; truncated_poisson; hu; zi",
        "zeros of counts and of positive responses: zero_inflation, hurdle and truncated",
        "Every family of counts takes one of them. zero_inflation = p adds zeros of probability p "
        "to those of the family, P(0) = p + (1 - p) f(0). hurdle = p says that y is 0 with "
        "probability p and else follows the family given y > 0, P(y) = (1 - p) f(y) / (1 - f(0)). "
        "truncated = true is for zeros that are never recorded, f(y) / (1 - f(0)). gamma, "
        "lognormal, weibull and other families of positive numbers take hurdle too, and y is then "
        "declared nonnegative. p is a number, data or a hyper of type unit; a beta prior "
        "suits it. zero_inflation_logit = zeta and hurdle_logit = zeta give p a predictor of its "
        "own, the log odds of an extra zero and of P(0). Zero inflation "
        "is not log-concave, and a zero may be of either kind: look at "
        "a negbinomial without it first.",
        regression("negbinomial(log_mean = eta, size = k, zero_inflation = p)",
                   "hyper k : positive ~ lognormal(mean = 0, sd = 1)",
                   "hyper p : unit ~ beta(a = 1, b = 4)", y="count"),
        ("poisson", "negbinomial", "gamma", "nonnegative", "weights"),
    ),
    Concept(
        "heteroscedasticity", "variance model; dispformula; volatility; stochastic volatility; "
        "unequal variances; sigma; variance function; varFunc; varIdent; varPower; varExp; "
        "varFixed; varConstPower",
        "a predictor of the log variance, or an sd that differs by row",
        "normal(mean = 0, log_var = eta) models the log variance by latents, normal(mean = eta, "
        "log_sd = zeta) both. Known differences are sd = noise * v with data v (varFixed); groups "
        "with sds of their own have hyper s[group] : positive and sd = s[who] (varIdent); sd = s * "
        "v^p and sd = s * exp(p * v) with hyper p : real are varPower and varExp. Next to "
        "correlated residuals they multiply the latent: residual = v^p * e.",
        model(
            "index day", "data y[day] : real", SD, "latent level ~ normal(sd = 5)",
            "latent h[day] ~ rw1(sd = s)", "observe y ~ normal(log_var = level + h)",
        ),
        ("normal", "rw1", "ar1"),
    ),
    Concept(
        "residual-correlation",
        "correlated residuals; correlated errors; autocorrelated errors; gls; residual covariance; "
        "corStruct; correlation structure; repeated measures; R-side; marginal model",
        "a latent that is all that y differs by from its mean: normal(mean = eta, residual = e)",
        "latent e[subject, time] ~ iid * ar1(sd = s, rho = r) and observe y ~ normal(mean = eta, "
        "residual = e[who, when]) is gls(y ~ ..., corAR1(form = ~ time | subject)), exactly; "
        "random effects in eta make it lme. Any proper structure may stand there: ar1, ou, "
        "toeplitz, compound, dense, gp, known, products of them, each with one sd or one for each "
        "member. A number of each row may multiply it: residual = s[kind] * e[who, when]. e is not "
        "inferred, as y - eta is e; rows without y are left out. Predictions are of rows by "
        "themselves, leave-one-out is by whole groups: fit.loo(groups=...).",
        model(
            "index obs", "index subject", "index time", "data who[obs] : subject",
            "data when[obs] : time", "data x[obs] : real", "data y[obs] : real", SD,
            "hyper r : correlation ~ pc_cor0(u = 0.5, alpha = 0.5)",
            "latent a ~ normal(sd = 5)", "latent b ~ normal(sd = 2)",
            "latent e[subject, time] ~ iid * ar1(sd = s, rho = r)",
            "observe y ~ normal(mean = a + b * x, residual = e[who, when])",
        ),
        ("normal", "ar1", "ou", "toeplitz", "compound", "dense", "heteroscedasticity"),
    ),
    Concept(
        "reduced-rank",
        "rr; gllvm; low rank; factor-analytic covariance; generalized linear latent "
        "variable model",
        "loadings, which are hyperparameters, times a few latents of each group",
        "rr(0 + item | person, 2) of glmmTMB has the covariance L L': index factor = 2, hyper "
        "L[item, factor] : real ~ normal(sd = 1), latent z[person, factor] ~ normal(sd = 1), and "
        "sum(L[what, factor] * z[who, factor], factor) in the predictor. Loadings are determined "
        "up to a rotation; fit.mean(\"L\") has one of them. Independent rests of each item are a "
        "latent of their own.",
        model(
            "index person", "index item", "index factor = 2", "data y[person, item] : count",
            "hyper L[item, factor] : real ~ normal(sd = 1)", "latent level[item] ~ normal(sd = 5)",
            "latent z[person, factor] ~ normal(sd = 1)",
            "let eta[person, item] = level + L @ z",
            "observe y ~ poisson(log_rate = eta)",
        ),
        ("hyper", "normal", "dense", "sum"),
    ),
    Concept(
        "smooth",
        "splines; smoothing; additive model; s(x); nonlinear; non-linear; curve; "
        "penalised spline; p-spline; loess",
        "a spline of a covariate, or a latent over an ordered index with rw2",
        "Of one covariate: latent f[obs] ~ spline(at = x, sd = s), as s(x) of mgcv; of two or "
        "three, x has that many columns; of columns in different units tensor_spline, as te of "
        "mgcv. Over distinct values (days, ages, dose levels): index "
        "age, data when[obs] : age, latent f[age] ~ rw2(sd = s), then f[when]; labels that are "
        "numbers are positions. With a length scale of its own: latent f[obs] ~ gp(at = x, "
        "kernel = matern(...)).",
        smooth("rw2(sd = s)", SD), ("spline", "tensor_spline", "rw2", "rw1", "gp", "matern"),
    ),
    Concept(
        "effective-degrees-of-freedom",
        "edf; effective df; smooths; summary.gam; significance of smooth terms; anova.gam; "
        "Ref.df; test of a smooth; p-value of a smooth; hat matrix; wiggliness",
        "how much of a smooth the data determine: fit.smooths()",
        "fit.smooths() has a row for each spline, rw1, rw2 and each curve of a product with iid: "
        "edf, its effective degrees of freedom (1 for a straight line), and sd, its typical size; "
        "lgm summary prints them. fit.smooths(test=True), and lgm summary model.fit.nc --smooths, "
        "add statistic, ref_df and p_value, as the summary of a gam of mgcv.",
        _FIT, ("spline", "tensor_spline", "rw2", "smooth", "degrees-of-freedom"),
    ),
    Concept(
        "checks-of-smooths",
        "k.check; gam.check; k-index; basis dimension; basis size; number of knots; concurvity; "
        "check a smooth; is k large enough",
        "whether a basis is large enough, and smooths that stand in for one another",
        "fit.smooths(check=True) adds k, how many coefficients a smooth has, k_index and "
        "k_p_value: with edf near k and an index below 1 that few permutations reach, ask for a "
        "larger size in spline(...). fit.smooths(concurvity=True) says how much of each smooth "
        "all else in the predictor could stand in for, from 0 to 1.",
        _FIT, ("spline", "tensor_spline", "smooth", "effective-degrees-of-freedom"),
    ),
    Concept(
        "curve-of-a-smooth",
        "derivatives; derivative of a smooth; slope of a smooth; gratia; smooth_estimates; "
        "difference_smooths; difference of smooths; simultaneous interval; simultaneous "
        "confidence interval; simultaneous band; confidence band; rate of change",
        "a spline along its covariate, with bands: fit.curve()",
        "fit.curve(\"f\") has the spline f at 100 positions, or at those given, with sd, pointwise "
        "interval and simultaneous band; derivative=1 and 2 have its derivatives, and contrast="
        "(\"a\", \"b\") the difference of two curves of f[group, obs] ~ iid * spline(...). What "
        "the covariate does to the response: fit.effects(\"x\").",
        _FIT, ("spline", "smooth", "effective-degrees-of-freedom"),
    ),
    Concept(
        "spatial", "disease map; BYM; areal; CAR; ICAR; MRF; geostatistics; kriging; map "
        "of regions",
        "regions by a graph of neighbours (bym2, besag, car), points by spde or gp",
        "data edges[region, region] : graph takes pairs of neighbours or an adjacency matrix. bym2 "
        "is the model of Besag, York and Mollie with one sd and the share of its spatial part.",
        _MAP, ("bym2", "besag", "car", "spde", "gp", "graph"),
    ),
    Concept(
        "time-series", "autoregression; ARIMA; state space; dynamic model; temporal; serial "
        "correlation",
        "a latent over time: ar1, ar, rw1, rw2, seasonal, ou",
        "Each is a structure over an ordered index: index day = 1..365, latent f[day] ~ ar1(sd = "
        "s, rho = r). Trend, season and noise are separate latents that are added.",
        smooth("ar1(sd = s, rho = r)", SD,
               "hyper r : correlation ~ pc_cor1(u = 0.5, alpha = 0.75)"),
        ("ar1", "ar", "rw1", "seasonal", "forecast"),
    ),
    Concept(
        "forecast", "prediction; predict; extrapolation; new data; posterior predictive",
        "predictions of new rows from a saved fit, at labels beyond the fitted ones too",
        "lgm predict model.fit.nc new.csv, fit.predict(new). Structures over an ordered index "
        "(rw1 rw2 ar1 ar ou seasonal) go on beyond the data. Rows of y that are missing (a type "
        "with `?`) are predicted by lgm impute, fit.impute().",
        _FIT + " -o model.fit.nc", ("rw1", "ar1", "data", "missing"),
    ),
    Concept(
        "missing", "missing values; NA; NaN; missing data; imputation; impute",
        "a `?` after the type allows missing entries of a response",
        "data y[obs] : count? may hold NaN, NA or empty fields. A missing response contributes "
        "nothing, and fit.impute() predicts it. A missing covariate is an error (E304): leave the "
        "row out, or fill it in.",
        model(
            "index obs", "data x[obs] : real", "data y[obs] : count?", "latent a ~ normal(sd = 5)",
            "latent b ~ normal(sd = 2)", "observe y ~ poisson(log_rate = a + b * x)",
        ),
        ("data", "observe", "E304"),
    ),
    Concept(
        "factor", "categorical covariate; levels; dummy; contrasts; treatment contrast; one-hot",
        "an index: its labels are the levels, a latent over it has their effects",
        "data treatment[obs] : arm, latent t[arm] ~ normal(sd = 2), and t[treatment] in the "
        "predictor. All levels have an effect; where a reference is wanted: "
        'constrain t["placebo"] = 0.',
        model(
            "index obs", 'index arm = {"placebo", "drug"}', "data treatment[obs] : arm",
            "data y[obs] : count", "latent a ~ normal(sd = 5)", "latent t[arm] ~ normal(sd = 2)",
            "observe y ~ poisson(log_rate = a + t[treatment])", 'constrain t["placebo"] = 0',
        ),
        ("index", "constrain", "indices", "head"),
    ),
    Concept(
        "interaction", "interactions; product term; moderation; space-time; spatio-temporal",
        "a product of data with a latent, or a latent over two indices",
        "b * x * z is the interaction of two covariates; b[arm] gathered as b[treatment] * x is a "
        "slope for each level; latent f[region, year] ~ iid * ar1(sd = s, rho = r) is one of "
        "two indices, its structures joined by `*` in their order. Columns of a design matrix are "
        'crossed by --map "X=x*contrasts(arm)".',
        model(
            "index obs", "index arm", "data treatment[obs] : arm", "data x[obs] : real",
            "data y[obs] : count", "latent a ~ normal(sd = 5)", "latent b[arm] ~ normal(sd = 2)",
            "observe y ~ poisson(log_rate = a + b[treatment] * x)",
        ),
        ("latent", "indices", "factor"),
    ),
    Concept(
        "GLM", "generalised linear model; generalized linear model; regression; logistic "
        "regression; poisson regression; linear model; link; link function",
        "a family whose argument names the link, of a predictor affine in latents",
        "bernoulli(logit = eta), poisson(log_rate = eta), normal(mean = eta, sd = s), gamma("
        "log_mean = eta, shape = k): the name of the argument is the link, and there is no "
        "default one.",
        regression("bernoulli(logit = eta)", y="binary"),
        ("observe", "bernoulli", "poisson", "normal", "fixed-effect"),
    ),
    Concept(
        "GLMM", "generalised linear mixed model; generalized linear mixed model; gllamm; "
        "glmmTMB; lme4",
        "a family of a predictor with latents over groups, whose sd is learned",
        "As a GLM, with u[who] of latent u[group] ~ normal(sd = s) in the predictor and a prior of "
        "s. Fixed and random effects are both latents; what makes one random is a learned sd.",
        grouped(SD), ("random-effect", "random-slope", "GLM", "pc_sd"),
    ),
    Concept(
        "INLA", "R-INLA; nested Laplace; integrated nested Laplace approximation; inlabru",
        "--method laplace --hyper integrate is the nearest; auto checks and corrects the result",
        "laplace is the Gaussian at the mode, corrected for skewness under method auto where "
        "exact draws are too expensive; integrate weighs it over the hyperparameters. "
        "Scales are sds here, precisions there: the page of each structure gives both.",
        _FIT + " --method laplace --hyper integrate",
        ("laplace", "integrate", "choosing-a-method", "pc_sd"),
    ),
    Concept(
        "MCMC", "sampling; NUTS; HMC; Stan; posterior draws; samples; chains; Gibbs",
        "posteriors are Gaussian approximations, replaced by exact draws where they are off",
        "fit.sample(1000) draws from the posterior. Under method auto exact draws replace the "
        "Gaussian where its estimated error is too large and they are affordable; "
        "--audit --audit-sampler compares with an exact sampler.",
        _FIT + " --audit", ("correction", "marginals", "choosing-a-method", "W609"),
    ),
    Concept(
        "variational", "VB; ADVI; variational Bayes; variational inference; ELBO; VGA",
        "methods that maximise a lower bound of the evidence over Gaussians",
        "natural-gradient, opper-archambeau, cholesky, coordinate-ascent and lcl find the same "
        "optimum by different routes, stochastic by batches of rows; mean-field keeps blocks of "
        "latents independent, inducing is free in few directions of a gp; double-loop, "
        "coordinate-descent and px-vb use bounds of the sites; --hyper vb is mean field over "
        "hyperparameters.",
        _FIT + " --method natural-gradient",
        ("natural-gradient", "lower", "vb", "px-vb", "mean-field"),
    ),
    Concept(
        "model-comparison",
        "AIC; BIC; DIC; WAIC; LOO; cross-validation; Bayes factor; marginal likelihood; "
        "information criterion; log likelihood; logLik; deviance; anova",
        "the log evidence, and predictive criteria from the saved fit",
        "Every page of a fit has the log evidence, whose differences are log Bayes factors where "
        "the priors are proper. lgm summary model.fit.nc --criteria --data data.npz prints DIC, "
        "WAIC and LOO; fit.dic(), fit.waic(), fit.loo() and fit.pit() in Python.",
        _FIT + " -o model.fit.nc", ("exact", "lower", "choosing-a-method"),
    ),
    Concept(
        "credible-interval", "confidence interval; quantile; quantiles; standard error; p-value; "
        "posterior mean; posterior sd; significance",
        "posterior means, sds and quantiles of every latent, let, report and hyperparameter",
        'fit.mean("b"), fit.sd("b"), fit.quantile("b", [0.025, 0.975]); lgm summary model.fit.nc '
        "prints them. On another scale: report rate = exp(b). There are p-values of coefficients "
        "of Gaussian models alone.",
        regression("bernoulli(logit = eta)", y="binary") + "report odds_ratio = exp(b)\n",
        ("report", "exp", "invlogit", "profile-likelihood", "degrees-of-freedom"),
    ),
    Concept(
        "profile-likelihood", "confint; profile; profile interval; likelihood interval; "
        "likelihood ratio interval; proflik; MLE; maximum likelihood",
        "fit.profile() after --hyper map: intervals of hyperparameters by their likelihood",
        "An interval has the values for which the maximum over all other hyperparameters is at "
        "most 1.92 nats (for 0.95) below the overall one, as confint(fit) of R's lme4. Under flat "
        "priors that is the likelihood; coefficients have it where they are hyper b : real ~ flat. "
        "lgm summary model.fit.nc --profile --data data.npz prints them.",
        _FIT + " --hyper map -o model.fit.nc", ("flat", "map", "credible-interval",
        "degrees-of-freedom"),
    ),
    Concept(
        "degrees-of-freedom", "ddf; df; lmerTest; pbkrtest; Satterthwaite; Kenward-Roger; "
        "t-test; REML; restricted likelihood; denominator degrees of freedom; small sample",
        'fit.tidy(df="satterthwaite") or "kenward-roger": t-tests of Gaussian coefficients',
        "Coefficients are latents with a flat prior, and sds have flat priors and are maximised by "
        "--hyper map: this is REML. fit.tidy(df=...) then has standard errors, degrees of freedom "
        "and p-values as summary(fit, ddf) of R's lmerTest, fit.effects(df=...) those of "
        "contrasts; lgm summary model.fit.nc --df satterthwaite --data data.npz prints them.",
        _FIT + " --hyper map -o model.fit.nc", ("flat", "map", "profile-likelihood",
        "random-effect"),
    ),
    Concept(
        "sparsity", "lasso; ridge; elastic net; shrinkage; horseshoe; variable selection; ARD; "
        "penalised regression; regularisation; total variation",
        "a potential on a flat latent: laplace, student_t, exp_power",
        "latent w[feat] ~ flat, then potential w ~ laplace(scale = s). On differences of "
        "neighbours it is total variation: potential diff(u, row) ~ laplace(scale = s).",
        sparse("student_t(scale = s, df = 3)", SD), ("potential", "laplace", "student_t", "diff"),
    ),
    Concept(
        "default-prior", "prior; default priors; hyperprior; weakly informative; vague prior",
        "there are no default priors: each hyperparameter has one that is written",
        "pc_sd(u = 1, alpha = 0.01) for an sd on a log or logit scale: above 1 with probability "
        "0.01. Coefficients are latents, whose prior is their structure, normal(sd = 2).",
        grouped(SD), ("pc_sd", "hyperparameters", "half_normal", "lkj_cov"),
    ),
    Concept(
        "classification", "Gaussian process classification; GPC; machine learning; classifier; "
        "softmax regression; multinomial logit; discrete choice",
        "bernoulli or categorical of a predictor, linear or a Gaussian process",
        "Two classes: bernoulli(logit = eta). Several: categorical(softmax = eta) with a predictor "
        "of each class. lgm design proposes the cases to label next.",
        regression("bernoulli(probit = eta)", y="binary"),
        ("bernoulli", "categorical", "gp", "multinomial"),
    ),
    Concept(
        "experimental-design", "optimal design; sampling design; compressed sensing; MRI; k-space; "
        "sensor placement; information gain",
        "lgm design --by chooses which measurements to make next",
        "What is missing in a response y : real? with Gaussian noise can be measured. Lines of "
        "entries that are measured together, members of an index or labels in --candidates, are "
        "chosen by the information that they promise about the latents: lgm design image.lgm "
        "data.npz --candidates spokes.npz --by spoke --steps 16.",
        regression("normal(mean = eta, sd = 0.5)", y="real?"),
        ("fft", "normal", "laplace"),
    ),
    Concept(
        "multivariate", "several responses; joint model; shared random effect; copy",
        "several observe statements whose predictors share latents",
        "A latent may stand in any number of predictors, multiplied by data, numbers or "
        "hyperparameters: what R-INLA writes as copy is b * u[who] with hyper b : real.",
        model(
            "index obs", "index group", "data who[obs] : group", "data y[obs] : count",
            "data seen[obs] : binary", SD, "latent a ~ normal(sd = 5)", "latent c ~ normal(sd = 5)",
            "latent u[group] ~ normal(sd = s)", "observe y ~ poisson(log_rate = a + u[who])",
            "observe seen ~ bernoulli(logit = c + u[who])",
        ),
        ("observe", "let", "hyper"),
    ),
)  # fmt: skip


def concepts() -> Iterator[Page]:
    """The page of every concept."""
    for c in CONCEPTS:
        yield Page(
            "concept",
            c.name,
            c.summary,
            text=textwrap.fill(c.text, WIDTH),
            example=c.example,
            see_also=c.see_also,
            also_called=c.names[1:],
        )


def concepts_called(name: str) -> tuple[str, ...]:
    """The concepts that have a name, their own or another one."""
    wanted = spelling(name)
    if "~" in name:
        return ("formula",)
    return tuple(c.name for c in CONCEPTS if wanted in map(spelling, c.names) and wanted)
