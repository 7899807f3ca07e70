-- forget_session: what a session that is gone leaves behind. token
with journal as (delete from longshore.journal where token = $1),
     exchanged as (delete from longshore.exchanged where token = $1),
     waiting as (delete from longshore.waiting where token = $1),
     request as (delete from longshore.request where token = $1)
select longshore.leave_running($1)
