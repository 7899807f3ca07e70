-- Work in the transactions of others: submit on a caller's connection, complete a job in its
-- handler's. Everything travels as one JSON text, so that no driver's types matter.

-- Tells this store from all others. A standby that takes over is the same store; what a dump
-- was restored into is not.
create function longshore.store() returns text language sql stable as $$
    select d.oid || '/' || n.oid || '/' || extract(epoch from m.applied_at)
      from pg_catalog.pg_database d, pg_catalog.pg_namespace n, longshore.migration m
     where d.datname = current_database() and n.nspname = 'longshore' and m.number = 1
$$;

create function longshore.texts(p_list jsonb) returns text[] language sql immutable as $$
    select array(select jsonb_array_elements_text(p_list))
$$;

-- Store jobs in the caller's transaction, if this is the `store` that the caller means; else
-- null. `asked` are the arguments of longshore.admit and `given` those of longshore.submit, by
-- name; bytes are in hex. Answers with the id, the verdict and the times of each that was asked
-- for. Unless all of them were accepted nothing is stored yet: the caller sends the accepted
-- ones again, with nothing asked, and with `now` and `arrival` as they were told.
create function longshore.submit_json(p_call text) returns text language plpgsql as $$
declare
    v_call constant jsonb := p_call;
    a constant jsonb := v_call -> 'asked';
    g constant jsonb := v_call -> 'given';
    v_now      bigint := v_call ->> 'now';
    v_arrival  bigint := v_call ->> 'arrival';
    v_answers  jsonb := '[]';
    v_accepted boolean := true;
begin
    if longshore.store() is distinct from v_call ->> 'store' then
        return null;
    end if;
    if a is not null then
        select jsonb_agg(jsonb_build_array(t.id, t.verdict, t.created_at, t.run_at)
                         order by t.place),
               bool_and(t.verdict = 'accepted'), max(t.clock),
               max(t.created_at) filter (where t.verdict = 'accepted')
          into v_answers, v_accepted, v_now, v_arrival
          from longshore.admit(
                   v_now, longshore.texts(a -> 'ids')::uuid[], longshore.texts(a -> 'tenants'),
                   longshore.texts(a -> 'keys'), longshore.texts(a -> 'fingerprints')::bytea[],
                   longshore.texts(a -> 'uniques'), longshore.texts(a -> 'run_ats')::bigint[],
                   longshore.texts(a -> 'delays')::bigint[])
               with ordinality as t (id, verdict, created_at, run_at, clock, place);
    end if;
    if v_accepted then
        perform longshore.submit(
            v_now, v_arrival,
            longshore.texts(g -> 'g_queue'), longshore.texts(g -> 'g_type'),
            longshore.texts(g -> 'g_tenant'), longshore.texts(g -> 'g_priority')::smallint[],
            longshore.texts(g -> 'g_max_attempts')::integer[],
            longshore.texts(g -> 'g_timeout')::bigint[],
            longshore.texts(g -> 'g_from')::integer[], longshore.texts(g -> 'g_to')::integer[],
            longshore.texts(g -> 'g_weight')::integer[],
            longshore.texts(g -> 'g_ids')::bytea[], longshore.texts(g -> 'g_keys'),
            longshore.texts(g -> 'g_attributes'),
            longshore.texts(g -> 's_group')::integer[],
            longshore.texts(g -> 's_lo')::smallint[], longshore.texts(g -> 's_hi')::smallint[],
            longshore.texts(g -> 's_run_at')::bigint[],
            longshore.texts(g -> 's_delay')::bigint[],
            longshore.texts(g -> 's_queue'), longshore.texts(g -> 's_type'),
            longshore.texts(g -> 's_types'),
            longshore.texts(g -> 'g_payloads')::bytea[],
            longshore.texts(g -> 'p_bounds')::integer[],
            longshore.texts(g -> 'p_types'), longshore.texts(g -> 'p_tenants'),
            (g ->> 'p_body')::bytea, true);
    end if;
    return jsonb_build_object('answers', v_answers, 'stored', v_accepted, 'now', v_now,
                              'arrival', v_arrival);
end
$$;

-- End a job well in the transaction of its handler. The lock on the session's row is the fence:
-- whoever buries the session waits for this transaction to end, and reads the journal after.
-- Calls of the session itself go on. Null, with nothing written, when the lease is over.
create function longshore.complete(
    p_token bigint, p_now bigint, p_entry bigint, p_handle bigint, p_delivery integer,
    p_started bigint, p_result bytea, p_body bytea
) returns bigint language plpgsql
    set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
    v_now bigint := longshore.clock(p_now);
begin
    perform from longshore.session s
      where s.token = p_token and s.expires_at > v_now for key share;
    if not found then
        return null;
    end if;
    insert into longshore.journal
    values (p_token, p_entry, v_now, array[p_handle], array[p_delivery], array[1],
            array[least(p_started, v_now)], array[v_now]);
    if p_result is not null then
        insert into longshore.result values (p_handle >> 12, p_handle & 4095, p_result);
    end if;
    insert into longshore.outbox (at, body) values (v_now, p_body);
    return v_now;
end
$$;
