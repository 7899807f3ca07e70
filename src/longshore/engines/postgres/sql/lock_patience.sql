-- lock_patience: wait for locks no longer than this, until the transaction ends. text
select set_config('lock_timeout', $1, true)
