-- next_due: when the next scheduled job is due, and the time now. clock
select now, due from longshore.next_due($1)
