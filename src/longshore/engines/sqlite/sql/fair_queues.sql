-- Fair queues: lanes and shares of tenants.

-- fair_prune: forget the tenants of a queue that are no farther than this.
-- :queue :at
delete from longshore_fair where queue = :queue and vtime <= :at

-- fair_put: how far some tenants of a fair queue are.
-- :queue :times  JSON object, by tenant
insert into longshore_fair (queue, tenant, vtime)
select :queue, key, value from json_each(:times) where true
    on conflict (queue, tenant) do update set vtime = excluded.vtime

-- lane_claimable: one type's jobs in a lane, in order; joined like claimable.
select seq, type, rank, size, run_at, delivery, attempt, failures, crashes, lapses
  from longshore_ready indexed by longshore_ready_lane
 where queue = ? and lane = ? and lane <> '' and type = ?

-- lane_front: the beginning of a statement that goes on with lane_claimable and claimable_end:
-- the first jobs of a lane, as one JSON text.
select json_group_array(json_array(
           seq, type, rank, size, run_at, delivery + 1, attempt, failures, crashes, lapses))
  from

-- lane_put: of these ready jobs, let those of fair queues be in their lanes.
-- :seqs  JSON array
update longshore_ready
   set lane = (select j.tenant from longshore_job j where j.seq = longshore_ready.seq)
 where (queue, type, rank, seq) in (
       select j.queue, j.type, j.rank, j.seq
         from json_each(:seqs) s
        cross join longshore_job j on j.seq = s.value
        cross join longshore_flow f on f.queue = j.queue
        where f.settings ->> 'order' = 'fair')

-- lane_sort: let the ready jobs of a queue that has become fair be in their lanes.
-- :queue
update longshore_ready
   set lane = (select j.tenant from longshore_job j where j.seq = longshore_ready.seq)
 where queue = :queue and lane = ''

-- lane_sort_step: lane_sort for those between two jobs.
-- :queue :type :rank :seq  without it, :last_type :last_rank :last_seq  with it
update longshore_ready
   set lane = (select j.tenant from longshore_job j where j.seq = longshore_ready.seq)
 where queue = :queue and (type, rank, seq) > (:type, :rank, :seq)
   and (type, rank, seq) <= (:last_type, :last_rank, :last_seq) and lane = ''

-- lane_step: the last of the next ready jobs of a queue, by type and rank: [type, rank, seq]; null
-- behind the last one.
-- :queue :type :rank :seq  where the last step ended, :limit  jobs of a step
select json_array(type, rank, seq)
  from (select type, rank, seq from longshore_ready
         where queue = :queue and (type, rank, seq) > (:type, :rank, :seq)
         order by type, rank, seq limit :limit)
 order by type desc, rank desc, seq desc limit 1

-- lane_types: the types that have jobs to claim in a lane, however many jobs there are.
-- :queue :lane
-- Skips from one type to the next in longshore_ready_lane: one seek per type.
with recursive present (type) as (
    select min(type) from longshore_ready indexed by longshore_ready_lane
     where queue = :queue and lane = :lane and lane <> ''
    union all
    select (select min(type) from longshore_ready indexed by longshore_ready_lane
             where queue = :queue and lane = :lane and lane <> '' and type > present.type)
      from present where present.type is not null
)
select json_group_array(type) from present where type is not null

-- lanes: the tenants that have ready jobs in a fair queue, with how far each is (null: no
-- farther than the queue) and its weight, as one JSON text.
-- :queue
-- Skips from one to the next in longshore_ready_lane: one seek per tenant.
with recursive present (lane) as (
    select min(lane) from longshore_ready indexed by longshore_ready_lane
     where queue = :queue and lane <> ''
    union all
    select (select min(lane) from longshore_ready indexed by longshore_ready_lane
             where queue = :queue and lane > present.lane and lane <> '')
      from present where present.lane is not null
)
select json_group_array(json_array(
           p.lane, f.vtime, coalesce(w.weight, 1)))
  from present p
  left join longshore_fair f on f.queue = :queue and f.tenant = p.lane
  left join longshore_weight w on w.tenant = p.lane
 where p.lane is not null

-- weight_delete: the share of a tenant in fair queues is that of any other.
-- :tenant
delete from longshore_weight where tenant = :tenant

-- weight_put: the share of a tenant in fair queues.
-- :tenant :weight
insert into longshore_weight (tenant, weight) values (:tenant, :weight)
    on conflict (tenant) do update set weight = excluded.weight
