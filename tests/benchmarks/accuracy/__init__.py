"""How far default fits are off, and whether they say so: against quadrature and exact sampling."""
