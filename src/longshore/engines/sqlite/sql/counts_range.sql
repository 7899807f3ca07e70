-- counts_range: the lowest number of a scheduled job, if there is one, and the highest of any.
select (select min(seq) from longshore_scheduled), (select max(seq) from longshore_job)
