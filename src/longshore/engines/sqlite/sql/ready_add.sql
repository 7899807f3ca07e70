-- ready_add: new jobs that may run at once, but for those that stand in a line.
-- :after  the newest job before them
insert into longshore_ready
    (queue, type, rank, seq, size, run_at, delivery, attempt, failures, crashes, lapses)
select queue, type, rank, seq, length(payload), created_at, 0, 0, 0, 0, 0
  from longshore_job where seq > :after and due is null and ordering_key is null
