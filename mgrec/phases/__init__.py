"""What a recurrence is: its algebra, its checked arguments, its chunks and their summaries."""
