-- consumers: how all of them stand. Positions have no gaps but what was pruned.
-- :now
select c.name, c.position,
       coalesce((select max(position) from longshore_outbox) - max(c.position, f.position - 1), 0),
       f.at, case when c.leased_until > :now and c.holder <> '' then c.holder end,
       c.seen_at, c.gone_at
  from longshore_consumer c
  left join longshore_outbox f on f.position = (
       select min(position) from longshore_outbox where position > c.position)
 order by c.name
