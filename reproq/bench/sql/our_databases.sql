select datname from pg_database where starts_with(datname, %s)
