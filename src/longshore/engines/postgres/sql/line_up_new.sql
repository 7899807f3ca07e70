-- line_up_new: new jobs with ordering keys join their lines, or wait till they are due.
-- clock, arrival, ids, when each is to run or null, delays, whether to wake who waits
select longshore.line_up_new($1, $2, $3, $4, $5, $6)
