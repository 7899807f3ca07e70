-- schedule_delete: remove a definition.
-- :tenant :name
delete from longshore_schedule where tenant = :tenant and name = :name
