-- outbox_span: the oldest position that is kept, and the newest that there was.
select coalesce((select min(position) from longshore_outbox), s.last + 1), s.last
  from (select coalesce((select seq from sqlite_sequence where name = 'longshore_outbox'), 0)
               as last) s
