-- take_parked: these are no longer parked; their lines are held. places of their rows
delete from longshore.parked where ctid = any ($1)
