"""One module per command: EXAMPLES, add_arguments(parser), run(args) -> exit code."""
