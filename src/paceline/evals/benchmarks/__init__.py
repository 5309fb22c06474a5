"""Questions and scores behind the `EvalBenchmark` interface."""
