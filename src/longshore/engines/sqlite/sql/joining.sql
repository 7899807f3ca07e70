-- joining: new jobs with ordering keys that may run at once, in order, as one JSON text.
-- :after  the newest job before them
select json_group_array(json_array(seq, hex(id), queue, tenant, ordering_key, created_at, 0, 0))
  from (select * from longshore_job
         where seq > :after and due is null and ordering_key is not null order by seq)
