"""Our own figures: the real worker, its default settings but for what a title names."""

from reproq.bench.figures import Step
from reproq.bench.ours import enqueues, functions, idle, latency, payloads, throughput

STEPS: tuple[Step, ...] = (
    *throughput.STEPS,
    *functions.STEPS,
    *enqueues.STEPS,
    *latency.STEPS,
    *idle.STEPS,
    *payloads.STEPS,
)
