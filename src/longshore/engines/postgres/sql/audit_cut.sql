-- audit_cut: forget the entries between two numbers, the second of them too; how many those
-- were. Both ends: with one, a server without statistics reads the whole table.
-- anchor, number
with gone as (
    delete from longshore.audit a where a.number > $1 and a.number <= $2 returning 1
)
select count(*) from gone
