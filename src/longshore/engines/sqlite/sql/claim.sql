-- Claim: what a claim looks for and takes.

-- claim: hand the first jobs of some types to a session. A new delivery per claim: whoever
-- held a job before can no longer settle it.
-- :token :number :queue :types  JSON array, :rank :seq  of the last one
-- reads the front of each type in longshore_ready. Runs before claim_ready.
insert into longshore_held
    (token, seq, claimed_by, run_at, delivery, attempt, failures, crashes, lapses)
select :token, seq, :number, run_at, delivery + 1, attempt, failures, crashes, lapses
  from longshore_ready
 where queue = :queue and type in (select value from json_each(:types))
   and (rank, seq) <= (:rank, :seq)

-- claim_places: hand these jobs of a fair queue to a session, each with its place.
-- :token :number :queue :jobs  JSON array of [type, rank, seq]
-- Runs before leave_ready.
insert into longshore_held
    (token, seq, claimed_by, run_at, delivery, attempt, failures, crashes, lapses, place)
select :token, r.seq, :number, r.run_at, r.delivery + 1, r.attempt, r.failures, r.crashes,
       r.lapses, p.key
  from json_each(:jobs) p
 cross join longshore_ready r on r.queue = :queue and r.type = p.value ->> 0
                             and r.rank = p.value ->> 1 and r.seq = p.value ->> 2

-- claim_ready: what was claimed is no longer ready.
-- :queue :types  JSON array, :rank :seq  of the last one
delete from longshore_ready
 where queue = :queue and type in (select value from json_each(:types))
   and (rank, seq) <= (:rank, :seq)

-- claimable: one type's jobs in order. A claim joins one of these per type with union all,
-- and SQLite merges their heads: it steps once per job taken, not once per job there is.
select seq, rank, size, run_at, delivery, attempt, failures, crashes, lapses
  from longshore_ready where queue = ? and type = ?

-- claimable_end: closes the union of claimable parts.
 order by rank, seq limit ?

-- claimed: what was submitted, of the jobs that were claimed, in the given order: ids,
-- payloads, and the rest as one JSON text.
-- One row for all jobs: see writer.py. Blobs are strung together, to be cut up by their
-- lengths: as hex among the JSON they cost 2 µs a job more.
-- :seqs  JSON array
select cast(group_concat(j.id, '') as blob), cast(group_concat(j.payload, '') as blob),
       json_group_array(json_array(
           j.seq, j.type, j.queue, j.tenant, length(j.payload), j.priority, j.max_attempts,
           j.timeout, j.created_at, j.trace, j.tags))
  from json_each(:seqs) s cross join longshore_job j on j.seq = s.value

-- front: the beginning of a claim's statement, which goes on with claimable. One row: which
-- jobs, when each was due, what became of the earlier deliveries of those that had any, the
-- last one's rank and the weight of all.
select json_group_array(seq), json_group_array(run_at),
       json_group_array(json_array(
           seq, json_array(delivery + 1, attempt, failures, crashes, lapses)
       )) filter (where delivery > 0),
       max(rank), sum(size)
  from

-- handed_out: the jobs of an exchange that are still held, with their place in the queue, when
-- they were due, and what became of their earlier deliveries.
-- :token :number
select json_group_array(json_array(
           j.queue, coalesce(h.place, 0), j.rank, j.seq, h.run_at, json_array(
               h.delivery, h.attempt - (h.started_at is not null), h.failures, h.crashes,
               h.lapses)))
  from longshore_held h cross join longshore_job j on j.seq = h.seq
 where h.token = :token and h.claimed_by = :number

-- type_heads: the first job of each of these types in a queue, as [rank, seq, type].
-- :queue :types  JSON array
-- One seek per type in longshore_ready.
select json_group_array(json(head))
  from (select (select json_array(rank, seq, type) from longshore_ready
                 where queue = :queue and type = wanted.value
                 order by rank, seq
                 limit 1) as head
          from json_each(:types) wanted)
 where head is not null

-- types_ready: the types that have jobs to claim in a queue, however many jobs there are.
-- :queue
-- Skips from one type to the next in longshore_ready: one seek per type.
with recursive present (type) as (
    select min(type) from longshore_ready where queue = :queue
    union all
    select (select min(type) from longshore_ready
             where queue = :queue and type > present.type)
      from present where present.type is not null
)
select json_group_array(type) from present where type is not null

-- queues_ready: the queues that have jobs to claim, however many jobs there are.
-- Skips from one queue to the next in longshore_ready: one seek per queue.
with recursive present (queue) as (
    select min(queue) from longshore_ready
    union all
    select (select min(queue) from longshore_ready where queue > present.queue)
      from present where present.queue is not null
)
select json_group_array(queue) from present where queue is not null

-- unwanted: held claims whose jobs someone asked to cancel, and why.
-- :token
-- reads longshore_held_unwanted.
select json_group_array(json_array(seq, delivery, cancel_reason))
  from longshore_held indexed by longshore_held_unwanted
 where token = :token and cancel_reason is not null

-- sizes: how large the payloads of these jobs are, and their ranks, in their order.
-- :seqs  JSON array
select json_group_array(json_array(length(j.payload), j.rank))
  from json_each(:seqs) s cross join longshore_job j on j.seq = s.value

-- start: record that handlers have begun; each start counts once.
-- The line of parameters is repeated once per claim.
-- handle, delivery, now; at the end: token
update longshore_held as h
   set started_at = s.column3, attempt = h.attempt + 1
  from (values
    (?, ?, ?)
       ) as s
 where h.token = ?
   and h.seq = s.column1
   and h.delivery = s.column2
   and h.started_at is null

-- ruled: whether anything is paused, limited, guarded by a breaker, stands in a line or is fair.
-- Mostly nothing is.
select exists (select 1 from longshore_pause),
       exists (select 1 from longshore_flow),
       exists (select 1 from longshore_breaker),
       exists (select 1 from longshore_line),
       exists (select 1 from longshore_flow where settings ->> 'order' = 'fair')

-- running_of_type: how many jobs of a type are held.
-- :type
select count(*) from longshore_held h cross join longshore_job j on j.seq = h.seq
 where j.type = :type

-- shares: how a session shares its queues with others that are live.
-- :token :now
-- reads longshore_session_live.
select n.name, n.place, n.many, f.settings ->> 'retry_rate', f.settings ->> 'max_running',
       f.settings ->> 'rate'
  from (select q.value as name, count(distinct s.token) as many,
               count(distinct s.token) filter (where s.token < :token) as place
          from longshore_session s indexed by longshore_session_live, json_each(s.queues) q
         where s.closed_at is null and s.expires_at > :now
           and q.value in (select own.value from longshore_session m, json_each(m.queues) own
                            where m.token = :token)
         group by q.value) n
  left join longshore_flow f on f.queue = n.name
 order by n.name
