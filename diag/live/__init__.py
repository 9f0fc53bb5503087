"""Judging a run while it trains: is it alive, how far is it, what was found and when."""
