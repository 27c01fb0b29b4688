from tests.worker.conftest import house

__all__ = ["house"]
