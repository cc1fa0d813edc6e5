"""The studies of the four papers that mgrec is built from, on today's hardware."""
