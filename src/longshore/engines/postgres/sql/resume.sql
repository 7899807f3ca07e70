-- resume: hand out again. queue, type
delete from longshore.pause where queue = $1 and type = $2
