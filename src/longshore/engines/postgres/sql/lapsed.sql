-- lapsed: sessions whose lease ended longer than the grace ago. clock, grace, limit
select s.token, s.worker from longshore.session s, longshore.clock($1) as now
 where s.expires_at <= now - $2::bigint
 order by s.expires_at, s.token
 limit $3
