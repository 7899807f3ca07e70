-- breaker_move: so a breaker stands now. type, standing, phase, since, until
update longshore.breaker set standing = $2, phase = $3, since = $4, until = $5 where type = $1
