-- schedule_move: set the next due time of a schedule, if it is still due when the caller saw.
-- Its version stays: the definition is as it was.
-- :tenant :name :expected :next_due :last_due :version  or null
update longshore_record
   set due = :next_due, last_due = :last_due
 where kind = 'schedule' and name = :name and tenant = :tenant and due = :expected
   and version = coalesce(:version, version)
