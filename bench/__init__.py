"""Benchmarks with peers beside us: `make bench`, `make bench-full`. Floors and our own part are reproq.bench."""
