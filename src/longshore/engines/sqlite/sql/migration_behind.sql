-- migration_behind: how many live sessions are of code below a level.
-- :works_with :now
select count(*)
  from longshore_session s left join longshore_session_level l on l.token = s.token
 where s.closed_at is null and s.expires_at > :now and coalesce(l.level, 0) < :works_with
