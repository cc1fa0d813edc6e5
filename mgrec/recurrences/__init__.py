"""The recurrences that mgrec solves: one file a recurrence."""
