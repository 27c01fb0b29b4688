copy bare (task_type, payload_json) from stdin
