-- record_columns: what is read of a record: its own columns, and what a queue's token bucket and
-- a circuit breaker's standing are. A page goes on with its index and its conditions.
select r.kind, r.name, r.tenant, r.version, r.body, r.created_at, r.changed_at, r.due,
       r.last_due, r.last_job,
       case r.kind when 'queue'
            then (select empty_at from longshore_flow where queue = r.name) end,
       case r.kind when 'breaker'
            then (select standing from longshore_breaker where type = r.name) end
  from longshore_record r
