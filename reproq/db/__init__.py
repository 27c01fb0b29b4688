"""Connections, the migration runner, the embedded server, and what an SQLSTATE means."""
