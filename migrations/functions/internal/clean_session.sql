-- What a function may leave in its session isn't for the next one; plans stay, other than with DISCARD ALL. As a function its
-- commands are read once, and not anew after every task.
create or replace function internal.clean_session() returns void
    language plpgsql volatile security invoker
    set search_path = pg_catalog, pg_temp as $$
begin
    execute 'close all';  -- in plpgsql itself that would be a cursor of this name
    reset role;
    reset all;
    unlisten *;
    perform pg_advisory_unlock_all();
    if exists (select from pg_prepared_statements s where s.from_sql) then
        deallocate all;  -- ours too, which came by the protocol: their child takes another session
    end if;
    discard sequences;
    discard temp;
end $$;
