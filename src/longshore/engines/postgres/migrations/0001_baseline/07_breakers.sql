-- Circuit breakers of types whose jobs fail too often.

-- What holds for the breaker of a type, from both layers of its settings, and how it stands
-- (core.circuit_breaker), both as JSON; what claims need of it is in columns. There is no row where
-- nothing is set.
create table longshore.breaker (
    type     text collate "C" primary key,
    settings text    not null,
    standing text    not null default '{}',
    phase    text    not null default 'closed',
    since    bigint  not null default 0,
    until    bigint  not null default 0,
    probes   integer not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- How many jobs of a type all sessions hold.
create function longshore.running_of_type(p_type text) returns bigint language sql volatile
begin atomic
    select count(*)
      from longshore.claim c
      join longshore.segment s on s.segment = c.segment
     cross join lateral generate_series(c.lo, c.hi - 1) o
     where case when s.types is null then s.type = p_type else s.types[o + 1] = p_type end
       and longshore.has(c.mask, o)
       and not exists (
           select from longshore.told t
            where t.token = c.token and t.segment = c.segment and t.delivery = c.delivery
              and t.kind >= 1 and t.ordinal = o);
end;

-- Of the types that a session serves: those whose breaker is closed; those that are to be
-- probed; those of them whose cool-down is over, which nobody has noted yet; and how many
-- microseconds later it pays to ask again for the others.
create function longshore.sift(
    p_now bigint, p_types text[],
    out types text[], out probed text[], out due text[], out look bigint
) language sql stable
begin atomic
    select array(select t.type from unnest(p_types) as t (type)
                  where not exists (select from longshore.breaker b
                                     where b.type = t.type and b.phase <> 'closed')),
           array_agg(b.type order by b.type) filter (where not w.is_open),
           array_agg(b.type order by b.type) filter (where not w.is_open and b.phase = 'open'),
           min(b.until - p_now) filter (where w.is_open)
      from longshore.breaker b
     cross join lateral (
           select b.phase = 'open' and p_now >= b.since and p_now < b.until as is_open) w
     where b.phase <> 'closed' and b.type = any (p_types);
end;

-- Hand jobs of types whose breaker is half-open to an exchange, of each no more than may try it
-- in the whole fleet; and if too many do, return how many microseconds later it pays to ask
-- again. Until the transaction ends nobody else is handed any.
create function longshore.probe(
    p_token bigint, p_number bigint, p_now bigint, p_queues text[], p_types text[],
    p_want integer, p_rooms integer[], p_fair text[],
    out taken integer, out takens integer[], out look bigint
) language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_breaker record;
    v_room    integer;
begin
    taken := 0;
    for v_breaker in
        select b.type, b.probes from longshore.breaker b
         where b.type = any (p_types) and b.phase <> 'closed'
           and not (b.phase = 'open' and p_now >= b.since and p_now < b.until)
         order by b.type for update
    loop
        -- Behind the lock: a statement of its own sees what its last holder committed.
        v_room := v_breaker.probes - longshore.running_of_type(v_breaker.type);
        if v_room <= 0 then
            look := 1000000;
            continue;
        end if;
        select c.taken, c.takens into taken, takens
          from longshore.claim(p_token, p_number, p_now, p_queues, array[v_breaker.type],
                               least(p_want, v_room), p_rooms, p_fair) c;
        exit when taken > 0;
    end loop;
end
$$;
