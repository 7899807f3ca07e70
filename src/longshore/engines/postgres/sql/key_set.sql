-- key_set: store what changes of a key. id, digest, revoked_at, previous, previous_until
update longshore.key set digest = $2, revoked_at = $3, previous = $4, previous_until = $5
 where id = $1
