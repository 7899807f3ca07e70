-- line_up: jobs go to the ends of their lines, in this order. JSON array of objects, clock
select longshore.line_up(array(
    select row(t.segment, t.ordinal, t.run_at, t.rank, t.delivery, t.attempt, t.is_replayed
           )::longshore.joining
      from rows from (jsonb_to_recordset($1::text::jsonb) as (
               segment bigint, ordinal integer, run_at bigint, rank bigint, delivery integer,
               attempt integer, is_replayed boolean)) with ordinality
           as t (segment, ordinal, run_at, rank, delivery, attempt, is_replayed, place)
     order by t.place), longshore.clock($2))
