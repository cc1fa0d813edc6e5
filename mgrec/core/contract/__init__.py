"""How a family of recurrences is solved: its summaries, and how they meet."""
