-- audit_cut: forget the entries up to a number; how many those were. number
with gone as (delete from longshore.audit a where a.number <= $1 returning 1)
select count(*) from gone
