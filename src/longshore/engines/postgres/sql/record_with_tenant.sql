-- record_with_tenant: the record of a name, whoever's it is, with its tenant's: how the API
-- admits a request. Two lookups in the primary key; one row in any case. clock, kind, name
select c.now, r.*, t.version as tenant_version, t.body as tenant_body,
       t.created_at as tenant_created_at, t.changed_at as tenant_changed_at
  from (select longshore.clock($1) as now) c
  left join lateral (
       select x.* from longshore.record x where x.kind = $2 and x.name = $3
        order by x.tenant limit 1) r on true
  left join lateral (
       select x.* from longshore.record x
        where x.kind = 'tenant' and x.name = r.tenant and x.tenant = '' offset 0) t on true
