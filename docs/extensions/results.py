"""x."""


def setup(app):
    pass
