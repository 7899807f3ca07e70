-- records_get: the records that are named, each with what is known of a queue's rate or of a
-- circuit breaker, and with its tenant's record if that is asked for. Of a tenant that is null
-- the first record of the name. A row for each name. clock, kinds, names, tenants, with tenants
select c.now, a.place, r.*,
       case when r.kind = 'queue' then (
            select f.empty_at from longshore.flow f where f.queue = r.name) end as empty_at,
       case when r.kind = 'breaker' then (
            select b.standing from longshore.breaker b where b.type = r.name) end as standing,
       t.version as tenant_version, t.body as tenant_body,
       t.created_at as tenant_created_at, t.changed_at as tenant_changed_at
  from (select longshore.clock($1) as now) c
 cross join unnest($2::text[], $3::text[], $4::text[]) with ordinality
       as a (kind, name, tenant, place)
  left join lateral (
       (select x.* from longshore.record x
         where x.kind = a.kind and x.name = a.name and x.tenant = a.tenant)
       union all
       (select x.* from longshore.record x
         where a.tenant is null and x.kind = a.kind and x.name = a.name
         order by x.tenant limit 1)) r on true
  left join lateral (
       select x.* from longshore.record x
        where $5::boolean and x.kind = 'tenant' and x.name = r.tenant and x.tenant = ''
       offset 0) t on true
