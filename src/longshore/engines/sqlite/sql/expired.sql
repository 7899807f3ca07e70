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
