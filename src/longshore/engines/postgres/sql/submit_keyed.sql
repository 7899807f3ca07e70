-- submit_keyed: store jobs that have keys, if all may come in. $5 is the clock.
select longshore.submit_keyed($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
    $21, $22, $23, $24, $25, $26, $27)
