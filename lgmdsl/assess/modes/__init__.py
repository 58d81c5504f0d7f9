"""Several modes of p(z | y), where sites are not log-concave."""
