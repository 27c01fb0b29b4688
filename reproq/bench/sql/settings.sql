select name, current_setting(name) from pg_settings
where name in ('server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers', 'max_wal_size',
               'wal_sync_method', 'checkpoint_timeout') order by name
