# Shared by the others: CPU seconds (median of up to three runs) and one line of JSON for each fit.
suppressMessages(library(jsonlite))
timed <- function(work, times = 3) {
  cpu <- c()
  while (length(cpu) < times && sum(cpu) < 60) {
    before <- proc.time(); value <- work(); spent <- proc.time() - before
    cpu <- c(cpu, unname(spent[1] + spent[2]))
  }
  list(cpu = median(cpu), value = value)
}
told <- function(peer, package, cpu, ...) {
  line <- list(peer = paste(peer, packageVersion(package)), cpu = cpu, ...)
  cat(toJSON(line, auto_unbox = TRUE, digits = 10), "\n", sep = "")
}
