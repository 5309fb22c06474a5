"""Models behind the `Adapter` interface."""
