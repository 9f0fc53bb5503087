"""Data sets: resolve a data.yaml, count and check labels, make views in the workspace, draw the demo set."""
