-- consumers: how all of them stand. Positions have no gaps but what was pruned or left out.
-- :now
select s.name, s.position, coalesce(s.last - s.done, 0) - coalesce((
           select sum(max(min(g.first_position, s.last) - max(g.last_position, s.done), 0))
             from longshore_position_gap g), 0),
       s.at, case when s.leased_until > :now and s.holder <> '' then s.holder end,
       s.seen_at, s.gone_at
  from (select c.*, f.at, max(c.position, f.position - 1) as done,
               (select max(position) from longshore_outbox) as last
          from longshore_consumer c
          left join longshore_outbox f on f.position = (
               select min(position) from longshore_outbox where position > c.position)) s
 order by s.name
