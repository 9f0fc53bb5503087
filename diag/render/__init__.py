"""Report -> what people and programs read. Each module renders one format; none prints."""
