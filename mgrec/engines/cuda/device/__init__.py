"""What owns the device: compiled programs, launches, memory of the look-ahead."""
