-- schedule_put: create a schedule or replace its definition; what it fired stays.
-- tenant, name, definition, is_paused, next_due
insert into longshore.schedule (tenant, name, definition, is_paused, next_due)
values ($1, $2, $3, $4, $5)
on conflict (tenant, name) do update
   set definition = excluded.definition, is_paused = excluded.is_paused,
       next_due = excluded.next_due
returning name
