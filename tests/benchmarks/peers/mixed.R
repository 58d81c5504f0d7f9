# Mixed models as lme4 reads them. FOLDER holds NAME.rds (formula, family, data) with NAME.csv and
# NAME.json, the same model as columns: y, n (trials), o (offset), x1.. (fixed effects), and for the
# k-th random term gk and zk_1.. (groups from 0, columns).
# Rscript mixed.R published FOLDER: tables that ship with lme4, and simulated ones.
# Rscript mixed.R rows FOLDER ROWS.csv: rows of MixedBench's registry; says which have no table here.
# Rscript mixed.R scenario FOLDER NAME FAMILY GROUPS SIZE SLOPE REPLICATES: NAME-1, NAME-2, ...
# Rscript mixed.R fit FOLDER PEER NAME ...: a line for each; lme4 or glmmTMB, maximum likelihood.
suppressMessages({library(lme4); library(jsonlite)})
a <- commandArgs(TRUE); folder <- a[2]
quiet <- function(gaussian) {
  control <- if (gaussian) lmerControl else glmerControl
  control(check.nobs.vs.nlev = "ignore", check.nobs.vs.nRE = "ignore", check.nlev.gtr.1 = "ignore",
          check.nobs.vs.rankZ = "ignore")
}
written <- function(name, formula, family, data) {
  environment(formula) <- globalenv()
  plain <- family %in% c("gaussian", "ordinal")
  r <- if (plain) lFormula(formula, data, control = quiet(TRUE)) else
    glFormula(formula, data, family = if (family == "nbinom2") "poisson" else if (family == "Gamma")
      Gamma("log") else family, control = quiet(FALSE))
  y <- model.response(r$fr); o <- model.offset(r$fr); n <- rep(1, nrow(r$fr))
  if (is.matrix(y)) { n <- rowSums(y); y <- y[, 1] } else if (is.factor(y)) y <- as.integer(y) - (family == "binomial")
  trials <- any(n != 1)
  d <- data.frame(y = as.numeric(y), n = n, o = if (is.null(o)) 0 else as.numeric(o))
  d <- cbind(d, setNames(as.data.frame(as.matrix(r$X)), paste0("x", seq_len(ncol(r$X)))))
  t <- r$reTrms; ends <- cumsum(c(0, lengths(t$cnms))); terms <- list()
  for (k in seq_along(t$cnms)) {
    g <- as.integer(t$flist[[attr(t$flist, "assign")[k]]]) - 1; d[[paste0("g", k)]] <- g
    q <- length(t$cnms[[k]])
    block <- t$Zt[(t$Gp[k] + 1):t$Gp[k + 1], , drop = FALSE]
    for (j in seq_len(q)) d[[paste0("z", k, "_", j)]] <-
      as.numeric(colSums(block[seq(j, nrow(block), by = q), , drop = FALSE]))
    terms[[k]] <- I(t$cnms[[k]])
  }
  data.table::fwrite(d, file.path(folder, paste0(name, ".csv")))
  meta <- list(family = if (trials) "trials" else family, columns = I(colnames(r$X)), terms = terms)
  write_json(meta, file.path(folder, paste0(name, ".json")), auto_unbox = TRUE)
  saveRDS(list(formula = formula, family = family, data = data), file.path(folder, paste0(name, ".rds")))
}
fitted <- function(peer, formula, family, data) {
  if (peer == "glmmTMB") {
    law <- if (family == "Gamma") Gamma("log") else if (family == "nbinom2") glmmTMB::nbinom2() else family
    return(glmmTMB::glmmTMB(formula, data, family = law))
  }
  if (family == "gaussian") return(lmer(formula, data, REML = FALSE, control = quiet(TRUE)))
  if (family == "nbinom2") return(glmer.nb(formula, data, control = quiet(FALSE)))
  glmer(formula, data, family = if (family == "Gamma") Gamma("log") else family, control = quiet(FALSE))
}
clock <- function() { p <- proc.time(); unname(p[1] + p[2]) }
record <- function(peer, name) {
  s <- readRDS(file.path(folder, paste0(name, ".rds"))); said <- character(); environment(s$formula) <- environment()
  once <- function() { b <- clock(); m <- withCallingHandlers(fitted(peer, s$formula, s$family, s$data),
      warning = function(w) { said <<- c(said, conditionMessage(w)); invokeRestart("muffleWarning") })
    list(m = m, cpu = clock() - b) }
  out <- tryCatch({
    one <- suppressMessages(once()); first <- one$cpu; again <- said
    if (first < 60) { said <- character(); one <- suppressMessages(once()) }
    m <- one$m; tmb <- peer == "glmmTMB"
    b <- if (tmb) fixef(m)$cond else fixef(m); v <- if (tmb) vcov(m)$cond else as.matrix(vcov(m))
    u <- if (tmb) VarCorr(m)$cond else VarCorr(m)
    bad <- if (tmb) m$fit$convergence != 0 || !isTRUE(m$sdr$pdHess) else {
      c <- m@optinfo$conv; length(grep("singular", c$lme4$messages, invert = TRUE)) > 0 || c$opt != 0 }
    list(name = name, tool = peer, first = first, warm = one$cpu, loglik = as.numeric(logLik(m)),
         converged = !bad, singular = if (tmb) FALSE else isSingular(m), beta = I(unname(b)),
         se = I(unname(sqrt(diag(v)))), sd = I(unname(unlist(lapply(u, attr, "stddev")))),
         evaluations = if (tmb) unname(m$fit$evaluations[1]) else m@optinfo$feval,
         message = paste(unique(said), collapse = "; "))
  }, error = function(e) list(name = name, tool = peer, converged = FALSE, message = conditionMessage(e)))
  cat(toJSON(out, auto_unbox = TRUE, digits = 15, null = "null", na = "null"), "\n", sep = "")
}
sigmoid <- function(x) 1 / (1 + exp(-x))
simulated <- function() {
  set.seed(1)
  n <- 20000; g <- sample(2000, n, TRUE); x <- rnorm(n); u <- rnorm(2000, 0, 0.7)
  v <- 0.3 * u + rnorm(2000, 0, 0.3); eta <- 0.3 + 0.4 * x + u[g]; d <- data.frame(x, g = factor(g))
  slope <- function(y) cbind(y = y, d)
  both <- eta + v[g] * x
  school <- sample(200, n, TRUE); class <- factor(paste(school, sample(10, n, TRUE)))
  nested <- 0.3 + 0.4 * x + rnorm(200, 0, 0.4)[school] + rnorm(nlevels(class), 0, 0.6)[as.integer(class)]
  e <- data.frame(x, school = factor(school), class); two <- y ~ x + (1 | school) + (1 | class)
  k <- 1e5; pair <- rep(seq_len(k), each = 2); w <- rnorm(2 * k); h <- 0.3 + 0.4 * w + rnorm(k, 0, 0.7)[pair]
  p <- data.frame(x = w, g = factor(pair))
  slopes <- y ~ x + (x | g); one <- y ~ x + (1 | g)
  list(
    `slopes normal` = list(slopes, "gaussian", slope(both + rnorm(n))),
    `slopes Poisson` = list(slopes, "poisson", slope(rpois(n, exp(both)))),
    `slopes binary` = list(slopes, "binomial", slope(rbinom(n, 1, sigmoid(both)))),
    `nested normal` = list(two, "gaussian", cbind(y = nested + rnorm(n), e)),
    `nested Poisson` = list(two, "poisson", cbind(y = rpois(n, exp(nested)), e)),
    `negative binomial` = list(one, "nbinom2", slope(rnbinom(n, size = 2, mu = exp(eta)))),
    Gamma = list(one, "Gamma", slope(rgamma(n, shape = 2, rate = 2 / exp(eta)))),
    ordinal = list(one, "ordinal", slope(1 + findInterval(eta + rlogis(n), c(-1, 0.5, 2)))),
    `pairs normal` = list(one, "gaussian", cbind(y = h + rnorm(2 * k), p)),
    `pairs Poisson` = list(one, "poisson", cbind(y = rpois(2 * k, exp(h)), p)))
}
if (a[1] == "published") {
  fruits <- total.fruits ~ nutrient * amd + rack + status + (1 | popu) + (1 | gen)
  ticks <- transform(grouseticks, HEIGHT = as.numeric(scale(HEIGHT)))
  models <- c(list(
    sleepstudy = list(Reaction ~ Days + (Days | Subject), "gaussian", sleepstudy),
    Penicillin = list(diameter ~ (1 | plate) + (1 | sample), "gaussian", Penicillin),
    cbpp = list(cbind(incidence, size - incidence) ~ period + (1 | herd), "binomial", cbpp),
    grouseticks = list(TICKS ~ YEAR + HEIGHT + (1 | BROOD) + (1 | INDEX) + (1 | LOCATION), "poisson", ticks),
    `Arabidopsis Poisson` = list(fruits, "poisson", Arabidopsis),
    `Arabidopsis nbinom2` = list(fruits, "nbinom2", Arabidopsis),
    VerbAgg = list(r2 ~ Anger + Gender + btype + situ + (1 | id) + (1 | item), "binomial", VerbAgg)), simulated())
  for (name in names(models)) { do.call(written, c(list(name), models[[name]])); cat(name, "\n") }
} else if (a[1] == "rows") {
  rows <- read.csv(a[3], colClasses = "character")
  for (i in seq_len(nrow(rows))) {
    row <- rows[i, ]; said <- tryCatch({
      from <- new.env(); suppressWarnings(data(list = row$object, package = row$source, envir = from))
      d <- if (exists(row$object, from, inherits = FALSE)) get(row$object, from) else
        getExportedValue(row$source, row$object)
      d <- as.data.frame(d); for (kind in strsplit(row$types, ";")[[1]]) {
        pair <- strsplit(kind, "=")[[1]]; to <- c(categorical = factor, ordered = ordered,
          continuous = function(v) as.numeric(as.character(v)))[[pair[2]]]
        if (!inherits(d[[pair[1]]], "factor") || pair[2] == "continuous") d[[pair[1]]] <- to(d[[pair[1]]]) }
      written(row$name, as.formula(row$formula), c(gaussian = "gaussian", bernoulli = "binomial",
              poisson = "poisson")[[row$family]], d); "" }, error = conditionMessage)
    if (said != "") cat(toJSON(list(name = row$name, message = said), auto_unbox = TRUE), "\n", sep = "")
  }
} else if (a[1] == "scenario") {
  name <- a[3]; family <- a[4]; m <- as.integer(a[5]); each <- as.integer(a[6]); slope <- a[7] == "slope"
  for (r in seq_len(as.integer(a[8]))) {
    set.seed(r); g <- rep(seq_len(m), each = each); x <- rnorm(m * each); u <- rnorm(m)
    v <- 0.4 * (0.3 * u + sqrt(1 - 0.3^2) * rnorm(m))
    eta <- 0.3 + 0.5 * x + 0.7 * u[g] + if (slope) v[g] * x else 0
    y <- switch(family, gaussian = eta + rnorm(m * each), poisson = rpois(m * each, exp(eta)),
                binomial = rbinom(m * each, 1, sigmoid(eta)))
    written(paste0(name, "-", r), if (slope) y ~ x + (x | g) else y ~ x + (1 | g), family,
            data.frame(y, x, g = factor(g)))
  }
} else for (name in a[-(1:3)]) record(a[3], name)
