-- Lets payloads name the functions of a schema. Which of them a role may run is still decided by its EXECUTE grants.
create or replace function internal.allow_schema(schema_name text) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    creator name := (select r.rolname from pg_catalog.pg_namespace n join pg_catalog.pg_roles r on r.oid = n.nspowner
                     where n.nspname = allow_schema.schema_name);
begin
    if allow_schema.schema_name !~ '^[A-Za-z_][A-Za-z0-9_]{0,62}$'
       or not exists (select from pg_catalog.pg_namespace n where n.nspname = allow_schema.schema_name) then
        raise exception using errcode = 'RQ005',
            message = format('no schema %s', quote_literal(left(allow_schema.schema_name, 80))),
            hint = 'Create the schema first; its name must be a plain identifier.';
    end if;
    if allow_schema.schema_name in ('queues', 'internal', 'information_schema', 'public')
       or allow_schema.schema_name ~ '^pg_' then
        raise exception using errcode = 'RQ004',
            message = format('payloads may not name functions of schema %s', quote_literal(allow_schema.schema_name)),
            hint = 'Put the functions that tasks call into a schema of their own.';
    end if;
    insert into internal.callable_schema (schema_name) values (allow_schema.schema_name::name) on conflict do nothing;
    if not exists (
        select from pg_catalog.pg_default_acl d join pg_catalog.pg_roles r on r.oid = d.defaclrole
        where r.rolname = creator and d.defaclnamespace = 0 and d.defaclobjtype = 'f'
          and not exists (select from aclexplode(d.defaclacl) a where a.grantee = 0)) then
        raise warning using
            message = format('what %I adds to schema %I from now on, everybody may call', creator, allow_schema.schema_name),
            hint = format('alter default privileges for role %I revoke execute on functions from public;', creator);
    end if;
end $$;
