# Rscript glmm.R data.csv: Poisson counts, two slopes, one intercept for each group.
# ML maximises over the slopes, REML integrates them, as a flat latent is.
source("report.R"); suppressMessages({library(glmmTMB); library(lme4)})
d <- read.csv(commandArgs(TRUE)[1]); d$g <- factor(d$g)
for (reml in c(FALSE, TRUE)) {
  r <- timed(function() glmmTMB(y ~ x1 + x2 + (1 | g), family = poisson, data = d, REML = reml)); m <- r$value
  told(if (reml) "glmmTMB REML" else "glmmTMB", "glmmTMB", r$cpu, reml = reml, sd = sqrt(VarCorr(m)$cond$g[1]),
       b = unname(fixef(m)$cond), log_evidence = as.numeric(logLik(m)))
}
r <- timed(function() glmer(y ~ x1 + x2 + (1 | g), family = poisson, data = d)); m <- r$value
told("lme4", "lme4", r$cpu, reml = FALSE, sd = unname(attr(VarCorr(m)$g, "stddev")), b = unname(fixef(m)),
     log_evidence = as.numeric(logLik(m)))
