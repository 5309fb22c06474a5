"""The dashboard: a static site made from the history, and a server that shows the same live."""
