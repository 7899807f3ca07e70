-- One job with strange bytes or times does not keep people from reading the others.
-- longshore: works-with 0021

-- Bytes as text if they are UTF-8, else as `\x` and hexadecimal digits. Text with a zero is none
-- for the server, and one whose database has another encoding may lack a character.
create function longshore.readable(p_bytes bytea) returns text
language plpgsql immutable strict as $$
begin
    return convert_from(p_bytes, 'UTF8');
exception
    when character_not_in_repertoire or untranslatable_character then
        return '\x' || encode(p_bytes, 'hex');
end
$$;

-- Durations that people can read are made of floating point numbers: those of the last thousand
-- microseconds that a bigint can count would be rounded up to more than there can be.
create function longshore.span(p_microseconds bigint) returns interval
language sql immutable as $$
    select case when p_microseconds > 9223372036854774784 then 9223372036854774784
                else p_microseconds end * interval '1 microsecond'
$$;

create or replace function longshore.moment(p_at bigint) returns timestamptz
language sql immutable as $$
    select timestamptz 'epoch' + longshore.span(p_at)
$$;

-- Every job, for people: see 0005. The collation is the one that these columns had.
create or replace view longshore.jobs as
select l.id, j.state, j.queue, j.type, j.tenant, j.priority,
       longshore.readable(j.payload) collate "C" as payload,
       longshore.moment(j.run_at) as run_at,
       longshore.moment(j.created_at) as created_at,
       longshore.moment(j.started_at) as started_at,
       longshore.moment(j.finished_at) as finished_at,
       j.delivery, j.attempt, j.failures, j.crashes, j.lapses, j.max_attempts,
       longshore.span(j.timeout) as timeout,
       longshore.readable(j.result) collate "C" as result, j.failure::jsonb as failure,
       j.reason, j.worker, j.cancel_requested, j.unique_key, j.idempotency_key, j.ordering_key,
       j.trace, j.tags::jsonb as tags, g.segment, j.ordinal,
       j.progress, j.progress_message, longshore.moment(j.progress_at) as progress_at,
       case when j.home = 'parked' then 'line' end as parked
  from longshore.segment g
 cross join lateral longshore.seen(g.segment) j
  join longshore.locator l
    on l.id = j.id and l.segment + 0 = g.segment and l.ordinal = j.ordinal;
