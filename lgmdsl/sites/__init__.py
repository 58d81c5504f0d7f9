"""Site families: densities of what is observed, and potentials. One file for each family."""
