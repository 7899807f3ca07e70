-- Sessions: leases.

-- session_ahead: whether a lease ends further ahead than its length: the clock was set back.
-- :now
select exists (select 1 from longshore_session indexed by longshore_session_live
                where closed_at is null and expires_at > :now + lease)

-- session_close: end a lease for good.
-- :token :now
update longshore_session set closed_at = :now where token = :token

-- session_exchanged: remember the number of the exchange, and what it refused.
-- :token :number :refused
update longshore_session set exchange = :number, refused = :refused where token = :token

-- session_get: where a live session stands. No row when its lease is over: that is the fence.
-- :token :now
select exchange, refused, is_quiet, expires_at
  from longshore_session
 where token = :token and closed_at is null and expires_at > :now

-- session_lapsed: whether a session is still there and its lease ended before :before.
-- :token :before
select worker from longshore_session
 where token = :token and closed_at is null and expires_at <= :before

-- session_of: what a live session was opened with.
-- :token :now
select worker, queues, types, lease from longshore_session
 where token = :token and closed_at is null and expires_at > :now

-- session_open: a new lease. Its token was never used before.
-- :worker :queues :types :lease :owner :now
insert into longshore_session
    (worker, queues, types, lease, owner, opened_at, renewed_at, expires_at)
values (:worker, :queues, :types, :lease, :owner, :now, :now, :now + :lease)

-- session_owner: whom a session was opened for, as long as it is not closed.
-- :token
select owner from longshore_session where token = :token and closed_at is null

-- session_quiet: ask a worker to drain.
-- :token
update longshore_session set is_quiet = 1 where token = :token and closed_at is null

-- session_renew: push the end of the lease; never backwards, whatever the clock does.
-- :token :now
update longshore_session
   set renewed_at = :now, expires_at = max(expires_at, :now + lease)
 where token = :token
returning expires_at

-- session_shorten: let no lease end later than its full length from now.
-- :now
update longshore_session set expires_at = :now + lease
 where closed_at is null and expires_at > :now + lease

-- sessions: live leases with what they hold, oldest first.
-- :now
-- reads longshore_session_live and longshore_held.
select s.token, s.worker, s.queues, s.types, s.opened_at, s.renewed_at, s.expires_at,
       s.is_quiet, (select count(*) from longshore_held h where h.token = s.token)
  from longshore_session s
 where s.closed_at is null and s.expires_at > :now
 order by s.token

-- lapsed: sessions whose lease ended before :before.
-- :before :limit
-- reads longshore_session_live.
select token, worker from longshore_session
 where closed_at is null and expires_at <= :before
 order by expires_at
 limit :limit

-- last_worker: who finished a job.
-- :seq
select s.worker from longshore_finished f join longshore_session s on s.token = f.token
 where f.seq = :seq
