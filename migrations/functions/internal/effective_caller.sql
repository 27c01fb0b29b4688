-- The role on whose behalf the outermost caller acts. current_user is the owner inside a definer function, session_user
-- misses SET ROLE (a superuser that lowered itself, a NOINHERIT login that raised itself).
create or replace function internal.effective_caller() returns text
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
begin
    return coalesce(nullif(current_setting('role'), 'none'), session_user::text);
end $$;
