-- expired: finished jobs past their retention, as one JSON text.
-- :state :before :limit
-- reads longshore_job_finished.
select json_group_array(json_array(seq, hex(id), queue, type, tenant, hex(payload), reason))
  from (select seq, id, queue, type, tenant, reason,
               case when state = 'dead' then payload else x'' end as payload
          from longshore_job indexed by longshore_job_finished
         where state = :state and finished_at is not null and finished_at <= :before
         order by finished_at
         limit :limit)
