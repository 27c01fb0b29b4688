select rolname from pg_roles where starts_with(rolname, %s)
