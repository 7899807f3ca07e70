-- scheduled_add: new jobs that are to run later.
-- :after  the newest job before them
insert into longshore_scheduled
    (seq, queue, run_at, delivery, attempt, failures, crashes, lapses)
select seq, queue, due, 0, 0, 0, 0, 0
  from longshore_job where seq > :after and due is not null
