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
