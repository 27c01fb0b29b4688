"""The rules of `reproq doctor --security`, by what they look at. Tests weaken a database in each of their ways."""

from reproq.db.security import definers, logins, parameters, public, relations, roles, schemas, structure

RULES = (
    *public.RULES,
    *roles.RULES,
    *logins.RULES,
    *definers.RULES,
    *relations.RULES,
    *structure.RULES,
    *schemas.RULES,
    *parameters.RULES,
)

__all__ = ["RULES"]
