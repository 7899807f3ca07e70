-- numbers_move_ahead: sessions and events get numbers behind this one, unless there were none.
-- :number
update sqlite_sequence set seq = :number
 where name in ('longshore_session', 'longshore_outbox') and seq between 1 and :number
