-- check_in: go on in this era. token, clock, the last era that the session knows
select era, last from longshore.check_in($1, $2, $3)
