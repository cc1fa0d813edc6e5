"""What documents show of stored results: rows by name, and the bar chart of calls."""
