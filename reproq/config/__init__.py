"""Settings: read once at start, refused with one clear line when wrong. For parents only."""

from reproq.config.address import passwords
from reproq.config.environment import child_environ, secrets, withheld
from reproq.config.load import load
from reproq.config.providers import ProviderSettings
from reproq.config.settings import CommandPool, Limits, Settings, SettingsError
from reproq.config.values import plain, seconds

__all__ = [
    "CommandPool",
    "Limits",
    "ProviderSettings",
    "Settings",
    "SettingsError",
    "child_environ",
    "load",
    "passwords",
    "plain",
    "seconds",
    "secrets",
    "withheld",
]
