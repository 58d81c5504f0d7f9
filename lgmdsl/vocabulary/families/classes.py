"""Families of classes, and of counts over classes."""

from __future__ import annotations

from lgmdsl.vocabulary.examples import model
from lgmdsl.vocabulary.families.declare import CLASSES, GLM, TRIALS, family, latent
from lgmdsl.vocabulary.signature import Parameter, Signature, also

FAMILIES: tuple[Signature, ...] = (
    family(
        "ordinal", ("index",), latent("logit", "location on the logistic scale", "link"),
        latent("probit", "location on the normal scale", "link"),
        Parameter("cuts", "ordered", over="cut", meaning="thresholds between the classes"),
        # Of the stereotype model only: a score of each class; only differences matter.
        Parameter("scores", "ordered", required=False, over="class",
                  instead='write model = "stereotype" with them, or leave them out',
                  meaning="a score of each class; only differences matter (stereotype model)"),
        Parameter(
            "model", "string", required=False, default="cumulative",
            choices=("cumulative", "continuation", "stereotype", "adjacent"),
            meaning="which probabilities the cuts divide",
        ),
        ordered=True, support="the classes of an index in their order",
        summary="one of several ordered classes, by a location and the cuts between classes",
        formulas={
            "logit": "ordered classes, P(y <= j) = 1 / (1 + exp(s - cuts[j]))",
            "probit": "ordered classes, P(y <= j) = Phi(cuts[j] - s)",
            "logit.continuation":
                "ordered classes, P(y = j | y >= j) = 1 / (1 + exp(s - cuts[j]))",
            "probit.continuation": "ordered classes, P(y = j | y >= j) = Phi(cuts[j] - s)",
            "logit.adjacent": "ordered classes, log P(y = j + 1) / P(y = j) = s - cuts[j]",
            "logit.stereotype": "ordered classes, log P(y = j + 1) / P(y = j) = "
                                "step of the scores * (s - cuts[j])",
            "probit.adjacent": "ordered classes, P(y = j + 1 | j or j + 1) = Phi(s - cuts[j])",
            "probit.stereotype": "ordered classes, P(y = j + 1 | j or j + 1) = "
                                 "Phi(step of the scores * (s - cuts[j]))",
        },
        scale="no scale of its own: cuts and s are in units of the logistic (sd 1.81) or the "
              "standard normal; signs are those of MASS's polr; no intercept next to the cuts",
        example=model(
            "index obs", 'index score = {"poor", "fair", "good"}', "index cut = head(score)",
            "data x[obs] : real", "data y[obs] : score",
            "hyper c[cut] : ordered ~ normal(sd = 3)", "latent b ~ normal(sd = 2)",
            "let eta[obs] = b * x", "observe y ~ ordinal(logit = eta, cuts = c)",
        ),
        also_called=(
            *also("Stan, PyMC", "ordered_logistic", "ordinal(logit, cuts)"),
            *also("Stan", "ordered_probit", "ordinal(probit, cuts)"), *also("R-INLA", "pom"),
            *also("brms", "cumulative"),
            *also("brms", "sratio", 'ordinal(logit, cuts, model = "continuation")'),
            *also("brms", "acat", 'ordinal(logit, cuts, model = "adjacent")'),
            *also("mgcv", "ocat"), *also("MASS, ordinal", "polr clm"),
        ),
        see_also=("categorical", "bernoulli", "head", "ordered"),
        source="McCullagh 1980; Anderson 1984 (stereotype); Agresti 2010, section 4.1 (adjacent)",
    ),
    family(
        "categorical", ("index",),
        latent("softmax", "a predictor of each class, or of all but the last", "link", "classes"),
        latent("stick", "log odds of each class but the last among those left", "link", "cut"),
        latent("probit", "a predictor of each class", "link", "class"),
        Parameter("available", "binary", required=False, over="class", blank=1.0,
                  meaning="1 where a class can be chosen; of `stick` the others are passed over, "
                          "and the last available class takes what is left"),
        summary="one of several classes, by a predictor of each class",
        support="the classes of an index",
        formulas={
            "softmax": "one of K classes, P(k) = exp(s_k) / sum_j exp(s_j)",
            "stick": "classes, P(y = k | y >= k) = 1 / (1 + exp(-s[k]))",
            "probit": "one of K classes, the largest of s_k plus standard normal noise",
        },
        scale="no scale of its own; with a predictor of each class only their differences are "
              "determined: hold one at 0 by `constrain`, or give predictors over `head` of the "
              "classes (softmax), whose last class is the reference",
        example=model(
            "index obs", *CLASSES, "index rest = head(class)", "data x[obs] : real",
            "latent a[rest] ~ normal(sd = 3)", "latent b[rest] ~ normal(sd = 2)",
            "let eta[obs, rest] = a + b * x", "observe y ~ categorical(softmax = eta)",
        ),
        also_called=(
            *also("Stan", "categorical_logit", "categorical(softmax)"),
            *also("nnet, mgcv", "multinom", "categorical(softmax)"), *also("BUGS, JAGS", "dcat"),
        ),
        see_also=("multinomial", "ordinal", "bernoulli", "constrain"),
        source="McFadden 1974 (softmax); Khan et al. 2012 (stick); Girolami and Rogers 2006 "
               "(probit)",
    ),
    family(
        "multinomial", ("count",), Parameter("n", "count", over="rest", meaning=TRIALS),
        latent("softmax", "a predictor of each class, or of all but the last", over="last"),
        summary="counts over classes that add up to n, by a predictor of each class",
        support="counts that add up to n",
        formulas={"softmax": "counts over K classes that add up to n"},
        scale="no scale of its own: P(k) = exp(s_k) / sum_j exp(s_j); with a predictor of each "
              "class only differences are determined",
        example=model(
            "index obs", 'index class = {"a", "b", "c"}', "data x[obs] : real",
            "data n[obs] : count", "data y[obs, class] : count",
            "latent a[class] ~ normal(sd = 3)", "latent b[class] ~ normal(sd = 2)",
            "let eta[obs, class] = a + b * x", "observe y ~ multinomial(n = n, softmax = eta)",
            'constrain a["a"] = 0', 'constrain b["a"] = 0',
        ),
        also_called=(*also("Stan", "multinomial_logit"), *also("BUGS, JAGS", "dmulti")),
        see_also=("categorical", "binomial", "poisson"), source=f"{GLM}, chapter 5",
    ),
    family(
        "admixture", ("count",), latent("softmax", "a predictor of each topic", over="topic"),
        Parameter("emission", "simplex", over="emission",
                  meaning="the probability of each word under each topic"),
        summary="counts of words from a mixture of topics: topic models, ancestry",
        support="counts of each word",
        formulas={"softmax": "counts of words, P(word) = sum_k softmax(s)_k emission[k, word]"},
        scale="no scale of its own: softmax(s) are the shares of the topics",
        example=model(
            "index letter", "index word", "index topic = 2", "data n[letter, word] : count",
            "hyper beta[topic, word] : simplex ~ dirichlet(alpha = 1.1)",
            "latent z[letter, topic] ~ normal(sd = 1)",
            "observe n ~ admixture(softmax = z, emission = beta)",
        ),
        see_also=("multinomial", "dirichlet", "simplex"), source="Blei and Lafferty 2006",
    ),
    family(
        "dirichlet", ("unit",),
        latent("softmax", "a predictor of each class, or of all but the last", over="last"),
        Parameter("concentration", "positive", over="rest",
                  meaning="the variance of a share is p (1 - p) / (1 + concentration)"),
        summary="shares of classes that add up to 1, by a predictor of each class",
        support="shares above 0 that add up to 1",
        formulas={"softmax": "shares y ~ Dirichlet(concentration p), "
                             "p_k = exp(s_k) / sum_j exp(s_j)"},
        scale="with two classes beta of the same concentration; shares of exactly 0 are refused; "
              "with a predictor of each class only differences are determined",
        example=model(
            "index obs", 'index class = {"a", "b", "c"}', "index rest = head(class)",
            "data x[obs] : real", "data y[obs, class] : unit",
            "hyper k : positive ~ lognormal(mean = 2, sd = 1)",
            "latent a[rest] ~ normal(sd = 3)", "latent b[rest] ~ normal(sd = 2)",
            "let eta[obs, rest] = a + b * x",
            "observe y ~ dirichlet(softmax = eta, concentration = k)",
        ),
        also_called=(
            *also("R", "DirichReg", note="the alternative parametrisation"),
            *also("PyMC, Stan", "Dirichlet"), *also("BUGS, JAGS", "ddirch"),
        ),
        see_also=("dirichlet_multinomial", "beta", "multinomial"),
        source="Maier 2014; Hijazi and Jernigan 2009",
    ),
    family(
        "dirichlet_multinomial", ("count",), Parameter("n", "count", over="rest", meaning=TRIALS),
        latent("softmax", "a predictor of each class, or of all but the last", over="last"),
        Parameter("concentration", "positive", over="rest",
                  meaning="how alike the rows' probabilities are; infinite is multinomial"),
        summary="overdispersed counts over classes that add up to n",
        support="counts that add up to n",
        formulas={"softmax": "counts over K classes of n trials, probabilities ~ "
                             "Dirichlet(concentration p), p_k = exp(s_k) / sum_j exp(s_j)"},
        scale="variances are those of multinomial times (concentration + n) / (concentration + 1); "
              "the multinomial coefficient is part of the density; with two classes betabinomial",
        example=model(
            "index obs", 'index class = {"a", "b", "c"}', "index rest = head(class)",
            "data x[obs] : real", "data n[obs] : count", "data y[obs, class] : count",
            "hyper k : positive ~ lognormal(mean = 2, sd = 1)",
            "latent a[rest] ~ normal(sd = 3)", "latent b[rest] ~ normal(sd = 2)",
            "let eta[obs, rest] = a + b * x",
            "observe y ~ dirichlet_multinomial(n = n, softmax = eta, concentration = k)",
        ),
        also_called=(
            *also("PyMC", "DirichletMultinomial"), *also("MGLM", "DM"),
        ),
        see_also=("multinomial", "betabinomial", "dirichlet"),
        source="Mosimann 1962; Guimaraes and Lindrooth 2007",
    ),
)  # fmt: skip
