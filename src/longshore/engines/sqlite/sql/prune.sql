-- Prune: what is past its retention.

-- expired: finished jobs past their retention, as one JSON text.
-- The payloads of the dead go into an event: together they stay below :weight, but one passes.
-- :state :before :limit :weight
-- reads longshore_finished_age.
select json_group_array(json_array(seq, hex(id), queue, type, tenant, hex(payload), reason,
                                   trace))
  from (select *, sum(length(payload)) over (order by finished_at, seq) as so_far
          from (select j.seq, j.id, j.queue, j.type, j.tenant, j.trace, f.reason,
                       f.finished_at,
                       case when f.state = 'dead' then j.payload else x'' end as payload
                  from longshore_finished f indexed by longshore_finished_age
                 cross join longshore_job j on j.seq = f.seq
                 where f.state = :state and f.finished_at <= :before
                 order by f.finished_at
                 limit :limit))
 where so_far <= max(:weight, length(payload))

-- delete_attempts: remove the history of removed jobs.
-- :seqs
delete from longshore_attempt where seq in (select value from json_each(:seqs))

-- delete_jobs: remove jobs.
-- :seqs
delete from longshore_job where seq in (select value from json_each(:seqs))

-- delete_progress: forget how far these jobs were.
-- :seqs
delete from longshore_progress where seq in (select value from json_each(:seqs))

-- delete_unique: let go of the unique keys that these jobs still hold. Runs before delete_jobs.
-- :seqs
delete from longshore_unique where (tenant, key, id) in (
    select tenant, unique_key, id from longshore_job
     where seq in (select value from json_each(:seqs)) and unique_key is not null)

-- count_prune: forget queues that have nothing to count.
-- :limit
delete from longshore_count where (tenant, queue, state) in (
    select tenant, queue, state from longshore_count where jobs = 0 limit :limit)

-- pruned_forget: no longer remember how much was pruned of queues that have nothing that ended.
-- Those that were just pruned keep it: where jobs still end, nothing may be left at this moment.
-- :queues that were
delete from longshore_total
 where name >= 'pruned/' and name < 'pruned0'
   and substr(name, 8) not in (select queue from longshore_count where jobs > 0)
   and substr(name, 8) not in (select value from json_each(:queues))

-- prune_idempotency: forget keys past their window.
-- :before :limit
delete from longshore_idempotency where (tenant, key) in (
    select tenant, key from longshore_idempotency indexed by longshore_idempotency_age
     where created_at <= :before order by created_at limit :limit)

-- prune_outbox: drop old events while there is no consumer.
-- :before :limit
-- reads longshore_outbox_age.
delete from longshore_outbox where position in (
    select position from longshore_outbox indexed by longshore_outbox_age
     where at <= :before order by at limit :limit)

-- prune_passed: drop old events that every consumer has passed. Positions go by age: no more is
-- looked at than may be deleted.
-- :before :floor :limit
delete from longshore_outbox where position in (
    select position from (
        select position, at from longshore_outbox
         where position <= :floor order by position limit :limit)
     where at <= :before)

-- prune_sessions: forget sessions that ended long ago.
-- :before :limit
-- reads longshore_session_ended.
delete from longshore_session where token in (
    select token from longshore_session indexed by longshore_session_ended
     where closed_at is not null and closed_at <= :before order by closed_at limit :limit)
