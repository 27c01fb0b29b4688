"""What this machine and server can do at best, with nothing of ours in the way."""

from reproq.bench.figures import Step
from reproq.bench.floors import enqueues, processes, queue

STEPS: tuple[Step, ...] = (*queue.STEPS, *enqueues.STEPS, *processes.STEPS)
