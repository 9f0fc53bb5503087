"""Train Ultralytics models and say what is slow, what is broken, why, and what to change."""

__version__ = "0.1.0"
