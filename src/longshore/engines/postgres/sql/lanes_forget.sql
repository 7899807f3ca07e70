-- lanes_forget: forget how far a queue is that is not fair, and its tenants. queue
with gone as (delete from longshore.fair where queue = $1)
update longshore.flow set vtime = 0, sorted_by = null where queue = $1
