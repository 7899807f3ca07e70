-- forget_session: what a session that is gone leaves behind. token
with journal as (delete from longshore.journal where token = $1)
delete from longshore.request where token = $1
