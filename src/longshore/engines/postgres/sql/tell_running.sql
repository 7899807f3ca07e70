-- tell_running: count anew what a session holds of queues with a limit. token
select longshore.tell_running($1, '{}', '{}')
