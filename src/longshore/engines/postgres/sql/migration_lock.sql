-- migration_lock: become the one that migrates, until the transaction ends; or false.
-- The number spells "longshor". A transaction's lock, since a pooler may hide a session.
select pg_try_advisory_xact_lock(7813585269108010866) as is_ours
