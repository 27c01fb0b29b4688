select queues.enqueue(%s, %s::jsonb, queue_name => %s, priority => %s)
