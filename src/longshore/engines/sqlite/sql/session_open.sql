-- session_open: a new lease. Its token was never used before.
-- :worker :queues :types :lease :owner :now
insert into longshore_session
    (worker, queues, types, lease, owner, opened_at, renewed_at, expires_at)
values (:worker, :queues, :types, :lease, :owner, :now, :now, :now + :lease)
