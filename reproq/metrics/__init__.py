"""Metrics as values, and as the text that Prometheus reads. Who measures lives elsewhere."""

from reproq.metrics.families import SECONDS, Family, Histogram, Labels, counter, gauge, histogram
from reproq.metrics.names import OTHER, Names
from reproq.metrics.text import chosen_type, render

__all__ = [
    "OTHER",
    "SECONDS",
    "Family",
    "Histogram",
    "Labels",
    "Names",
    "chosen_type",
    "counter",
    "gauge",
    "histogram",
    "render",
]
