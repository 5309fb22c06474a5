"""Packages inside of packages."""
