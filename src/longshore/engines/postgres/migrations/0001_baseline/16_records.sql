-- Records: what people configure, each with a version.

-- What people configure: tenants, keys, webhooks, schedules, settings of queues and circuit
-- breakers, pauses (contract.records). The body is JSON that nothing in the database reads.
-- `is_unique`: of this kind there is one record of a name, whoever's it is.
-- A change of the body that leaves `due` alone touches no index.
create table longshore.record (
    kind       text collate "C" not null,
    name       text collate "C" not null,
    tenant     text collate "C" not null default '',
    version    bigint  not null default 1,
    body       text    not null,
    created_at bigint  not null,
    changed_at bigint  not null,
    due        bigint,
    last_due   bigint,
    last_job   uuid,
    is_unique  boolean not null,
    primary key (kind, name, tenant)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
comment on column longshore.record.tenant is 'whose it is; empty: nobody''s';
comment on column longshore.record.due is 'of a schedule that is not paused: when it fires next';

create unique index record_name on longshore.record (kind, name) where is_unique;
-- Lists of all records of a kind, by age; by name they are in the order of the primary key.
create index record_age on longshore.record (kind, created_at, name, tenant);
-- Lists of a tenant's, how many of a kind it has, and what goes with it when it is deleted. They
-- leave out what is nobody's: so no plan, made before there are statistics, looks up one record
-- in them instead of in the primary key. A statement that is to read them says `tenant <> ''`.
create index record_owner on longshore.record (tenant, kind, name) where tenant <> '';
create index record_owner_age on longshore.record (tenant, kind, created_at, name)
    where tenant <> '';
create index record_due on longshore.record (due) where due is not null;

-- The lock behind which the records of a kind are counted that a tenant has.
create function longshore.record_cap_key(p_kind text, p_tenant text) returns bigint
language sql immutable
begin atomic
    select hashtextextended(p_kind || ' ' || p_tenant, 5302017446291873517);
end;

-- Hold the records that a write is to change, until the transaction ends; returns them as they
-- are now. A tenant is null where any tenant's record of the name is meant. All locks are taken
-- in one order, so that no two writes wait for each other: first those of caps (p_cap_kinds,
-- p_cap_tenants), then tenants by name, then all other records by kind, name and tenant. A
-- tenant in p_staying is not deleted meanwhile; one in p_leaving is to be deleted, so its
-- records are held with it, and no record is made that needs it. Each statement in here sees
-- what was committed while the one before it waited.
create function longshore.hold_records(
    p_kinds text[], p_names text[], p_tenants text[], p_staying text[], p_leaving text[],
    p_cap_kinds text[], p_cap_tenants text[]
) returns setof longshore.record language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_key    bigint;
    v_tenant record;
begin
    for v_key in
        select distinct longshore.record_cap_key(c.kind, c.tenant) as key
          from unnest(p_cap_kinds, p_cap_tenants) as c (kind, tenant) order by key
    loop
        perform pg_advisory_xact_lock(v_key);
    end loop;
    for v_tenant in
        select t.name, max(t.strength) as strength
          from (select unnest(p_staying), 1
                union all
                select a.name, 2 from unnest(p_kinds, p_names) as a (kind, name)
                 where a.kind = 'tenant'
                union all
                select unnest(p_leaving), 3) as t (name, strength)
         group by t.name order by t.name collate "C"
    loop
        if v_tenant.strength = 3 then
            return query
            select r.* from longshore.record r
             where r.kind = 'tenant' and r.name = v_tenant.name for update;
        elsif v_tenant.strength = 2 then
            return query
            select r.* from longshore.record r
             where r.kind = 'tenant' and r.name = v_tenant.name for no key update;
        else
            return query
            select r.* from longshore.record r
             where r.kind = 'tenant' and r.name = v_tenant.name for key share;
        end if;
    end loop;
    return query
    with wanted as materialized (
        select x.kind, x.name, x.tenant
          from unnest(p_kinds, p_names, p_tenants) as a (kind, name, tenant)
          join longshore.record x
            on x.kind = a.kind and x.name = a.name and x.tenant = a.tenant
         where a.kind <> 'tenant'
        union
        select x.kind, x.name, x.tenant
          from unnest(p_kinds, p_names, p_tenants) as a (kind, name, tenant)
          join longshore.record x on x.kind = a.kind and x.name = a.name
         where a.kind <> 'tenant' and a.tenant is null
        union
        select x.kind, x.name, x.tenant from longshore.record x
         where x.tenant = any (p_leaving) and x.tenant <> ''
    )
    select r.* from wanted w
      join longshore.record r on r.kind = w.kind and r.name = w.name and r.tenant = w.tenant
     order by r.kind, r.name, r.tenant
       for no key update of r;
end
$$;

-- Up to p_limit records of a kind, of one tenant, of nobody (empty) or of any (null), whose names
-- begin with p_prefix. By name ('name') or age ('oldest'): from the place p_at, p_name, p_owner
-- on, that one included; 'newest': before that place, backwards. p_below is the first name behind
-- those with the prefix, null if there is none. Each order reads its index from the place on.
create function longshore.list_records(
    p_kind text, p_tenant text, p_prefix text, p_below text, p_order text,
    p_at bigint, p_name text, p_owner text, p_limit integer
) returns setof longshore.record language plpgsql stable
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_is_owned constant boolean := p_tenant <> '';
begin
    if p_order = 'name' and v_is_owned and p_below is null then
        return query
        select r.* from longshore.record r
         where r.tenant = p_tenant and r.tenant <> '' and r.kind = p_kind and r.name >= p_name
         order by r.name limit p_limit;
    elsif p_order = 'name' and v_is_owned then
        return query
        select r.* from longshore.record r
         where r.tenant = p_tenant and r.tenant <> '' and r.kind = p_kind
           and r.name >= p_name and r.name < p_below
         order by r.name limit p_limit;
    elsif p_order = 'name' and p_below is null then
        return query
        select r.* from longshore.record r
         where r.kind = p_kind and (r.name, r.tenant) >= (p_name, p_owner)
           and (p_tenant is null or r.tenant = '')
         order by r.name, r.tenant limit p_limit;
    elsif p_order = 'name' then
        return query
        select r.* from longshore.record r
         where r.kind = p_kind and (r.name, r.tenant) >= (p_name, p_owner) and r.name < p_below
           and (p_tenant is null or r.tenant = '')
         order by r.name, r.tenant limit p_limit;
    elsif p_order = 'oldest' and v_is_owned then
        return query
        select r.* from longshore.record r
         where r.tenant = p_tenant and r.tenant <> '' and r.kind = p_kind
           and (r.created_at, r.name) >= (p_at, p_name)
           and starts_with(r.name, p_prefix)
         order by r.created_at, r.name limit p_limit;
    elsif p_order = 'oldest' then
        return query
        select r.* from longshore.record r
         where r.kind = p_kind and (r.created_at, r.name, r.tenant) >= (p_at, p_name, p_owner)
           and starts_with(r.name, p_prefix) and (p_tenant is null or r.tenant = '')
         order by r.created_at, r.name, r.tenant limit p_limit;
    elsif v_is_owned then
        return query
        select r.* from longshore.record r
         where r.tenant = p_tenant and r.tenant <> '' and r.kind = p_kind
           and (r.created_at, r.name) < (p_at, p_name)
           and starts_with(r.name, p_prefix)
         order by r.created_at desc, r.name desc limit p_limit;
    else
        return query
        select r.* from longshore.record r
         where r.kind = p_kind and (r.created_at, r.name, r.tenant) < (p_at, p_name, p_owner)
           and starts_with(r.name, p_prefix) and (p_tenant is null or r.tenant = '')
         order by r.created_at desc, r.name desc, r.tenant desc limit p_limit;
    end if;
end
$$;
