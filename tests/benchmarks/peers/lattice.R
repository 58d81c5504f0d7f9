# Rscript lattice.R data.csv edges.csv: Poisson counts on a graph, intrinsic autoregression of full rank.
# sd1: of the unscaled autoregression, whose precision is the graph's Laplacian / sd1^2.
source("report.R"); suppressMessages(library(mgcv))
d <- read.csv(commandArgs(TRUE)[1]); e <- as.matrix(read.csv(commandArgs(TRUE)[2], header = FALSE))
d$id <- factor(d$id, levels = d$id)
near <- setNames(lapply(d$id, function(i) {
  k <- as.integer(as.character(i)); as.character(c(e[e[, 1] == k, 2], e[e[, 2] == k, 1])) }), levels(d$id))
fit <- function() gam(y ~ s(id, bs = "mrf", xt = list(nb = near)), offset = log(E), family = poisson,
                      data = d, method = "REML")
r <- timed(fit, 1); m <- r$value
v <- gam.vcomp(m, rescale = TRUE); sd1 <- if (is.list(v)) v$vc[1, 1] else unname(v)[1]
told("mgcv mrf REML", "mgcv", r$cpu, sd1 = sd1, edf = sum(m$edf), log_evidence = -unname(m$gcv.ubre),
     eta = as.numeric(predict(m)))  # without an offset that is an argument, not a term of the formula
