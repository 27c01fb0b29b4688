"""All rules of `reproq doctor`, from the ground up."""

from __future__ import annotations

from reproq.db.doctor import bloat, fleet, horizon, line, server, work
from reproq.db.doctor.basics import BASICS

HEALTH = (*BASICS, *server.RULES, *line.RULES, *horizon.RULES, *bloat.RULES, *fleet.RULES, *work.RULES)
