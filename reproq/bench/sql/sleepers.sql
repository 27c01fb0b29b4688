select count(*) from queues.sleeper where until > clock_timestamp()
