"""Records in, a database of SQLite or PostgreSQL out; and questions in, series and sessions out."""
