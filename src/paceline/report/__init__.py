"""A report in, text out: for a terminal, as Markdown, JSON and JUnit XML."""
