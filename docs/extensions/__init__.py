"""Extensions of Sphinx for the documentation."""
