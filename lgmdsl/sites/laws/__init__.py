"""Standard laws: the noise X of families where y or log y is s + scale X, and its log-masses."""
