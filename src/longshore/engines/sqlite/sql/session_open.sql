-- session_open: a new lease. Its token was never used before.
-- :worker :queues :types :lease :now
insert into longshore_session
    (worker, queues, types, lease, opened_at, renewed_at, expires_at)
values (:worker, :queues, :types, :lease, :now, :now, :now + :lease)
