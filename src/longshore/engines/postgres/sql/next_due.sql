-- next_due: when the next job is due or the next line opens, and the time now. clock
select now, due from longshore.next_due($1)
