-- requests: who of a session's jobs was asked to stop. token
select handle, delivery, reason from longshore.request where token = $1 order by handle
