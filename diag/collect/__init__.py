"""`diag collect`: a support bundle of a run and its machine, without secrets, weights and images."""
