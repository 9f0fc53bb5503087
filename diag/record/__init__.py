"""Everything that imports torch and ultralytics. It runs in child processes only (`python -m diag.record.X`)."""
