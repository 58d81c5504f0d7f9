"""Learning hyperparameters: the coordinates in which they are maximised and integrated."""
