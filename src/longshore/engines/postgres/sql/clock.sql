-- clock: the time now. clock
select longshore.clock($1)
