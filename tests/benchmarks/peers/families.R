# Rscript families.R data.csv family link random runs [ziformula dispformula]: y (of n trials) on x1,
# x2, exposure e, by maximum likelihood, with an intercept for each group g where random is 1.
# `family` is glmmTMB's; lognormal, which is its gaussian of log y; or tw, which is mgcv's Tweedie.
# Rscript families.R data NAME: one of the data sets that ship with glmmTMB, lme4 and MASS, to
# NAME.csv.
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
  } else if (a[2] == "sleepstudy") {
    data(sleepstudy, package = "lme4"); d <- sleepstudy
    out <- data.frame(y = d$Reaction / 100, e = 1, n = 1, x1 = d$Days / 5,
                      x2 = (d$Days / 5 - 0.9)^2, g = as.integer(d$Subject) - 1)
  } else if (a[2] == "petrol") {
    data(petrol, package = "MASS"); d <- petrol
    out <- data.frame(y = d$Y / 100, e = 1, n = 1, x1 = d$EP / 100 - 3.3, x2 = d$VP - 4.2,
                      g = as.integer(d$No) - 1)
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
jacobian <- 0
if (a[2] == "lognormal") { jacobian <- -sum(log(d$y)); d$y <- log(d$y); a[2] <- "gaussian" }
right <- paste("~ x1 + x2", if (any(d$e != 1)) "+ offset(log(e))" else "")
formula <- as.formula(paste(left, right, if (random) "+ (1 | g)" else ""))
if (a[2] == "tw") {
  suppressMessages(library(mgcv))
  smooth <- as.formula(paste("y", right, if (random) "+ s(g, bs = 're')" else ""))
  r <- timed(function() gam(smooth, family = tw(link = "log"), data = d, method = "ML"), as.numeric(a[5]))
  m <- r$value; k <- 1:3
  told("mgcv", "mgcv", r$cpu, b = unname(coef(m)[k]), se = unname(sqrt(diag(vcov(m)))[k]),
       power = m$family$getTheta(TRUE), dispersion = m$sig2, loglik = -as.numeric(m$gcv.ubre),
       conditional = as.numeric(logLik(m)), sd = if (random) unname(gam.vcomp(m)[1]) else 0)
  quit()
}
zero <- as.formula(if (is.na(a[6])) "~0" else a[6])
dispersion <- as.formula(if (is.na(a[7])) "~1" else a[7])
r <- timed(function() glmmTMB(formula, ziformula = zero, dispformula = dispersion,
                              family = do.call(a[2], list(link = a[3])), data = d), as.numeric(a[5]))
m <- r$value; f <- fixef(m); v <- vcov(m)
moving <- a[7] %in% "~x1"
b <- c(f$cond, f$zi, if (moving) f$disp); se <- sqrt(c(diag(v$cond), if (length(f$zi)) diag(v$zi),
                                                     if (moving) diag(v$disp)))
whole <- summary(m$sdr, "fixed")  # log dispersion and log sd, of the optimiser
last <- function(name) { k <- which(rownames(whole) == name); if (length(k) == 1) unname(whole[k, ]) else c(0, 0) }
told("glmmTMB", "glmmTMB", r$cpu, b = unname(b), se = unname(se), loglik = as.numeric(logLik(m)) + jacobian,
     dispersion = last("betad"), gradient = max(abs(m$sdr$gradient.fixed)),
     power = if (a[2] == "tweedie") unname(family_params(m)) else 0, sd = last("theta"))
