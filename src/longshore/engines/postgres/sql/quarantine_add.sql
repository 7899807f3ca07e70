-- quarantine_add: set events aside. clock, consumer, event ids, names, job ids, reasons, bodies
insert into longshore.quarantine (consumer, event_id, name, job_id, reason, body, at)
select $2, t.event_id, t.name, t.job_id, t.reason, t.body, longshore.clock($1)
  from unnest($3::text[], $4::text[], $5::bytea[], $6::text[], $7::bytea[])
       as t (event_id, name, job_id, reason, body)
