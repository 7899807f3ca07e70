-- Records: what people configure.

-- record_columns: what is read of a record: its own columns, and what a queue's token bucket and
-- a circuit breaker's standing are. A page goes on with its index and its conditions.
select r.kind, r.name, r.tenant, r.version, r.body, r.created_at, r.changed_at, r.due,
       r.last_due, r.last_job,
       case r.kind when 'queue'
            then (select empty_at from longshore_flow where queue = r.name) end,
       case r.kind when 'breaker'
            then (select standing from longshore_breaker where type = r.name) end
  from longshore_record r

-- record_delete: remove a record.
-- :kind :name :tenant
delete from longshore_record where kind = :kind and name = :name and tenant = :tenant

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

-- record_put: store a record, or replace its body, as its next version. The first is the time.
-- :kind :name :tenant :body :now :due :keeps_due  whether the due time stays as it is
insert into longshore_record
       (kind, name, tenant, version, body, created_at, changed_at, due)
values (:kind, :name, :tenant, :now, :body, :now, :now, :due)
    on conflict (kind, name, tenant) do update
   set version = version + 1, body = excluded.body, changed_at = excluded.changed_at,
       due = case when :keeps_due then due else excluded.due end

-- records_by_name: a page of the records of a kind, by name and tenant; behind record_columns.
-- :kind, :name :tenant  the first that may be on it, :end  the end of the names, :limit
 where r.kind = :kind and (r.name, r.tenant) >= (:name, :tenant) and r.name < :end
 order by r.name, r.tenant limit :limit

-- records_count: how many records of a kind a tenant has.
-- :kind :tenant
select count(*) from longshore_record where tenant = :tenant and kind = :kind

-- records_delete: remove all records of a tenant; their kinds and names.
-- :tenant
delete from longshore_record where tenant = :tenant returning kind, name

-- records_newest: a page of the records of a kind, the newest first; behind record_columns.
-- :kind, :created_at :name :tenant  the last of the page before, :prefix :end  the names, :limit
-- The index is named because SQLite would look for the names first, and sort what it finds.
indexed by longshore_record_age
 where r.kind = :kind and (r.created_at, r.name, r.tenant) < (:created_at, :name, :tenant)
   and r.name >= :prefix and r.name < :end
 order by r.created_at desc, r.name desc, r.tenant desc limit :limit

-- records_oldest: a page of the records of a kind, the oldest first; behind record_columns.
-- :kind, :created_at :name :tenant  the last of the page before, :prefix :end  the names, :limit
-- The index is named because SQLite would look for the names first, and sort what it finds.
indexed by longshore_record_age
 where r.kind = :kind and (r.created_at, r.name, r.tenant) > (:created_at, :name, :tenant)
   and r.name >= :prefix and r.name < :end
 order by r.created_at, r.name, r.tenant limit :limit

-- tenant_records_by_name: records_by_name of one tenant.
-- :kind :owner, :name  the first that may be on it, :end  the end of the names, :limit
-- The index is named because SQLite would read those of all tenants.
indexed by longshore_record_tenant
 where r.tenant = :owner and r.kind = :kind and r.name >= :name and r.name < :end
 order by r.name limit :limit

-- tenant_records_newest: records_newest of one tenant.
-- :kind :owner, :created_at :name :tenant  the last of the page before, :prefix :end  the names,
-- :limit
indexed by longshore_record_tenant_age
 where r.tenant = :owner and r.kind = :kind
   and (r.created_at, r.name, r.tenant) < (:created_at, :name, :tenant)
   and r.name >= :prefix and r.name < :end
 order by r.created_at desc, r.name desc limit :limit

-- tenant_records_oldest: records_oldest of one tenant.
-- :kind :owner, :created_at :name :tenant  the last of the page before, :prefix :end  the names,
-- :limit
indexed by longshore_record_tenant_age
 where r.tenant = :owner and r.kind = :kind
   and (r.created_at, r.name, r.tenant) > (:created_at, :name, :tenant)
   and r.name >= :prefix and r.name < :end
 order by r.created_at, r.name limit :limit

-- quarantine_prune: forget events that a consumer set aside long ago.
-- :before :limit
delete from longshore_record where (kind, name, tenant) in (
    select kind, name, tenant from longshore_record indexed by longshore_record_age
     where kind = 'quarantined' and created_at <= :before order by created_at limit :limit)

-- is_muted: whether progress events are left out of the outbox.
select exists (select 1 from longshore_record
                where kind = 'flag' and name = 'muted' and tenant = '')
