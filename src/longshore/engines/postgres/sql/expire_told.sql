-- expire_told: jobs past their retention that succeeded in spans which these sessions still hold.
-- To be called when the sessions are held, for what they told meanwhile is not seen otherwise.
-- tokens, last moment, most jobs
select p.token, p.segment << 12 | p.ordinal as handle, p.delivery, p.segment,
       p.ordinal::smallint as lo, (p.ordinal + 1)::smallint as hi, null::bytea as mask,
       1::smallint as size
  from (select distinct c.segment from longshore.claim c where c.token = any ($1)) g
 cross join lateral longshore.places(g.segment, null) p
 where p.home = 'claim' and p.state = 'succeeded' and p.token = any ($1)
   and p.finished_at <= $2
 limit $3
