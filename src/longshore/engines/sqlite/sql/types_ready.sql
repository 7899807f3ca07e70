-- types_ready: the types that have jobs to claim in a queue, however many jobs there are.
-- :queue
-- Skips from one type to the next in longshore_job_ready: one seek per type.
with recursive present (type) as (
    select min(type) from longshore_job indexed by longshore_job_ready
     where queue = :queue and state = 'ready' and parked is null
    union all
    select (select min(type) from longshore_job indexed by longshore_job_ready
             where queue = :queue and state = 'ready' and parked is null
               and type > present.type)
      from present where present.type is not null
)
select json_group_array(type) from present where type is not null
