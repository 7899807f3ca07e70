-- numbers_can_move: a row if the schema has what moving the counters needs.
select 1 from sqlite_master where type = 'table' and name = 'longshore_position_gap'
