-- schedule_delete: remove a definition. tenant, name
delete from longshore.schedule where tenant = $1 and name = $2 returning 1
