-- outbox_fresh: the first and the last row that have no position; begins the era if need be.
select (select min(o.number) from longshore.outbox o where o.position is null) as low,
       (select max(o.number) from longshore.outbox o where o.position is null) as high,
       longshore.current_era() as era
