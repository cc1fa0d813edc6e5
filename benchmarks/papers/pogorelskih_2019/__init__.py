"""The study of Pogorelskih and Loganova (2019): many tridiagonal systems, and kinds of memory."""
