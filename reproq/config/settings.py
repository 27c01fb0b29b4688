"""What a worker is told, as one frozen value, and the rules that hold between its fields."""

from __future__ import annotations

import math
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path

from reproq.config.providers import ProviderSettings
from reproq.config.values import plain
from reproq.models.errors import ReproqError

MIB = 1024 * 1024


class SettingsError(ReproqError):
    """A bad or contradictory setting: one clear line. The command ends with exit status 2."""


@dataclass(frozen=True)
class CommandPool:
    """Any executable as the child of a type prefix: a [[command]] table of reproq.toml."""

    prefix: str
    command: tuple[str, ...]
    processes: int = 1
    contain: bool = False
    cwd: Path | None = None


@dataclass(frozen=True)
class Limits:
    """What the processes of a type prefix may use, each of them: a [[limits]] table of reproq.toml."""

    prefix: str
    children: int | None = None  # of the app's, for this prefix alone
    memory: int | None = None  # bytes of address space
    cpu: float | None = None  # seconds, per task
    files: int | None = None
    processes: int | None = None  # of its user, threads included: no limit for root
    file_size: int | None = None
    uid: tuple[int, ...] = ()  # several: each process has its own
    network: bool = True
    new_privileges: bool = False

    @property
    def rlimits(self) -> dict[str, int]:
        cpu = None if self.cpu is None else math.ceil(self.cpu)
        found = {"as": self.memory, "cpu": cpu, "nofile": self.files, "nproc": self.processes, "fsize": self.file_size}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class Settings:
    database_url: str | None = field(default=None, repr=False)
    database_source: str | None = None  # the variable, flag or file key the address came from
    embedded: bool = False
    embedded_dir: Path | None = None
    queues: tuple[str, ...] = ()  # none = every queue
    prefixes: tuple[str, ...] = ()  # none = every type of those queues
    app: tuple[str, ...] = ()
    processes: int = 1
    recycle: int | None = 50_000
    max_memory: int | None = 1024 * MIB
    lease_s: float = 30.0
    heartbeat_s: float = 10.0
    poll_interval_s: float = 1.0
    drain_timeout_s: float = 30.0
    kill_grace_s: float = 5.0
    system_processes: int = 2
    worker_id: str = "worker"
    worker_timeout_s: float = 90.0
    config: Path | None = None
    until_empty: bool = False
    no_migrate: bool = False
    migrate_url: str | None = field(default=None, repr=False)
    role_prefix: str = ""
    child_env: tuple[str, ...] = ()
    strict_env: bool = False
    leave_unknown: bool = False
    max_envelope: int = 16 * MIB
    max_in_flight: int = 64 * MIB
    commands: tuple[CommandPool, ...] = ()
    limits: tuple[Limits, ...] = ()
    metrics_address: tuple[str, int] | None = None  # host and port
    log_payloads: bool = False
    log_level: str = "info"
    providers: ProviderSettings = field(default_factory=ProviderSettings)


def derived(given: dict[str, object]) -> dict[str, object]:
    """Defaults that depend on the host or on another setting."""
    lease = given.get("lease_s", Settings.lease_s)
    assert isinstance(lease, float)
    host = socket.gethostname().replace("/", "-").strip()[:100]
    return {
        "processes": cores(),
        "worker_id": host or "worker",
        "heartbeat_s": min(Settings.heartbeat_s, lease / 3),
        "worker_timeout_s": 3 * lease,
    }


def check(settings: Settings) -> None:
    if settings.heartbeat_s * 3 > settings.lease_s * (1 + 1e-9):
        raise SettingsError(
            f"heartbeat {plain(settings.heartbeat_s)} is too slow for lease {plain(settings.lease_s)}: three must fit "
            f"into a lease; use a heartbeat of at most {plain(settings.lease_s / 3)} or a longer lease"
        )
    if settings.worker_timeout_s < settings.lease_s:
        raise SettingsError(
            f"WORKER_TIMEOUT {plain(settings.worker_timeout_s)} is shorter than the lease "
            f"{plain(settings.lease_s)}: live workers would be called dead; use at least the lease"
        )
    for provider, variable in settings.providers.missing():
        raise SettingsError(f"provider {provider} is chosen, but {variable} is missing; set it or {variable}_FILE")
    if not settings.providers.has_room():
        raise SettingsError(
            f"REPROQ_OUTBOX_DIR {settings.providers.outbox_dir} is no folder that could be written to or made"
        )


def cores() -> int:
    """Cores this process may use: its affinity, and the quota of its cgroup where there is one."""
    usable = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, min(usable, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no cgroup v2, or "max"
        return usable
