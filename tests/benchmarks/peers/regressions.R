# Rscript regressions.R NAME: a regression without random effects by maximum likelihood in MASS,
# survival or mgcv, on data that ship with them; its numbers go to d.csv.
source("report.R"); suppressMessages({library(MASS); library(survival); library(mgcv)})
name <- commandArgs(TRUE)[1]
kind <- sub(" .*", "", name); way <- sub(".* ", "", name)
save <- function(d) write.csv(format(d, digits = 17), "d.csv", row.names = FALSE, quote = FALSE)
se <- function(m, k) unname(sqrt(diag(vcov(m))))[k]
tell <- function(package, r, b, error) {
  told(package, package, r$cpu, b = unname(b), se = unname(error), loglik = as.numeric(logLik(r$value)))
}
ml <- function(formula, family, d) timed(function() gam(formula, family = family, data = d, method = "ML"))
if (kind == "polr" || kind == "ocat") {
  d <- with(housing, data.frame(y = as.integer(Sat) - 1, x1 = as.numeric(Infl == "Medium"),
    x2 = as.numeric(Infl == "High"), x3 = as.numeric(Cont == "High"), w = Freq))
} else if (kind == "survreg") {
  d <- with(lung[!is.na(lung$ph.ecog), ], data.frame(y = time, event = status - 1, x1 = age / 10 - 6,
    x2 = sex - 1, x3 = ph.ecog))
} else if (kind %in% c("nb", "glm.nb", "ziplss", "poisson")) {
  d <- with(quine, data.frame(y = Days, x1 = as.numeric(Sex == "M"), x2 = as.numeric(Eth == "N"),
    x3 = as.numeric(Lrn == "SL")))
} else if (kind == "betar") {
  d <- with(petrol, data.frame(y = Y / 100, x1 = EP / 100 - 3.3, x2 = VP - 4.2, x3 = SG - 39))
} else {
  d <- with(cats, data.frame(y = Hwt, x1 = Bwt - 2.7, x2 = as.numeric(Sex == "M"), x3 = 0 * Hwt))
}
save(d)
X <- y ~ x1 + x2 + x3
if (kind == "polr") {
  d$y <- factor(d$y)
  r <- timed(function() polr(X, d, weights = w, method = sub("logit", "logistic", way), Hess = TRUE,
                             control = list(reltol = 1e-15, maxit = 1000)))
  tell("MASS", r, c(coef(r$value), r$value$zeta), se(r$value, 1:5))
} else if (kind == "ocat") {
  long <- d[rep(seq_len(nrow(d)), d$w), ]; long$y <- long$y + 1
  r <- ml(X, ocat(R = 3), long); tell("mgcv", r, coef(r$value)[2:4], se(r$value, 2:4))
} else if (kind == "survreg") {
  r <- timed(function() survreg(Surv(y, event) ~ x1 + x2 + x3, d, dist = way,
                                control = list(rel.tolerance = 1e-14, maxiter = 200)))
  tell("survival", r, coef(r$value), se(r$value, 1:4))
} else if (kind == "glm.nb") {
  r <- timed(function() glm.nb(X, d, control = glm.control(1e-14, 200)))
  tell("MASS", r, c(coef(r$value), r$value$theta), c(se(r$value, 1:4), r$value$SE.theta))
} else if (kind == "ziplss") {
  r <- timed(function() gam(list(X, ~ x1), family = ziplss(), data = d, method = "ML"))
  tell("mgcv", r, coef(r$value)[1:4], se(r$value, 1:4))
} else if (kind == "gaulss") {
  r <- timed(function() gam(list(y ~ x1 + x2, ~ x1), family = gaulss(b = 0), data = d, method = "ML"))
  tell("mgcv", r, coef(r$value), se(r$value, 1:5))
} else if (kind == "gammals") {  # its scale's link is a softplus: a factor alone has the same maximum
  r <- timed(function() gam(list(y ~ x1, ~ x2), family = gammals(), data = d, method = "ML"))
  tell("mgcv", r, coef(r$value)[1:2], se(r$value, 1:2))
} else if (kind == "gevlss") {
  r <- timed(function() gam(list(y ~ x1 + x2, ~ 1, ~ 1), family = gevlss(), data = d, method = "ML"))
  tell("mgcv", r, c(coef(r$value)[1:3], exp(coef(r$value)[4])), c(se(r$value, 1:3), 1))
} else {
  family <- switch(kind, nb = nb(), betar = betar(), scat = scat(), poisson = poisson())
  if (kind == "scat") X <- y ~ x1 + x2
  r <- ml(X, family, d); k <- seq_along(coef(r$value))
  tell("mgcv", r, coef(r$value), se(r$value, k))
}
