-- outbox_span: the oldest position that is kept, and the newest that there was.
select coalesce((select min(o.position) from longshore.outbox o where o.position is not null),
                s.last + 1) as first, s.last
  from (select case when q.is_called then q.last_value else 0 end as last
          from longshore.outbox_position q) s
