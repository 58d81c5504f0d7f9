"""What each message code means, with a wrong example and its correction (`lgm help E203`)."""

from __future__ import annotations

import textwrap

from lgmdsl.errors import ModelError, meant, nearest
from lgmdsl.language.catalogue.model import MODEL, CodeEntry

# ---- data --------------------------------------------------------------------------------------
# Codes that need data, a posterior, a method or workers: E3xx to E7xx and their warnings.


DATA_AND_METHODS: tuple[CodeEntry, ...] = (
    CodeEntry(
        "E301",
        "wrong shape",
        "An array has other dimensions or sizes than its declaration and the labels say. Data "
        "bind by name: each axis of the array is one declared index, in the declared order.",
        "data y[obs] : count           given (59, 4)",
        "np.ravel(y), or declare       data y[patient, visit] : count",
    ),
    CodeEntry(
        "E302",
        "unknown label",
        "A value names a label that its index set does not have, or a label appears twice. In "
        "`predict`: members that the fit did not have, of an index set that takes none. Ordered "
        "structures (ar1 ar rw1 rw2 seasonal ou) take them before, between and beyond the fitted "
        "ones, at the places that numbers, dates or `at` give them.",
        'index way = {"walk", "bike"}\ndata y[obs] : way             given "bus"',
        'index way = {"walk", "bike", "bus"}',
    ),
    CodeEntry(
        "E303",
        "value outside the type",
        "A value does not belong to the declared type: a binary that is neither 0 nor 1, a "
        "negative count, a positive that is zero, an infinity.",
        "data y[obs] : binary          given 1, 2, 2, 1",
        'np.savez("d.npz", y=y - 1, ...)',
    ),
    CodeEntry(
        "E304",
        "missing entry without `?`",
        "An entry is missing (NaN, NA, masked, an empty string, -1 in a map), and the type "
        "does not allow it.",
        "data y[obs] : count",
        "data y[obs] : count?",
    ),
    CodeEntry(
        "E305",
        "datum absent",
        "The data have no array of this name. The message lists the names they do have. A column "
        "of a table holds neither a graph nor a matrix: an .npz does, or in Python a list of "
        'sources, lgm.fit(model, ["rows.csv", {"edges": pairs}]). In '
        "`predict`: the new data name nothing that rows could be asked for by.",
        "lgm fit m.lgm d.npz           d.npz has: X, y, tme",
        "lgm fit m.lgm d.npz --map time=tme",
    ),
    CodeEntry(
        "E306",
        "unreadable or refused file",
        "A file is absent, is not what its name says, holds objects that would have to be "
        "unpickled (never done), or would need more memory than there is.",
        'np.savez("d.npz", y=np.array(["a", 1], dtype=object))',
        'np.savez("d.npz", y=np.array(["a", "1"]))',
    ),
    CodeEntry(
        "E307",
        "an index without an order",
        "A structure over an ordered axis (rw1 rw2 ou ar1 ar seasonal), an ordinal family, head(), "
        "diff or cumsum needs the order of an index, and its labels are text, which has none: "
        "alphabetical order is not assumed. An order comes from labels in the model, labels bound "
        "under the index's name, an ordered categorical (pandas, polars Enum, pyarrow "
        "dictionary), dates (ISO 8601), integers or numbers.",
        'data y[obs] : stage           given "mild", "severe", "mild"',
        'index stage = {"mild", "severe"}, or data["stage"] = ["mild", "severe"], or\n'
        'pd.Categorical(y, ["mild", "severe"], ordered=True)',
    ),
    CodeEntry(
        "W302",
        "labels taken from the order",
        "An array came without labels for an index whose labels other data give; its entries "
        "are taken in the sorted order of the labels. Also where members are numbered from 0 for "
        "want of labels, but no map uses 0: numbers from 1 would then all be one member off.",
        'np.savez("d.npz", who=names, x=x)',
        'np.savez("d.npz", who=names, subject=labels_of_x, x=x)',
    ),
    CodeEntry(
        "W303",
        "loops in a graph",
        "A neighbourhood graph joins some members to themselves. These loops mean nothing and "
        "are dropped.",
        "adj = np.ones((n, n))",
        "adj = np.ones((n, n)) - np.eye(n)",
    ),
    CodeEntry(
        "W106",
        "a plug-in is left out",
        "A distribution that is installed declares a part for lgmdsl by an entry point, and it "
        "cannot be used: its module fails when it is imported, the part lacks a declaration or is "
        "of another kind, or its name is taken, by lgmdsl or by another plug-in. Models that do "
        "not use it are not affected.",
        '[project.entry-points."lgmdsl.priors"]\ngamma = "acme:Gamma"     the name is taken',
        '[project.entry-points."lgmdsl.priors"]\nacme_gamma = "acme:AcmeGamma"',
    ),
    CodeEntry(
        "W304",
        "a sparse array is expanded",
        "A sparse matrix is used outside `@`, where only a full array will do. `3 * X @ b` is one "
        "such use: products are taken from left to right, so that X is multiplied by 3 first.",
        "let eta[obs] = sum(X * b, feat)",
        "let eta[obs] = X @ b",
    ),
    CodeEntry(
        "W305",
        "unlabelled rows taken as new ones",
        "Predictions are asked for at rows without labels, as many as were fitted, and the model "
        "has latents over these rows. They are new rows, whose latents have their prior; those of "
        "the fitted rows are the fit's own.",
        'fit.predict({"x": x})          u[obs] ~ normal(sd = s), and the x of the fit',
        'fit.mean("eta")               or labels of obs in the fit and in the new data',
    ),
    CodeEntry(
        "W306",
        "responses that say nothing",
        "Responses of new rows are given to `predict`, and the model has latents of these rows "
        "alone. Predictions do not learn from them.",
        'fit.predict({"x": x, "y": y})  u[obs] ~ normal(sd = s)',
        'lgm.fit(model, {"x": x, "y": y}, fixed=...).impute()',
    ),
    CodeEntry(
        "W307",
        "members that the fit does not know",
        "Predictions are asked for at labels of a group that the fit does not have. They are new "
        "members, whose latents have their prior: its mean and its whole sd. A mistyped label is "
        "taken for one too.",
        'fit.predict({"x": [0], "who": ["Ashfrod"]})   the fit has "Ashford"',
        'fit.predict({"x": [0], "who": ["Ashford"]})',
    ),
    CodeEntry(
        "W308",
        "a key that is not used",
        "The data have a key that no name of the model asks for, and almost the same name is "
        "without one: an index that gets no labels, or a datum that keeps its values of the fit "
        "in predictions. The key may be mistyped.",
        'fit.predict({"x": [0], "Dose": 20})         data dose : real',
        'fit.predict({"x": [0], "dose": 20})',
    ),
    CodeEntry(
        "W309",
        "levels without rows",
        "A table names members of an index, or an ordered categorical names levels, that no row "
        "has. Nothing is learned of them: a member keeps the prior of its latents, and the column "
        "of a level that is coded by contrasts is zero.",
        "people.csv has p13, and no row of main.csv is of p13",
        "drop p13 from people.csv, or nothing: its effect has its prior",
    ),
    CodeEntry(
        "W310",
        "labels that look alike",
        "Two labels of an index, or two levels of a column by contrasts, differ in spaces, in "
        "their Unicode form or beyond 15 digits alone (computed fractions, as 0.1 + 0.2 and 0.3). "
        "They are different members, each with its own rows, which is seldom intended. Fields of "
        ".csv files lose their outer spaces when they are read: two labels that become one by "
        "that are named too.",
        'data["site"]                  "S2", "S2 "',
        'data["site"] = data["site"].str.strip()',
    ),
    CodeEntry(
        "E401",
        "disconnected",
        "A graph has no edge, or a latent is not joined to the data, so that a structure over it "
        "says nothing. (Several components are no error: see W401.)",
        "latent v[region] ~ besag(graph = adj, sd = s)     no region has a neighbour",
        "latent v[region] ~ normal(sd = s), or the pairs of neighbours in adj",
    ),
    CodeEntry(
        "W401",
        "disconnected",
        "A graph falls into several components. The fit goes on: each component sums to zero "
        "and is scaled by itself, and a member without neighbours is independent of all others.",
        "latent v[region] ~ besag(graph = adj, sd = s)     two components",
        "join the components in adj, or leave it as it is where they are intended",
    ),
    CodeEntry(
        "W402",
        "drawn without its flat directions",
        "`lgm simulate` and `lgm calibrate` draw latents from their priors. One that is flat in "
        "some directions (the level of a walk that need not sum to zero, the line of an rw2, the "
        "patterns of seasonal) has no draws along these: they are zero, and the rest is drawn from "
        "its own distribution. A flat block has no rest, and is refused (E402).",
        "latent f[day] ~ rw2(sd = s)                       drawn without a line",
        "latent f[day] ~ rw2(sd = s)\nlatent slope ~ normal(sd = 1)\n"
        "let trend[day] = f + slope * x                    with data x[day] : real",
    ),
    CodeEntry(
        "E402",
        "improper posterior",
        "Neither the prior nor the data fix some direction of the latents: a free level, two "
        "levels that only enter as their sum, or a flat block that the data do not determine. rw2 "
        "leaves a linear trend free, and in a product one for each member of the other axis: take "
        "rw1 where the data do not show all of them.",
        "latent b0 ~ flat\nlatent f[day] ~ rw1(sd = s, sum_to_zero = false)",
        "latent b0 ~ normal(sd = 10)\nlatent f[day] ~ rw1(sd = s)",
    ),
    CodeEntry(
        "E403",
        "contradicting constraints",
        "Constraints exclude one another, or what a prior holds fixed: rw1, rw2, besag and bym2 "
        "sum to zero already, in each component.",
        "latent f[day] ~ rw1(sd = s)\nconstrain sum(f, day) = 1",
        "latent f[day] ~ rw1(sd = s, sum_to_zero = false)\nconstrain sum(f, day) = 1",
    ),
    CodeEntry(
        "E501",
        "the method cannot run this model",
        "A method needs something of each site or prior that one of them does not have. `lgm "
        "explain` prints, for every method, whether it can run the model and why not.",
        "lgm fit glmm.lgm d.npz --method double-loop       poisson is not super-Gaussian",
        "lgm fit glmm.lgm d.npz --method laplace",
    ),
    CodeEntry(
        "E502",
        "kinked site",
        "The method uses second derivatives, and this site's log density has a kink where the "
        "mode tends to be.",
        "lgm fit lasso.lgm d.npz --method laplace          potential w ~ laplace(scale = tau)",
        "lgm fit lasso.lgm d.npz --method ep",
    ),
    CodeEntry(
        "E503",
        "no value for a hyper",
        "The hyperparameters are held fixed (`--hyper fixed`, `lgm design`), and this one has a "
        "prior but no value. `lgm fit` learns it by default.",
        "lgm fit m.lgm d.npz --hyper fixed",
        "lgm fit m.lgm d.npz --hyper fixed --set s=0.5    or without --hyper fixed",
    ),
    CodeEntry(
        "E504",
        "the bound does not apply",
        "A bound was asked for that none of the sites, or not this one, admits.",
        "lgm fit m.lgm d.npz --bound jaakkola              poisson has no such bound",
        "lgm fit m.lgm d.npz --bound quadrature",
    ),
    CodeEntry(
        "E505",
        "larger than the memory budget",
        "A latent, a let, a predictor, a prior's factor or what all engines would hold takes more "
        "memory than a fit may: LGM_MEMORY, else half of the machine's or of its control group's "
        "(4 GB at least), whatever is free. It is refused before it is allocated; memory that runs "
        "out all the same ends with this code too, and names the operation.",
        "LGM_MEMORY=2GB lgm fit m.lgm d.npz                latent u[person, item], 1e9 entries",
        "LGM_MEMORY=16GB lgm fit m.lgm d.npz               or latents of the pairs that occur",
    ),
    CodeEntry(
        "E601",
        "no usable state",
        "The iteration found no state with finite values: often data on a scale of 1e6 next to "
        "a prior of scale 1, or a prior far too wide for an exponential link.",
        "latent b[feat] ~ normal(sd = 1000)                with log_rate = X @ b",
        "latent b[feat] ~ normal(sd = 2.5)                 with columns of X of unit scale",
    ),
    CodeEntry(
        "E602",
        "a factorisation failed",
        "A matrix that has to be positive definite is not, to working accuracy. No jitter is "
        "added in silence.",
        "two equal rows in a kernel matrix of condition 1e17",
        "add white(sd = 1e-3) to the kernel, or give its length a prior",
    ),
    CodeEntry(
        "E701",
        "a task ends its workers",
        "One part of the work, which the message names, ended the process that did it three times: "
        "most often it needs more memory than the system gives, or a part written in C crashes. "
        "What was in flight next to it is done again, and a record keeps what is finished.",
        "lgm calibrate m.lgm --sizes obs=1000000 --jobs 8  eight fits at a time, memory for two",
        "lgm calibrate m.lgm --sizes obs=1000000 --jobs 2",
    ),
    CodeEntry(
        "E702",
        "the workers cannot be reached",
        "Nothing answers at the scheduler's address, the connection to it was lost in the middle "
        "of the work, or the executor that was given is broken. A record keeps what is finished, "
        "and the same call goes on from there.",
        "lgm fit m.lgm d.npz --cluster tcp://host:8786    with no scheduler there",
        "dask scheduler --host 127.0.0.1                  then the same command",
    ),
    CodeEntry(
        "E703",
        "a worker lacks the data",
        "The data were given as a path, and a worker finds no file there, cannot read it, or finds "
        "another content than the caller has, or than the manifest of its folder of shards says.",
        "lgm fit m.lgm /tmp/d.npz --cluster tcp://host:8786",
        "lgm fit m.lgm /shared/d.npz --cluster tcp://host:8786",
    ),
    CodeEntry(
        "E704",
        "a worker has other software",
        "A worker has another version of lgmdsl than the caller, none at all, or lacks the module "
        "of a registered part. Its digits would be others, so nothing is computed there.",
        "dask worker tcp://host:8786                      with lgmdsl 0.1.0, the caller has 0.2.0",
        "pip install lgmdsl==0.2.0                        where the workers run",
    ),
    CodeEntry(
        "W601",
        "stopped before convergence",
        "The result is usable as far as it goes, but a tolerance was not met; `status` says "
        "how the run ended, and the exit status is 3.",
        "lgm fit m.lgm d.npz -o fit.nc --max-steps 5",
        "lgm fit m.lgm d.npz --start-from fit.nc --max-steps 200",
    ),
    CodeEntry(
        "W602",
        "another optimum matters",
        "A site is not log-concave, and other starts lead elsewhere: another mode has enough of "
        "the mass to change a mean or an sd, or another start ends higher, or none was tried as "
        "that would have cost more than the fit. Up to 24 latents are searched from about 48 "
        "points and weighed; of more, runs from other starts are compared. `auto` takes the "
        "highest optimum and draws from all modes; a named method keeps its own. "
        "Where all starts agree there is a note.",
        "lgm fit m.lgm d.npz --method laplace              where outliers are half of the data",
        "lgm fit m.lgm d.npz                               or a prior that selects one mode",
    ),
    CodeEntry(
        "W603",
        "a report is not finite",
        "In some draws of the posterior the report is infinite or undefined: do not use its mean "
        "and sd.",
        "report r = log(b)                                 b may be negative",
        "report r = exp(b)",
    ),
    CodeEntry(
        "W604",
        "a hyperparameter is not identified",
        "Neither the data nor the priors determine it: its posterior is nearly flat within 5 units "
        "of its log or logit. Do not interpret its value, or what depends on it.",
        "hyper s : positive ~ flat                         with two groups",
        "hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)",
    ),
    CodeEntry(
        "W605",
        "a hyperparameter is at the edge of its range",
        "The density increases all the way to the edge, as that of a noise sd towards 0 or of a "
        "correlation towards 1: there is no mode inside, and no standard error. (An sd of a latent "
        "that goes to 0 is an ordinary result, the model without the term, and has no warning.) Or "
        "the posterior piles up at a bound of the prior (10 in uniform(lower = 0, upper = 10)), "
        "which then determines mean, sd and quantiles: take a wider prior.",
        "hyper s : positive ~ flat",
        "hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)   and --hyper integrate",
    ),
    CodeEntry(
        "W606",
        "the average over the hyperparameters is inaccurate",
        "`integrate` averages fits at several values of the hyperparameters. Some of these fits "
        "failed or did not converge, or too few were affordable (reported means, sds or quantiles "
        "may be 0.1 sd off), or the posterior is still high at the last values, as under an "
        "improper prior, or falls off so slowly that an sd is infinite (that of two or three "
        "groups under a flat prior): its quantiles are right, its mean and sd are not. Where the "
        "average is of no use the status is stalled.",
        "hyper s : positive ~ flat",
        "lgm fit m.lgm d.npz --hyper map                   or a proper prior",
    ),
    CodeEntry(
        "W607",
        "the hyperparameters have another mode",
        "Their posterior has two modes or more, as where loadings may change signs, or two terms "
        "may be exchanged: the average is taken around one of them; or map and em found another "
        "maximum that is nearly as high as the one reported, or data contradict priors (offsets "
        "far beyond theirs) and no two searches agree on the highest maximum.",
        "hyper l[item] : real ~ normal(sd = 1)             with let eta = l * u",
        "hyper l[item] : positive ~ half_normal(sd = 1)",
    ),
    CodeEntry(
        "W608",
        "loadings vanished",
        "Evidence and priors are highest where the loadings are 0, so that the factors have no "
        "effect: the columns do not vary together, or the method's bound is too loose to show that "
        "they do (that of a mean field is, with few columns).",
        "lgm fit m.lgm d.npz --hyper em --method px-vb",
        "lgm fit m.lgm d.npz --hyper em --method natural-gradient",
    ),
    CodeEntry(
        "W609",
        "a reported number may be off",
        "The estimated error of a mean exceeds 0.1 posterior sds, that of an sd 10 %, or that of a "
        "5 or 95 % point 0.15 sds: the posterior is skewed or wide where the method takes it for "
        "Gaussian (zero counts, few yes or no answers). `fit.accuracy` has the numbers. Under "
        "`auto` exact draws replace the Gaussian approximation, or where these take too long draws "
        "corrected for skewness (exact to second order). `effort=high` allows 30 times as many "
        "operations, and tolerates half the error.",
        "lgm fit m.lgm d.npz --method laplace",
        "lgm fit m.lgm d.npz --option effort=high          the default method, for longer",
    ),
    CodeEntry(
        "W610",
        "models that may not be compared, or not without doubt",
        "Of `lgm.compare_models`: log evidences compare where the responses are the same, priors "
        "are proper (or the improper parts the same) and hyperparameters are integrated; "
        "leave-one-out and stacking where the responses are the same, all discrete or all "
        "continuous. What may not be compared is left empty.",
        'lgm.compare_models({"a": fit of y, "b": fit of log(y)})',
        'lgm.compare_models({"a": fit_a, "b": fit_b})      both of y, under proper priors',
    ),
    CodeEntry(
        "W611",
        "a standard deviation rests on few draws, or on a predictor that is not Gaussian",
        "The mean and sd of a report, an effect or a response are those of draws where there is no "
        "closed form. Under an exponential of a wide predictor the furthest few of the draws then "
        "carry much of the variance, and other draws would give another sd: its standard error is "
        "above 5 %. In closed form the variance then comes from far out in the predictor, whose "
        "posterior is taken to be Gaussian there. The density of the predictor is compared with "
        "the product of its prior and the likelihood, in up to 8 entries of an answer, and it is "
        "said by how much sds are off where this is more than 10 %, or the mean by more than a "
        "tenth of an sd. Neither is said where the likelihood is Gaussian, "
        "nor of what the data do not change. Quantiles are not affected: quote these, or the "
        "logarithm, whose mean and sd are known. Often the heavy tail is the posterior's own, "
        "which a narrower prior or more data make lighter.",
        "report total = sum(exp(eta), obs)                 eta with an sd of 2",
        "report log_total = log(sum(exp(eta), obs))        the logarithm is tame",
    ),
)


# ---- codes -------------------------------------------------------------------------------------

CATALOGUE: dict[str, CodeEntry] = {entry.code: entry for entry in MODEL + DATA_AND_METHODS}

_KINDS = {
    "E1": "syntax and names",
    "E2": "indices and algebra",
    "E3": "data",
    "E4": "the posterior",
    "E5": "methods",
    "E6": "numerical trouble",
    "E7": "workers",
    "W": "warning",
}


def codes() -> tuple[str, ...]:
    """All codes, errors before warnings."""
    return tuple(sorted(CATALOGUE))


def kind_of(code: str) -> str:
    """The chapter a code belongs to: `indices and algebra` for E203."""
    return _KINDS.get(code[:2]) or _KINDS.get(code[:1], "")


def explain_code(code: str) -> str:
    """The meaning of a code, a wrong example and its correction. Raises ModelError if unknown."""
    entry = CATALOGUE.get(code.strip().strip("[]").upper())
    if entry is None:
        close = nearest(code.upper(), CATALOGUE)
        raise ModelError.of(
            "E103",
            f"there is no message code `{code}`",
            help=meant(close, then=f"Codes: {' '.join(codes())}", quote=""),
        )
    meaning = textwrap.fill(entry.meaning, 88)
    wrong, corrected = (_indented(text) for text in (entry.wrong, entry.corrected))
    return (
        f"{entry.code} ({kind_of(entry.code)}): {entry.title}\n\n{meaning}\n\n"
        f"Wrong:\n{wrong}\n\nRight:\n{corrected}\n"
    )


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
