-- sessions: live leases with what they hold, oldest first. clock
select s.token, s.worker, s.queues, s.types, s.opened_at, s.renewed_at, s.expires_at,
       s.is_quiet,
       coalesce((select sum(c.size) from longshore.claim c where c.token = s.token), 0)
       - (select count(*)
            from (select distinct t.segment, t.ordinal, t.delivery from longshore.told t
                   where t.token = s.token and t.kind >= 1) t
            join longshore.claim c
              on c.token = s.token and c.segment = t.segment and c.delivery = t.delivery
             and t.ordinal >= c.lo and t.ordinal < c.hi and longshore.has(c.mask, t.ordinal)
         ) as holding
  from longshore.session s
 where s.expires_at > longshore.clock($1)
 order by s.token
