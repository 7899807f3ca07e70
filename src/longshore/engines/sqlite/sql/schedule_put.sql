-- schedule_put: create a schedule or replace its definition; what it fired stays.
-- :tenant :name :definition :is_paused :next_due
insert into longshore_schedule (tenant, name, definition, is_paused, next_due)
values (:tenant, :name, :definition, :is_paused, :next_due)
on conflict (tenant, name) do update
   set definition = excluded.definition, is_paused = excluded.is_paused,
       next_due = excluded.next_due
