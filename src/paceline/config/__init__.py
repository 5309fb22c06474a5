"""YAML and JSON files in, one validated `Config` out, or an error that names every mistake with its file and line."""
