"""A thousand task types in one app."""

from reproq.bench.app import noop
from reproq.tasks import task

TYPES = [f"bench.many.t{number}" for number in range(1000)]

for _type in TYPES:
    task(_type)(noop)
