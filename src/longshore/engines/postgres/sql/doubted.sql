-- doubted: the session that answers, and whether another is at work or was just now; null if there
-- is no such session. Who may not see what it does is told that it works. process id,
-- seconds that are just now
select pg_backend_pid(), (
    select coalesce(a.state not like 'idle%', true)
           or a.state_change > clock_timestamp() - make_interval(secs => $2)
      from pg_stat_activity a where a.pid = $1)
