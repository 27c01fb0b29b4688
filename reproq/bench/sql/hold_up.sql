-- What stands ahead may not run: one type is paused, one comes by drops.
select queues.pause_type('bench.cpu'), queues.put_limit('type', 'bench.mark', rate => 5)
