-- The real function, with payloads made by the server; answers the last id.
select (r.ids)[cardinality(r.ids)]
from (select queues.enqueue_many(
          %(type)s,
          array(select jsonb_build_object('n', g) || %(payload)s::jsonb from generate_series(1, %(count)s) g),
          scheduled_at => now() + %(delay_s)s * interval '1 second', queue_name => %(queue)s, priority => %(priority)s
      ) as ids) r
