-- tell_running: count anew what a session holds of queues with a limit. token
select longshore.tell_running(
    $1, array(select f.queue from longshore.flow f where f.settings ? 'max_running'), '{}', '{}')
