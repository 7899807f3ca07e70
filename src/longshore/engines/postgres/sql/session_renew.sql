-- session_renew: push a live lease's end into the future; and how the session shares its queues
-- with others that are live, who of its jobs was asked to stop, and the numbers of the spans that
-- it holds, as JSON. token, clock
update longshore.session s
   set renewed_at = t.now, expires_at = greatest(s.expires_at, t.now + s.lease)
  from (select longshore.clock($2) as now) t
 where s.token = $1 and s.expires_at > t.now
returning t.now, s.expires_at, s.is_quiet, (select e.number from longshore.era e) as era,
          (select json_agg(json_build_array(r.handle, r.delivery, r.reason) order by r.handle)
             from longshore.request r where r.token = s.token) as requests,
          (select json_agg(json_build_array(c.number, c.part))
             from longshore.claim c where c.token = s.token) as spans,
          (select json_agg(json_build_object('queue', n.name, 'place', n.place, 'of', n.many,
                                             'retry_rate', f.settings -> 'retry_rate',
                                             'max_running', f.settings -> 'max_running',
                                             'rate', f.settings -> 'rate')
                           order by n.name)
             from (select name, count(distinct o.token) as many,
                          count(distinct o.token) filter (where o.token < s.token) as place
                     from longshore.session o, unnest(o.queues) name
                    where o.expires_at > t.now and name = any (s.queues)
                    group by name) n
             left join longshore.flow f on f.queue = n.name) as shares
