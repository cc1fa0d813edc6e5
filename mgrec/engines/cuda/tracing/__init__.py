"""Python functions recorded by symbols and printed as C++."""
