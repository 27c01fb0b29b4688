-- Its own tasks, or everything for whoever acts as the owner.
create or replace function internal.may_touch(created_by text) returns boolean
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
begin
    return created_by = session_user or pg_has_role(session_user, current_user, 'MEMBER');
end $$;
