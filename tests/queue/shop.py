"""A schema of somebody's business functions, as a user would install it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg.types.json import Jsonb

from .conftest import Claimed, Queue

_INSTALL = """
create schema shop;
create table shop.log (note text, at bigint default txid_current());
create table shop.parent (id int primary key);
create table shop.child (parent int references shop.parent deferrable initially deferred);
create function shop.answer(payload jsonb) returns jsonb language plpgsql as $$
begin insert into shop.log (note) values (payload ->> 'note'); return payload -> 'answer'; end $$;
create function shop.raises(payload jsonb) returns jsonb language plpgsql as $$
begin insert into shop.log (note) values ('raises');
    raise exception using errcode = payload ->> 'code', message = payload ->> 'message'; end $$;
create function shop.waits(payload jsonb) returns jsonb language plpgsql as $$
begin insert into shop.log (note) values ('waits'); perform pg_advisory_xact_lock(42); return '{"success": true}';
end $$;
create function shop.orphan(payload jsonb) returns jsonb language plpgsql as $$
begin insert into shop.child values (1); return '{"success": true}'; end $$;
create function shop.careless(payload jsonb) returns jsonb language plpgsql as $$
begin perform set_config('synchronous_commit', 'off', true); return '{"success": true}'; end $$;
create function shop.who(payload jsonb) returns jsonb language sql as
$$ select jsonb_build_object('success', true, 'payload', current_user) $$;
create function shop.secret(payload jsonb) returns jsonb language sql as $$ select '{"success": true}'::jsonb $$;
create function shop.two(a jsonb, b jsonb) returns jsonb language sql as $$ select a $$;
create function shop.none() returns jsonb language sql as $$ select '{}'::jsonb $$;
create function shop.of_text(a text) returns jsonb language sql as $$ select '{}'::jsonb $$;
create function shop.to_text(a jsonb) returns text language sql as $$ select 'x' $$;
create function shop.rows(a jsonb) returns setof jsonb language sql as $$ select a $$;
create function shop.many(variadic a jsonb[]) returns jsonb language sql as $$ select a[1] $$;
create procedure shop.procedure(a jsonb) language sql as $$ select a $$;
create aggregate shop.aggregate(jsonb) (sfunc = pg_catalog.jsonb_concat, stype = jsonb);
revoke execute on all functions in schema shop from public;
revoke execute on all procedures in schema shop from public;
grant usage on schema shop to worker_service_user, reproq_app;
grant execute on all functions in schema shop to worker_service_user;
grant execute on all procedures in schema shop to worker_service_user;
revoke execute on function shop.secret from worker_service_user;
grant insert on shop.log, shop.child to worker_service_user;
create function public.plain(payload jsonb) returns jsonb language sql as $$ select '{"success": true}'::jsonb $$;
select internal.allow_schema('shop')"""


@contextmanager
def installed(queue: Queue) -> Iterator[None]:
    queue.admin.execute(_INSTALL.encode())
    yield
    queue.admin.execute(
        b"drop schema shop cascade; drop function public.plain;"
        b" delete from internal.callable_schema where schema_name = 'shop'"
    )


def notes(q: Queue) -> list[str]:
    return [row["note"] for row in q.rows("select note from shop.log")]


def claim_function(q: Queue, name: str | None, **payload: object) -> Claimed:
    """A db_function task that names this function, claimed by the worker."""
    document = Jsonb({"db_function": name, **payload})
    (row,) = q.call("enqueue_system", task_type="db_function", payload=document)
    (held,) = q.claim()
    assert held.id == row["enqueue_system"]
    return held
