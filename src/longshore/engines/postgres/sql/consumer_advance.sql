-- consumer_advance: move a cursor on; false when it is another's. clock, name, token, position
select longshore.advance($1, $2, $3, $4) as is_held
