"""What a migration consists of: the files, the ledger, the roles, the script. `reproq.db.migrate` runs it."""
