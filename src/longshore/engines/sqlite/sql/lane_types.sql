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
