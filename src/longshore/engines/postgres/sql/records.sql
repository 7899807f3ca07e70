-- Records: what people configure.

-- record_add: make a record, unless there is one of the name; nothing then. Its first version is
-- the time.
-- when, kind, name, tenant, body, due, is_unique
insert into longshore.record
    (kind, name, tenant, version, body, created_at, changed_at, due, is_unique)
values ($2, $3, $4, $1, $5, $1, $1, $6, $7) on conflict do nothing returning *

-- record_delete: remove a record. kind, name, tenant
delete from longshore.record where kind = $1 and name = $2 and tenant = $3

-- record_set: replace the body of a record that is held.
-- when, kind, name, tenant, body, due, whether that stays as it is
update longshore.record
   set version = version + 1, body = $5, changed_at = $1,
       due = case when $7::boolean then due else $6 end
 where kind = $2 and name = $3 and tenant = $4 returning *

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

-- records_count: how many records of these kinds a tenant has, or (empty) nobody. tenant, kinds
select case when $1::text = '' then (
            select count(*) from longshore.record r
             where r.tenant = '' and r.kind = any ($2::text[]))
       else (
            select count(*) from longshore.record r
             where r.tenant = $1 and r.tenant <> '' and r.kind = any ($2::text[])) end

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

-- records_hold: hold what a write is to change. kinds, names, tenants, tenants that stay, tenants
-- that are to be deleted, kinds and tenants of caps
select * from longshore.hold_records($1, $2, $3, $4, $5, $6, $7)

-- records_list: a page of records, each with what is known of a queue's rate or of a circuit
-- breaker. One row at least. clock, and the arguments of longshore.list_records
select c.now, r.*,
       case when r.kind = 'queue' then (
            select f.empty_at from longshore.flow f where f.queue = r.name) end as empty_at,
       case when r.kind = 'breaker' then (
            select b.standing from longshore.breaker b where b.type = r.name) end as standing
  from (select longshore.clock($1) as now) c
  left join longshore.list_records($2, $3, $4, $5, $6, $7, $8, $9, $10) with ordinality r on true
 order by r.ordinality

-- records_of_tenant_delete: remove what a tenant has, which is held. tenant
delete from longshore.record where tenant = $1 and tenant <> '' returning kind, name

-- quarantine_prune: forget events that a consumer set aside long ago. moment, most
delete from longshore.record where (kind, name, tenant) in (
    select r.kind, r.name, r.tenant from longshore.record r
     where r.kind = 'quarantined' and r.created_at <= $1 order by r.created_at limit $2)

-- is_muted: one row while progress events are left out of the outbox.
select 1 from longshore.record where kind = 'flag' and name = 'muted' and tenant = ''
