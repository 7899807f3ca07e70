-- release_line: let a blocked line go on; whether it was. queue, tenant, key, clock
select longshore.release_line($1, $2, $3, longshore.clock($4))
