-- record_get: the records that refs name, each with the place of its ref, the columns that
-- record_columns has, and, if asked for, its tenant's record.
-- :refs  JSON list of [kind, name, tenant]; a tenant that is null: whoever's, of several the
-- first; :with_tenants
select x.key, r.kind, r.name, r.tenant, r.version, r.body, r.created_at, r.changed_at, r.due,
       r.last_due, r.last_job, f.empty_at, b.standing,
       t.version, t.body, t.created_at, t.changed_at
  from json_each(:refs) x
 cross join longshore_record r
    on r.kind = x.value ->> 0 and r.name = x.value ->> 1
   and r.tenant = coalesce(x.value ->> 2,
           (select min(o.tenant) from longshore_record o
             where o.kind = x.value ->> 0 and o.name = x.value ->> 1))
  left join longshore_flow f on r.kind = 'queue' and f.queue = r.name
  left join longshore_breaker b on r.kind = 'breaker' and b.type = r.name
  left join longshore_record t
    on :with_tenants and t.kind = 'tenant' and t.name = r.tenant and t.tenant = ''
