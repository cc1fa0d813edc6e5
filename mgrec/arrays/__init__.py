"""The door: arguments checked, promoted and laid out once; the chunk that every backend sees."""
