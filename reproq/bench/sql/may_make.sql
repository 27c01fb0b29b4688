select rolcreatedb or rolsuper, rolcreaterole or rolsuper from pg_roles where rolname = current_user
