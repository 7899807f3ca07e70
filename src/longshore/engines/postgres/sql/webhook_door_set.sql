-- webhook_door_set: say who is at an endpoint, if nobody else did since. id, door, door before
-- What a crash of the server loses of it lapses anyway, so nobody waits for the disk.
with quick as (select set_config('synchronous_commit', 'off', true) as mode)
update longshore.webhook w set door = $2 from quick
 where w.id = $1 and w.door = $3 and quick.mode = 'off'
returning w.id
