"""Tests of diag.probe and `diag check`; no GPU and no network is needed."""
