"""The study of Wakatani (2013): P-scheme/G, its rearrangement, and its policy for G and T."""
