"""Stand-ins for hardware that the test machine does not have."""
