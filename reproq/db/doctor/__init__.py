"""Checks of a database, for `reproq doctor`: rules that each find what is wrong with it and know the way out."""

from reproq.db.doctor.basics import BASICS
from reproq.db.doctor.rule import Finding, Rule, Severity, Verdict, examine
from reproq.db.doctor.scene import Scene, Unseen, look_around

__all__ = ["BASICS", "Finding", "Rule", "Scene", "Severity", "Unseen", "Verdict", "examine", "look_around"]
