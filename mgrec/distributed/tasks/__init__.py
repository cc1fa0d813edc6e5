"""What tasks are made of: pure functions of blocks in memory, the same for every family."""
