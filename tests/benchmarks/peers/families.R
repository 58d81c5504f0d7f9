# Rscript families.R data.csv family link random runs: y (of n trials) on x1, x2, exposure e, by
# maximum likelihood, with an intercept for each group g where random is 1. `family` is glmmTMB's,
# or tw, which is mgcv's Tweedie.
# Rscript families.R data NAME: one of the data sets that ship with glmmTMB and lme4, to NAME.csv.
source("report.R"); suppressMessages(library(glmmTMB))
a <- commandArgs(TRUE)
if (a[1] == "data") {
  if (a[2] == "owls") {
    data(Owls, package = "glmmTMB"); d <- Owls
    out <- data.frame(y = d$SiblingNegotiation, rate = d$NegPerChick, e = d$BroodSize, n = 1,
                      x1 = as.numeric(d$FoodTreatment == "Satiated"), x2 = d$ArrivalTime - 24.7,
                      g = as.integer(d$Nest) - 1)
  } else if (a[2] == "salamanders") {
    data(Salamanders, package = "glmmTMB"); d <- Salamanders
    out <- data.frame(y = d$count, rate = d$count, e = 1, n = 1, x1 = as.numeric(d$mined == "no"),
                      x2 = d$cover, g = as.integer(factor(as.character(d$site))) - 1)
  } else {
    data(cbpp, package = "lme4"); d <- cbpp; p <- as.numeric(d$period)
    out <- data.frame(y = d$incidence, rate = d$incidence, e = 1, n = d$size, x1 = p - 2.5,
                      x2 = as.numeric(p == 1), g = as.integer(d$herd) - 1)
  }
  write.csv(format(out, digits = 17), paste0(a[2], ".csv"), row.names = FALSE, quote = FALSE)
  quit()
}
d <- read.csv(a[1]); d$g <- factor(d$g); d$fails <- d$n - d$y
random <- a[4] == "1"
left <- if (a[2] %in% c("betabinomial", "binomial")) "cbind(y, fails)" else "y"
formula <- as.formula(paste(left, "~ x1 + x2 + offset(log(e))", if (random) "+ (1 | g)" else ""))
if (a[2] == "tw") {
  suppressMessages(library(mgcv))
  smooth <- as.formula(paste("y ~ x1 + x2 + offset(log(e))", if (random) "+ s(g, bs = 're')" else ""))
  r <- timed(function() gam(smooth, family = tw(link = "log"), data = d, method = "ML"), as.numeric(a[5]))
  m <- r$value; k <- 1:3
  told("mgcv", "mgcv", r$cpu, b = unname(coef(m)[k]), se = unname(sqrt(diag(vcov(m)))[k]),
       power = m$family$getTheta(TRUE), dispersion = m$sig2, loglik = -as.numeric(m$gcv.ubre),
       conditional = as.numeric(logLik(m)), sd = if (random) unname(gam.vcomp(m)[1]) else 0)
  quit()
}
r <- timed(function() glmmTMB(formula, family = do.call(a[2], list(link = a[3])), data = d),
           as.numeric(a[5]))
m <- r$value
told("glmmTMB", "glmmTMB", r$cpu, b = unname(fixef(m)$cond), se = unname(sqrt(diag(vcov(m)$cond))),
     dispersion = sigma(m), loglik = as.numeric(logLik(m)), gradient = max(abs(m$sdr$gradient.fixed)),
     power = if (a[2] == "tweedie") unname(family_params(m)) else 0,
     sd = if (random) unname(attr(VarCorr(m)$cond$g, "stddev")) else 0)
