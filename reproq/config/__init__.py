"""Settings: read once at start, refused with one clear line when wrong. For parents only."""

from reproq.config.address import passwords
from reproq.config.dispatch import DispatchSettings, load_dispatch
from reproq.config.environment import child_environ, secrets, withheld
from reproq.config.gateway import GatewaySettings, load_gateway
from reproq.config.load import load
from reproq.config.providers import ProviderSettings
from reproq.config.settings import CommandPool, Limits, Settings, SettingsError
from reproq.config.values import plain, seconds

__all__ = [
    "CommandPool",
    "GatewaySettings",
    "DispatchSettings",
    "Limits",
    "ProviderSettings",
    "Settings",
    "SettingsError",
    "child_environ",
    "load",
    "load_gateway",
    "load_dispatch",
    "passwords",
    "plain",
    "seconds",
    "secrets",
    "withheld",
]
