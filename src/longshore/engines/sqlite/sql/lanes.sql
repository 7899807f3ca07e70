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
