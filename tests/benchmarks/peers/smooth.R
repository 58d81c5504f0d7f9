# Rscript smooth.R data.csv [binomial]: a trend by P-splines of second differences with 200 basis functions.
# sd1: of one second difference of the coefficients, and how many points apart the knots are.
source("report.R"); suppressMessages(library(mgcv)); d <- read.csv(commandArgs(TRUE)[1])
answer <- if (is.na(commandArgs(TRUE)[2])) "y" else "cbind(y, n - y)"
family <- if (is.na(commandArgs(TRUE)[2])) poisson else binomial
model <- as.formula(paste(answer, "~ s(t, bs = 'ps', m = 2, k = 200)"))
run <- function(peer, work, times) {
  r <- timed(work, times); m <- r$value
  v <- gam.vcomp(m, rescale = TRUE); sd1 <- if (is.list(v)) v$vc[1, 1] else unname(v)[1]
  told(peer, "mgcv", r$cpu, sd1 = sd1, apart = diff(m$smooth[[1]]$knots)[1], edf = sum(m$edf),
       eta = as.numeric(predict(m)))
}
run("mgcv bam discrete fREML", function() bam(model, family = family, data = d, discrete = TRUE), 3)
if (nrow(d) <= 2500) run("mgcv gam REML", function() gam(model, family = family, data = d, method = "REML"), 1)
