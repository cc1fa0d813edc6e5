"""What mgrec is for: small programs around one call, checked and timed."""
