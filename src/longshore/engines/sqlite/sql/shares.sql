-- shares: how a session shares its queues with others that are live.
-- :token :now
-- reads longshore_session_live.
select n.name, n.place, n.many, f.settings ->> 'retry_rate', f.settings ->> 'max_running',
       f.settings ->> 'rate'
  from (select q.value as name, count(distinct s.token) as many,
               count(distinct s.token) filter (where s.token < :token) as place
          from longshore_session s indexed by longshore_session_live, json_each(s.queues) q
         where s.closed_at is null and s.expires_at > :now
           and q.value in (select own.value from longshore_session m, json_each(m.queues) own
                            where m.token = :token)
         group by q.value) n
  left join longshore_flow f on f.queue = n.name
 order by n.name
