from __future__ import annotations

from tests.worker.conftest import house

__all__ = ["house"]
