# Rscript autoregression.R data.csv [glmmTMB]: Poisson counts with a stationary AR(1) in the log rate.
source("report.R"); d <- read.csv(commandArgs(TRUE)[1])
if (!is.na(commandArgs(TRUE)[2])) {
  suppressMessages(library(glmmTMB)); d$times <- factor(d$t, levels = d$t); d$all <- factor(1)
  r <- timed(function() glmmTMB(y ~ 1 + ar1(times + 0 | all), family = poisson, data = d), 1); m <- r$value
  v <- VarCorr(m)$cond$all
  told("glmmTMB ar1", "glmmTMB", r$cpu, reml = FALSE, sd = unname(attr(v, "stddev")[1]),
       rho = unname(attr(v, "correlation")[1, 2]), log_evidence = as.numeric(logLik(m)), mb = sum(gc()[, 6]))
} else {
  suppressMessages(library(TMB))
  compiling <- system.time(compile("autoregression.cpp", "-O1 -w"))
  dyn.load(dynlib("autoregression"))
  for (reml in c(FALSE, TRUE)) {
    r <- timed(function() {
      start <- list(mu = 0, log_sd = -0.5, z = 2, a = rep(0, nrow(d)))
      f <- MakeADFun(list(y = d$y), start, random = if (reml) c("mu", "a") else "a",
                     DLL = "autoregression", silent = TRUE)
      o <- nlminb(f$par, f$fn, f$gr, control = list(rel.tol = 1e-12)); list(f = f, o = o, r = sdreport(f))
    }); m <- r$value
    told(if (reml) "TMB REML" else "TMB", "TMB", r$cpu, reml = reml, sd = unname(exp(m$o$par["log_sd"])),
         rho = unname(2 / (1 + exp(-m$o$par["z"])) - 1), log_evidence = -m$o$objective,
         compiling = sum(compiling[c(1, 2, 4, 5)]))
  }
}
