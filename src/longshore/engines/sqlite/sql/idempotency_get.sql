-- idempotency_get: what keys stand for already, as [number, fingerprint, id, [created_at,
-- run_at]], the times being those of the job as it was accepted.
-- The line of parameters is repeated once per key. A row of zeros matches no key.
-- number, tenant, key
select json_group_array(json_array(
           s.column1, hex(i.fingerprint), hex(i.id), json_array(i.created_at, i.run_at)))
  from (values
    (?, ?, ?)
       ) as s
 cross join longshore_idempotency i on i.tenant = s.column2 and i.key = s.column3
