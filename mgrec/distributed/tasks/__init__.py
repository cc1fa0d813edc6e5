"""The functions that tasks and plans run: pure functions of blocks in memory."""
