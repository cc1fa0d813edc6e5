"""The study of Wakatani (2012): P-scheme/G by phase, tridiagonal systems, and PCR."""
