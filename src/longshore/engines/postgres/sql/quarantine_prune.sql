-- quarantine_prune: forget what was set aside long ago. moment, most
delete from longshore.quarantine where number in (
    select number from longshore.quarantine where at <= $1 order by at limit $2)
