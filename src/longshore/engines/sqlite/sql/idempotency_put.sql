-- idempotency_put: remember what keys stand for.
-- The line of parameters is repeated once per key.
-- tenant, key, fingerprint, id, arrival, run_at
insert into longshore_idempotency (tenant, key, fingerprint, id, created_at, run_at)
select s.column1, s.column2, s.column3, s.column4, s.column5, s.column6
  from (values
    (?, ?, ?, ?, ?, ?)
       ) as s
 where s.column1 <> 0
