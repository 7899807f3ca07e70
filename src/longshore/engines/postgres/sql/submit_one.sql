-- submit_one: store one job without keys.
select longshore.submit_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
