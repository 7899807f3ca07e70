-- numbers_leave_out: remember which positions of events nobody will get.
-- :number
insert into longshore_position_gap (last_position, first_position)
select seq, :number from sqlite_sequence
 where name = 'longshore_outbox' and seq > 0 and seq < :number
