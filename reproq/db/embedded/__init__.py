"""An own PostgreSQL server, for whoever has none: EmbeddedServer keeps its data, throwaway() leaves nothing behind."""

from reproq.db.embedded.revive import Reviver
from reproq.db.embedded.server import DATABASE, EmbeddedServer, default_folder
from reproq.db.embedded.throwaway import UNSAFE_AND_FAST, sweep, throwaway

__all__ = ["DATABASE", "UNSAFE_AND_FAST", "EmbeddedServer", "Reviver", "default_folder", "sweep", "throwaway"]
