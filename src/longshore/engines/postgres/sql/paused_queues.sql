-- paused_queues: queues that are paused whole.
select queue from longshore.pause where queue <> '' and type = ''
